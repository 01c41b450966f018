/*
 * tables_runtimes.c - OPENMP_EVENT_KIND_* and CUPTI_ACTIVITY_KIND_OPENACC_*: the tables openmp and
 * openacc in Nsight Systems' form, one for each kind of event. known.def declares their columns;
 * this file fills them.
 */
#include <string.h>

#include "schema/openacc.h"
#include "schema/openmp.h"
#include "views/tables.h"

#define MP(c) ws_openmp_##c
#define ACC(c) ws_openacc_##c
#define FILLED(name_, from_, source_, doc_)                                             \
	{                                                                               \
		.name = name_, .from = WS_FROM_##from_, .source = source_, .doc = doc_, \
		.value = WS_NO_U64                                                      \
	}
#define ALWAYS(name_, value_, doc_)                                                \
	{                                                                          \
		.name = name_, .from = WS_FROM_CONST, .value = value_, .doc = doc_ \
	}

enum { EVENT_CLASS_OPENMP = 78 };

/* ---- OpenMP ---- */

static struct ws_view_cell make_callback_cell(struct ws_cell_context *export,
					      const uint64_t *values)
{
	static const uint8_t callbacks[WS_OPENMP_KINDS] = {
#define WS_OPENMP(kind, callback, text) callback,
#include "schema/openmp_kinds.def"
#undef WS_OPENMP
	};

	(void)export;
	if (values[MP(kind)] >= WS_OPENMP_KINDS)
		return ws_make_null_cell();
	return ws_make_int_cell(callbacks[values[MP(kind)]]);
}

static const struct ws_view_column openmp_columns[] = {
	FILLED("start", TIME, MP(start), "When it began (ns)"),
	FILLED("end", TIME, MP(end), "When it was over (ns); the same for a moment"),
	ALWAYS("eventClass", EVENT_CLASS_OPENMP, "ENUM_NSYS_EVENT_CLASS(id)"),
	FILLED("globalTid", THREAD, MP(thread), "Thread: pid << 24 | tid"),
	FILLED("nameId", STRING_OR_ZERO, MP(name), "StringIds(id) of what it is"),
	{.name = "eventKind",
	 .from = WS_FROM_FUNCTION,
	 .cell = make_callback_cell,
	 .shape = WS_SHAPE_INT,
	 .needs = WS_COLUMN_BIT(openmp, kind),
	 .doc = "Number of the OMPT callback that began it"},
	FILLED("parallelId", UINT_UNLESS, MP(parallel), "Number of the parallel region"),
	FILLED("taskId", UINT_UNLESS, MP(task), "Number of the task"),
	FILLED("parentTaskId", UINT_UNLESS, MP(task), "Number of the task that made it"),
	FILLED("priorTaskId", UINT_UNLESS, MP(task), "Number of the task that is left"),
	FILLED("kind", INT, MP(what), "OMPT's number of what it is"),
	FILLED("threadType", INT, MP(what), "ompt_thread_t"),
	FILLED("priorTaskStatus", INT, MP(what), "ompt_task_status_t"),
	FILLED("newTaskId", UINT, MP(other), "Number of the task that is made"),
	FILLED("nextTaskId", UINT, MP(other), "Number of the task that goes on"),
	FILLED("waitId", UINT, MP(other), "The lock"),
	FILLED("count", UINT, MP(other), "Iterations or sections"),
	FILLED("threadId", UINT, MP(other), "Number of the thread"),
};

#define WS_OPENMP(which, callback, text)                            \
	static bool is_##which(const uint64_t *values)              \
	{                                                           \
		return values[ws_openmp_kind] == WS_OPENMP_##which; \
	}
#include "schema/openmp_kinds.def"
#undef WS_OPENMP

/* ---- OpenACC ---- */

static const struct ws_view_column openacc_columns[] = {
	FILLED("start", TIME, ACC(start), "When it began (ns)"),
	FILLED("end", TIME, ACC(end), "When it was over (ns); the same for a moment"),
	FILLED("nameId", STRING_OR_ZERO, ACC(name), "StringIds(id) of what it is"),
	FILLED("globalTid", THREAD, ACC(thread), "Thread: pid << 24 | tid"),
	FILLED("eventKind", INT, ACC(event), "acc_event_t of its start"),
	FILLED("DeviceType", INT, ACC(device_type), "acc_device_t"),
	FILLED("lineNo", INT, ACC(line), "Line in the source; 0 when not known"),
	FILLED("cuDeviceId", INT, ACC(device), "Number of the device"),
	ALWAYS("cuContextId", 0, "Not known"),
	FILLED("cuStreamId", INT, ACC(queue), "Asynchronous queue; negative: none"),
	FILLED("srcFile", STRING, ACC(file), "StringIds(id) of the source file"),
	FILLED("funcName", STRING, ACC(function), "StringIds(id) of the function"),
	FILLED("bytes", UINT_UNLESS, ACC(bytes), "Bytes of data"),
	FILLED("varName", STRING, ACC(item), "StringIds(id) of the variable"),
	FILLED("numGangs", UINT_UNLESS, ACC(gangs), "Gangs of the launch"),
	FILLED("numWorkers", UINT_UNLESS, ACC(workers), "Workers of a gang"),
	FILLED("vectorLength", UINT_UNLESS, ACC(vector_length), "Length of vectors"),
	FILLED("kernelName", STRING, ACC(item), "StringIds(id) of the kernel"),
};

#define IS_SORT(which)                                                \
	static bool is_##which(const uint64_t *values)                \
	{                                                             \
		return values[ws_openacc_sort] == WS_OPENACC_##which; \
	}
IS_SORT(DATA)
IS_SORT(LAUNCH)
IS_SORT(OTHER)

/* ---- the views ---- */

struct origin {
	const struct ws_view_column *columns;
	size_t count;
	enum ws_table source;
	uint64_t row_reads;
};
static const struct origin openmp = {openmp_columns, WS_COUNT(openmp_columns), WS_TABLE_openmp,
				     WS_COLUMN_BIT(openmp, kind)},
			   openacc = {openacc_columns, WS_COUNT(openacc_columns), WS_TABLE_openacc,
				      WS_COLUMN_BIT(openacc, sort)};

static const struct {
	const struct origin *origin;
	const char *table, *doc;
	bool (*keeps_row)(const uint64_t *values);
	bool at_end; /* its rows are the moments when others end */
} tables[] = {
#define WS_OPENMP(kind, callback, text) {&openmp, "OPENMP_EVENT_KIND_" #kind, text, is_##kind, 0},
#include "schema/openmp_kinds.def"
#undef WS_OPENMP
	{&openmp, "OPENMP_EVENT_KIND_MUTEX_RELEASED", "The end of each row of CRITICAL_SECTION",
	 is_CRITICAL_SECTION, true},
	{&openacc, "CUPTI_ACTIVITY_KIND_OPENACC_DATA", "OpenACC: data", is_DATA, false},
	{&openacc, "CUPTI_ACTIVITY_KIND_OPENACC_LAUNCH", "OpenACC: launches", is_LAUNCH, false},
	{&openacc, "CUPTI_ACTIVITY_KIND_OPENACC_OTHER", "OpenACC: other events", is_OTHER, false},
};
_Static_assert(WS_COUNT(tables) <= WS_RUNTIME_VIEWS, "there is room for all");

/* The source of a known column; a column without one is NULL. */
static struct ws_view_column make_column(const struct origin *origin,
					 const struct ws_view_column *known)
{
	struct ws_view_column column = {.from = WS_FROM_NULL, .doc = "Not used"};

	for (size_t i = 0; i < origin->count; i++)
		if (!strcmp(origin->columns[i].name, known->name))
			column = origin->columns[i];
	column.name = known->name;
	column.type = known->type;
	column.not_null = known->not_null;
	return column;
}

static struct ws_table_view make_view(size_t i)
{
	const struct origin *origin = tables[i].origin;
	size_t count;
	const struct ws_view_column *known = ws_find_known_columns(tables[i].table, &count);
	struct ws_view_column *columns;

	if (!known)
		return (struct ws_table_view){0};
	columns = ws_calloc(count, sizeof(*columns));
	for (size_t k = 0; k < count; k++) {
		columns[k] = make_column(origin, &known[k]);
		if (tables[i].at_end && !strcmp(columns[k].name, "start"))
			columns[k].source = MP(end);
	}
	return (struct ws_table_view){.table = {tables[i].table, tables[i].doc, columns, count},
				      .source = origin->source,
				      .timed = true,
				      .gives_way = true,
				      .keeps_row = tables[i].keeps_row,
				      .row_reads = origin->row_reads};
}

size_t ws_make_runtime_views(struct ws_table_view *views)
{
	size_t count = 0;

	for (size_t i = 0; i < WS_COUNT(tables); i++) {
		views[count] = make_view(i);
		count += views[count].table.column_count > 0;
	}
	return count;
}
