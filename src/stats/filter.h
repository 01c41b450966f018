/*
 * filter.h - the window of a report: --filter-time and --filter-nvtx.
 *
 * Both give one span of time; an event counts when its own span touches it, on whatever thread.
 * --filter-nvtx takes the span of one range: name[@domain][/index], where the index counts the
 * ranges of that name in that domain by start, from 0.
 */
#ifndef WS_STATS_FILTER_H
#define WS_STATS_FILTER_H

#include "stats/stats.h"

/* Set the window to "[start]/[end]", each in nanoseconds from the start of the collection or with
 * ns, us, ms or s; a limit that is not given is open. Returns 0, or -1 with a message. */
int ws_apply_time_filter(struct ws_stats *stats, const char *spec, struct ws_err *err);
/* The same check without a report, to find mistakes early. */
int ws_check_time_filter(const char *spec, struct ws_err *err);
/* Set the window to the span of a range. Returns 0, or -1 with a message when there is none;
 * `quiet`: print no message about which of several was chosen. */
int ws_apply_nvtx_filter(struct ws_stats *stats, const char *spec, bool quiet, struct ws_err *err);

#endif
