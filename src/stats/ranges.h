/*
 * ranges.h - summaries of NVTX ranges by domain and text, which three reports share.
 */
#ifndef WS_STATS_RANGES_H
#define WS_STATS_RANGES_H

#include "stats/stats.h"

enum { WS_RANGES_PUSHPOP = 1, WS_RANGES_STARTEND = 2 };

/* Print the summary of the ranges of `kinds`, WS_RANGES_PUSHPOP or WS_RANGES_STARTEND or both; with
 * `styled`, one row for each style and name. Returns 0, or -1 with a message. */
int ws_make_range_summary(struct ws_stats *stats, unsigned kinds, bool styled, struct ws_err *err);

#endif
