/*
 * tables_samples.c - CPU samples and scheduling in Nsight Systems' form: COMPOSITE_EVENTS with a
 * number for each sample, SCHED_EVENTS with a row where a thread goes on a core and one where it
 * leaves it.
 */
#include <stdlib.h>
#include <string.h>

#include "views/tables.h"

struct sample_numbering {
	struct ws_cell_context *export;
	int64_t number;
};

/* ---- COMPOSITE_EVENTS ---- */

static const struct ws_view_column sample_columns[] = {
	{"id", "INTEGER", true, true, "Number of the sample"},
	{"start", "INTEGER", true, false, "When (ns)"},
	{"cpu", "INTEGER", false, false, "Core"},
	{"threadState", "INTEGER", false, false, "ENUM_SAMPLING_THREAD_STATE(id)"},
	{"globalTid", "INTEGER", false, false, "Thread: pid << 24 | tid"},
	{"cpuCycles", "INTEGER", true, false,
	 "What the sample stands for: cycles, or nanoseconds when flags has bit 1"},
	{"eventId", "INTEGER", false, false, "PMU_EVENT_REQUESTS(id): the counter that fired"},
	{"frameId", "INTEGER", false, false, "WARPSIGHT_FRAME(id): where it ran"},
	{"callersId", "INTEGER", false, false, "WARPSIGHT_STACK(id): the stack below"},
	{"gilState", "INTEGER", false, false, "ENUM_WARPSIGHT_GIL_STATE(id)"},
	{"flags", "INTEGER", false, false, "ENUM_WARPSIGHT_SAMPLE_FLAGS(id)"},
	{"cpuTime", "INTEGER", false, false,
	 "Nanoseconds that the thread ran, for which the sample stands"},
};

static const struct ws_view_table samples_table = {"COMPOSITE_EVENTS",
						   "CPU samples: what a thread ran at a moment",
						   sample_columns, WS_COUNT(sample_columns)};

/* Nanoseconds that a sample stands for; 0 when that is not known. */
static uint64_t get_sample_time(const uint64_t *values)
{
	if (!values[ws_sample_time] && values[ws_sample_flags] & WS_SAMPLE_CLOCK)
		return values[ws_sample_weight];
	return values[ws_sample_time];
}

/* Samples are numbered as they are read, regardless of --times, so that a number means the same in
 * every export of the report. */
static bool fill_sample_row(void *context, const uint64_t *values, struct ws_view_cell *cells)
{
	struct sample_numbering *numbering = context;
	int64_t number = ++numbering->number;

	if (!ws_is_in_time(numbering->export, values[ws_sample_start], WS_NO_TIME))
		return false;
	cells[0] = ws_make_int_cell(number);
	cells[1] = ws_make_time_cell(numbering->export, values[ws_sample_start]);
	cells[2] = ws_make_null_cell();
	if (values[ws_sample_cpu] != WS_NO_U32)
		cells[2] = ws_make_int_cell((int64_t)values[ws_sample_cpu]);
	cells[3] = ws_make_int_cell((int64_t)values[ws_sample_state]);
	cells[4] = ws_make_thread_cell(numbering->export, values[ws_sample_thread]);
	cells[5] = ws_make_uint_cell(values[ws_sample_weight]);
	cells[6] = ws_make_id_cell(values[ws_sample_event]);
	cells[7] = ws_make_id_cell(values[ws_sample_frame]);
	cells[8] = ws_make_id_cell(values[ws_sample_callers]);
	cells[9] = ws_make_int_cell((int64_t)values[ws_sample_gil]);
	cells[10] = ws_make_int_cell((int64_t)values[ws_sample_flags]);
	cells[11] = ws_make_id_cell(get_sample_time(values));
	return true;
}

/* ---- SCHED_EVENTS ---- */

static const struct ws_view_column sched_columns[] = {
	{"start", "INTEGER", true, false, "When (ns)"},
	{"cpu", "INTEGER", true, false, "Core"},
	{"isSchedIn", "INTEGER", true, false,
	 "1 where the thread goes on the core, 0 where it leaves it"},
	{"globalTid", "INTEGER", false, false, "Thread: pid << 24 | tid"},
};

static const struct ws_view_table sched_table = {
	"SCHED_EVENTS", "Threads going on cores and leaving them, a pair of rows for each span",
	sched_columns, WS_COUNT(sched_columns)};

/* A moment at which a thread leaves a core. It is kept until it is due, because spans come in order
 * of their starts, but rows must be in order of time. */
struct core_switch {
	uint64_t time;
	uint32_t thread, cpu;
};

struct switch_writer {
	struct ws_cell_context *export;
	struct ws_err *err;
	struct core_switch *heap; /* the earliest first; as many as threads run at once */
	size_t count, capacity;
};

static void push_leaving(struct switch_writer *writer, struct core_switch added)
{
	size_t slot;

	ws_grow(writer->heap, writer->capacity, writer->count + 1);
	for (slot = writer->count++; slot && writer->heap[(slot - 1) / 2].time > added.time;
	     slot = (slot - 1) / 2)
		writer->heap[slot] = writer->heap[(slot - 1) / 2];
	writer->heap[slot] = added;
}

static struct core_switch pop_leaving(struct switch_writer *writer)
{
	struct core_switch first = writer->heap[0], last = writer->heap[--writer->count];
	size_t slot = 0;

	for (size_t child; (child = 2 * slot + 1) < writer->count; slot = child) {
		child += child + 1 < writer->count &&
			 writer->heap[child + 1].time < writer->heap[child].time;
		if (last.time <= writer->heap[child].time)
			break;
		writer->heap[slot] = writer->heap[child];
	}
	writer->heap[slot] = last;
	return first;
}

static int put_switch_row(struct switch_writer *writer, const struct core_switch *event, bool in)
{
	int64_t cpu = event->cpu;

	if (event->cpu == WS_NO_U32)
		cpu = -1;
	if (!ws_is_in_time(writer->export, event->time, WS_NO_TIME))
		return 0;
	return ws_add_table_row(
		writer->export,
		(struct ws_view_cell[]){ws_make_time_cell(writer->export, event->time),
					ws_make_int_cell(cpu), ws_make_int_cell(in),
					ws_make_thread_cell(writer->export, event->thread)},
		writer->err);
}

/* Write the rows of threads that left their cores up to the time `until`. */
static int put_leavings(struct switch_writer *writer, uint64_t until)
{
	while (writer->count && writer->heap[0].time <= until) {
		struct core_switch event = pop_leaving(writer);

		if (put_switch_row(writer, &event, false) < 0)
			return -1;
	}
	return 0;
}

static int export_sched_events(struct ws_cell_context *export, struct ws_err *err)
{
	struct switch_writer writer = {.export = export, .err = err};
	struct ws_cursor *cursor;
	const uint64_t *values;
	int rc = ws_begin_table(export, &sched_table, err);

	if (rc < 0 || !ws_is_table_wanted(export, sched_table.name))
		return rc;
	cursor = ws_cursor_open(export->report, WS_TABLE_sched, 0, UINT64_MAX);
	while (!rc && ws_cursor_next(cursor, &values)) {
		struct core_switch event = {values[ws_sched_start],
					    (uint32_t)values[ws_sched_thread],
					    (uint32_t)values[ws_sched_cpu]};

		if (put_leavings(&writer, event.time) < 0 ||
		    put_switch_row(&writer, &event, true) < 0)
			rc = -1;
		event.time = values[ws_sched_end];
		if (event.time != WS_NO_TIME)
			push_leaving(&writer, event);
	}
	ws_cursor_close(cursor);
	if (!rc)
		rc = put_leavings(&writer, UINT64_MAX);
	free(writer.heap);
	return rc;
}

int ws_write_sample_tables(struct ws_cell_context *export, struct ws_err *err)
{
	struct sample_numbering numbering = {.export = export};

	if (ws_write_table_rows(export, &samples_table, WS_TABLE_sample, fill_sample_row,
				&numbering, err) < 0)
		return -1;
	return export_sched_events(export, err);
}
