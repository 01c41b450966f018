/*
 * tables_samples.c - CPU samples and scheduling in the form that people know: COMPOSITE_EVENTS with
 * a number for each sample, SCHED_EVENTS with a row where a thread goes on a core and one where it
 * leaves it.
 */
#include <stdlib.h>
#include <string.h>

#include "views/tables.h"

struct samples {
	struct ws_export *export;
	int64_t number;
};

/* ---- COMPOSITE_EVENTS ---- */

static const struct ws_xcolumn sample_columns[] = {
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

static const struct ws_xtable samples_table = {"COMPOSITE_EVENTS",
					       "CPU samples: what a thread ran at a moment",
					       sample_columns, WS_COUNT(sample_columns)};

static struct ws_xcell id_cell(uint64_t v)
{
	return v ? ws_x_int((int64_t)v) : ws_x_null();
}

/* Samples are numbered as they are read, in time or not, so that a number means the same in every
 * export of the report. */
static bool fill_sample(void *ctx, const uint64_t *values, struct ws_xcell *cell)
{
	struct samples *samples = ctx;
	int64_t number = ++samples->number;

	if (!ws_export_in_time(samples->export, values[ws_sample_start], WS_NO_TIME))
		return false;
	cell[0] = ws_x_int(number);
	cell[1] = ws_x_time(samples->export, values[ws_sample_start]);
	cell[2] = values[ws_sample_cpu] == WS_NO_U32 ? ws_x_null()
						     : ws_x_int((int64_t)values[ws_sample_cpu]);
	cell[3] = ws_x_int((int64_t)values[ws_sample_state]);
	cell[4] = ws_x_thread(samples->export, values[ws_sample_thread]);
	cell[5] = ws_x_uint(values[ws_sample_weight]);
	cell[6] = id_cell(values[ws_sample_event]);
	cell[7] = id_cell(values[ws_sample_frame]);
	cell[8] = id_cell(values[ws_sample_callers]);
	cell[9] = ws_x_int((int64_t)values[ws_sample_gil]);
	cell[10] = ws_x_int((int64_t)values[ws_sample_flags]);
	cell[11] = id_cell(values[ws_sample_time]		       ? values[ws_sample_time]
			   : values[ws_sample_flags] & WS_SAMPLE_CLOCK ? values[ws_sample_weight]
								       : 0);
	return true;
}

/* ---- SCHED_EVENTS ---- */

static const struct ws_xcolumn sched_columns[] = {
	{"start", "INTEGER", true, false, "When (ns)"},
	{"cpu", "INTEGER", true, false, "Core"},
	{"isSchedIn", "INTEGER", true, false,
	 "1 where the thread goes on the core, 0 where it leaves it"},
	{"globalTid", "INTEGER", false, false, "Thread: pid << 24 | tid"},
};

static const struct ws_xtable sched_table = {
	"SCHED_EVENTS", "Threads going on cores and leaving them, a pair of rows for each span",
	sched_columns, WS_COUNT(sched_columns)};

/* A thread's leaving a core, until its turn comes: spans come in order of their starts, rows in
 * order of time. */
struct leaving {
	uint64_t at;
	uint32_t thread, cpu;
};

struct switches {
	struct ws_export *export;
	struct ws_err *err;
	struct leaving *heap; /* the earliest first; as many as run at once */
	size_t n, cap;
};

static void push(struct switches *switches, struct leaving leaving)
{
	size_t i;

	ws_grow(switches->heap, switches->cap, switches->n + 1);
	for (i = switches->n++; i && switches->heap[(i - 1) / 2].at > leaving.at; i = (i - 1) / 2)
		switches->heap[i] = switches->heap[(i - 1) / 2];
	switches->heap[i] = leaving;
}

static struct leaving pop(struct switches *switches)
{
	struct leaving first = switches->heap[0], last = switches->heap[--switches->n];
	size_t i = 0;

	for (size_t k; (k = 2 * i + 1) < switches->n; i = k) {
		k += k + 1 < switches->n && switches->heap[k + 1].at < switches->heap[k].at;
		if (last.at <= switches->heap[k].at)
			break;
		switches->heap[i] = switches->heap[k];
	}
	switches->heap[i] = last;
	return first;
}

static int put_switch(struct switches *switches, const struct leaving *leaving, bool in)
{
	struct ws_xcell cells[] = {ws_x_time(switches->export, leaving->at),
				   ws_x_int(leaving->cpu == WS_NO_U32 ? -1 : (int64_t)leaving->cpu),
				   ws_x_int(in), ws_x_thread(switches->export, leaving->thread)};

	return ws_export_in_time(switches->export, leaving->at, WS_NO_TIME)
		       ? ws_export_row(switches->export, cells, switches->err)
		       : 0;
}

/* Write the rows of threads that left their cores up to `until`. */
static int put_leaving(struct switches *switches, uint64_t until)
{
	while (switches->n && switches->heap[0].at <= until) {
		struct leaving leaving = pop(switches);

		if (put_switch(switches, &leaving, false) < 0)
			return -1;
	}
	return 0;
}

static int export_switches(struct ws_export *export, struct ws_err *err)
{
	struct switches switches = {.export = export, .err = err};
	struct ws_cursor *cursor;
	const uint64_t *values;
	int rc = ws_export_table(export, &sched_table, err);

	if (rc < 0 || !ws_export_wants(export, sched_table.name))
		return rc;
	cursor = ws_cursor_open(export->report, WS_TABLE_sched, 0, UINT64_MAX);
	while (!rc && ws_cursor_next(cursor, &values)) {
		struct leaving leaving = {values[ws_sched_start], (uint32_t)values[ws_sched_thread],
					  (uint32_t)values[ws_sched_cpu]};

		if (put_leaving(&switches, leaving.at) < 0 ||
		    put_switch(&switches, &leaving, true) < 0)
			rc = -1;
		leaving.at = values[ws_sched_end];
		if (leaving.at != WS_NO_TIME)
			push(&switches, leaving);
	}
	ws_cursor_close(cursor);
	if (!rc)
		rc = put_leaving(&switches, UINT64_MAX);
	free(switches.heap);
	return rc;
}

int ws_export_samples(struct ws_export *export, struct ws_err *err)
{
	struct samples samples = {.export = export};

	if (ws_export_rows(export, &samples_table, WS_TABLE_sample, fill_sample, &samples, err) < 0)
		return -1;
	return export_switches(export, err);
}
