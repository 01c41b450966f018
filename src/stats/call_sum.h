/*
 * call_sum.h - summaries of calls and events by name: the rows of reports such as osrt_sum.
 */
#ifndef WS_STATS_CALL_SUM_H
#define WS_STATS_CALL_SUM_H

#include "stats/stats.h"

struct ws_call_columns { /* a table whose rows are calls, with the columns that the summary needs */
	enum ws_table table;
	uint8_t start, end, name;
};
#define WS_CALL_COLUMNS(t)                                                \
	{                                                                 \
		WS_TABLE_##t, ws_##t##_start, ws_##t##_end, ws_##t##_name \
	}

/*
 * Print one row for each name, with counts and times. Calls that never returned are left out and
 * counted in a note.
 */
int ws_make_call_sums(struct ws_stats *stats, const struct ws_call_columns *from,
		      struct ws_err *err);

#endif
