/*
 * clock.h - converts ticks to the session clock.
 *
 * Every round, the recorder reads (ticks, CLOCK_MONOTONIC_RAW, CLOCK_REALTIME) together. It
 * converts by interpolating between the readings around a moment: a rate measured once drifts by
 * nanoseconds a second, readings around the moment do not. Nothing is extrapolated: a round notes
 * how far the rings have got, then reads the clocks, then converts.
 */
#ifndef WS_RECORD_CLOCK_H
#define WS_RECORD_CLOCK_H

#include <stddef.h>
#include <stdint.h>

#include "base/ticks.h"

struct ws_reading {
	uint64_t ticks, raw, realtime;
};

struct ws_clock {
	enum ws_clock_mode mode;
	struct ws_reading *readings;
	size_t n, cap;
	/* The segment used last: ticks in [from, to) map to raw + (ticks - from) * mult >> 32. */
	uint64_t from, to, raw, mult;
};

/* Which clock the hooks should read on this machine. */
enum ws_clock_mode ws_clock_choose(void);
/* Begin with a first reading. */
void ws_clock_init(struct ws_clock *clock, enum ws_clock_mode mode);
/* Take a reading now and return it. */
struct ws_reading ws_clock_read(struct ws_clock *clock);
uint64_t ws_clock_slow(struct ws_clock *clock, uint64_t ticks);
void ws_clock_free(struct ws_clock *clock);

/* Session time of `ticks`. Ticks outside all readings (the target may have overwritten its records)
 * give the nearest reading. */
static inline uint64_t ws_clock_ns(struct ws_clock *clock, uint64_t ticks)
{
	if (ticks - clock->from >= clock->to - clock->from)
		return ws_clock_slow(clock, ticks);
	return clock->raw +
	       (uint64_t)(((unsigned __int128)(ticks - clock->from) * clock->mult) >> 32);
}

#endif
