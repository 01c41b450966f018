/* cuda_api_sum.c - Calls of the CUDA API by function (cuda_sum.c computes it). */
#include "stats/cuda.h"
#include "stats/summary_rows.h"

static const struct ws_column columns[] = {WS_SUMMARY_COLUMNS("Num Calls"), {"Name", WS_KIND_TEXT}};

static int make_cuda_api_sum_rows(struct ws_stats *stats, struct ws_err *err)
{
	return ws_make_cuda_summary(stats, WS_CUDA_SOURCE_BIT(API), 0, err);
}

const struct ws_stats_report ws_stat_cuda_api_sum = {
	.name = "cuda_api_sum",
	.title = "CUDA API Summary",
	.about = "Calls of the CUDA runtime and driver API, by function. Calls that never returned "
		 "are left out and counted in a note.",
	.what = "CUDA API calls",
	.by_default = true,
	.columns = columns,
	.column_count = WS_COUNT(columns),
	.run = make_cuda_api_sum_rows,
};
