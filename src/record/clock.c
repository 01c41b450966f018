/* clock.c - see clock.h. */
#include "record/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* With more readings than this, every second one of the older half is dropped. Hours fit, and
 * readings stay only seconds apart. */
#define MOST_READINGS 65536

enum ws_clock_mode ws_clock_choose(void)
{
#if defined(__x86_64__)
	/* The kernel's own judgement: it watches the TSC from boot on and stops using it when it is
	 * not reliable. */
	char source[32] = "", line[4096];
	FILE *file =
		fopen("/sys/devices/system/clocksource/clocksource0/current_clocksource", "re");
	int invariant = 0;

	if (file) {
		if (!fgets(source, sizeof(source), file))
			source[0] = 0;
		fclose(file);
	}
	file = fopen("/proc/cpuinfo", "re");
	while (file && fgets(line, sizeof(line), file))
		if (!strncmp(line, "flags", 5)) {
			invariant = strstr(line, " constant_tsc") && strstr(line, " nonstop_tsc");
			break;
		}
	if (file)
		fclose(file);
	/* The clock sources of kvm-clock and hyperv read the TSC too; with these flags it runs
	 * evenly there. */
	if (!strncmp(source, "tsc", 3) || invariant)
		return WS_CLOCK_COUNTER;
	return WS_CLOCK_RAW;
#else
	return WS_CLOCK_COUNTER;
#endif
}

static uint64_t read_realtime_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* The closest of a few tries: an interruption between the reads would distort the result. */
static struct ws_reading read_clocks_once(enum ws_clock_mode mode)
{
	struct ws_reading best = {0};
	uint64_t gap = UINT64_MAX;

	if (mode == WS_CLOCK_RAW) {
		best.ticks = best.raw = ws_read_raw_ns();
		best.realtime = read_realtime_ns();
		return best;
	}
	for (int i = 0; i < 4; i++) {
		uint64_t a = ws_read_counter(), raw = ws_read_raw_ns(), b = ws_read_counter();

		if (b - a < gap) {
			gap = b - a;
			best.ticks = a + (b - a) / 2;
			best.raw = raw;
			best.realtime = read_realtime_ns();
		}
	}
	return best;
}

static void use_segment(struct ws_clock *clock, size_t i)
{
	const struct ws_reading *left = &clock->readings[i], *right = &clock->readings[i + 1];

	clock->from = left->ticks;
	clock->to = right->ticks;
	clock->raw = left->raw;
	clock->mult = (uint64_t)(((unsigned __int128)(right->raw - left->raw) << 32) /
				 (right->ticks - left->ticks));
}

static void thin_out_readings(struct ws_clock *clock)
{
	size_t half = clock->n / 2, to = 1;

	for (size_t i = 2; i < half; i += 2)
		clock->readings[to++] = clock->readings[i];
	memmove(&clock->readings[to], &clock->readings[half],
		(clock->n - half) * sizeof(*clock->readings));
	clock->n = to + (clock->n - half);
}

struct ws_reading ws_clock_read(struct ws_clock *clock)
{
	struct ws_reading reading = read_clocks_once(clock->mode);

	/* Both clocks must have advanced, or there is nothing to interpolate between. */
	if (clock->n && (reading.ticks <= clock->readings[clock->n - 1].ticks ||
			 reading.raw <= clock->readings[clock->n - 1].raw))
		return clock->readings[clock->n - 1];
	if (clock->n == MOST_READINGS)
		thin_out_readings(clock);
	ws_grow(clock->readings, clock->cap, clock->n + 1);
	clock->readings[clock->n++] = reading;
	if (clock->n > 1)
		use_segment(clock, clock->n - 2);
	return reading;
}

void ws_clock_init(struct ws_clock *clock, enum ws_clock_mode mode)
{
	memset(clock, 0, sizeof(*clock));
	clock->mode = mode;
	ws_clock_read(clock);
}

uint64_t ws_clock_slow(struct ws_clock *clock, uint64_t ticks)
{
	size_t lo = 0, hi = clock->n - 1;

	if (ticks <= clock->readings[0].ticks || clock->n < 2)
		return clock->readings[0].raw;
	if (ticks >= clock->readings[hi].ticks)
		return clock->readings[hi].raw;
	while (hi - lo > 1) {
		size_t mid = lo + (hi - lo) / 2;

		if (clock->readings[mid].ticks <= ticks)
			lo = mid;
		else
			hi = mid;
	}
	use_segment(clock, lo);
	return ws_clock_ns(clock, ticks);
}

void ws_clock_free(struct ws_clock *clock)
{
	free(clock->readings);
	memset(clock, 0, sizeof(*clock));
}
