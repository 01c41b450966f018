/* cuda_gpu_mem_size_sum.c - Copies and memsets by kind, their sizes (cuda_sum.c computes it). */
#include "stats/cuda.h"
#include "stats/summary_rows.h"

static const struct ws_column columns[] = {{"Total", WS_KIND_SIZE},  {"Count", WS_KIND_COUNT},
					   {"Avg", WS_KIND_SIZE},    {"Med", WS_KIND_SIZE},
					   {"Min", WS_KIND_SIZE},    {"Max", WS_KIND_SIZE},
					   {"StdDev", WS_KIND_SIZE}, {"Operation", WS_KIND_TEXT}};

static int make_cuda_gpu_mem_size_sum_rows(struct ws_stats *stats, struct ws_err *err)
{
	return ws_make_cuda_summary(stats, WS_CUDA_SOURCE_BIT(MEMCPY) | WS_CUDA_SOURCE_BIT(MEMSET),
				    WS_CUDA_SUM_BYTES, err);
}

const struct ws_stats_report ws_stat_cuda_gpu_mem_size_sum = {
	.name = "cuda_gpu_mem_size_sum",
	.title = "CUDA GPU MemOps Summary (by Size)",
	.about = "Sizes of copies and memsets of GPUs by kind, in MB (1,000,000 bytes)",
	.what = "CUDA copies and memsets",
	.by_default = true,
	.columns = columns,
	.column_count = WS_COUNT(columns),
	.run = make_cuda_gpu_mem_size_sum_rows,
};
