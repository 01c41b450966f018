/* schema.c - the descriptions that tables.def expands to, and generic access to rows. */
#include "schema/schema.h"

#include <string.h>

#define WS_TABLE(table, sqlite, doc) static const struct ws_column_desc columns_##table[] = {
#define WS_COLUMN(table, column, type, sqlite, doc) \
	{#column,                                   \
	 sqlite,                                    \
	 doc,                                       \
	 WS_T_##type,                               \
	 offsetof(struct ws_row_##table, column),   \
	 sizeof(((struct ws_row_##table *)0)->column)},
#define WS_END(table) \
	}             \
	;
#include "schema/tables.def"

#define WS_TABLE(table, sqlite, doc) \
	{#table, sqlite, doc, columns_##table, ws_##table##_COLUMNS, sizeof(struct ws_row_##table)},
const struct ws_table_desc ws_tables[WS_TABLE_COUNT] = {
#include "schema/tables.def"
};

const struct ws_type_desc ws_types[] = {
#define WS_TYPE(name, ctype, is_signed, doc) {#name, doc, sizeof(ctype), is_signed},
	WS_TYPES(WS_TYPE)
#undef WS_TYPE
};

int ws_table_track(enum ws_table table)
{
	for (uint32_t i = 0; i < ws_tables[table].column_count; i++) {
		enum ws_type type = ws_tables[table].columns[i].type;

		if (type == WS_T_THREAD || type == WS_T_PROCESS)
			return (int)i;
	}
	return -1;
}

int ws_table_start(enum ws_table table)
{
	int c = ws_column_find(table, "start");

	return c >= 0 ? c : ws_column_find(table, "raw");
}

int ws_table_end(enum ws_table table)
{
	return ws_column_find(table, "end");
}

uint64_t ws_row_get(enum ws_table table, const void *row, uint32_t c)
{
	const struct ws_column_desc *desc = &ws_tables[table].columns[c];
	const char *at = (const char *)row + desc->offset;

	switch (desc->size) {
	case 1:
		return *(const uint8_t *)at;
	case 4: {
		uint32_t v;

		memcpy(&v, at, 4);
		return ws_types[desc->type].is_signed ? (uint64_t)(int64_t)(int32_t)v : v;
	}
	default: {
		uint64_t v;

		memcpy(&v, at, 8);
		return v;
	}
	}
}

void ws_row_set(enum ws_table table, void *row, uint32_t c, uint64_t value)
{
	const struct ws_column_desc *desc = &ws_tables[table].columns[c];
	char *at = (char *)row + desc->offset;

	switch (desc->size) {
	case 1:
		*(uint8_t *)at = (uint8_t)value;
		break;
	case 4: {
		uint32_t v = (uint32_t)value;

		memcpy(at, &v, 4);
		break;
	}
	default:
		memcpy(at, &value, 8);
	}
}

int ws_table_find(const char *name)
{
	for (int t = 0; t < WS_TABLE_COUNT; t++)
		if (!strcmp(ws_tables[t].name, name))
			return t;
	return -1;
}

int ws_column_find(enum ws_table table, const char *name)
{
	for (uint32_t i = 0; i < ws_tables[table].column_count; i++)
		if (!strcmp(ws_tables[table].columns[i].name, name))
			return (int)i;
	return -1;
}

struct groups {
	uint8_t n, column[WS_GROUP_KEYS];
};

#define THREAD(t) [WS_TABLE_##t] = {1, {ws_##t##_thread}}
#define DEVICE(t) [WS_TABLE_##t] = {2, {ws_##t##_process, ws_##t##_device}}
#define STREAM(t) \
	[WS_TABLE_##t] = {4, {ws_##t##_process, ws_##t##_device, ws_##t##_context, ws_##t##_stream}}

static const struct groups groups[WS_TABLE_COUNT] = {
	[WS_TABLE_nvtx] = {3, {ws_nvtx_thread, ws_nvtx_domain, ws_nvtx_type}},
	[WS_TABLE_op] = {2, {ws_op_thread, ws_op_kind}},
	[WS_TABLE_slice] = {3, {ws_slice_thread, ws_slice_track, ws_slice_category}},
	[WS_TABLE_sched] = {2, {ws_sched_thread, ws_sched_cpu}},
	[WS_TABLE_ftrace] = {1, {ws_ftrace_cpu}},
	[WS_TABLE_counter_value] = {1, {ws_counter_value_counter}},
	[WS_TABLE_cuda_memory] = {3,
				  {ws_cuda_memory_process, ws_cuda_memory_device,
				   ws_cuda_memory_kind}},
	[WS_TABLE_collective] = {1, {ws_collective_process}},
	STREAM(cuda_kernel),
	STREAM(cuda_memcpy),
	STREAM(cuda_memset),
	STREAM(cuda_graph_trace),
	DEVICE(cuda_sync),
	DEVICE(cuda_um_gpu_fault),
	THREAD(cuda_api),
	THREAD(cuda_overhead),
	THREAD(cuda_jit),
	THREAD(cuda_module),
	THREAD(cuda_host),
	THREAD(osrt),
	THREAD(sample),
	THREAD(python_sample),
	THREAD(gil),
};

uint32_t ws_table_groups(enum ws_table table, uint8_t columns[WS_GROUP_KEYS])
{
	memcpy(columns, groups[table].column, WS_GROUP_KEYS);
	return groups[table].n;
}
