/*
 * ticks.h - the raw clock that hooks read: the invariant TSC on x86-64, the virtual counter on
 * aarch64. One read costs about 10 ns and nothing else is on the hot path, so nothing is converted
 * here: the recorder, which takes (ticks, CLOCK_MONOTONIC_RAW) pairs throughout the run, converts
 * ticks to the session clock.
 *
 * Where the counter cannot be trusted (no invariant TSC), the recorder sets WS_CLOCK_RAW in the
 * arena and hooks read CLOCK_MONOTONIC_RAW nanoseconds instead.
 */
#ifndef WS_BASE_TICKS_H
#define WS_BASE_TICKS_H

#include <stdint.h>
#include <time.h>

enum ws_clock_mode { WS_CLOCK_COUNTER = 0, WS_CLOCK_RAW = 1 };

static inline uint64_t ws_read_counter(void)
{
#if defined(__x86_64__)
	uint32_t lo, hi;
	__asm__ volatile("rdtsc" : "=a"(lo), "=d"(hi));
	return (uint64_t)hi << 32 | lo;
#elif defined(__aarch64__)
	uint64_t v;
	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(v));
	return v;
#else
#error "warpsight records on x86-64 and aarch64"
#endif
}

/* CLOCK_MONOTONIC_RAW in nanoseconds: the session clock. Async-signal-safe. */
static inline uint64_t ws_read_raw_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC_RAW, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

#endif
