/*
 * gil_sum.c - Python's global interpreter lock by thread: how long each waited for it and held it, and how often it came from
 * another thread.
 */
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "stats/stats.h"

enum { TIME, WAIT, WAITS, WAIT_AVERAGE, WAIT_LONGEST, HELD, HOLDS, HELD_AVERAGE, HELD_LONGEST, HANDED, PID, TID, NAME, COLUMNS };

static const struct ws_column columns[COLUMNS] = {
    [TIME] = {"Wait", WS_KIND_PERCENT},
    [WAIT] = {"Wait Time", WS_KIND_TIME},
    [WAITS] = {"Waits", WS_KIND_COUNT},
    [WAIT_AVERAGE] = {"Avg Wait", WS_KIND_MEAN},
    [WAIT_LONGEST] = {"Max Wait", WS_KIND_TIME},
    [HELD] = {"Held Time", WS_KIND_TIME},
    [HOLDS] = {"Holds", WS_KIND_COUNT},
    [HELD_AVERAGE] = {"Avg Held", WS_KIND_MEAN},
    [HELD_LONGEST] = {"Max Held", WS_KIND_TIME},
    [HANDED] = {"Handovers", WS_KIND_COUNT},
    [PID] = {"PID", WS_KIND_ID},
    [TID] = {"TID", WS_KIND_ID},
    [NAME] = {"Thread", WS_KIND_TEXT},
};

struct sum {
	uint64_t time, count, longest;
};

struct line {
	uint32_t thread;
	struct sum wait, held;
	uint64_t handed; /* times that it took the lock after another thread of its process */
};

struct hold {
	uint64_t start;
	uint32_t process, line;
};

struct gil {
	struct line *v;
	size_t n, cap;
	struct hold *holds;
	size_t hold_count, holds_cap;
};

static void add(struct sum *s, uint64_t length)
{
	s->time += length;
	s->count++;
	s->longest = length > s->longest ? length : s->longest;
}

/* Rows are in order of thread and start. */
static void read_spans(struct ws_stats *s, struct gil *g)
{
	struct ws_scan sc = {
	    .table = WS_TABLE_gil,
	    .columns = WS_COL(gil, start) | WS_COL(gil, end) | WS_COL(gil, thread) | WS_COL(gil, state),
	    .time_min = s->time_min,
	    .time_max = s->time_max,
	};
	struct ws_rows r;

	ws_rows_load(s->r, &sc, &r, NULL);
	s->damaged += r.damaged;
	for (size_t i = 0; i < r.rows; i++) {
		uint64_t start = r.col[ws_gil_start][i], end = r.col[ws_gil_end][i], state = r.col[ws_gil_state][i];
		uint32_t thread = (uint32_t)r.col[ws_gil_thread][i];

		if (end == WS_NO_TIME || end < start) {
			*(end == WS_NO_TIME ? &s->unended : &s->backwards) += 1;
			continue;
		}
		if (state != WS_GIL_WAITS && state != WS_GIL_HOLDS)
			continue;
		if (!g->n || g->v[g->n - 1].thread != thread) {
			ws_grow(g->v, g->cap, g->n + 1);
			g->v[g->n++] = (struct line){.thread = thread};
		}
		add(state == WS_GIL_WAITS ? &g->v[g->n - 1].wait : &g->v[g->n - 1].held, end - start);
		if (state == WS_GIL_HOLDS) {
			ws_grow(g->holds, g->holds_cap, g->hold_count + 1);
			g->holds[g->hold_count++] =
			    (struct hold){start, ws_who_thread(s->who, thread)->process, (uint32_t)g->n - 1};
		}
	}
	ws_rows_free(&r);
}

static int by_process(const void *a, const void *b)
{
	const struct hold *x = a, *y = b;

	if (x->process != y->process)
		return x->process < y->process ? -1 : 1;
	return x->start < y->start ? -1 : x->start > y->start;
}

static void count_handovers(struct gil *g)
{
	if (g->hold_count)
		qsort(g->holds, g->hold_count, sizeof(*g->holds), by_process);
	for (size_t i = 1; i < g->hold_count; i++)
		if (g->holds[i].process == g->holds[i - 1].process && g->holds[i].line != g->holds[i - 1].line)
			g->v[g->holds[i].line].handed++;
}

static int by_wait(const void *a, const void *b)
{
	const struct line *x = a, *y = b;

	if (x->wait.time != y->wait.time)
		return x->wait.time > y->wait.time ? -1 : 1;
	if (x->held.time != y->held.time)
		return x->held.time > y->held.time ? -1 : 1;
	return x->thread < y->thread ? -1 : x->thread > y->thread;
}

static struct ws_cell mean(const struct sum *s)
{
	return ws_cell_real(s->count ? (long double)s->time / s->count : 0);
}

static int run(struct ws_stats *s, struct ws_err *e)
{
	struct gil g = {0};
	uint64_t sum = 0;

	(void)e;
	read_spans(s, &g);
	count_handovers(&g);
	if (g.n)
		qsort(g.v, g.n, sizeof(*g.v), by_wait);
	for (size_t i = 0; i < g.n; i++)
		sum += g.v[i].wait.time;
	for (size_t i = 0; i < g.n; i++) {
		const struct line *l = &g.v[i];
		const struct ws_thread_info *t = ws_who_thread(s->who, l->thread);
		struct ws_cell c[COLUMNS] = {
		    [TIME] = ws_cell_real(sum ? (long double)l->wait.time * 100 / sum : 0),
		    [WAIT] = ws_cell_int((int64_t)l->wait.time),
		    [WAITS] = ws_cell_int((int64_t)l->wait.count),
		    [WAIT_AVERAGE] = mean(&l->wait),
		    [WAIT_LONGEST] = ws_cell_int((int64_t)l->wait.longest),
		    [HELD] = ws_cell_int((int64_t)l->held.time),
		    [HOLDS] = ws_cell_int((int64_t)l->held.count),
		    [HELD_AVERAGE] = mean(&l->held),
		    [HELD_LONGEST] = ws_cell_int((int64_t)l->held.longest),
		    [HANDED] = ws_cell_int((int64_t)l->handed),
		    [PID] = ws_cell_int(t->pid),
		    [TID] = ws_cell_int(t->tid),
		    [NAME] = ws_cell_text(t->name, strlen(t->name)),
		};

		s->row(s, c);
	}
	free(g.v);
	free(g.holds);
	return 0;
}

const struct ws_stat ws_stat_gil_sum = {
    .name = "gil_sum",
    .title = "Python's Interpreter Lock by Thread",
    .about = "How long each thread waited for Python's global interpreter lock (GIL) and held it; Handovers are the times that it "
	     "got the lock "
	     "after another thread of its process.",
    .what = "waits for Python's interpreter lock",
    .columns = columns,
    .column_count = COLUMNS,
    .run = run,
};
