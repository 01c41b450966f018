/*
 * tables.c - what is exported: the views of the report's tables (NVTX_EVENTS, OSRT_API and the like
 * in a form of their own, the others of tables.def generically), and the order of all tables.
 *
 * In the generic form, each column that has a name in tables.def becomes a column. Times count from
 * the start of the collection, and threads and processes become globalTid and globalPid. A text
 * becomes a number of StringIds if the column's name ends in Id, and is inline otherwise. "None" is
 * NULL everywhere.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "views/tables.h"

#define AT(t, c) ws_##t##_##c
#define BIT(t, c) WS_COLUMN_BIT(t, c)

/* ---- NVTX_EVENTS ---- */

static bool is_startend(const uint64_t *values)
{
	return values[ws_nvtx_type] == WS_NVTX_STARTEND;
}

static struct ws_view_cell make_nvtx_range_cell(struct ws_cell_context *export,
						const uint64_t *values)
{
	(void)export;
	if (!is_startend(values))
		return ws_make_null_cell();
	return ws_make_uint_cell(values[ws_nvtx_range_id]);
}

static struct ws_view_cell make_nvtx_color_cell(struct ws_cell_context *export,
						const uint64_t *values)
{
	(void)export;
	if (!(values[ws_nvtx_flags] & WS_NVTX_HAS_COLOR))
		return ws_make_null_cell();
	return ws_make_int_cell((int64_t)values[ws_nvtx_color]);
}

static struct ws_view_cell make_nvtx_text_cell(struct ws_cell_context *export,
					       const uint64_t *values)
{
	if (values[ws_nvtx_flags] & WS_NVTX_REGISTERED)
		return ws_make_null_cell();
	return ws_make_text_cell(export, (uint32_t)values[ws_nvtx_text]);
}

static struct ws_view_cell make_nvtx_text_id_cell(struct ws_cell_context *export,
						  const uint64_t *values)
{
	if (!(values[ws_nvtx_flags] & WS_NVTX_REGISTERED))
		return ws_make_null_cell();
	return ws_make_string_cell(export, (uint32_t)values[ws_nvtx_text]);
}

static struct ws_view_cell make_nvtx_end_tid_cell(struct ws_cell_context *export,
						  const uint64_t *values)
{
	if (!is_startend(values) || values[ws_nvtx_end] == WS_NO_TIME)
		return ws_make_null_cell();
	if (values[ws_nvtx_end_thread])
		return ws_make_thread_cell(export, values[ws_nvtx_end_thread]);
	return ws_make_thread_cell(export, values[ws_nvtx_thread]);
}

/* The payload, in the column of its type. */
#define PAYLOAD(fn, type, expr)                                                               \
	static struct ws_view_cell fn(struct ws_cell_context *export, const uint64_t *values) \
	{                                                                                     \
		uint64_t bits = values[ws_nvtx_payload];                                      \
                                                                                              \
		(void)export;                                                                 \
		if (values[ws_nvtx_payload_type] != WS_NVTX_PAYLOAD_##type)                   \
			return ws_make_null_cell();                                           \
		return expr;                                                                  \
	}

static double read_double(uint64_t bits)
{
	double number;

	memcpy(&number, &bits, 8);
	return number;
}

static double read_float(uint64_t bits)
{
	uint32_t low = (uint32_t)bits;
	float number;

	memcpy(&number, &low, 4);
	return (double)number;
}

PAYLOAD(make_nvtx_u64_cell, U64, ws_make_uint_cell(bits))
PAYLOAD(make_nvtx_i64_cell, I64, ws_make_int_cell((int64_t)bits))
PAYLOAD(make_nvtx_f64_cell, F64, ws_make_real_cell(read_double(bits)))
PAYLOAD(make_nvtx_u32_cell, U32, ws_make_int_cell((uint32_t)bits))
PAYLOAD(make_nvtx_i32_cell, I32, ws_make_int_cell((int32_t)(uint32_t)bits))
PAYLOAD(make_nvtx_f32_cell, F32, ws_make_real_cell(read_float(bits)))

#define PAYLOAD_READS (BIT(nvtx, payload) | BIT(nvtx, payload_type))
#define CALLED(fn, shape_, reads) \
	.from = WS_FROM_FUNCTION, .cell = fn, .shape = shape_, .needs = reads
#define GATED(fn, shape_, reads, gate) CALLED(fn, shape_, reads), .source = gate, .gated = true

static const struct ws_view_column nvtx_columns[] = {
	{"start", "INTEGER", true, false,
	 "Start of the range, or moment of the mark or definition (ns)", WS_FROM_TIME,
	 AT(nvtx, start)},
	{"end", "INTEGER", false, false,
	 "End of the range (ns); NULL for marks and ranges that never ended", WS_FROM_TIME_OR_NULL,
	 AT(nvtx, end)},
	{"eventType", "INTEGER", true, false, "ENUM_NSYS_EVENT_TYPE(id)", WS_FROM_INT,
	 AT(nvtx, type)},
	{"rangeId", "INTEGER", false, false, "Number of a start/end range in its process",
	 CALLED(make_nvtx_range_cell, WS_SHAPE_UINT, BIT(nvtx, type) | BIT(nvtx, range_id))},
	{"category", "INTEGER", false, false, "Category number in the domain", WS_FROM_ID,
	 AT(nvtx, category)},
	{"color", "INTEGER", false, false, "ARGB",
	 GATED(make_nvtx_color_cell, WS_SHAPE_INT, BIT(nvtx, flags) | BIT(nvtx, color),
	       AT(nvtx, flags))},
	{"text", "TEXT", false, false, "Message, unless it is a registered string",
	 CALLED(make_nvtx_text_cell, WS_SHAPE_TEXT, BIT(nvtx, flags) | BIT(nvtx, text))},
	{"globalTid", "INTEGER", false, false, "Thread: pid << 24 | tid", WS_FROM_THREAD,
	 AT(nvtx, thread)},
	{"endGlobalTid", "INTEGER", false, false, "Thread that ended a start/end range",
	 CALLED(make_nvtx_end_tid_cell, WS_SHAPE_INT,
		BIT(nvtx, type) | BIT(nvtx, end) | BIT(nvtx, end_thread) | BIT(nvtx, thread))},
	{"textId", "INTEGER", false, false, "StringIds(id) of a registered string",
	 GATED(make_nvtx_text_id_cell, WS_SHAPE_STRING, BIT(nvtx, flags) | BIT(nvtx, text),
	       AT(nvtx, flags))},
	{"domainId", "INTEGER", false, false,
	 "Domain number in the process; 0 is the default domain", WS_FROM_INT, AT(nvtx, domain)},
	{"uint64Value", "INTEGER", false, false, "Payload",
	 GATED(make_nvtx_u64_cell, WS_SHAPE_UINT, PAYLOAD_READS, AT(nvtx, payload_type))},
	{"int64Value", "INTEGER", false, false, "Payload",
	 GATED(make_nvtx_i64_cell, WS_SHAPE_INT, PAYLOAD_READS, AT(nvtx, payload_type))},
	{"doubleValue", "REAL", false, false, "Payload",
	 GATED(make_nvtx_f64_cell, WS_SHAPE_REAL, PAYLOAD_READS, AT(nvtx, payload_type))},
	{"uint32Value", "INTEGER", false, false, "Payload",
	 GATED(make_nvtx_u32_cell, WS_SHAPE_INT, PAYLOAD_READS, AT(nvtx, payload_type))},
	{"int32Value", "INTEGER", false, false, "Payload",
	 GATED(make_nvtx_i32_cell, WS_SHAPE_INT, PAYLOAD_READS, AT(nvtx, payload_type))},
	{"floatValue", "REAL", false, false, "Payload",
	 GATED(make_nvtx_f32_cell, WS_SHAPE_REAL, PAYLOAD_READS, AT(nvtx, payload_type))},
	{"jsonTextId", "INTEGER", false, false, "Not used", WS_FROM_NULL},
	{"jsonText", "TEXT", false, false, "Not used", WS_FROM_NULL},
	{"binaryData", "TEXT", false, false, "Bytes of extended payloads, as a blob", WS_FROM_BLOB,
	 AT(nvtx, binary)},
};

/* These rows stay regardless of --times: without them, the domains and categories of other rows
 * would have no names. */
static bool is_definition(const uint64_t *values)
{
	return values[ws_nvtx_type] == WS_NVTX_DOMAIN_CREATE ||
	       values[ws_nvtx_type] == WS_NVTX_CATEGORY || values[ws_nvtx_type] == WS_NVTX_THREAD;
}

static const struct ws_table_view nvtx_view = {
	.table = {"NVTX_EVENTS",
		  "NVTX ranges and marks, and the definitions of domains and categories",
		  nvtx_columns, WS_COUNT(nvtx_columns)},
	.source = WS_TABLE_nvtx,
	.timed = true,
	.is_fact = is_definition,
	.row_reads = BIT(nvtx, type)};

/* ---- OSRT_API ---- */

enum { EVENT_CLASS_OSRT = 27 };

static struct ws_view_cell make_osrt_callchain_cell(struct ws_cell_context *export,
						    const uint64_t *values)
{
	(void)export;
	if (values[ws_osrt_callchain] == WS_NO_U32)
		return ws_make_int_cell(0);
	return ws_make_int_cell((int64_t)values[ws_osrt_callchain]);
}

static const struct ws_view_column osrt_columns[] = {
	{"start", "INTEGER", true, false, "Start of the call (ns)", WS_FROM_TIME, AT(osrt, start)},
	{"end", "INTEGER", false, false, "Return of the call (ns); NULL when it never returned",
	 WS_FROM_TIME_OR_NULL, AT(osrt, end)},
	{"eventClass", "INTEGER", true, false, "ENUM_NSYS_EVENT_CLASS(id)", WS_FROM_CONST,
	 .value = EVENT_CLASS_OSRT},
	{"globalTid", "INTEGER", false, false, "Thread: pid << 24 | tid", WS_FROM_THREAD,
	 AT(osrt, thread)},
	{"nameId", "INTEGER", true, false, "StringIds(id) of the function", WS_FROM_STRING_OR_ZERO,
	 AT(osrt, name)},
	{"returnValue", "INTEGER", true, false, "What it returned", WS_FROM_INT, AT(osrt, result)},
	{"nestingLevel", "INTEGER", false, false, "How many traced calls it is inside of",
	 WS_FROM_INT, AT(osrt, nesting)},
	{"callchainId", "INTEGER", true, false, "OSRT_CALLCHAINS(id); 0 when no stack was recorded",
	 CALLED(make_osrt_callchain_cell, WS_SHAPE_INT, BIT(osrt, callchain))},
};

static const struct ws_table_view osrt_view = {
	.table = {"OSRT_API", "Calls of libc and pthread functions that blocked or lasted",
		  osrt_columns, WS_COUNT(osrt_columns)},
	.source = WS_TABLE_osrt,
	.timed = true};

/* The report has the system's number of the thread, which is one of the caller's process. */
static struct ws_view_cell make_lock_holder_cell(struct ws_cell_context *export,
						 const uint64_t *values)
{
	const struct ws_thread_info *info =
		ws_find_thread(export->who, (uint32_t)values[ws_osrt_thread]);
	uint64_t holder = values[ws_osrt_holder];

	if (!holder)
		return ws_make_null_cell();
	return ws_make_int_cell((int64_t)((uint64_t)info->pid << 24 | (holder & 0xffffff)));
}

/* The details of a call have a table of their own, so that OSRT_API keeps the columns that scripts
 * expect. */
static const struct ws_view_column osrt_detail_columns[] = {
	{"start", "INTEGER", true, false,
	 "Start of the call (ns); with globalTid it names the row of OSRT_API", WS_FROM_TIME,
	 AT(osrt, start)},
	{"globalTid", "INTEGER", false, false, "Thread: pid << 24 | tid", WS_FROM_THREAD,
	 AT(osrt, thread)},
	{"nameId", "INTEGER", true, false, "StringIds(id) of the function", WS_FROM_STRING_OR_ZERO,
	 AT(osrt, name)},
	{"error", "INTEGER", false, false, "errno of a call that failed", WS_FROM_ID,
	 AT(osrt, error)},
	{"object", "INTEGER", false, false,
	 "The lock, condition, thread or descriptor it was about", WS_FROM_ID, AT(osrt, object)},
	{"path", "TEXT", false, false, "Path of a file call", WS_FROM_TEXT, AT(osrt, path)},
	{"holderGlobalTid", "INTEGER", false, false,
	 "Thread that held the lock when the call began to wait",
	 CALLED(make_lock_holder_cell, WS_SHAPE_INT, BIT(osrt, holder) | BIT(osrt, thread))},
	{"position", "INTEGER", false, false,
	 "Place in the file behind the bytes that the call moved", WS_FROM_UINT_UNLESS,
	 AT(osrt, position), .value = WS_NO_U64},
	{"itemBytes", "INTEGER", false, false,
	 "Bytes of each of the items that the result of fread and fwrite counts", WS_FROM_ID,
	 AT(osrt, item)},
};

static bool has_detail(const uint64_t *values)
{
	return values[ws_osrt_error] || values[ws_osrt_object] || values[ws_osrt_path];
}

static const struct ws_table_view osrt_detail_view = {
	.table = {"WARPSIGHT_OSRT_DETAIL",
		  "What calls in OSRT_API were about: lock, descriptor, path, error",
		  osrt_detail_columns, WS_COUNT(osrt_detail_columns)},
	.source = WS_TABLE_osrt,
	.timed = true,
	.keeps_row = has_detail,
	.row_reads = BIT(osrt, error) | BIT(osrt, object) | BIT(osrt, path)};

/* ---- the rest of tables.def ---- */

static bool ends_in_id(const char *name)
{
	size_t length = strlen(name);

	return length > 2 && !strcmp(name + length - 2, "Id");
}

/* Whether a text becomes a number of StringIds: in columns called ...Id, and in some well-known
 * columns with other names. */
static bool is_string_id(const char *name)
{
	static const char *const others[] = {"demangledName", "shortName", "mangledName",
					     "CpuInstruction", "module"};

	for (size_t i = 0; i < WS_COUNT(others); i++)
		if (!strcmp(name, others[i]))
			return true;
	return ends_in_id(name);
}

static enum ws_cell_origin choose_generic_source(enum ws_type type, bool number)
{
	switch (type) {
	case WS_T_TIME:
		return WS_FROM_TIME;
	case WS_T_NTIME:
		return WS_FROM_TIME_OR_NULL;
	case WS_T_STR:
		if (number)
			return WS_FROM_STRING;
		return WS_FROM_TEXT;
	case WS_T_THREAD:
	case WS_T_NTHREAD:
		return WS_FROM_THREAD;
	case WS_T_PROCESS:
		return WS_FROM_PROCESS;
	case WS_T_NU32:
	case WS_T_NU64:
		return WS_FROM_UINT_UNLESS;
	case WS_T_F64:
		return WS_FROM_REAL;
	case WS_T_U64:
		return WS_FROM_UINT;
	default:
		return WS_FROM_INT;
	}
}

static struct ws_view_cell make_end_status_cell(struct ws_cell_context *export,
						const uint64_t *values)
{
	(void)export;
	if ((int32_t)values[ws_process_end_status] == WS_NO_STATUS)
		return ws_make_null_cell();
	return ws_make_int_cell((int64_t)values[ws_process_end_status]);
}

static const char *choose_generic_type(enum ws_type type, bool number)
{
	if (type == WS_T_STR && !number)
		return "TEXT";
	if (type == WS_T_F64)
		return "REAL";
	return "INTEGER";
}

static struct ws_view_column make_generic_column(enum ws_table table, uint32_t i)
{
	const struct ws_column_desc *desc = &ws_tables[table].columns[i];
	bool number = desc->type == WS_T_STR && is_string_id(desc->sqlite);
	struct ws_view_column column = {.name = desc->sqlite,
					.type = choose_generic_type(desc->type, number),
					.not_null = desc->type == WS_T_TIME,
					.doc = desc->doc,
					.from = choose_generic_source(desc->type, number),
					.source = (uint8_t)i,
					.value = WS_NO_U64};

	if (desc->type == WS_T_NU32)
		column.value = WS_NO_U32;
	if (table == WS_TABLE_process_end && i == ws_process_end_status)
		column = (struct ws_view_column){.name = desc->sqlite,
						 .type = column.type,
						 .doc = desc->doc,
						 CALLED(make_end_status_cell, WS_SHAPE_INT,
							BIT(process_end, status))};
	return column;
}

/* Whether rows are events, which --times can leave out: those of tables with a start, except for
 * tables of facts. */
static bool is_event(enum ws_table table)
{
	static const enum ws_table facts[] = {
		WS_TABLE_clock,		WS_TABLE_collection,  WS_TABLE_process,
		WS_TABLE_process_end,	WS_TABLE_thread,      WS_TABLE_thread_name,
		WS_TABLE_diagnostic,	WS_TABLE_output,      WS_TABLE_mapping,
		WS_TABLE_nvtx_resource, WS_TABLE_cuda_device, WS_TABLE_cuda_context,
		WS_TABLE_cuda_stream,	WS_TABLE_cuda_module,
	};

	for (size_t i = 0; i < WS_COUNT(facts); i++)
		if (facts[i] == table)
			return false;
	return ws_table_start(table) >= 0;
}

static bool has_column(const struct ws_view_column *columns, size_t length, const char *name)
{
	for (size_t i = 0; i < length; i++)
		if (!strcmp(columns[i].name, name))
			return true;
	return false;
}

static struct ws_table_view make_generic_view(enum ws_table table)
{
	const struct ws_table_desc *desc = &ws_tables[table];
	size_t count = 0, known;
	const char *name = desc->sqlite;
	const struct ws_view_column *more = ws_find_known_columns(desc->sqlite, &known);
	struct ws_view_column *columns = ws_calloc(desc->column_count + known, sizeof(*columns));

	for (uint32_t i = 0; i < desc->column_count; i++)
		if (*desc->columns[i].sqlite)
			columns[count++] = make_generic_column(table, i);
	for (size_t i = 0; i < known; i++)
		if (!has_column(columns, count, more[i].name))
			columns[count++] = (struct ws_view_column){.name = more[i].name,
								   .type = more[i].type,
								   .doc = "Not used",
								   .from = WS_FROM_NULL};
	if (table == WS_TABLE_sched)
		name = "WARPSIGHT_SCHED";
	return (struct ws_table_view){.table = {name, desc->doc, columns, count},
				      .source = table,
				      .timed = is_event(table)};
}

/* ---- all views ---- */

enum { MOST_VIEWS = WS_TABLE_COUNT + 1 + WS_RUNTIME_VIEWS };

static struct ws_table_view views[MOST_VIEWS];
static size_t view_count;

/* Whether the table is not a view at all, but made row by row. */
static bool is_made_by_rows(enum ws_table table)
{
	return table == WS_TABLE_thread_name || table == WS_TABLE_collection ||
	       table == WS_TABLE_output || table == WS_TABLE_cuda_device ||
	       table == WS_TABLE_sample;
}

static void add_view(enum ws_table table)
{
	switch (table) {
	case WS_TABLE_nvtx:
		views[view_count++] = nvtx_view;
		break;
	case WS_TABLE_osrt:
		views[view_count++] = osrt_view;
		views[view_count++] = osrt_detail_view;
		break;
	case WS_TABLE_openmp:
		view_count += ws_make_runtime_views(&views[view_count]);
		views[view_count++] = make_generic_view(table);
		break;
	case WS_TABLE_process:
		views[view_count++] = ws_images_view;
		break;
	case WS_TABLE_thread:
		views[view_count++] = ws_threads_view;
		break;
	case WS_TABLE_diagnostic:
		views[view_count++] = ws_diagnostics_view;
		break;
	case WS_TABLE_cuda_context:
		views[view_count++] = ws_contexts_view;
		break;
	case WS_TABLE_cuda_stream:
		views[view_count++] = ws_streams_view;
		break;
	default:
		views[view_count++] = make_generic_view(table);
	}
}

static void make_views(void)
{
	for (int table = 0; table < WS_TABLE_COUNT; table++)
		if (!is_made_by_rows((enum ws_table)table))
			add_view((enum ws_table)table);
}

const struct ws_table_view *ws_list_views(size_t *count)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, make_views);
	*count = view_count;
	return views;
}

const struct ws_table_view *ws_find_view(const char *name)
{
	size_t count;
	const struct ws_table_view *view = ws_list_views(&count);

	for (size_t i = 0; i < count; i++)
		if (!strcasecmp(view[i].table.name, name))
			return &view[i];
	return NULL;
}

/* ---- all tables ---- */

int ws_write_all_tables(struct ws_cell_context *export, struct ws_err *err)
{
	size_t count;
	const struct ws_table_view *view = ws_list_views(&count);

	if (ws_write_session_tables(export, err) < 0 || ws_write_enum_tables(export, err) < 0 ||
	    ws_write_process_tables(export, err) < 0 || ws_write_gpu_tables(export, err) < 0)
		return -1;
	ws_find_foreign_tables(export);
	for (size_t i = 0; i < count; i++)
		if (!(view[i].gives_way && ws_is_foreign_table(export, view[i].table.name)) &&
		    ws_write_view(export, &view[i], err) < 0)
			return -1;
	if (ws_write_sample_tables(export, err) < 0 || ws_write_callchain_tables(export, err) < 0 ||
	    ws_write_count_table(export, err) < 0 || ws_write_foreign_tables(export, err) < 0 ||
	    ws_write_metric_tables(export, err) < 0 || ws_write_known_tables(export, err) < 0)
		return -1;
	return 0;
}
