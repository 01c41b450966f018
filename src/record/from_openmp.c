/*
 * from_openmp.c - converts records of the OpenMP hook into rows.
 *
 * The name of an event says what it is and which function of the program it is in, as far as the
 * symbols tell. Compilers move regions into functions of their own, whose names are cut down to the
 * name of the function in the source.
 */
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "record/from_stack.h"
#include "record/proc.h"
#include "ring/openmp_record.h"
#include "schema/openmp.h"

static const char *const kind_names[WS_OPENMP_KINDS] = {
#define WS_OPENMP(kind, callback, text) text,
#include "schema/openmp_kinds.def"
#undef WS_OPENMP
};

/* The names of kinds of events, by OMPT's number. */
static const struct {
	uint8_t kind;
	uint32_t what;
	const char *text;
} names[] = {
	{WS_OPENMP_THREAD, 1, "Initial thread"},
	{WS_OPENMP_THREAD, 2, "Worker thread"},
	{WS_OPENMP_SYNC_REGION, 1, "Barrier"},
	{WS_OPENMP_SYNC_REGION, 2, "Implicit barrier"},
	{WS_OPENMP_SYNC_REGION, 3, "Explicit barrier"},
	{WS_OPENMP_SYNC_REGION, 4, "Barrier of the runtime"},
	{WS_OPENMP_SYNC_REGION, 5, "Taskwait"},
	{WS_OPENMP_SYNC_REGION, 6, "Taskgroup"},
	{WS_OPENMP_SYNC_REGION, 7, "Reduction barrier"},
	{WS_OPENMP_SYNC_REGION, 8, "Implicit barrier"},
	{WS_OPENMP_SYNC_REGION, 9, "Implicit barrier"},
	{WS_OPENMP_SYNC_REGION, 10, "Barrier of teams"},
	{WS_OPENMP_SYNC_REGION_WAIT, 1, "Wait at barrier"},
	{WS_OPENMP_SYNC_REGION_WAIT, 2, "Wait at implicit barrier"},
	{WS_OPENMP_SYNC_REGION_WAIT, 3, "Wait at explicit barrier"},
	{WS_OPENMP_SYNC_REGION_WAIT, 4, "Wait at barrier of the runtime"},
	{WS_OPENMP_SYNC_REGION_WAIT, 5, "Wait in taskwait"},
	{WS_OPENMP_SYNC_REGION_WAIT, 6, "Wait in taskgroup"},
	{WS_OPENMP_SYNC_REGION_WAIT, 7, "Wait at reduction barrier"},
	{WS_OPENMP_SYNC_REGION_WAIT, 8, "Wait at implicit barrier"},
	{WS_OPENMP_SYNC_REGION_WAIT, 9, "Wait at implicit barrier"},
	{WS_OPENMP_SYNC_REGION_WAIT, 10, "Wait at barrier of teams"},
	{WS_OPENMP_WORKSHARE, 1, "Loop"},
	{WS_OPENMP_WORKSHARE, 2, "Sections"},
	{WS_OPENMP_WORKSHARE, 3, "Single"},
	{WS_OPENMP_WORKSHARE, 4, "Single (by another thread)"},
	{WS_OPENMP_WORKSHARE, 5, "Workshare"},
	{WS_OPENMP_WORKSHARE, 6, "Distribute"},
	{WS_OPENMP_WORKSHARE, 7, "Taskloop"},
	{WS_OPENMP_WORKSHARE, 8, "Scope"},
	{WS_OPENMP_WORKSHARE, 10, "Loop (static)"},
	{WS_OPENMP_WORKSHARE, 11, "Loop (dynamic)"},
	{WS_OPENMP_WORKSHARE, 12, "Loop (guided)"},
	{WS_OPENMP_WORKSHARE, 13, "Loop"},
	{WS_OPENMP_MUTEX_WAIT, 1, "Wait for lock"},
	{WS_OPENMP_MUTEX_WAIT, 2, "Test of lock"},
	{WS_OPENMP_MUTEX_WAIT, 3, "Wait for nested lock"},
	{WS_OPENMP_MUTEX_WAIT, 4, "Test of nested lock"},
	{WS_OPENMP_MUTEX_WAIT, 5, "Wait for critical section"},
	{WS_OPENMP_MUTEX_WAIT, 6, "Wait for atomic"},
	{WS_OPENMP_MUTEX_WAIT, 7, "Wait for ordered section"},
	{WS_OPENMP_CRITICAL_SECTION, 1, "Lock held"},
	{WS_OPENMP_CRITICAL_SECTION, 2, "Lock held"},
	{WS_OPENMP_CRITICAL_SECTION, 3, "Nested lock held"},
	{WS_OPENMP_CRITICAL_SECTION, 4, "Nested lock held"},
	{WS_OPENMP_CRITICAL_SECTION, 5, "Critical section"},
	{WS_OPENMP_CRITICAL_SECTION, 6, "Atomic"},
	{WS_OPENMP_CRITICAL_SECTION, 7, "Ordered section"},
	{WS_OPENMP_TARGET, 1, "Target region"},
	{WS_OPENMP_TARGET, 2, "Target enter data"},
	{WS_OPENMP_TARGET, 3, "Target exit data"},
	{WS_OPENMP_TARGET, 4, "Target update"},
	{WS_OPENMP_TARGET_DATA, 1, "Target allocation"},
	{WS_OPENMP_TARGET_DATA, 2, "Transfer to device"},
	{WS_OPENMP_TARGET_DATA, 3, "Transfer from device"},
	{WS_OPENMP_TARGET_DATA, 4, "Target deletion"},
};

/* The name of a task, whose kind is in the lowest bits of its flags. */
static const char *name_task(uint32_t flags)
{
	if (flags & WS_OPENMP_TASK_INITIAL)
		return "Initial task";
	if (flags & WS_OPENMP_TASK_EXPLICIT)
		return "Explicit task";
	return "Implicit task";
}

static const char *name_event(uint8_t kind, uint32_t what)
{
	if (kind == WS_OPENMP_TASK)
		return name_task(what);
	for (size_t i = 0; i < WS_COUNT(names); i++)
		if (names[i].kind == kind && names[i].what == what)
			return names[i].text;
	return kind_names[kind];
}

/* ---- the function that an event is in ---- */

/* Length of the name without the suffix that a compiler has added: main._omp_fn.0,
 * main.omp_outlined, .omp_outlined. 0 when nothing of the source's name is left. */
static size_t measure_source_name(const char *name)
{
	static const char *const endings[] = {"._omp_fn", ".omp_outlined", "$omp", ".extracted"};
	size_t length = strlen(name);

	for (size_t i = 0; i < WS_COUNT(endings); i++) {
		const char *ending = strstr(name, endings[i]);

		if (ending && (size_t)(ending - name) < length)
			length = (size_t)(ending - name);
	}
	return length;
}

struct openmp_process { /* names by kind, sort and function */
	struct ws_map names;
};

static void free_openmp_process(void *arg)
{
	struct openmp_process *process = arg;

	ws_map_free(&process->names);
	free(process);
}

/* The name of an event: "Parallel region in solve". */
static uint32_t make_event_name(struct ws_stream *stream, const struct ws_rec_openmp *record,
				uint32_t function)
{
	const char *what = name_event((uint8_t)record->rec.small, record->rec.value);
	const char *name = ws_stack_function_text(stream, function);
	size_t length = measure_source_name(name);
	char *text;
	uint32_t id;

	if (!length)
		return ws_stream_intern(stream, what, strlen(what));
	text = ws_format("%s in %.*s", what, (int)length, name);
	id = ws_stream_intern(stream, text, strlen(text));
	free(text);
	return id;
}

static uint32_t find_event_name(struct ws_stream *stream, const struct ws_rec_openmp *record,
				uint32_t function)
{
	void **slot = ws_proc_slot(stream->proc, WS_SLOT_OPENMP, free_openmp_process);
	uint64_t key = (uint64_t)record->rec.small << 56 |
		       (uint64_t)(record->rec.value & 0xffffff) << 32 | function;
	struct openmp_process *process;
	uint64_t name;
	bool known;

	if (!*slot)
		*slot = ws_calloc(1, sizeof(*process));
	process = *slot;
	name = ws_map_get(&process->names, key, &known);
	if (!known) {
		name = make_event_name(stream, record, function);
		ws_map_set(&process->names, key, name);
	}
	return (uint32_t)name;
}

/* The function of the program that an event is in. Inside a region whose function has no name of
 * its own, it is the function that contains the region. 0 when the runtime does not tell. */
static uint32_t find_source_function(struct ws_stream *stream, const struct ws_rec_openmp *record,
				     uint32_t *library)
{
	const uint64_t codes[] = {record->code, record->region};
	uint64_t start = ws_stream_time(stream, record->start);
	uint32_t function = 0;

	*library = 0;
	for (size_t i = 0; i < WS_COUNT(codes); i++) {
		if (!codes[i])
			continue;
		/* The call ends before the address that it returns to. */
		function = ws_stack_function(stream, start, codes[i] - 1, library);
		if (measure_source_name(ws_stack_function_text(stream, function)))
			break;
	}
	return function;
}

static uint64_t number_or_none(uint64_t number)
{
	if (!number)
		return WS_NO_U64;
	return number;
}

void ws_convert_openmp(struct ws_stream *stream, const struct ws_rec *rec)
{
	const struct ws_rec_openmp *record = (const void *)rec;
	struct ws_row_openmp *row;
	uint32_t library, function;
	uint64_t start, end;

	if (ws_rec_bytes(rec) != sizeof(*record) || rec->small >= WS_OPENMP_KINDS ||
	    record->end < record->start) {
		ws_stream_diagnostic(stream, WS_ERROR, "openmp",
				     "Records of OpenMP were overwritten by the program itself (a "
				     "stray write into shared memory); they are left out.");
		return;
	}
	start = ws_stream_time(stream, record->start);
	end = ws_stream_time(stream, record->end);
	if (!ws_stream_wants(stream, start, end))
		return;
	stream->sink->openmp_seen = true;
	function = find_source_function(stream, record, &library);
	row = ws_writer_row(stream->writer, WS_TABLE_openmp, stream->stage[WS_TABLE_openmp]);
	row->start = start;
	row->end = end;
	row->thread = stream->thread;
	row->kind = (uint8_t)rec->small;
	row->name = find_event_name(stream, record, function);
	row->what = rec->value;
	row->parallel = number_or_none(record->parallel);
	row->task = number_or_none(record->task);
	row->other = record->other;
	row->function = function;
	row->library = library;
}
