/*
 * std8.h - the eight columns that every summary begins with, and its order of rows.
 */
#ifndef WS_STATS_STD8_H
#define WS_STATS_STD8_H

#include "stats/dist.h"
#include "stats/stats.h"

#define WS_STD8(count)                                                                                          \
	{"Time", WS_KIND_PERCENT}, {"Total Time", WS_KIND_TIME}, {count, WS_KIND_COUNT}, {"Avg", WS_KIND_MEAN}, \
	    {"Med", WS_KIND_MEAN}, {"Min", WS_KIND_TIME}, {"Max", WS_KIND_TIME},                                \
	{                                                                                                       \
		"StdDev", WS_KIND_MEAN                                                                          \
	}

struct ws_std8_line {
	const struct ws_std8 *s;
	const char *style;  /* shown between the figures and the name; NULL for none */
	const char *style2; /* and another after it */
	const char *name;
	size_t name_len;
	const char *tail; /* shown behind the name and a slash; NULL for none */
	size_t tail_len;
};

/*
 * Print every line with its share of the sum, in order of total, largest first, then of name, tail and style. Lines stay where they
 * are.
 */
void ws_std8_print(struct ws_stats *s, const struct ws_std8_line *lines, size_t count);
/* Bring lines into that order. */
void ws_std8_sort(struct ws_std8_line *lines, size_t count);

#endif
