/* cuda_gpu_sum.c - All work of GPUs by kind and name (cuda_sum.c computes it). */
#include "stats/cuda.h"
#include "stats/summary_rows.h"

static const struct ws_column columns[] = {
	WS_SUMMARY_COLUMNS("Instances"), {"Category", WS_KIND_TEXT}, {"Operation", WS_KIND_TEXT}};

static int make_cuda_gpu_sum_rows(struct ws_stats *stats, struct ws_err *err)
{
	return ws_make_cuda_summary(stats,
				    WS_CUDA_SOURCE_BIT(KERNEL) | WS_CUDA_SOURCE_BIT(MEMCPY) |
					    WS_CUDA_SOURCE_BIT(MEMSET) | WS_CUDA_SOURCE_BIT(GRAPH),
				    WS_CUDA_SUM_CATEGORY, err);
}

const struct ws_stats_report ws_stat_cuda_gpu_sum = {
	.name = "cuda_gpu_sum",
	.title = "CUDA GPU Summary (Kernels/MemOps)",
	.about = "Kernels, copies and memsets together, and graphs that were recorded whole; "
		 "arguments as for cuda_gpu_kern_sum",
	.what = "CUDA operations on GPUs",
	.unended = "had no times",
	.args = ws_cuda_args,
	.columns = columns,
	.column_count = WS_COUNT(columns),
	.run = make_cuda_gpu_sum_rows,
};
