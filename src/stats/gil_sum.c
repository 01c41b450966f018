/*
 * gil_sum.c - Python's global interpreter lock by thread: how long each waited for it and held it,
 * and how often it came from another thread.
 *
 * Workers sum up by thread as rows come, in any order. Only the moments at which the lock was taken
 * are kept, to be sorted by their digits.
 */
#include <stdlib.h>
#include <string.h>

#include "base/sort.h"
#include "stats/keyed.h"
#include "stats/stats.h"

enum {
	TIME,
	WAIT,
	WAITS,
	WAIT_AVERAGE,
	WAIT_LONGEST,
	HELD,
	HOLDS,
	HELD_AVERAGE,
	HELD_LONGEST,
	HANDED,
	PID,
	TID,
	NAME,
	COLUMNS
};

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

struct worker {
	struct ws_keyed threads; /* numbers only: places in `v` */
	struct line *v;
	size_t n, cap;
	struct ws_keyed_value *holds; /* when it took the lock, and the line */
	size_t hold_count, holds_cap;
	uint64_t unended, backwards;
	char apart[128]; /* from the next worker's */
};

struct gil {
	const struct ws_stats *s;
	struct worker *workers;
	uint32_t count;
	struct worker all;
};

static void add(struct sum *s, uint64_t length)
{
	s->time += length;
	s->count++;
	s->longest = length > s->longest ? length : s->longest;
}

static size_t line_of(struct worker *w, uint64_t thread)
{
	ws_keyed_get(&w->threads, &thread);
	if (w->threads.last == w->n) {
		ws_grow(w->v, w->cap, w->n + 1);
		w->v[w->n++] = (struct line){.thread = (uint32_t)thread};
	}
	return w->threads.last;
}

static int scan(void *ctx, const struct ws_batch *b)
{
	struct worker *w = &((struct gil *)ctx)->workers[b->worker];

	ws_grow(w->holds, w->holds_cap, w->hold_count + b->rows);
	for (size_t i = 0; i < b->rows; i++) {
		uint64_t start = b->col[ws_gil_start][i], end = b->col[ws_gil_end][i],
			 state = b->col[ws_gil_state][i];
		size_t line;

		if (ws_unlikely(end == WS_NO_TIME || end < start)) {
			*(end == WS_NO_TIME ? &w->unended : &w->backwards) += 1;
			continue;
		}
		if (state != WS_GIL_WAITS && state != WS_GIL_HOLDS)
			continue;
		line = line_of(w, (uint32_t)b->col[ws_gil_thread][i]);
		add(state == WS_GIL_WAITS ? &w->v[line].wait : &w->v[line].held, end - start);
		if (state == WS_GIL_HOLDS)
			w->holds[w->hold_count++] = (struct ws_keyed_value){start, line};
	}
	return 0;
}

static void read_spans(struct ws_stats *s, struct gil *g)
{
	struct ws_scan sc = {
		.table = WS_TABLE_gil,
		.columns = WS_COL(gil, start) | WS_COL(gil, end) | WS_COL(gil, thread) |
			   WS_COL(gil, state),
		.time_min = s->time_min,
		.time_max = s->time_max,
	};
	uint64_t damaged = 0;

	g->count = ws_scan_workers(&sc);
	g->workers = ws_calloc(g->count, sizeof(*g->workers));
	for (uint32_t w = 0; w < g->count; w++)
		g->workers[w].threads.words = 1;
	ws_scan_run(s->r, &sc, scan, g, &damaged);
	s->damaged += damaged;
}

static void add_sums(struct sum *to, const struct sum *s)
{
	to->time += s->time;
	to->count += s->count;
	to->longest = s->longest > to->longest ? s->longest : to->longest;
}

/* A worker's lines and holds among those of all; frees it. */
static void take_over(struct gil *g, struct worker *w)
{
	size_t *line = ws_malloc((w->n + 1) * sizeof(*line));

	for (size_t i = 0; i < w->n; i++) {
		line[i] = line_of(&g->all, w->v[i].thread);
		add_sums(&g->all.v[line[i]].wait, &w->v[i].wait);
		add_sums(&g->all.v[line[i]].held, &w->v[i].held);
	}
	for (size_t i = 0; i < w->hold_count; i++)
		g->all.holds[g->all.hold_count++] =
			(struct ws_keyed_value){w->holds[i].key, line[w->holds[i].value]};
	g->all.unended += w->unended;
	g->all.backwards += w->backwards;
	ws_keyed_free(&w->threads);
	free(line);
	free(w->v);
	free(w->holds);
}

static void together(struct gil *g)
{
	size_t holds = 0;

	for (uint32_t w = 0; w < g->count; w++)
		holds += g->workers[w].hold_count;
	g->all.threads.words = 1;
	g->all.holds = ws_malloc((holds + 1) * sizeof(*g->all.holds));
	for (uint32_t w = 0; w < g->count; w++)
		take_over(g, &g->workers[w]);
	free(g->workers);
}

static uint32_t process_of(const struct gil *g, const struct ws_keyed_value *hold)
{
	return ws_who_thread(g->s->who, g->all.v[hold->value].thread)->process;
}

/* Holds of two threads that began at once, by the threads' numbers. */
static int by_thread(const void *a, const void *b, void *ctx)
{
	const struct line *lines = ctx;
	uint32_t x = lines[((const struct ws_keyed_value *)a)->value].thread,
		 y = lines[((const struct ws_keyed_value *)b)->value].thread;

	return x < y ? -1 : x > y;
}

/* By process, then by time. */
static void sort_holds(struct gil *g)
{
	struct ws_keyed_value *v = g->all.holds = ws_sort_by_key(g->all.holds, g->all.hold_count);
	size_t n = g->all.hold_count, next;

	for (size_t i = 0; i < n; i = next) {
		for (next = i + 1; next < n && v[next].key == v[i].key;)
			next++;
		if (next - i > 1)
			qsort_r(v + i, next - i, sizeof(*v), by_thread, g->all.v);
	}
	for (size_t i = 0; i < n; i++)
		v[i].key = process_of(g, &v[i]);
	g->all.holds = ws_sort_by_key(v, n);
}

static void count_handovers(struct gil *g)
{
	const struct ws_keyed_value *v;

	if (!g->all.hold_count)
		return;
	sort_holds(g);
	v = g->all.holds;
	for (size_t i = 1; i < g->all.hold_count; i++)
		if (v[i].key == v[i - 1].key && v[i].value != v[i - 1].value)
			g->all.v[v[i].value].handed++;
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
	struct gil g = {.s = s};
	struct worker *all = &g.all;
	uint64_t sum = 0;

	(void)e;
	read_spans(s, &g);
	together(&g);
	s->unended += all->unended;
	s->backwards += all->backwards;
	count_handovers(&g);
	if (all->n)
		qsort(all->v, all->n, sizeof(*all->v), by_wait);
	for (size_t i = 0; i < all->n; i++)
		sum += all->v[i].wait.time;
	for (size_t i = 0; i < all->n; i++) {
		const struct line *l = &all->v[i];
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
	ws_keyed_free(&all->threads);
	free(all->v);
	free(all->holds);
	return 0;
}

const struct ws_stat ws_stat_gil_sum = {
	.name = "gil_sum",
	.title = "Python's Interpreter Lock by Thread",
	.about = "How long each thread waited for Python's global interpreter lock (GIL) and held "
		 "it; Handovers are the times that it "
		 "got the lock "
		 "after another thread of its process.",
	.what = "waits for Python's interpreter lock",
	.columns = columns,
	.column_count = COLUMNS,
	.run = run,
};
