/*
 * cpu_util.c - how busy each core and each thread was over time.
 *
 * Time is divided into intervals of a round length that begin at the start of the collection. A
 * span on a core adds what it has in each.
 */
#include <stdlib.h>
#include <string.h>

#include "query/states.h"
#include "base/choose.h"
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
	struct cell *cells;
	size_t n, cap;
};

struct worker {
	struct cells threads; /* in order */
	struct cell *cores;   /* by core * intervals + interval */
	size_t core_count;
} __attribute__((aligned(128)));

struct util {
	struct ws_stats *stats;
	uint64_t bin, from,
		to; /* length of an interval; the time covered, from a multiple of it after zero */
	size_t intervals;
	bool cores, threads;
	struct worker *workers;
};

static void add_thread(struct worker *worker, uint64_t interval, uint32_t thread, uint64_t run)
{
	struct cells *cells = &worker->threads;
	struct cell *last = cells->n ? &cells->cells[cells->n - 1] : NULL;

	if (!last || last->thread != thread || last->interval != interval) {
		ws_grow(cells->cells, cells->cap, cells->n + 1);
		last = &cells->cells[cells->n++];
		*last = (struct cell){.interval = interval, .thread = thread, .core = WS_NO_U32};
	}
	last->run += run;
}

enum { MOST_CORES = 65536 };

static void add_core(struct util *util, struct worker *worker, uint64_t interval, uint32_t core,
		     uint64_t run)
{
	if (core >= MOST_CORES)
		return;
	if (core >= worker->core_count) {
		worker->cores = ws_realloc(worker->cores,
					   (core + 1) * util->intervals * sizeof(*worker->cores));
		memset(worker->cores + worker->core_count * util->intervals, 0,
		       (core + 1 - worker->core_count) * util->intervals * sizeof(*worker->cores));
		worker->core_count = core + (size_t)1;
	}
	worker->cores[core * util->intervals + interval].run += run;
}

static void take(void *ctx, uint32_t worker, const struct ws_state *st)
{
	struct util *util = ctx;
	struct worker *worker_w = &util->workers[worker];

	if (st->doing != WS_DOING_RUN)
		return;
	for (uint64_t at = st->start; at < st->end;) {
		uint64_t interval = (at - util->from) / util->bin,
			 stop = util->from + (interval + 1) * util->bin;

		stop = ws_min(stop, st->end);
		if (util->threads)
			add_thread(worker_w, interval, st->thread, stop - at);
		if (util->cores)
			add_core(util, worker_w, interval, st->cpu, stop - at);
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

static void gather(struct util *util, struct cells *all, uint32_t workers)
{
	for (uint32_t w = 0; w < workers; w++) {
		const struct worker *worker = &util->workers[w];

		ws_grow(all->cells, all->cap, all->n + worker->threads.n);
		if (worker->threads.n)
			memcpy(all->cells + all->n, worker->threads.cells,
			       worker->threads.n * sizeof(*all->cells));
		all->n += worker->threads.n;
		for (size_t i = 0; i < worker->core_count * util->intervals; i++) {
			if (!worker->cores[i].run)
				continue;
			ws_grow(all->cells, all->cap, all->n + 1);
			all->cells[all->n++] = (struct cell){i % util->intervals, 0,
							     (uint32_t)(i / util->intervals),
							     worker->cores[i].run};
		}
	}
}

/* By interval, cores before threads. */
static int by_place(const void *first, const void *second)
{
	const struct cell *left = first, *right = second;

	if (left->interval != right->interval)
		return left->interval < right->interval ? -1 : 1;
	if (left->core != right->core)
		return left->core < right->core ? -1 : 1;
	return ws_compare(left->thread, right->thread);
}

static void print_cell(const struct util *util, const struct cell *cell)
{
	const struct ws_thread_info *info = ws_who_thread(util->stats->who, cell->thread);
	uint64_t start = util->from + cell->interval * util->bin,
		 stop = start + util->bin < util->to ? start + util->bin : util->to,
		 length = stop - start;
	struct ws_cell cells[COLUMNS] = {
		[START] = ws_cell_int((int64_t)(start - util->stats->zero)),
		[LENGTH] = ws_cell_int((int64_t)length),
		[UTIL] = ws_cell_real((long double)cell->run * 100 / length),
		[RUN] = ws_cell_int((int64_t)cell->run),
		[CORE] = cell->thread ? ws_cell_null() : ws_cell_int(cell->core),
		[PID] = cell->thread ? ws_cell_int(info->pid) : ws_cell_null(),
		[TID] = cell->thread ? ws_cell_int(info->tid) : ws_cell_null(),
		[NAME] = cell->thread ? ws_cell_text(info->name, strlen(info->name))
				      : ws_cell_null(),
	};

	util->stats->row(util->stats, cells);
}

/* Cells of one core come from several workers: they are added up. */
static void print(struct util *util, uint32_t workers)
{
	struct cells all = {0};

	gather(util, &all, workers);
	if (all.n)
		qsort(all.cells, all.n, sizeof(*all.cells), by_place);
	for (size_t i = 0; i < all.n; i++) {
		while (i + 1 < all.n && !by_place(&all.cells[i], &all.cells[i + 1])) {
			all.cells[i + 1].run += all.cells[i].run;
			i++;
		}
		print_cell(util, &all.cells[i]);
	}
	free(all.cells);
}

static int choose_intervals(struct util *util, struct ws_err *err)
{
	const char *bin = ws_stats_arg(util->stats, "bin=");
	struct ws_stats *stats = util->stats;
	uint64_t last = ws_time_last(stats->report);

	util->cores = ws_stats_arg(stats, "core") || !ws_stats_arg(stats, "thread");
	util->threads = ws_stats_arg(stats, "thread") || !ws_stats_arg(stats, "core");
	util->from = ws_max(stats->time_min, stats->zero);
	util->to = ws_min(stats->time_max, last);
	if (util->to <= util->from)
		return 1;
	util->bin = bin ? strtoull(bin, NULL, 10) : round_length(util->to - util->from);
	if (!util->bin)
		return ws_fail(err, "cpu_util: bin=0: an interval has at least one nanosecond");
	util->from = stats->zero + (util->from - stats->zero) / util->bin * util->bin;
	if ((util->to - util->from) / util->bin >= MOST_INTERVALS)
		return ws_fail(err,
			       "cpu_util: bin=%s makes more than %d intervals; give a longer one "
			       "or --filter-time",
			       bin, MOST_INTERVALS);
	util->intervals = (size_t)((util->to - util->from) / util->bin) + 1;
	return 0;
}

static int run(struct ws_stats *stats, struct ws_err *err)
{
	struct util util = {.stats = stats};
	struct ws_states *states;
	uint32_t count;
	int rc;

	if (!ws_report_rows(stats->report, WS_TABLE_sched))
		return 0;
	rc = choose_intervals(&util, err);
	if (rc)
		return rc < 0 ? -1 : 0;
	states = ws_states_open(stats->report, stats->who, &stats->damaged);
	count = ws_states_workers(states);
	util.workers = aligned_alloc(128, count * sizeof(*util.workers));
	if (!util.workers) {
		ws_states_close(states);
		return ws_fail(err, "out of memory");
	}
	memset(util.workers, 0, count * sizeof(*util.workers));
	ws_states_run(states, ws_max(stats->time_min, util.from), util.to, take, &util);
	print(&util, count);
	for (uint32_t w = 0; w < count; w++) {
		free(util.workers[w].threads.cells);
		free(util.workers[w].cores);
	}
	free(util.workers);
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
