/*
 * ranges.h - summaries of NVTX ranges by domain and text, which three reports share.
 */
#ifndef WS_STATS_RANGES_H
#define WS_STATS_RANGES_H

#include "stats/stats.h"

enum { WS_RANGES_PUSHPOP = 1, WS_RANGES_STARTEND = 2 };

/* Print the summary of the kinds of ranges in `kinds`; with `styled`, one line for each style and
 * name. */
int ws_ranges_summary(struct ws_stats *stats, unsigned kinds, bool styled, struct ws_err *err);

#endif
