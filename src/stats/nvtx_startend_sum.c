/* nvtx_startend_sum.c - Start/end ranges by name (ranges.c computes them). */
#include "stats/ranges.h"
#include "stats/summary_rows.h"

static const struct ws_column columns[] = {WS_SUMMARY_COLUMNS("Instances"),
					   {"Range", WS_KIND_TEXT}};

static int make_nvtx_startend_sum_rows(struct ws_stats *stats, struct ws_err *err)
{
	return ws_make_range_summary(stats, WS_RANGES_STARTEND, false, err);
}

const struct ws_stats_report ws_stat_nvtx_startend_sum = {
	.name = "nvtx_startend_sum",
	.title = "NVTX Start/End Range Summary",
	.about = "Start/end ranges by name. Ranges that never ended are left out and counted in a "
		 "note.",
	.what = "NVTX start/end ranges",
	.by_default = false,
	.columns = columns,
	.column_count = WS_COUNT(columns),
	.run = make_nvtx_startend_sum_rows,
};
