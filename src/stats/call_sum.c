/* call_sum.c - see call_sum.h. */
#include "stats/call_sum.h"

#include <stdlib.h>
#include <string.h>

#include "stats/group.h"
#include "stats/summary_rows.h"

struct call_worker {
	const struct ws_call_columns *from;
	struct ws_groups groups;
	uint64_t unended, backwards;
} __attribute__((aligned(128)));

static int scan_calls(void *context, const struct ws_batch *batch)
{
	struct call_worker *worker = (struct call_worker *)context + batch->worker;
	const struct ws_call_columns *from = worker->from;
	const uint64_t *start = batch->col[from->start], *end = batch->col[from->end],
		       *name = batch->col[from->name];

	for (size_t i = 0; i < batch->rows; i++) {
		if (ws_unlikely(end[i] == WS_NO_TIME || end[i] < start[i])) {
			ws_count_left_out(end[i], &worker->unended, &worker->backwards);
			continue;
		}
		ws_dist_add(ws_groups_get(&worker->groups, name[i]), end[i] - start[i]);
	}
	return 0;
}

static uint64_t get_canonical_function(void *context, size_t worker, uint64_t key)
{
	(void)worker;
	return ws_get_name_key(context, (uint32_t)key);
}

static void print_call_sums(struct ws_stats *stats, const struct ws_group_sum *sums, size_t count)
{
	struct ws_summary_row *lines = ws_calloc(count, sizeof(*lines));

	for (size_t i = 0; i < count; i++) {
		lines[i].summary = &sums[i].summary;
		lines[i].name = ws_get_name(stats, (uint32_t)sums[i].key, &lines[i].name_length);
	}
	ws_print_summary_rows(stats, lines, count);
	free(lines);
}

int ws_make_call_sums(struct ws_stats *stats, const struct ws_call_columns *from,
		      struct ws_err *err)
{
	struct ws_scan scan = {
		.table = from->table,
		.columns = UINT64_C(1) << from->start | UINT64_C(1) << from->end |
			   UINT64_C(1) << from->name,
		.time_min = stats->time_min,
		.time_max = stats->time_max,
	};
	uint32_t count = ws_count_scan_workers(&scan);
	struct call_worker *workers = aligned_alloc(128, count * sizeof(*workers));
	struct ws_groups *groups = ws_calloc(count, sizeof(*groups));
	struct ws_group_sum *sums;
	size_t lines;

	if (!workers) {
		free(groups);
		return ws_fail(err, "out of memory");
	}
	memset(workers, 0, count * sizeof(*workers));
	for (uint32_t i = 0; i < count; i++)
		workers[i].from = from;
	ws_run_scan(stats->report, &scan, scan_calls, workers, &stats->damaged);
	for (uint32_t i = 0; i < count; i++) {
		groups[i] = workers[i].groups;
		stats->unended += workers[i].unended;
		stats->backwards += workers[i].backwards;
	}
	sums = ws_groups_merge(groups, count, get_canonical_function, stats, &lines);
	print_call_sums(stats, sums, lines);
	for (uint32_t worker = 0; worker < count; worker++)
		ws_groups_free(&groups[worker]);
	free(sums);
	free(groups);
	free(workers);
	return 0;
}
