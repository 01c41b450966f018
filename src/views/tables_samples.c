/*
 * tables_samples.c - CPU samples and scheduling in the form that people know: COMPOSITE_EVENTS with
 * a number for each sample, SCHED_EVENTS with a row where a thread goes on a core and one where it
 * leaves it.
 */
#include <stdlib.h>
#include <string.h>

#include "views/tables.h"

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
	{"cpuCycles", "INTEGER", true, false,
	 "What the sample stands for: cycles, or nanoseconds when flags has bit 1"},
	{"eventId", "INTEGER", false, false, "PMU_EVENT_REQUESTS(id): the counter that fired"},
	{"frameId", "INTEGER", false, false, "WARPSIGHT_FRAME(id): where it ran"},
	{"callersId", "INTEGER", false, false, "WARPSIGHT_STACK(id): the stack below"},
	{"gilState", "INTEGER", false, false, "ENUM_WARPSIGHT_GIL_STATE(id)"},
	{"flags", "INTEGER", false, false, "ENUM_WARPSIGHT_SAMPLE_FLAGS(id)"},
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
	struct ws_export *x;
	struct ws_err *e;
	struct leaving *heap; /* the earliest first; as many as run at once */
	size_t n, cap;
};

static void push(struct switches *s, struct leaving l)
{
	size_t i;

	ws_grow(s->heap, s->cap, s->n + 1);
	for (i = s->n++; i && s->heap[(i - 1) / 2].at > l.at; i = (i - 1) / 2)
		s->heap[i] = s->heap[(i - 1) / 2];
	s->heap[i] = l;
}

static struct leaving pop(struct switches *s)
{
	struct leaving first = s->heap[0], last = s->heap[--s->n];
	size_t i = 0;

	for (size_t k; (k = 2 * i + 1) < s->n; i = k) {
		k += k + 1 < s->n && s->heap[k + 1].at < s->heap[k].at;
		if (last.at <= s->heap[k].at)
			break;
		s->heap[i] = s->heap[k];
	}
	s->heap[i] = last;
	return first;
}

static int put_switch(struct switches *s, const struct leaving *l, bool in)
{
	struct ws_xcell cells[] = {ws_x_time(s->x, l->at),
				   ws_x_int(l->cpu == WS_NO_U32 ? -1 : (int64_t)l->cpu),
				   ws_x_int(in), ws_x_thread(s->x, l->thread)};

	return ws_export_in_time(s->x, l->at, WS_NO_TIME) ? ws_export_row(s->x, cells, s->e) : 0;
}

/* Write the rows of threads that left their cores up to `until`. */
static int put_leaving(struct switches *s, uint64_t until)
{
	while (s->n && s->heap[0].at <= until) {
		struct leaving l = pop(s);

		if (put_switch(s, &l, false) < 0)
			return -1;
	}
	return 0;
}

static int export_switches(struct ws_export *x, struct ws_err *e)
{
	struct switches s = {.x = x, .e = e};
	struct ws_cursor *c;
	const uint64_t *v;
	int rc = ws_export_table(x, &sched_table, e);

	if (rc < 0 || !ws_export_wants(x, sched_table.name))
		return rc;
	c = ws_cursor_open(x->r, WS_TABLE_sched, 0, UINT64_MAX);
	while (!rc && ws_cursor_next(c, &v)) {
		struct leaving l = {v[ws_sched_start], (uint32_t)v[ws_sched_thread],
				    (uint32_t)v[ws_sched_cpu]};

		if (put_leaving(&s, l.at) < 0 || put_switch(&s, &l, true) < 0)
			rc = -1;
		l.at = v[ws_sched_end];
		if (l.at != WS_NO_TIME)
			push(&s, l);
	}
	ws_cursor_close(c);
	if (!rc)
		rc = put_leaving(&s, UINT64_MAX);
	free(s.heap);
	return rc;
}

int ws_export_samples(struct ws_export *x, struct ws_err *e)
{
	struct samples s = {.x = x};

	if (ws_export_rows(x, &samples_table, WS_TABLE_sample, fill_sample, &s, e) < 0)
		return -1;
	return export_switches(x, e);
}
