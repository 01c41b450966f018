/* cuda_gpu_kern_gb_sum.c - Kernels by name, grid and block (cuda_sum.c computes it). */
#include "stats/cuda.h"
#include "stats/summary_rows.h"

static const struct ws_column columns[] = {WS_SUMMARY_COLUMNS("Instances"),
					   {"GridXYZ", WS_KIND_TEXT},
					   {"BlockXYZ", WS_KIND_TEXT},
					   {"Name", WS_KIND_TEXT}};

static int make_cuda_gpu_kern_gb_sum_rows(struct ws_stats *stats, struct ws_err *err)
{
	return ws_make_cuda_summary(stats, WS_CUDA_SOURCE_BIT(KERNEL), WS_CUDA_SUM_GRID, err);
}

const struct ws_stats_report ws_stat_cuda_gpu_kern_gb_sum = {
	.name = "cuda_gpu_kern_gb_sum",
	.title = "CUDA GPU Kernel/Grid/Block Summary",
	.about = "Kernels by name and sizes of grid and block; arguments as for cuda_gpu_kern_sum",
	.what = "CUDA kernels",
	.unended = "had no times",
	.args = ws_cuda_args,
	.columns = columns,
	.column_count = WS_COUNT(columns),
	.run = make_cuda_gpu_kern_gb_sum_rows,
};
