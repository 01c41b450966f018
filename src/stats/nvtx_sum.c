/* nvtx_sum.c - Push/pop and start/end ranges by style and name (ranges.c computes them). */
#include "stats/ranges.h"
#include "stats/summary_rows.h"

static const struct ws_column columns[] = {
	WS_SUMMARY_COLUMNS("Instances"), {"Style", WS_KIND_TEXT}, {"Range", WS_KIND_TEXT}};

static int make_nvtx_sum_rows(struct ws_stats *stats, struct ws_err *err)
{
	return ws_make_range_summary(stats, WS_RANGES_PUSHPOP | WS_RANGES_STARTEND, true, err);
}

const struct ws_stats_report ws_stat_nvtx_sum = {
	.name = "nvtx_sum",
	.title = "NVTX Range Summary",
	.about = "Push/pop and start/end ranges by style and name. Ranges that never ended are "
		 "left out and counted in a note.",
	.what = "NVTX ranges",
	.by_default = true,
	.columns = columns,
	.column_count = WS_COUNT(columns),
	.run = make_nvtx_sum_rows,
};
