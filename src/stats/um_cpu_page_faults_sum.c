/* um_cpu_page_faults_sum.c - page faults of the CPU on unified memory by the instruction that
 * touched it. */
#include <stdlib.h>

#include "stats/keyed.h"
#include "stats/summary_rows.h"

static const struct ws_column columns[] = {{"CPU Page Faults", WS_KIND_COUNT},
					   {"CPU Instruction Address", WS_KIND_TEXT}};

static int scan_page_faults(void *context, const struct ws_batch *batch)
{
	for (size_t i = 0; i < batch->rows; i++)
		ws_dist_add(ws_keyed_get(context, &batch->col[ws_cuda_um_cpu_fault_instruction][i]),
			    1);
	return 0;
}

static void get_canonical_instruction(void *context, size_t table, uint64_t *key)
{
	(void)table;
	*key = ws_report_string_key(context, (uint32_t)*key);
}

static int make_um_cpu_page_faults_sum_rows(struct ws_stats *stats, struct ws_err *err)
{
	struct ws_scan scan = {
		.table = WS_TABLE_cuda_um_cpu_fault,
		.columns = WS_COLUMN_BIT(cuda_um_cpu_fault, instruction),
		.time_min = stats->time_min,
		.time_max = stats->time_max,
		.workers = 1,
	};
	struct ws_keyed_dists faults = {.words = 1, .dists_per_key = 1};
	struct ws_keyed_sums sums;
	struct ws_summary_row *lines;
	uint64_t damaged = 0;

	(void)err;
	ws_run_scan(stats->report, &scan, scan_page_faults, &faults, &damaged);
	stats->damaged += damaged;
	ws_keyed_merge(&faults, 1, get_canonical_instruction, (void *)stats->report, &sums);
	lines = ws_calloc(sums.count, sizeof(*lines));
	for (size_t i = 0; i < sums.count; i++) {
		lines[i].summary =
			&sums.summaries[i]; /* all values are 1, so the total is the count */
		lines[i].name = ws_report_string(stats->report, (uint32_t)sums.keys[i],
						 &lines[i].name_length);
	}
	ws_sort_summary_rows(lines, sums.count);
	for (size_t i = 0; i < sums.count; i++)
		stats->row(stats,
			   (struct ws_cell[]){ws_cell_int((int64_t)lines[i].summary->count),
					      ws_cell_text(lines[i].name, lines[i].name_length)});
	free(lines);
	ws_keyed_sums_free(&sums);
	return 0;
}

const struct ws_stats_report ws_stat_um_cpu_page_faults_sum = {
	.name = "um_cpu_page_faults_sum",
	.title = "Unified Memory CPU Page Faults Summary",
	.about = "Page faults of the CPU on unified memory by the instruction that touched it, as "
		 "function or address.",
	.what = "CPU page faults on unified memory",
	.by_default = true,
	.columns = columns,
	.column_count = WS_COUNT(columns),
	.run = make_um_cpu_page_faults_sum_rows,
};
