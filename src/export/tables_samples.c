/*
 * tables_samples.c - CPU samples and scheduling in the form that people know: COMPOSITE_EVENTS with a number for each sample,
 * SCHED_EVENTS with a row where a thread goes on a core and one where it leaves it.
 */
#include <string.h>

#include "export/tables.h"

struct samples {
	struct ws_export *x;
	int64_t number;
};

/* ---- COMPOSITE_EVENTS ---- */

static const struct ws_xcolumn sample_columns[] = {
    {"id", "INTEGER", true, true, "Number of the sample"},
    {"start", "INTEGER", true, false, "When (ns)"},
    {"cpu", "INTEGER", false, false, "Core"},
    {"threadState", "INTEGER", false, false, "ENUM_SAMPLING_THREAD_STATE(id)"},
    {"globalTid", "INTEGER", false, false, "Thread: pid << 24 | tid"},
    {"cpuCycles", "INTEGER", true, false, "What the sample stands for: cycles, or nanoseconds when flags has bit 1"},
    {"eventId", "INTEGER", false, false, "PMU_EVENT_REQUESTS(id): the counter that fired"},
    {"frameId", "INTEGER", false, false, "WARPSIGHT_FRAME(id): where it ran"},
    {"callersId", "INTEGER", false, false, "WARPSIGHT_STACK(id): the stack below"},
    {"gilState", "INTEGER", false, false, "ENUM_WARPSIGHT_GIL_STATE(id)"},
    {"flags", "INTEGER", false, false, "ENUM_WARPSIGHT_SAMPLE_FLAGS(id)"},
};

static const struct ws_xtable samples_table = {"COMPOSITE_EVENTS", "CPU samples: what a thread ran at a moment", sample_columns,
					       WS_COUNT(sample_columns)};

static struct ws_xcell id_cell(uint64_t v)
{
	return v ? ws_x_int((int64_t)v) : ws_x_null();
}

/* Samples are numbered as they are read, in time or not, so that a number means the same in every export of the report. */
static bool fill_sample(void *ctx, const uint64_t *v, struct ws_xcell *c)
{
	struct samples *s = ctx;
	int64_t number = ++s->number;

	if (!ws_export_in_time(s->x, v[ws_sample_start], WS_NO_TIME))
		return false;
	c[0] = ws_x_int(number);
	c[1] = ws_x_time(s->x, v[ws_sample_start]);
	c[2] = v[ws_sample_cpu] == WS_NO_U32 ? ws_x_null() : ws_x_int((int64_t)v[ws_sample_cpu]);
	c[3] = ws_x_int((int64_t)v[ws_sample_state]);
	c[4] = ws_x_thread(s->x, v[ws_sample_thread]);
	c[5] = ws_x_uint(v[ws_sample_weight]);
	c[6] = id_cell(v[ws_sample_event]);
	c[7] = id_cell(v[ws_sample_frame]);
	c[8] = id_cell(v[ws_sample_callers]);
	c[9] = ws_x_int((int64_t)v[ws_sample_gil]);
	c[10] = ws_x_int((int64_t)v[ws_sample_flags]);
	return true;
}

/* ---- SCHED_EVENTS ---- */

static const struct ws_xcolumn sched_columns[] = {
    {"start", "INTEGER", true, false, "When (ns)"},
    {"cpu", "INTEGER", true, false, "Core"},
    {"isSchedIn", "INTEGER", true, false, "1 where the thread goes on the core, 0 where it leaves it"},
    {"globalTid", "INTEGER", false, false, "Thread: pid << 24 | tid"},
};

static const struct ws_xtable sched_table = {"SCHED_EVENTS", "Threads going on cores and leaving them, a pair of rows for each span",
					     sched_columns, WS_COUNT(sched_columns)};

static int put_switch(struct ws_export *x, const uint64_t *v, uint64_t at, bool in, struct ws_err *e)
{
	if (at == WS_NO_TIME || !ws_export_in_time(x, at, WS_NO_TIME))
		return 0;
	return ws_export_row(x,
			     (struct ws_xcell[]){ws_x_time(x, at), ws_x_int(v[ws_sched_cpu] == WS_NO_U32 ? -1 : (int64_t)v[ws_sched_cpu]),
						 ws_x_int(in), ws_x_thread(x, v[ws_sched_thread])},
			     e);
}

static int export_switches(struct ws_export *x, struct ws_err *e)
{
	struct ws_cursor *c;
	const uint64_t *v;
	int rc = ws_export_table(x, &sched_table, e);

	if (rc < 0 || x->skipped)
		return rc;
	c = ws_cursor_open(x->r, WS_TABLE_sched, 0, UINT64_MAX);
	while (!rc && ws_cursor_next(c, &v))
		if (put_switch(x, v, v[ws_sched_start], true, e) < 0 || put_switch(x, v, v[ws_sched_end], false, e) < 0)
			rc = -1;
	ws_cursor_close(c);
	return rc;
}

int ws_export_samples(struct ws_export *x, struct ws_err *e)
{
	struct samples s = {.x = x};

	if (ws_export_rows(x, &samples_table, WS_TABLE_sample, fill_sample, &s, e) < 0)
		return -1;
	return export_switches(x, e);
}
