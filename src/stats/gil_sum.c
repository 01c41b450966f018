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
	struct line *lines;
	size_t n, cap;
	struct ws_keyed_value *holds; /* when it took the lock, and the line */
	size_t hold_count, holds_cap;
	uint64_t unended, backwards;
	char apart[128]; /* from the next worker's */
};

struct gil {
	const struct ws_stats *stats;
	struct worker *workers;
	uint32_t count;
	struct worker all;
};

static void add(struct sum *sum, uint64_t length)
{
	sum->time += length;
	sum->count++;
	sum->longest = ws_max(length, sum->longest);
}

static size_t line_of(struct worker *worker, uint64_t thread)
{
	ws_keyed_get(&worker->threads, &thread);
	if (worker->threads.last == worker->n) {
		ws_grow(worker->lines, worker->cap, worker->n + 1);
		worker->lines[worker->n++] = (struct line){.thread = (uint32_t)thread};
	}
	return worker->threads.last;
}

static int scan(void *ctx, const struct ws_batch *batch)
{
	struct worker *worker = &((struct gil *)ctx)->workers[batch->worker];

	ws_grow(worker->holds, worker->holds_cap, worker->hold_count + batch->rows);
	for (size_t i = 0; i < batch->rows; i++) {
		uint64_t start = batch->col[ws_gil_start][i], end = batch->col[ws_gil_end][i],
			 state = batch->col[ws_gil_state][i];
		size_t line;

		if (ws_unlikely(end == WS_NO_TIME || end < start)) {
			*(end == WS_NO_TIME ? &worker->unended : &worker->backwards) += 1;
			continue;
		}
		if (state != WS_GIL_WAITS && state != WS_GIL_HOLDS)
			continue;
		line = line_of(worker, (uint32_t)batch->col[ws_gil_thread][i]);
		add(state == WS_GIL_WAITS ? &worker->lines[line].wait : &worker->lines[line].held,
		    end - start);
		if (state == WS_GIL_HOLDS)
			worker->holds[worker->hold_count++] = (struct ws_keyed_value){start, line};
	}
	return 0;
}

static void read_spans(struct ws_stats *stats, struct gil *gil_g)
{
	struct ws_scan sc = {
		.table = WS_TABLE_gil,
		.columns = WS_COL(gil, start) | WS_COL(gil, end) | WS_COL(gil, thread) |
			   WS_COL(gil, state),
		.time_min = stats->time_min,
		.time_max = stats->time_max,
	};
	uint64_t damaged = 0;

	gil_g->count = ws_scan_workers(&sc);
	gil_g->workers = ws_calloc(gil_g->count, sizeof(*gil_g->workers));
	for (uint32_t w = 0; w < gil_g->count; w++)
		gil_g->workers[w].threads.words = 1;
	ws_scan_run(stats->report, &sc, scan, gil_g, &damaged);
	stats->damaged += damaged;
}

static void add_sums(struct sum *to, const struct sum *sum)
{
	to->time += sum->time;
	to->count += sum->count;
	to->longest = ws_max(sum->longest, to->longest);
}

/* A worker's lines and holds among those of all; frees it. */
static void take_over(struct gil *gil, struct worker *worker)
{
	size_t *line = ws_malloc((worker->n + 1) * sizeof(*line));

	for (size_t i = 0; i < worker->n; i++) {
		line[i] = line_of(&gil->all, worker->lines[i].thread);
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

static void together(struct gil *gil)
{
	size_t holds = 0;

	for (uint32_t w = 0; w < gil->count; w++)
		holds += gil->workers[w].hold_count;
	gil->all.threads.words = 1;
	gil->all.holds = ws_malloc((holds + 1) * sizeof(*gil->all.holds));
	for (uint32_t w = 0; w < gil->count; w++)
		take_over(gil, &gil->workers[w]);
	free(gil->workers);
}

static uint32_t process_of(const struct gil *gil, const struct ws_keyed_value *hold)
{
	return ws_who_thread(gil->stats->who, gil->all.lines[hold->value].thread)->process;
}

/* Holds of two threads that began at once, by the threads' numbers. */
static int by_thread(const void *first, const void *second, void *ctx)
{
	const struct line *lines = ctx;
	uint32_t x = lines[((const struct ws_keyed_value *)first)->value].thread,
		 y = lines[((const struct ws_keyed_value *)second)->value].thread;

	return ws_compare(x, y);
}

/* By process, then by time. */
static void sort_holds(struct gil *gil)
{
	struct ws_keyed_value *keyed = gil->all.holds =
		ws_sort_by_key(gil->all.holds, gil->all.hold_count);
	size_t n = gil->all.hold_count, next;

	for (size_t i = 0; i < n; i = next) {
		for (next = i + 1; next < n && keyed[next].key == keyed[i].key;)
			next++;
		if (next - i > 1)
			qsort_r(keyed + i, next - i, sizeof(*keyed), by_thread, gil->all.lines);
	}
	for (size_t i = 0; i < n; i++)
		keyed[i].key = process_of(gil, &keyed[i]);
	gil->all.holds = ws_sort_by_key(keyed, n);
}

static void count_handovers(struct gil *gil)
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

static int by_wait(const void *first, const void *second)
{
	const struct line *left = first, *right = second;

	if (left->wait.time != right->wait.time)
		return left->wait.time > right->wait.time ? -1 : 1;
	if (left->held.time != right->held.time)
		return left->held.time > right->held.time ? -1 : 1;
	return ws_compare(left->thread, right->thread);
}

static struct ws_cell mean(const struct sum *sum)
{
	return ws_cell_real(sum->count ? (long double)sum->time / sum->count : 0);
}

static int run(struct ws_stats *stats, struct ws_err *err)
{
	struct gil gil = {.stats = stats};
	struct worker *all = &gil.all;
	uint64_t sum = 0;

	(void)err;
	read_spans(stats, &gil);
	together(&gil);
	stats->unended += all->unended;
	stats->backwards += all->backwards;
	count_handovers(&gil);
	if (all->n)
		qsort(all->lines, all->n, sizeof(*all->lines), by_wait);
	for (size_t i = 0; i < all->n; i++)
		sum += all->lines[i].wait.time;
	for (size_t i = 0; i < all->n; i++) {
		const struct line *line = &all->lines[i];
		const struct ws_thread_info *info = ws_who_thread(stats->who, line->thread);
		struct ws_cell cells[COLUMNS] = {
			[TIME] = ws_cell_real(sum ? (long double)line->wait.time * 100 / sum : 0),
			[WAIT] = ws_cell_int((int64_t)line->wait.time),
			[WAITS] = ws_cell_int((int64_t)line->wait.count),
			[WAIT_AVERAGE] = mean(&line->wait),
			[WAIT_LONGEST] = ws_cell_int((int64_t)line->wait.longest),
			[HELD] = ws_cell_int((int64_t)line->held.time),
			[HOLDS] = ws_cell_int((int64_t)line->held.count),
			[HELD_AVERAGE] = mean(&line->held),
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
