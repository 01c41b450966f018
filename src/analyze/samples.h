/*
 * samples.h - the CPU samples of a report in memory, by thread and time. There may be tens of
 * millions, so each takes 20 bytes; whose it is says its place.
 */
#ifndef WS_ANALYZE_SAMPLES_H
#define WS_ANALYZE_SAMPLES_H

#include "query/query.h"

struct ws_samples {
	size_t rows;
	uint64_t *start;
	uint32_t *frame, *callers; /* where it ran, and the stack below; 0 when not taken */
	uint32_t *time;		   /* read it by ws_samples_get_time */
	uint64_t *long_times;
	size_t long_count, long_cap;
	uint64_t damaged; /* blocks that could not be read */
};

#define WS_LONG_TIME (UINT32_C(1) << 31) /* the rest is the number of one of `long_times` */

/* Nanoseconds on a core that a sample stands for. */
static inline uint64_t ws_samples_get_time(const struct ws_samples *samples, size_t i)
{
	uint32_t time = samples->time[i];

	if (time & WS_LONG_TIME)
		return samples->long_times[time & ~WS_LONG_TIME];
	return time;
}

/* Reads the samples of threads with ids below `threads`; those of a thread are sorted by time, and
 * `place` is told where they are. */
void ws_samples_load(const struct ws_report *report, uint32_t threads,
		     void (*place)(void *context, uint32_t thread, size_t first, size_t end),
		     void *context, struct ws_samples *samples);
void ws_samples_free(struct ws_samples *samples);

#endif
