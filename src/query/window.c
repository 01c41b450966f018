/* window.c - see window.h. */
#include "query/window.h"

struct ws_window ws_window_new(enum ws_table t, uint64_t columns, uint64_t min, uint64_t max)
{
	struct ws_window w = {
		.min = min, .max = max, .start = ws_table_start(t), .end = ws_table_end(t)};
	uint32_t n = ws_tables[t].column_count;

	w.columns = n < 64 ? columns & ((UINT64_C(1) << n) - 1) : columns;
	w.set = (min || max != UINT64_MAX) && (w.start >= 0 || w.end >= 0);
	if (w.set && w.start >= 0)
		w.columns |= UINT64_C(1) << w.start;
	if (w.set && w.end >= 0)
		w.columns |= UINT64_C(1) << w.end;
	return w;
}

bool ws_window_touches(const struct ws_window *w, uint64_t from, uint64_t to)
{
	return !w->set || (from <= w->max && to >= w->min);
}

size_t ws_window_filter(const struct ws_window *w, const struct ws_block_info *info,
			uint64_t *const *col)
{
	size_t n = 0;

	if (!w->set || (info->time_min >= w->min && info->time_max <= w->max))
		return info->rows;
	for (uint32_t i = 0; i < info->rows; i++) {
		uint64_t end = w->end >= 0 ? col[w->end][i] : WS_NO_TIME;
		uint64_t start = w->start >= 0 ? col[w->start][i] : end;

		if (!ws_window_touches(w, start, end == WS_NO_TIME ? start : end))
			continue;
		for (uint32_t c = 0; c < WS_MAX_COLUMNS; c++)
			if (w->columns >> c & 1)
				col[c][n] = col[c][i];
		n++;
	}
	return n;
}
