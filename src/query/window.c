/* window.c - see window.h. */
#include "query/window.h"

struct ws_window ws_make_window(enum ws_table table, uint64_t columns, uint64_t min, uint64_t max)
{
	struct ws_window window = {
		.min = min, .max = max, .start = ws_table_start(table), .end = ws_table_end(table)};
	uint32_t count = ws_tables[table].column_count;

	window.columns = columns;
	if (count < 64)
		window.columns &= (UINT64_C(1) << count) - 1;
	window.set = (min || max != UINT64_MAX) && (window.start >= 0 || window.end >= 0);
	if (window.set && window.start >= 0)
		window.columns |= UINT64_C(1) << window.start;
	if (window.set && window.end >= 0)
		window.columns |= UINT64_C(1) << window.end;
	return window;
}

bool ws_window_touches(const struct ws_window *window, uint64_t from, uint64_t to)
{
	return !window->set || (from <= window->max && to >= window->min);
}

size_t ws_window_filter(const struct ws_window *window, const struct ws_block_info *info,
			uint64_t *const *col)
{
	size_t kept = 0;

	if (!window->set || (info->time_min >= window->min && info->time_max <= window->max))
		return info->rows;
	for (uint32_t i = 0; i < info->rows; i++) {
		uint64_t end = WS_NO_TIME, start;

		if (window->end >= 0)
			end = col[window->end][i];
		start = end;
		if (window->start >= 0)
			start = col[window->start][i];
		if (end == WS_NO_TIME)
			end = start;
		if (!ws_window_touches(window, start, end))
			continue;
		for (uint32_t column = 0; column < WS_MAX_COLUMNS; column++)
			if (window->columns >> column & 1)
				col[column][kept] = col[column][i];
		kept++;
	}
	return kept;
}
