/* osrt_sum.c - calls of the operating system's runtime by function. */
#include <stdlib.h>
#include <string.h>

#include "stats/group.h"
#include "stats/summary_rows.h"

static const struct ws_column columns[] = {WS_SUMMARY_COLUMNS("Num Calls"), {"Name", WS_KIND_TEXT}};

struct osrt_worker {
	struct ws_groups groups;
	uint64_t unended, backwards;
} __attribute__((aligned(128)));

static int scan_osrt_calls(void *context, const struct ws_batch *batch)
{
	struct osrt_worker *worker = (struct osrt_worker *)context + batch->worker;
	const uint64_t *start = batch->col[ws_osrt_start], *end = batch->col[ws_osrt_end],
		       *name = batch->col[ws_osrt_name];

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

static void print_osrt_sums(struct ws_stats *stats, const struct ws_group_sum *sums, size_t count)
{
	struct ws_summary_row *lines = ws_calloc(count, sizeof(*lines));

	for (size_t i = 0; i < count; i++) {
		lines[i].summary = &sums[i].summary;
		lines[i].name = ws_get_name(stats, (uint32_t)sums[i].key, &lines[i].name_length);
	}
	ws_print_summary_rows(stats, lines, count);
	free(lines);
}

static int make_osrt_sum_rows(struct ws_stats *stats, struct ws_err *err)
{
	struct ws_scan scan = {
		.table = WS_TABLE_osrt,
		.columns = WS_COLUMN_BIT(osrt, start) | WS_COLUMN_BIT(osrt, end) |
			   WS_COLUMN_BIT(osrt, name),
		.time_min = stats->time_min,
		.time_max = stats->time_max,
	};
	uint32_t count = ws_count_scan_workers(&scan);
	struct osrt_worker *workers = aligned_alloc(128, count * sizeof(*workers));
	struct ws_groups *groups = ws_calloc(count, sizeof(*groups));
	struct ws_group_sum *sums;
	size_t lines;

	if (!workers) {
		free(groups);
		return ws_fail(err, "out of memory");
	}
	memset(workers, 0, count * sizeof(*workers));
	ws_run_scan(stats->report, &scan, scan_osrt_calls, workers, &stats->damaged);
	for (uint32_t i = 0; i < count; i++) {
		groups[i] = workers[i].groups;
		stats->unended += workers[i].unended;
		stats->backwards += workers[i].backwards;
	}
	sums = ws_groups_merge(groups, count, get_canonical_function, stats, &lines);
	print_osrt_sums(stats, sums, lines);
	for (uint32_t worker = 0; worker < count; worker++)
		ws_groups_free(&groups[worker]);
	free(sums);
	free(groups);
	free(workers);
	return 0;
}

const struct ws_stats_report ws_stat_osrt_sum = {
	.name = "osrt_sum",
	.title = "OS Runtime Summary",
	.about = "Calls of libc and pthread functions that blocked or lasted, by function. Calls "
		 "that never returned are left out and "
		 "counted "
		 "in a note.",
	.what = "calls of the OS runtime",
	.by_default = true,
	.columns = columns,
	.column_count = WS_COUNT(columns),
	.run = make_osrt_sum_rows,
};
