/* nvtx_pushpop_sum.c - Push/pop ranges by name (ranges.c computes them). */
#include "stats/ranges.h"
#include "stats/summary_rows.h"

static const struct ws_column columns[] = {WS_SUMMARY_COLUMNS("Instances"),
					   {"Range", WS_KIND_TEXT}};

static int make_nvtx_pushpop_sum_rows(struct ws_stats *stats, struct ws_err *err)
{
	return ws_make_range_summary(stats, WS_RANGES_PUSHPOP, false, err);
}

const struct ws_stats_report ws_stat_nvtx_pushpop_sum = {
	.name = "nvtx_pushpop_sum",
	.title = "NVTX Push/Pop Range Summary",
	.about = "Push/pop ranges by name. Ranges that never ended are left out and counted in a "
		 "note.",
	.what = "NVTX push/pop ranges",
	.by_default = false,
	.columns = columns,
	.column_count = WS_COUNT(columns),
	.run = make_nvtx_pushpop_sum_rows,
};
