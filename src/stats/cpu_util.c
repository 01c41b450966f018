/*
 * cpu_util.c - how busy each core and each thread was over time.
 *
 * Time is divided into intervals of a round length that begin at the start of the collection. A
 * span on a core adds what it has in each.
 */
#include <stdlib.h>
#include <string.h>

#include "query/states.h"
#include "query/absent.h"
#include "stats/stats.h"

enum { START, LENGTH, UTIL, RUN, CORE, PID, TID, NAME, COLUMNS };

static const struct ws_column columns[COLUMNS] = {
	[START] = {"Start", WS_KIND_TIME},
	[LENGTH] = {"Duration", WS_KIND_TIME},
	[UTIL] = {"Utilization", WS_KIND_PERCENT},
	[RUN] = {"Run Time", WS_KIND_TIME},
	[CORE] = {"Core", WS_KIND_ID},
	[PID] = {"PID", WS_KIND_ID},
	[TID] = {"TID", WS_KIND_ID},
	[NAME] = {"Thread", WS_KIND_TEXT},
};

static const char *const args[] = {"core", "thread", "bin=", NULL};

enum { INTERVALS = 50, MOST_INTERVALS = 1000000 };

struct cell { /* running time of a core or thread in an interval */
	uint64_t interval;
	uint32_t thread; /* 0 for a core */
	uint32_t core;	 /* WS_NO_U32 for a thread */
	uint64_t run;
};

struct cells {
	struct cell *v;
	size_t n, cap;
};

struct worker {
	struct cells threads; /* in order */
	struct cell *cores;   /* by core * intervals + interval */
	size_t core_count;
} __attribute__((aligned(128)));

struct util {
	struct ws_stats *s;
	uint64_t bin, from,
		to; /* length of an interval; the time covered, from a multiple of it after zero */
	size_t intervals;
	bool cores, threads;
	struct worker *workers;
};

static void add_thread(struct worker *w, uint64_t interval, uint32_t thread, uint64_t run)
{
	struct cells *c = &w->threads;
	struct cell *last = c->n ? &c->v[c->n - 1] : NULL;

	if (!last || last->thread != thread || last->interval != interval) {
		ws_grow(c->v, c->cap, c->n + 1);
		last = &c->v[c->n++];
		*last = (struct cell){.interval = interval, .thread = thread, .core = WS_NO_U32};
	}
	last->run += run;
}

enum { MOST_CORES = 65536 };

static void add_core(struct util *u, struct worker *w, uint64_t interval, uint32_t core,
		     uint64_t run)
{
	if (core >= MOST_CORES)
		return;
	if (core >= w->core_count) {
		w->cores = ws_realloc(w->cores, (core + 1) * u->intervals * sizeof(*w->cores));
		memset(w->cores + w->core_count * u->intervals, 0,
		       (core + 1 - w->core_count) * u->intervals * sizeof(*w->cores));
		w->core_count = core + (size_t)1;
	}
	w->cores[core * u->intervals + interval].run += run;
}

static void take(void *ctx, uint32_t worker, const struct ws_state *st)
{
	struct util *u = ctx;
	struct worker *w = &u->workers[worker];

	if (st->doing != WS_DOING_RUN)
		return;
	for (uint64_t at = st->start; at < st->end;) {
		uint64_t interval = (at - u->from) / u->bin,
			 stop = u->from + (interval + 1) * u->bin;

		stop = stop < st->end ? stop : st->end;
		if (u->threads)
			add_thread(w, interval, st->thread, stop - at);
		if (u->cores)
			add_core(u, w, interval, st->cpu, stop - at);
		at = stop;
	}
}

/* A length of 1, 2 or 5 times a power of ten that makes at most INTERVALS intervals. */
static uint64_t round_length(uint64_t span)
{
	for (uint64_t power = 1;; power *= 10)
		for (int i = 0; i < 3; i++) {
			uint64_t length = power * (i == 0 ? 1 : i == 1 ? 2 : 5);

			if (span / length < INTERVALS || power > UINT64_MAX / 100)
				return length;
		}
}

static void gather(struct util *u, struct cells *all, uint32_t workers)
{
	for (uint32_t w = 0; w < workers; w++) {
		const struct worker *k = &u->workers[w];

		ws_grow(all->v, all->cap, all->n + k->threads.n);
		if (k->threads.n)
			memcpy(all->v + all->n, k->threads.v, k->threads.n * sizeof(*all->v));
		all->n += k->threads.n;
		for (size_t i = 0; i < k->core_count * u->intervals; i++) {
			if (!k->cores[i].run)
				continue;
			ws_grow(all->v, all->cap, all->n + 1);
			all->v[all->n++] = (struct cell){
				i % u->intervals, 0, (uint32_t)(i / u->intervals), k->cores[i].run};
		}
	}
}

/* By interval, cores before threads. */
static int by_place(const void *a, const void *b)
{
	const struct cell *x = a, *y = b;

	if (x->interval != y->interval)
		return x->interval < y->interval ? -1 : 1;
	if (x->core != y->core)
		return x->core < y->core ? -1 : 1;
	return x->thread < y->thread ? -1 : x->thread > y->thread;
}

static void print_cell(const struct util *u, const struct cell *k)
{
	const struct ws_thread_info *t = ws_who_thread(u->s->who, k->thread);
	uint64_t start = u->from + k->interval * u->bin,
		 stop = start + u->bin < u->to ? start + u->bin : u->to, length = stop - start;
	struct ws_cell c[COLUMNS] = {
		[START] = ws_cell_int((int64_t)(start - u->s->zero)),
		[LENGTH] = ws_cell_int((int64_t)length),
		[UTIL] = ws_cell_real((long double)k->run * 100 / length),
		[RUN] = ws_cell_int((int64_t)k->run),
		[CORE] = k->thread ? ws_cell_null() : ws_cell_int(k->core),
		[PID] = k->thread ? ws_cell_int(t->pid) : ws_cell_null(),
		[TID] = k->thread ? ws_cell_int(t->tid) : ws_cell_null(),
		[NAME] = k->thread ? ws_cell_text(t->name, strlen(t->name)) : ws_cell_null(),
	};

	u->s->row(u->s, c);
}

/* Cells of one core come from several workers: they are added up. */
static void print(struct util *u, uint32_t workers)
{
	struct cells all = {0};

	gather(u, &all, workers);
	if (all.n)
		qsort(all.v, all.n, sizeof(*all.v), by_place);
	for (size_t i = 0; i < all.n; i++) {
		while (i + 1 < all.n && !by_place(&all.v[i], &all.v[i + 1])) {
			all.v[i + 1].run += all.v[i].run;
			i++;
		}
		print_cell(u, &all.v[i]);
	}
	free(all.v);
}

static int choose_intervals(struct util *u, struct ws_err *e)
{
	const char *bin = ws_stats_arg(u->s, "bin=");
	struct ws_stats *s = u->s;
	uint64_t last = ws_time_last(s->r);

	u->cores = ws_stats_arg(s, "core") || !ws_stats_arg(s, "thread");
	u->threads = ws_stats_arg(s, "thread") || !ws_stats_arg(s, "core");
	u->from = s->time_min > s->zero ? s->time_min : s->zero;
	u->to = s->time_max < last ? s->time_max : last;
	if (u->to <= u->from)
		return 1;
	u->bin = bin ? strtoull(bin, NULL, 10) : round_length(u->to - u->from);
	if (!u->bin)
		return ws_fail(e, "cpu_util: bin=0: an interval has at least one nanosecond");
	u->from = s->zero + (u->from - s->zero) / u->bin * u->bin;
	if ((u->to - u->from) / u->bin >= MOST_INTERVALS)
		return ws_fail(e,
			       "cpu_util: bin=%s makes more than %d intervals; give a longer one "
			       "or --filter-time",
			       bin, MOST_INTERVALS);
	u->intervals = (size_t)((u->to - u->from) / u->bin) + 1;
	return 0;
}

static int run(struct ws_stats *s, struct ws_err *e)
{
	struct util u = {.s = s};
	struct ws_states *states;
	uint32_t count;
	int rc;

	if (!ws_report_rows(s->r, WS_TABLE_sched))
		return 0;
	rc = choose_intervals(&u, e);
	if (rc)
		return rc < 0 ? -1 : 0;
	states = ws_states_open(s->r, s->who, &s->damaged);
	count = ws_states_workers(states);
	u.workers = aligned_alloc(128, count * sizeof(*u.workers));
	if (!u.workers) {
		ws_states_close(states);
		return ws_fail(e, "out of memory");
	}
	memset(u.workers, 0, count * sizeof(*u.workers));
	ws_states_run(states, s->time_min > u.from ? s->time_min : u.from, u.to, take, &u);
	print(&u, count);
	for (uint32_t w = 0; w < count; w++) {
		free(u.workers[w].threads.v);
		free(u.workers[w].cores);
	}
	free(u.workers);
	ws_states_close(states);
	return 0;
}

const struct ws_stat ws_stat_cpu_util = {
	.name = "cpu_util",
	.title = "CPU Utilization over Time",
	.about = "Share of each interval in which a core ran one of the recorded threads, and in "
		 "which each thread ran. Rows of cores "
		 "have no "
		 "thread, rows of threads no core; what did not run in an interval has no row. "
		 ":core and :thread leave out the others, "
		 ":bin=<ns> is the length of an interval; without it, a round one that makes at "
		 "most 50.",
	.what = "context switches",
	.why = ws_why_no_switches,
	.args = args,
	.columns = columns,
	.column_count = COLUMNS,
	.run = run,
};
