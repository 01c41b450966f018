/*
 * samples.c - see samples.h.
 *
 * Runs of a thread's samples are listed first, which says where each belongs, and then decoded to
 * there. Where runs of a thread overlap in time, which is rare, its samples are sorted afterwards.
 */
#include "analyze/samples.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "base/mem.h"
#include "query/runs.h"

struct loader {
	struct ws_samples *out;
	pthread_mutex_t lock;
	struct ws_runs runs;
	bool *given; /* by number of a run: its block could be decoded */
};

static bool runs_overlap(struct ws_run *const *runs, size_t count)
{
	for (size_t i = 1; i < count; i++)
		if (runs[i - 1]->last > runs[i]->first)
			return true;
	return false;
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

static void keep_run(struct loader *loader, const struct ws_batch *batch, const struct ws_run *run)
{
	struct ws_samples *out = loader->out;

	memcpy(out->start + run->place, batch->col[ws_sample_start] + run->from, run->rows * 8);
	for (size_t i = 0; i < run->rows; i++) {
		size_t from = run->from + i, to = run->place + i;

		out->frame[to] = (uint32_t)batch->col[ws_sample_frame][from];
		out->callers[to] = (uint32_t)batch->col[ws_sample_callers][from];
		out->time[to] = keep_time(loader, batch->col[ws_sample_time][from]);
	}
	loader->given[run->number] = true;
}

static int keep_runs(void *context, const struct ws_batch *batch)
{
	struct loader *loader = context;

	for (size_t i = loader->runs.of_block[batch->block];
	     i && i <= loader->runs.count && loader->runs.runs[i - 1].block == batch->block; i++)
		keep_run(loader, batch, &loader->runs.runs[i - 1]);
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
static size_t close_gaps(const struct loader *loader, struct ws_run *const *runs, size_t count)
{
	struct ws_samples *samples = loader->out;
	size_t end = runs[0]->place;

	for (size_t i = 0; i < count; i++) {
		if (!loader->given[runs[i]->number])
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
				       WS_COLUMN_BIT(sample, start) | WS_COLUMN_BIT(sample, frame) |
				       WS_COLUMN_BIT(sample, callers) | WS_COLUMN_BIT(sample, time),
			       .time_max = UINT64_MAX};
	struct loader loader = {.out = samples, .lock = PTHREAD_MUTEX_INITIALIZER};
	struct ws_run **by_thread;

	memset(samples, 0, sizeof(*samples));
	ws_runs_list(report, WS_TABLE_sample, threads, SIZE_MAX, &loader.runs);
	by_thread = loader.runs.by_track;
	for (size_t i = 0, count; i < loader.runs.count; i += count) {
		count = ws_runs_count_track(&loader.runs, i);
		if (runs_overlap(&by_thread[i], count))
			ws_runs_order_by_block(&loader.runs, i, count);
	}
	loader.given = ws_calloc(loader.runs.count + 1, sizeof(*loader.given));
	samples->rows = loader.runs.rows;
	samples->start = ws_malloc(samples->rows * 8 + 1);
	samples->frame = ws_malloc(samples->rows * 4 + 1);
	samples->callers = ws_malloc(samples->rows * 4 + 1);
	samples->time = ws_malloc(samples->rows * 4 + 1);
	ws_run_scan(report, &scan, keep_runs, &loader, &samples->damaged);
	for (size_t i = 0, count; i < loader.runs.count; i += count) {
		struct ws_run *const *runs = &by_thread[i];
		size_t end;

		count = ws_runs_count_track(&loader.runs, i);
		end = close_gaps(&loader, runs, count);
		if (runs_overlap(runs, count))
			sort_samples(samples, runs[0]->place, end - runs[0]->place);
		place(context, runs[0]->track, runs[0]->place, end);
	}
	free(loader.given);
	ws_runs_free(&loader.runs);
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
