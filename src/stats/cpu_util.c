/*
 * cpu_util.c - how busy each core and each thread was over time.
 *
 * Time since the start of the collection is divided into intervals of a round length. Each interval
 * gets the part of a span that lies in it.
 */
#include <stdlib.h>
#include <string.h>

#include "query/states.h"
#include "base/choose.h"
#include "query/absent.h"
#include "stats/stats.h"

enum { START, LENGTH, UTIL, RUN, UNKNOWN, CORE, PID, TID, NAME, COLUMNS };

static const struct ws_column columns[COLUMNS] = {
	[START] = {"Start", WS_KIND_TIME},
	[LENGTH] = {"Duration", WS_KIND_TIME},
	[UTIL] = {"Utilization", WS_KIND_PERCENT},
	[RUN] = {"Run Time", WS_KIND_TIME},
	[UNKNOWN] = {"Unknown Time", WS_KIND_TIME},
	[CORE] = {"Core", WS_KIND_ID},
	[PID] = {"PID", WS_KIND_ID},
	[TID] = {"TID", WS_KIND_ID},
	[NAME] = {"Thread", WS_KIND_TEXT},
};

static const char *const args[] = {"core", "thread", "bin=", NULL};

enum { INTERVALS = 50, MOST_INTERVALS = 1000000 };

struct util_cell { /* running and unknown time of a core or thread in an interval */
	uint64_t interval;
	uint32_t thread; /* 0 for a core */
	uint32_t core;	 /* WS_NO_U32 for a thread */
	uint64_t run, unknown;
};

struct util_cells {
	struct util_cell *cells;
	size_t count, capacity;
};

struct util_worker {
	struct util_cells threads; /* in order */
	struct util_cell *cores;   /* by core * intervals + interval */
	size_t core_count;
} __attribute__((aligned(128)));

struct cpu_util {
	struct ws_stats *stats;
	uint64_t interval_length; /* length of an interval, ns */
	uint64_t from, to;	  /* the time covered; `from` is a multiple of `bin` after zero */
	size_t intervals;
	bool cores, threads;
	struct util_worker *workers;
};

/* The cell of a thread and interval; both ascend from call to call. */
static struct util_cell *find_thread_cell(struct util_worker *worker, uint64_t interval,
					  uint32_t thread)
{
	struct util_cells *cells = &worker->threads;
	struct util_cell *last = NULL;

	if (cells->count)
		last = &cells->cells[cells->count - 1];
	if (!last || last->thread != thread || last->interval != interval) {
		ws_grow(cells->cells, cells->capacity, cells->count + 1);
		last = &cells->cells[cells->count++];
		*last = (struct util_cell){
			.interval = interval, .thread = thread, .core = WS_NO_U32};
	}
	return last;
}

enum { MOST_CORES = 65536 };

/* The cell of a core and interval; NULL when the core number is impossible. */
static struct util_cell *find_core_cell(struct cpu_util *util, struct util_worker *worker,
					uint64_t interval, uint32_t core)
{
	if (core >= MOST_CORES)
		return NULL;
	if (core >= worker->core_count) {
		worker->cores = ws_realloc(worker->cores,
					   (core + 1) * util->intervals * sizeof(*worker->cores));
		memset(worker->cores + worker->core_count * util->intervals, 0,
		       (core + 1 - worker->core_count) * util->intervals * sizeof(*worker->cores));
		worker->core_count = core + (size_t)1;
	}
	return &worker->cores[core * util->intervals + interval];
}

static void add_time(struct util_cell *cell, bool run, uint64_t length)
{
	if (cell && run)
		cell->run += length;
	else if (cell)
		cell->unknown += length;
}

/* Divide a state among the intervals; if it has a core, add it there too. */
static void add_divided(struct cpu_util *util, struct util_worker *worker,
			const struct ws_state *state)
{
	bool run = state->doing == WS_DOING_RUN;

	for (uint64_t at = state->start; at < state->end;) {
		uint64_t interval = (at - util->from) / util->interval_length,
			 stop = util->from + (interval + 1) * util->interval_length;

		stop = ws_min(stop, state->end);
		if (util->threads && state->thread)
			add_time(find_thread_cell(worker, interval, state->thread), run, stop - at);
		if (util->cores && state->cpu != WS_NO_U32)
			add_time(find_core_cell(util, worker, interval, state->cpu), run,
				 stop - at);
		at = stop;
	}
}

static void add_timed_state(void *context, uint32_t worker, const struct ws_state *state)
{
	struct cpu_util *util = context;

	if (state->doing == WS_DOING_RUN || state->lost)
		add_divided(util, &util->workers[worker], state);
}

/* What ran on a core is unknown while its records were lost. */
static void add_core_gaps(struct cpu_util *util)
{
	struct ws_cursor *cursor =
		ws_cursor_open(util->stats->report, WS_TABLE_sched_gap, 0, UINT64_MAX);
	uint64_t from = ws_max(util->stats->time_min, util->from);
	const uint64_t *values;

	while (ws_cursor_next(cursor, &values)) {
		struct ws_state gap = {.start = ws_max(values[ws_sched_gap_start], from),
				       .end = ws_min(values[ws_sched_gap_end], util->to),
				       .cpu = (uint32_t)values[ws_sched_gap_cpu]};

		if (gap.start < gap.end)
			add_divided(util, &util->workers[0], &gap);
	}
	ws_cursor_close(cursor);
}

/* A length of 1, 2 or 5 times a power of ten that makes at most INTERVALS intervals. */
static uint64_t find_round_length(uint64_t span)
{
	static const uint64_t factors[] = {1, 2, 5};

	for (uint64_t power = 1;; power *= 10)
		for (size_t i = 0; i < WS_COUNT(factors); i++) {
			uint64_t length = power * factors[i];

			if (span / length < INTERVALS || power > UINT64_MAX / 100)
				return length;
		}
}

/* Append the cells of all workers to `all`. */
static void gather_cells(struct cpu_util *util, struct util_cells *all, uint32_t workers)
{
	for (uint32_t worker_index = 0; worker_index < workers; worker_index++) {
		const struct util_worker *worker = &util->workers[worker_index];

		ws_grow(all->cells, all->capacity, all->count + worker->threads.count);
		if (worker->threads.count)
			memcpy(all->cells + all->count, worker->threads.cells,
			       worker->threads.count * sizeof(*all->cells));
		all->count += worker->threads.count;
		for (size_t i = 0; i < worker->core_count * util->intervals; i++) {
			if (!worker->cores[i].run && !worker->cores[i].unknown)
				continue;
			ws_grow(all->cells, all->capacity, all->count + 1);
			all->cells[all->count++] =
				(struct util_cell){i % util->intervals, 0,
						   (uint32_t)(i / util->intervals),
						   worker->cores[i].run, worker->cores[i].unknown};
		}
	}
}

/* By interval, cores before threads. */
static int compare_cells(const void *first, const void *second)
{
	const struct util_cell *left = first, *right = second;

	if (left->interval != right->interval)
		return ws_compare(left->interval, right->interval);
	if (left->core != right->core)
		return ws_compare(left->core, right->core);
	return ws_compare(left->thread, right->thread);
}

static void print_util_cell(const struct cpu_util *util, const struct util_cell *cell)
{
	const struct ws_thread_info *info = ws_find_thread(util->stats->who, cell->thread);
	uint64_t start = util->from + cell->interval * util->interval_length,
		 stop = ws_min(start + util->interval_length, util->to), length = stop - start;
	struct ws_cell cells[COLUMNS] = {
		[START] = ws_cell_int((int64_t)(start - util->stats->zero)),
		[LENGTH] = ws_cell_int((int64_t)length),
		[UTIL] = ws_cell_real((long double)cell->run * 100 / length),
		[RUN] = ws_cell_int((int64_t)cell->run),
		[UNKNOWN] = ws_cell_int((int64_t)cell->unknown),
		[CORE] = ws_cell_int_if(!cell->thread, cell->core),
		[PID] = ws_cell_int_if(cell->thread, info->pid),
		[TID] = ws_cell_int_if(cell->thread, info->tid),
		[NAME] = ws_cell_text_if(cell->thread, info->name, strlen(info->name)),
	};

	util->stats->row(util->stats, cells);
}

/* Print the cells of all workers; those of one core and interval are added up. */
static void print_util_cells(struct cpu_util *util, uint32_t workers)
{
	struct util_cells all = {0};

	gather_cells(util, &all, workers);
	if (all.count)
		qsort(all.cells, all.count, sizeof(*all.cells), compare_cells);
	for (size_t i = 0; i < all.count; i++) {
		while (i + 1 < all.count && !compare_cells(&all.cells[i], &all.cells[i + 1])) {
			all.cells[i + 1].run += all.cells[i].run;
			all.cells[i + 1].unknown += all.cells[i].unknown;
			i++;
		}
		print_util_cell(util, &all.cells[i]);
	}
	free(all.cells);
}

/* Returns 0, 1 when there is no time to show, or -1 with a message. */
static int choose_intervals(struct cpu_util *util, struct ws_err *err)
{
	const char *bin = ws_get_stats_arg(util->stats, "bin=");
	struct ws_stats *stats = util->stats;
	uint64_t last = ws_find_time_last(stats->report);

	util->cores = ws_get_stats_arg(stats, "core") || !ws_get_stats_arg(stats, "thread");
	util->threads = ws_get_stats_arg(stats, "thread") || !ws_get_stats_arg(stats, "core");
	util->from = ws_max(stats->time_min, stats->zero);
	util->to = ws_min(stats->time_max, last);
	if (util->to <= util->from)
		return 1;
	util->interval_length =
		ws_get_stats_arg_number(stats, "bin=", find_round_length(util->to - util->from));
	if (!util->interval_length)
		return ws_fail(err, "cpu_util: bin=0: an interval has at least one nanosecond");
	util->from = stats->zero +
		     (util->from - stats->zero) / util->interval_length * util->interval_length;
	if ((util->to - util->from) / util->interval_length >= MOST_INTERVALS)
		return ws_fail(err,
			       "cpu_util: bin=%s makes more than %d intervals; give a longer one "
			       "or --filter-time",
			       bin, MOST_INTERVALS);
	util->intervals = (size_t)((util->to - util->from) / util->interval_length) + 1;
	return 0;
}

static int make_cpu_util_rows(struct ws_stats *stats, struct ws_err *err)
{
	struct cpu_util util = {.stats = stats};
	struct ws_states *states;
	uint32_t count;
	int status;

	if (!ws_report_count_rows(stats->report, WS_TABLE_sched))
		return 0;
	status = choose_intervals(&util, err);
	if (status)
		return ws_min(status, 0); /* without any time to show, there are no rows */
	states = ws_states_open(stats->report, stats->who, &stats->damaged);
	count = ws_count_state_workers(states);
	util.workers = aligned_alloc(128, count * sizeof(*util.workers));
	if (!util.workers) {
		ws_states_close(states);
		return ws_fail(err, "out of memory");
	}
	memset(util.workers, 0, count * sizeof(*util.workers));
	ws_walk_states(states, ws_max(stats->time_min, util.from), util.to, add_timed_state, &util);
	add_core_gaps(&util);
	print_util_cells(&util, count);
	for (uint32_t i = 0; i < count; i++) {
		free(util.workers[i].threads.cells);
		free(util.workers[i].cores);
	}
	free(util.workers);
	ws_states_close(states);
	return 0;
}

const struct ws_stats_report ws_stat_cpu_util = {
	.name = "cpu_util",
	.title = "CPU Utilization over Time",
	.about = "Share of each interval in which a core ran one of the recorded threads, and in "
		 "which each thread ran. Rows of cores "
		 "have no "
		 "thread, rows of threads no core; what did not run in an interval has no row. "
		 "Unknown is the time of which records were lost. "
		 ":core and :thread leave out the others, "
		 ":bin=<ns> is the length of an interval; without it, a round one that makes at "
		 "most 50.",
	.what = "context switches",
	.explain_absence = ws_explain_no_switches,
	.args = args,
	.shows_states = true,
	.columns = columns,
	.column_count = COLUMNS,
	.run = make_cpu_util_rows,
};
