/*
 * samples.c - see samples.h.
 *
 * Every block is sorted by thread and time, so a thread's samples in a block are a sorted run. Runs
 * are listed first, which says where each belongs, and then decoded to there. Where runs of a
 * thread overlap in time, which is rare, its samples are sorted afterwards.
 */
#include "analyze/samples.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "base/mem.h"
#include "base/sort.h"

struct run {
	uint64_t first, last; /* times */
	size_t block, from, rows;
	size_t place;
	uint32_t thread;
	bool given; /* its block could be decoded */
};

struct loader {
	struct ws_samples *out;
	uint32_t threads;
	pthread_mutex_t lock;
	struct run *runs; /* those of a block follow one another */
	size_t run_count, run_cap;
	size_t *first_run; /* by block; 0 for none, else 1 more than its first run */
	struct run **sorted;
};

/* ---- which runs there are ---- */

static void add_run(struct loader *loader, const struct ws_batch *batch, size_t from, size_t end)
{
	const uint64_t *start = batch->col[ws_sample_start];

	ws_grow(loader->runs, loader->run_cap, loader->run_count + 1);
	loader->runs[loader->run_count++] =
		(struct run){.thread = (uint32_t)batch->col[ws_sample_thread][from],
			     .block = batch->block,
			     .from = from,
			     .rows = end - from,
			     .first = start[from],
			     .last = start[end - 1]};
	if (!loader->first_run[batch->block])
		loader->first_run[batch->block] = loader->run_count;
}

static int list_runs(void *context, const struct ws_batch *batch)
{
	struct loader *loader = context;
	const uint64_t *thread = batch->col[ws_sample_thread];

	pthread_mutex_lock(&loader->lock);
	for (size_t i = 0, end; i < batch->rows; i = end) {
		for (end = i + 1; end < batch->rows && thread[end] == thread[i];)
			end++;
		if (thread[i] < loader->threads)
			add_run(loader, batch, i, end);
	}
	pthread_mutex_unlock(&loader->lock);
	return 0;
}

static int compare_blocks(const struct run *left, const struct run *right)
{
	if (left->block != right->block)
		return ws_compare(left->block, right->block);
	return ws_compare(left->from, right->from);
}

static int compare_runs(const void *first, const void *second)
{
	const struct run *left = *(struct run *const *)first, *right = *(struct run *const *)second;

	if (left->thread != right->thread)
		return ws_compare(left->thread, right->thread);
	if (left->first != right->first)
		return ws_compare(left->first, right->first);
	return compare_blocks(left, right);
}

static int compare_run_blocks(const void *first, const void *second)
{
	return compare_blocks(*(struct run *const *)first, *(struct run *const *)second);
}

/* How many runs from number `i` on are the same thread's. */
static size_t count_runs(const struct loader *loader, size_t i)
{
	size_t end = i + 1;

	while (end < loader->run_count && loader->sorted[end]->thread == loader->sorted[i]->thread)
		end++;
	return end - i;
}

static bool runs_overlap(struct run *const *runs, size_t count)
{
	for (size_t i = 1; i < count; i++)
		if (runs[i - 1]->last > runs[i]->first)
			return true;
	return false;
}

static size_t place_runs(struct loader *loader)
{
	size_t place = 0;

	loader->sorted = ws_malloc(loader->run_count * sizeof(struct run *) + 1);
	for (size_t i = 0; i < loader->run_count; i++)
		loader->sorted[i] = &loader->runs[i];
	if (loader->run_count)
		qsort(loader->sorted, loader->run_count, sizeof(struct run *), compare_runs);
	for (size_t i = 0, count; i < loader->run_count; i += count) {
		count = count_runs(loader, i);
		if (runs_overlap(&loader->sorted[i], count))
			qsort(&loader->sorted[i], count, sizeof(struct run *), compare_run_blocks);
	}
	for (size_t i = 0; i < loader->run_count; i++) {
		loader->sorted[i]->place = place;
		place += loader->sorted[i]->rows;
	}
	return place;
}

/* ---- their rows ---- */

static uint32_t keep_time(struct loader *loader, uint64_t time)
{
	struct ws_samples *out = loader->out;
	size_t number;

	if (time < WS_LONG_TIME)
		return (uint32_t)time;
	pthread_mutex_lock(&loader->lock);
	ws_grow(out->long_times, out->long_cap, out->long_count + 1);
	number = out->long_count++;
	out->long_times[number] = time;
	pthread_mutex_unlock(&loader->lock);
	return (uint32_t)number | WS_LONG_TIME;
}

static void keep_run(struct loader *loader, const struct ws_batch *batch, struct run *run)
{
	struct ws_samples *out = loader->out;

	memcpy(out->start + run->place, batch->col[ws_sample_start] + run->from, run->rows * 8);
	for (size_t i = 0; i < run->rows; i++) {
		size_t from = run->from + i, to = run->place + i;

		out->frame[to] = (uint32_t)batch->col[ws_sample_frame][from];
		out->callers[to] = (uint32_t)batch->col[ws_sample_callers][from];
		out->time[to] = keep_time(loader, batch->col[ws_sample_time][from]);
	}
	run->given = true;
}

static int keep_runs(void *context, const struct ws_batch *batch)
{
	struct loader *loader = context;

	for (size_t i = loader->first_run[batch->block];
	     i && i <= loader->run_count && loader->runs[i - 1].block == batch->block; i++)
		keep_run(loader, batch, &loader->runs[i - 1]);
	return 0;
}

static void move_sample(const struct ws_samples *samples, size_t to, size_t from)
{
	samples->start[to] = samples->start[from];
	samples->frame[to] = samples->frame[from];
	samples->callers[to] = samples->callers[from];
	samples->time[to] = samples->time[from];
}

/* Closes the gaps of runs whose blocks could not be decoded. Returns where the thread's end. */
static size_t close_gaps(struct ws_samples *samples, struct run *const *runs, size_t count)
{
	size_t end = runs[0]->place;

	for (size_t i = 0; i < count; i++) {
		if (!runs[i]->given)
			continue;
		for (size_t k = 0; runs[i]->place != end && k < runs[i]->rows; k++)
			move_sample(samples, end + k, runs[i]->place + k);
		end += runs[i]->rows;
	}
	return end;
}

/* ---- order ---- */

struct sorted_sample {
	uint64_t start;
	size_t number;
	uint32_t frame, callers, time;
};

static int compare_samples(const void *first, const void *second)
{
	const struct sorted_sample *left = first, *right = second;

	if (left->start != right->start)
		return ws_compare(left->start, right->start);
	return ws_compare(left->number, right->number);
}

static void sort_samples(struct ws_samples *samples, size_t first, size_t count)
{
	struct sorted_sample *sorted = ws_malloc(count * sizeof(*sorted) + 1);

	for (size_t i = 0; i < count; i++)
		sorted[i] = (struct sorted_sample){samples->start[first + i], i,
						   samples->frame[first + i],
						   samples->callers[first + i],
						   samples->time[first + i]};
	if (count)
		qsort(sorted, count, sizeof(*sorted), compare_samples);
	for (size_t i = 0; i < count; i++) {
		samples->start[first + i] = sorted[i].start;
		samples->frame[first + i] = sorted[i].frame;
		samples->callers[first + i] = sorted[i].callers;
		samples->time[first + i] = sorted[i].time;
	}
	free(sorted);
}

/* ---- the interface ---- */

void ws_samples_load(const struct ws_report *report, uint32_t threads,
		     void (*place)(void *context, uint32_t thread, size_t first, size_t end),
		     void *context, struct ws_samples *samples)
{
	struct ws_scan scan = {.table = WS_TABLE_sample,
			       .columns =
				       WS_COLUMN_BIT(sample, start) | WS_COLUMN_BIT(sample, thread),
			       .time_max = UINT64_MAX};
	struct loader loader = {
		.out = samples, .threads = threads, .lock = PTHREAD_MUTEX_INITIALIZER};

	memset(samples, 0, sizeof(*samples));
	loader.first_run = ws_calloc(ws_report_count_blocks(report, WS_TABLE_sample) + 1,
				     sizeof(*loader.first_run));
	ws_run_scan(report, &scan, list_runs, &loader, NULL);
	samples->rows = place_runs(&loader);
	samples->start = ws_malloc(samples->rows * 8 + 1);
	samples->frame = ws_malloc(samples->rows * 4 + 1);
	samples->callers = ws_malloc(samples->rows * 4 + 1);
	samples->time = ws_malloc(samples->rows * 4 + 1);
	scan.columns = WS_COLUMN_BIT(sample, start) | WS_COLUMN_BIT(sample, frame) |
		       WS_COLUMN_BIT(sample, callers) | WS_COLUMN_BIT(sample, time);
	ws_run_scan(report, &scan, keep_runs, &loader, &samples->damaged);
	for (size_t i = 0, count; i < loader.run_count; i += count) {
		struct run *const *runs = &loader.sorted[i];
		size_t end;

		count = count_runs(&loader, i);
		end = close_gaps(samples, runs, count);
		if (runs_overlap(runs, count))
			sort_samples(samples, runs[0]->place, end - runs[0]->place);
		place(context, runs[0]->thread, runs[0]->place, end);
	}
	free(loader.sorted);
	free(loader.runs);
	free(loader.first_run);
}

void ws_samples_free(struct ws_samples *samples)
{
	free(samples->start);
	free(samples->frame);
	free(samples->callers);
	free(samples->time);
	free(samples->long_times);
	memset(samples, 0, sizeof(*samples));
}
