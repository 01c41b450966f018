/*
 * filter.h - the window of a report: --filter-time and --filter-nvtx.
 *
 * Both end up as one span of time; an event counts when its own span touches it, on whatever
 * thread. --filter-nvtx takes the span of one range: name[@domain][/index], index counting the
 * ranges of that name in that domain by start, from 0.
 */
#ifndef WS_STATS_FILTER_H
#define WS_STATS_FILTER_H

#include "stats/stats.h"

/* "[start]/[end]", each nanoseconds from the start of the collection or with ns, us, ms, s; an end
 * that is not given is open. */
int ws_filter_time(struct ws_stats *stats, const char *spec, struct ws_err *err);
/* The same without a report, to complain early. */
int ws_filter_time_check(const char *spec, struct ws_err *err);
int ws_filter_nvtx(struct ws_stats *stats, const char *spec, bool quiet, struct ws_err *err);

#endif
