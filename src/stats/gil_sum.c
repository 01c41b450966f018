/*
 * gil_sum.c - Python's global interpreter lock by thread: how long each waited for it and held it,
 * and how often it took it over from another thread.
 *
 * Workers sum up by thread while they read rows, in any order. Only the times at which a thread got
 * the lock are kept, to be sorted afterwards.
 */
#include <stdlib.h>
#include <string.h>

#include "base/sort.h"
#include "base/choose.h"
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

struct span_sum {
	uint64_t time, count, longest;
};

struct gil_line {
	uint32_t thread;
	struct span_sum wait, held;
	uint64_t handed; /* how often it got the lock after another thread of its process */
};

struct gil_worker {
	struct ws_keyed_dists threads; /* numbers only: indices in `lines` */
	struct gil_line *lines;
	size_t line_count, line_capacity;
	struct ws_keyed_value *holds; /* (time in ns, index in `lines`): a thread got the lock */
	size_t hold_count, hold_capacity;
	uint64_t unended, backwards;
	char padding[128]; /* keeps workers in different cache lines */
};

struct gil_sums {
	const struct ws_stats *stats;
	struct gil_worker *workers;
	uint32_t worker_count;
	struct gil_worker all;
};

static void add_span(struct span_sum *sum, uint64_t length)
{
	sum->time += length;
	sum->count++;
	sum->longest = ws_max(length, sum->longest);
}

static size_t find_line(struct gil_worker *worker, uint64_t thread)
{
	ws_keyed_get(&worker->threads, &thread);
	if (worker->threads.last == worker->line_count) {
		ws_grow(worker->lines, worker->line_capacity, worker->line_count + 1);
		worker->lines[worker->line_count++] = (struct gil_line){.thread = (uint32_t)thread};
	}
	return worker->threads.last;
}

static int scan_gil_spans(void *context, const struct ws_batch *batch)
{
	struct gil_worker *worker = &((struct gil_sums *)context)->workers[batch->worker];

	ws_grow(worker->holds, worker->hold_capacity, worker->hold_count + batch->rows);
	for (size_t i = 0; i < batch->rows; i++) {
		uint64_t start = batch->col[ws_gil_start][i], end = batch->col[ws_gil_end][i],
			 state = batch->col[ws_gil_state][i];
		size_t line;

		if (ws_unlikely(end == WS_NO_TIME || end < start)) {
			ws_count_left_out(end, &worker->unended, &worker->backwards);
			continue;
		}
		if (state != WS_GIL_WAITS && state != WS_GIL_HOLDS)
			continue;
		line = find_line(worker, (uint32_t)batch->col[ws_gil_thread][i]);
		if (state == WS_GIL_WAITS) {
			add_span(&worker->lines[line].wait, end - start);
			continue;
		}
		add_span(&worker->lines[line].held, end - start);
		worker->holds[worker->hold_count++] = (struct ws_keyed_value){start, line};
	}
	return 0;
}

static void read_gil_spans(struct ws_stats *stats, struct gil_sums *gil)
{
	struct ws_scan scan = {
		.table = WS_TABLE_gil,
		.columns = WS_COLUMN_BIT(gil, start) | WS_COLUMN_BIT(gil, end) |
			   WS_COLUMN_BIT(gil, thread) | WS_COLUMN_BIT(gil, state),
		.time_min = stats->time_min,
		.time_max = stats->time_max,
	};
	uint64_t damaged = 0;

	gil->worker_count = ws_count_scan_workers(&scan);
	gil->workers = ws_calloc(gil->worker_count, sizeof(*gil->workers));
	for (uint32_t i = 0; i < gil->worker_count; i++)
		gil->workers[i].threads.words = 1;
	ws_run_scan(stats->report, &scan, scan_gil_spans, gil, &damaged);
	stats->damaged += damaged;
}

static void add_sums(struct span_sum *to, const struct span_sum *sum)
{
	to->time += sum->time;
	to->count += sum->count;
	to->longest = ws_max(sum->longest, to->longest);
}

/* Add the lines and holds of a worker to those of all, and free the worker. */
static void take_over_worker(struct gil_sums *gil, struct gil_worker *worker)
{
	size_t *line = ws_malloc((worker->line_count + 1) * sizeof(*line));

	for (size_t i = 0; i < worker->line_count; i++) {
		line[i] = find_line(&gil->all, worker->lines[i].thread);
		add_sums(&gil->all.lines[line[i]].wait, &worker->lines[i].wait);
		add_sums(&gil->all.lines[line[i]].held, &worker->lines[i].held);
	}
	for (size_t i = 0; i < worker->hold_count; i++)
		gil->all.holds[gil->all.hold_count++] =
			(struct ws_keyed_value){worker->holds[i].key, line[worker->holds[i].value]};
	gil->all.unended += worker->unended;
	gil->all.backwards += worker->backwards;
	ws_keyed_free(&worker->threads);
	free(line);
	free(worker->lines);
	free(worker->holds);
}

static void merge_gil_workers(struct gil_sums *gil)
{
	size_t holds = 0;

	for (uint32_t i = 0; i < gil->worker_count; i++)
		holds += gil->workers[i].hold_count;
	gil->all.threads.words = 1;
	gil->all.holds = ws_malloc((holds + 1) * sizeof(*gil->all.holds));
	for (uint32_t worker = 0; worker < gil->worker_count; worker++)
		take_over_worker(gil, &gil->workers[worker]);
	free(gil->workers);
}

static uint32_t get_process(const struct gil_sums *gil, const struct ws_keyed_value *hold)
{
	return ws_find_thread(gil->stats->who, gil->all.lines[hold->value].thread)->process;
}

/* The order of holds that began at the same time. */
static int compare_hold_threads(const void *first, const void *second, void *context)
{
	const struct gil_line *lines = context;
	uint32_t left = lines[((const struct ws_keyed_value *)first)->value].thread,
		 right = lines[((const struct ws_keyed_value *)second)->value].thread;

	return ws_compare(left, right);
}

/* Sort holds by process, then by time. */
static void sort_holds(struct gil_sums *gil)
{
	struct ws_keyed_value *keyed = gil->all.holds =
		ws_sort_by_key(gil->all.holds, gil->all.hold_count);
	size_t count = gil->all.hold_count, next;

	for (size_t i = 0; i < count; i = next) {
		for (next = i + 1; next < count && keyed[next].key == keyed[i].key;)
			next++;
		if (next - i > 1)
			qsort_r(keyed + i, next - i, sizeof(*keyed), compare_hold_threads,
				gil->all.lines);
	}
	for (size_t i = 0; i < count; i++)
		keyed[i].key = get_process(gil, &keyed[i]);
	gil->all.holds = ws_sort_by_key(keyed, count);
}

static void count_handovers(struct gil_sums *gil)
{
	const struct ws_keyed_value *keyed;

	if (!gil->all.hold_count)
		return;
	sort_holds(gil);
	keyed = gil->all.holds;
	for (size_t i = 1; i < gil->all.hold_count; i++)
		if (keyed[i].key == keyed[i - 1].key && keyed[i].value != keyed[i - 1].value)
			gil->all.lines[keyed[i].value].handed++;
}

static int compare_waits(const void *first, const void *second)
{
	const struct gil_line *left = first, *right = second;

	if (left->wait.time != right->wait.time)
		return ws_compare(right->wait.time, left->wait.time);
	if (left->held.time != right->held.time)
		return ws_compare(right->held.time, left->held.time);
	return ws_compare(left->thread, right->thread);
}

static struct ws_cell make_mean_cell(const struct span_sum *sum)
{
	if (!sum->count)
		return ws_cell_real(0);
	return ws_cell_real((long double)sum->time / sum->count);
}

static int make_gil_sum_rows(struct ws_stats *stats, struct ws_err *err)
{
	struct gil_sums gil = {.stats = stats};
	struct gil_worker *all = &gil.all;
	uint64_t sum = 0;

	(void)err;
	read_gil_spans(stats, &gil);
	merge_gil_workers(&gil);
	stats->unended += all->unended;
	stats->backwards += all->backwards;
	count_handovers(&gil);
	if (all->line_count)
		qsort(all->lines, all->line_count, sizeof(*all->lines), compare_waits);
	for (size_t i = 0; i < all->line_count; i++)
		sum += all->lines[i].wait.time;
	for (size_t i = 0; i < all->line_count; i++) {
		const struct gil_line *line = &all->lines[i];
		const struct ws_thread_info *info = ws_find_thread(stats->who, line->thread);
		struct ws_cell cells[COLUMNS] = {
			[TIME] = ws_cell_real(ws_compute_percent(line->wait.time, sum)),
			[WAIT] = ws_cell_int((int64_t)line->wait.time),
			[WAITS] = ws_cell_int((int64_t)line->wait.count),
			[WAIT_AVERAGE] = make_mean_cell(&line->wait),
			[WAIT_LONGEST] = ws_cell_int((int64_t)line->wait.longest),
			[HELD] = ws_cell_int((int64_t)line->held.time),
			[HOLDS] = ws_cell_int((int64_t)line->held.count),
			[HELD_AVERAGE] = make_mean_cell(&line->held),
			[HELD_LONGEST] = ws_cell_int((int64_t)line->held.longest),
			[HANDED] = ws_cell_int((int64_t)line->handed),
			[PID] = ws_cell_int(info->pid),
			[TID] = ws_cell_int(info->tid),
			[NAME] = ws_cell_text(info->name, strlen(info->name)),
		};

		stats->row(stats, cells);
	}
	ws_keyed_free(&all->threads);
	free(all->lines);
	free(all->holds);
	return 0;
}

const struct ws_stats_report ws_stat_gil_sum = {
	.name = "gil_sum",
	.title = "Python's Interpreter Lock by Thread",
	.about = "How long each thread waited for Python's global interpreter lock (GIL) and held "
		 "it; Handovers are the times that it "
		 "got the lock "
		 "after another thread of its process.",
	.what = "waits for Python's interpreter lock",
	.columns = columns,
	.column_count = COLUMNS,
	.run = make_gil_sum_rows,
};
