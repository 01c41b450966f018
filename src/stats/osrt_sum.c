/* osrt_sum.c - calls of the operating system's runtime by function. */
#include "stats/call_sum.h"
#include "stats/summary_rows.h"

static const struct ws_column columns[] = {WS_SUMMARY_COLUMNS("Num Calls"), {"Name", WS_KIND_TEXT}};

static int make_osrt_sum_rows(struct ws_stats *stats, struct ws_err *err)
{
	static const struct ws_call_columns calls = WS_CALL_COLUMNS(osrt);

	return ws_make_call_sums(stats, &calls, err);
}

const struct ws_stats_report ws_stat_osrt_sum = {
	.name = "osrt_sum",
	.title = "OS Runtime Summary",
	.about = "Calls of libc and pthread functions that blocked or lasted, by function. Calls "
		 "that never returned are left out and "
		 "counted "
		 "in a note.",
	.what = "calls of the OS runtime",
	.by_default = true,
	.columns = columns,
	.column_count = WS_COUNT(columns),
	.run = make_osrt_sum_rows,
};
