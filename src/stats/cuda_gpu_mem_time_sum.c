/* cuda_gpu_mem_time_sum.c - Copies and memsets by kind, their times (cuda_sum.c computes it). */
#include "stats/cuda.h"
#include "stats/summary_rows.h"

static const struct ws_column columns[] = {WS_SUMMARY_COLUMNS("Count"),
					   {"Operation", WS_KIND_TEXT}};

static int make_cuda_gpu_mem_time_sum_rows(struct ws_stats *stats, struct ws_err *err)
{
	return ws_make_cuda_summary(stats, WS_CUDA_SOURCE_BIT(MEMCPY) | WS_CUDA_SOURCE_BIT(MEMSET),
				    0, err);
}

const struct ws_stats_report ws_stat_cuda_gpu_mem_time_sum = {
	.name = "cuda_gpu_mem_time_sum",
	.title = "CUDA GPU MemOps Summary (by Time)",
	.about = "Copies and memsets of GPUs by kind, with the traffic of unified memory",
	.what = "CUDA copies and memsets",
	.unended = "had no times",
	.by_default = true,
	.columns = columns,
	.column_count = WS_COUNT(columns),
	.run = make_cuda_gpu_mem_time_sum_rows,
};
