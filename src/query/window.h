/*
 * window.h - the time window of a scan: which blocks and which rows touch it. A row's span is from
 * its start to its end; a row without an end (a mark, or a range that never ended) is the moment of
 * its start.
 */
#ifndef WS_WINDOW_H
#define WS_WINDOW_H

#include "query/query.h"

struct ws_window {
	uint64_t min, max;
	uint64_t columns; /* what a caller wants and what filtering needs */
	int start, end;
	bool set;
};

struct ws_window ws_make_window(enum ws_table table, uint64_t columns, uint64_t min, uint64_t max);
bool ws_window_touches(const struct ws_window *window, uint64_t from, uint64_t to);
/* Drop rows outside the window from the decoded columns of a block; returns how many stay. */
size_t ws_window_filter(const struct ws_window *window, const struct ws_block_info *info,
			uint64_t *const *col);

#endif
