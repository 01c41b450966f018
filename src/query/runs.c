/* runs.c - see runs.h. */
#include "query/runs.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "base/mem.h"

struct run_listing {
	struct ws_runs *runs;
	uint32_t tracks;
	int track, start; /* columns */
	size_t most;
	pthread_mutex_t lock;
};

static void add_run(struct run_listing *listing, const struct ws_batch *batch, size_t from,
		    size_t end)
{
	struct ws_runs *runs = listing->runs;
	const uint64_t *start = batch->col[listing->start];

	ws_grow(runs->runs, runs->cap, runs->count + 1);
	runs->runs[runs->count++] =
		(struct ws_run){.track = (uint32_t)batch->col[listing->track][from],
				.block = batch->block,
				.from = from,
				.rows = end - from,
				.first = start[from],
				.last = start[end - 1]};
	if (!runs->of_block[batch->block])
		runs->of_block[batch->block] = runs->count;
}

static int list_runs(void *context, const struct ws_batch *batch)
{
	struct run_listing *listing = context;
	const uint64_t *track = batch->col[listing->track];
	int full;

	pthread_mutex_lock(&listing->lock);
	for (size_t i = 0, end; i < batch->rows && listing->runs->count <= listing->most; i = end) {
		for (end = i + 1; end < batch->rows && track[end] == track[i];)
			end++;
		if (track[i] < listing->tracks)
			add_run(listing, batch, i, end);
	}
	full = listing->runs->count > listing->most;
	pthread_mutex_unlock(&listing->lock);
	return full;
}

static int compare_blocks(const struct ws_run *left, const struct ws_run *right)
{
	if (left->block != right->block)
		return ws_compare(left->block, right->block);
	return ws_compare(left->from, right->from);
}

static int compare_runs(const void *first, const void *second)
{
	const struct ws_run *left = *(struct ws_run *const *)first,
			    *right = *(struct ws_run *const *)second;

	if (left->track != right->track)
		return ws_compare(left->track, right->track);
	if (left->first != right->first)
		return ws_compare(left->first, right->first);
	return compare_blocks(left, right);
}

static int compare_run_blocks(const void *first, const void *second)
{
	return compare_blocks(*(struct ws_run *const *)first, *(struct ws_run *const *)second);
}

static void number_runs(struct ws_runs *runs, size_t from, size_t end)
{
	size_t place = 0;

	if (from)
		place = runs->by_track[from - 1]->place + runs->by_track[from - 1]->rows;
	for (size_t i = from; i < end; i++) {
		runs->by_track[i]->number = i;
		runs->by_track[i]->place = place;
		place += runs->by_track[i]->rows;
	}
}

bool ws_runs_list(const struct ws_report *report, enum ws_table table, uint32_t tracks, size_t most,
		  struct ws_runs *runs)
{
	struct run_listing listing = {.runs = runs,
				      .tracks = tracks,
				      .track = ws_table_track(table),
				      .start = ws_table_start(table),
				      .most = most,
				      .lock = PTHREAD_MUTEX_INITIALIZER};
	struct ws_scan scan = {.table = table,
			       .columns = UINT64_C(1) << listing.track | UINT64_C(1)
										 << listing.start,
			       .time_max = UINT64_MAX};

	memset(runs, 0, sizeof(*runs));
	runs->of_block =
		ws_calloc(ws_report_count_blocks(report, table) + 1, sizeof(*runs->of_block));
	if (ws_run_scan(report, &scan, list_runs, &listing, NULL))
		return false;
	runs->by_track = ws_malloc(runs->count * sizeof(*runs->by_track) + 1);
	for (size_t i = 0; i < runs->count; i++) {
		runs->by_track[i] = &runs->runs[i];
		runs->rows += runs->runs[i].rows;
	}
	if (runs->count)
		qsort(runs->by_track, runs->count, sizeof(*runs->by_track), compare_runs);
	number_runs(runs, 0, runs->count);
	return true;
}

void ws_runs_free(struct ws_runs *runs)
{
	free(runs->runs);
	free(runs->by_track);
	free(runs->of_block);
	memset(runs, 0, sizeof(*runs));
}

size_t ws_runs_count_track(const struct ws_runs *runs, size_t i)
{
	size_t end = i + 1;

	while (end < runs->count && runs->by_track[end]->track == runs->by_track[i]->track)
		end++;
	return end - i;
}

bool ws_runs_follows(const struct ws_runs *runs, size_t i)
{
	const struct ws_run *run = runs->by_track[i];

	return !i || runs->by_track[i - 1]->track != run->track ||
	       runs->by_track[i - 1]->last < run->first;
}

void ws_runs_order_by_block(struct ws_runs *runs, size_t i, size_t count)
{
	qsort(&runs->by_track[i], count, sizeof(*runs->by_track), compare_run_blocks);
	number_runs(runs, i, i + count);
}
