/* cuda_gpu_kern_sum.c - Kernels by name (cuda_sum.c computes it). */
#include "stats/cuda.h"
#include "stats/summary_rows.h"

static const struct ws_column columns[] = {WS_SUMMARY_COLUMNS("Instances"), {"Name", WS_KIND_TEXT}};

static int make_cuda_gpu_kern_sum_rows(struct ws_stats *stats, struct ws_err *err)
{
	return ws_make_cuda_summary(stats, WS_CUDA_SOURCE_BIT(KERNEL), 0, err);
}

const struct ws_stats_report ws_stat_cuda_gpu_kern_sum = {
	.name = "cuda_gpu_kern_sum",
	.title = "CUDA GPU Kernel Summary",
	.about = "Kernels by name; :base names functions only, :mangled as the compiler does, "
		 ":nvtx-name puts the innermost NVTX range "
		 "around the launch first",
	.what = "CUDA kernels",
	.unended = "had no times",
	.by_default = true,
	.args = ws_cuda_args,
	.columns = columns,
	.column_count = WS_COUNT(columns),
	.run = make_cuda_gpu_kern_sum_rows,
};
