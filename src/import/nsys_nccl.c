/*
 * nsys_nccl.c - collectives of Nsight Systems' reports. These reports have no table of collectives:
 * the names of NCCL's kernels tell only the operation and the type of its elements. How much was
 * moved, and between which ranks, is not known.
 */
#include <string.h>

#include "import/nsys.h"
#include "query/work.h"

#define KERNELS "CUPTI_ACTIVITY_KIND_KERNEL"

/* PyTorch's names for them. If one word contains another, the longer comes first. */
static const char *const operations[][2] = {
	{"AllReduce", "allreduce"}, {"AllGather", "allgather"}, {"ReduceScatter", "reduce_scatter"},
	{"Broadcast", "broadcast"}, {"SendRecv", "sendrecv"},	{"AlltoAll", "alltoall"},
	{"AllToAll", "alltoall"},   {"Reduce", "reduce"},	{"Gather", "gather"},
	{"Scatter", "scatter"},
};
static const char *const types[][2] = {
	{"bf16", "BFloat16"}, {"bfloat16", "BFloat16"}, {"f16", "Half"},   {"half", "Half"},
	{"f32", "Float"},     {"float", "Float"},	{"f64", "Double"}, {"double", "Double"},
	{"i8", "Char"},	      {"int8_t", "Char"},	{"u8", "Byte"},	   {"uint8_t", "Byte"},
	{"i32", "Int"},	      {"int32_t", "Int"},	{"i64", "Long"},   {"int64_t", "Long"},
};

/* Whole words between underscores are compared, since "bf16" contains "f16". */
static bool has_word(const char *name, const char *word)
{
	size_t length = strlen(word);

	for (const char *at = strstr(name, word); at; at = strstr(at + 1, word))
		if (at > name && at[-1] == '_' && strchr("_(", at[length]))
			return true;
	return false;
}

static uint32_t find_operation(const struct ws_nsys *nsys, const char *name)
{
	for (size_t i = 0; i < WS_COUNT(operations); i++)
		if (strstr(name, operations[i][0]))
			return ws_importer_add_string(nsys->importer, operations[i][1],
						      strlen(operations[i][1]));
	return ws_importer_add_string(nsys->importer, "nccl", 4);
}

static uint32_t find_type(const struct ws_nsys *nsys, const char *name)
{
	for (size_t i = 0; i < WS_COUNT(types); i++)
		if (has_word(name, types[i][0]))
			return ws_importer_add_string(nsys->importer, types[i][1],
						      strlen(types[i][1]));
	return 0;
}

/* The operation and type of each text that is the name of such a kernel. */
static struct ws_map find_names(struct ws_nsys *nsys)
{
	struct ws_map names = {0};
	sqlite3_stmt *statement = ws_nsys_select(nsys, "SELECT id, value FROM StringIds");

	while (statement && ws_nsys_step_row(nsys, statement, "StringIds")) {
		const char *text = (const char *)sqlite3_column_text(statement, 1);

		if (text && ws_is_communication_kernel(text))
			ws_map_set(&names, (uint64_t)sqlite3_column_int64(statement, 0),
				   (uint64_t)find_operation(nsys, text) << 32 |
					   find_type(nsys, text));
	}
	sqlite3_finalize(statement);
	return names;
}

struct kernel_columns {
	int start, end, process, correlation, name, device, context, stream;
};

static void put_collective(struct ws_nsys *nsys, sqlite3_stmt *statement,
			   const struct kernel_columns *columns, uint64_t what)
{
	uint64_t start = ws_nsys_get_time(nsys, statement, columns->start);

	*(struct ws_row_collective *)ws_importer_add_row(
		nsys->importer, WS_TABLE_collective) = (struct ws_row_collective){
		.start = start,
		.end = ws_nsys_get_time(nsys, statement, columns->end),
		.process = ws_nsys_find_process(
			nsys, ws_nsys_get_int(statement, columns->process, 0), start),
		.correlation =
			(uint32_t)ws_nsys_get_int(statement, columns->correlation, WS_NO_U32),
		.external = WS_NO_U64,
		.name = (uint32_t)(what >> 32),
		.dtype = (uint32_t)what,
		.in_elements = WS_NO_U64,
		.out_elements = WS_NO_U64,
		.group_size = WS_NO_U32,
		.source = -1,
		.destination = -1,
		.sequence = WS_NO_U64,
		.bytes = WS_NO_U64,
		.rank = -1,
		.device = (uint32_t)ws_nsys_get_int(statement, columns->device, WS_NO_U32),
		.context = (uint32_t)ws_nsys_get_int(statement, columns->context, WS_NO_U32),
		.stream = (uint32_t)ws_nsys_get_int(statement, columns->stream, WS_NO_U32),
		.call_start = WS_NO_TIME,
		.call_end = WS_NO_TIME,
		.label = (uint32_t)(what >> 32),
		.channels = WS_NO_U32,
		.event = WS_NO_U64,
	};
}

void ws_nsys_read_collectives(struct ws_nsys *nsys)
{
	struct ws_map names = {0};
	struct kernel_columns columns;
	sqlite3_stmt *statement;

	if (nsys->is_own_export || !ws_nsys_has_unread(nsys, KERNELS))
		return;
	statement = ws_nsys_select(nsys, "SELECT * FROM \"%w\"", KERNELS);
	columns = (struct kernel_columns){
		.start = ws_nsys_find_column(statement, "start"),
		.end = ws_nsys_find_column(statement, "end"),
		.process = ws_nsys_find_column(statement, "globalPid"),
		.correlation = ws_nsys_find_column(statement, "correlationId"),
		.name = ws_nsys_find_column(statement, "shortName"),
		.device = ws_nsys_find_column(statement, "deviceId"),
		.context = ws_nsys_find_column(statement, "contextId"),
		.stream = ws_nsys_find_column(statement, "streamId"),
	};
	if (columns.start >= 0 && columns.end >= 0 && columns.process >= 0 && columns.name >= 0)
		names = find_names(nsys);
	while (names.count && ws_nsys_step_row(nsys, statement, KERNELS)) {
		bool known;
		uint64_t what = ws_map_get(
			&names, (uint64_t)ws_nsys_get_int(statement, columns.name, -1), &known);

		if (known)
			put_collective(nsys, statement, &columns, what);
	}
	sqlite3_finalize(statement);
	ws_map_free(&names);
}
