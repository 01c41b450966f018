/* clock.c - see clock.h. */
#include "record/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* Above this, every second reading of the older half goes: hours fit, and what is interpolated over
 * stays seconds long. */
#define MOST_READINGS 65536

enum ws_clock_mode ws_clock_choose(void)
{
#if defined(__x86_64__)
	/* The kernel's own verdict: it watches the TSC from boot on and leaves it when it is not to
	 * be trusted. */
	char source[32] = "", line[4096];
	FILE *f = fopen("/sys/devices/system/clocksource/clocksource0/current_clocksource", "re");
	int invariant = 0;

	if (f) {
		if (!fgets(source, sizeof(source), f))
			source[0] = 0;
		fclose(f);
	}
	f = fopen("/proc/cpuinfo", "re");
	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, "flags", 5)) {
			invariant = strstr(line, " constant_tsc") && strstr(line, " nonstop_tsc");
			break;
		}
	if (f)
		fclose(f);
	/* kvm-clock and hyperv's page read the TSC too: with the flags it runs evenly there. */
	if (!strncmp(source, "tsc", 3) || invariant)
		return WS_CLOCK_COUNTER;
	return WS_CLOCK_RAW;
#else
	return WS_CLOCK_COUNTER;
#endif
}

static uint64_t realtime_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* The tightest of a few tries: an interruption between the reads would bend the line. */
static struct ws_reading read_once(enum ws_clock_mode mode)
{
	struct ws_reading best = {0};
	uint64_t gap = UINT64_MAX;

	if (mode == WS_CLOCK_RAW) {
		best.ticks = best.raw = ws_raw_ns();
		best.realtime = realtime_ns();
		return best;
	}
	for (int i = 0; i < 4; i++) {
		uint64_t a = ws_counter(), raw = ws_raw_ns(), b = ws_counter();

		if (b - a < gap) {
			gap = b - a;
			best.ticks = a + (b - a) / 2;
			best.raw = raw;
			best.realtime = realtime_ns();
		}
	}
	return best;
}

static void use_segment(struct ws_clock *c, size_t i)
{
	const struct ws_reading *a = &c->v[i], *b = &c->v[i + 1];

	c->from = a->ticks;
	c->to = b->ticks;
	c->raw = a->raw;
	c->mult = (uint64_t)(((unsigned __int128)(b->raw - a->raw) << 32) / (b->ticks - a->ticks));
}

static void thin(struct ws_clock *c)
{
	size_t half = c->n / 2, to = 1;

	for (size_t i = 2; i < half; i += 2)
		c->v[to++] = c->v[i];
	memmove(&c->v[to], &c->v[half], (c->n - half) * sizeof(*c->v));
	c->n = to + (c->n - half);
}

struct ws_reading ws_clock_read(struct ws_clock *c)
{
	struct ws_reading r = read_once(c->mode);

	/* Both clocks must move on, or there is no line between two readings. */
	if (c->n && (r.ticks <= c->v[c->n - 1].ticks || r.raw <= c->v[c->n - 1].raw))
		return c->v[c->n - 1];
	if (c->n == MOST_READINGS)
		thin(c);
	ws_grow(c->v, c->cap, c->n + 1);
	c->v[c->n++] = r;
	if (c->n > 1)
		use_segment(c, c->n - 2);
	return r;
}

void ws_clock_init(struct ws_clock *c, enum ws_clock_mode mode)
{
	memset(c, 0, sizeof(*c));
	c->mode = mode;
	ws_clock_read(c);
}

uint64_t ws_clock_slow(struct ws_clock *c, uint64_t ticks)
{
	size_t lo = 0, hi = c->n - 1;

	if (ticks <= c->v[0].ticks || c->n < 2)
		return c->v[0].raw;
	if (ticks >= c->v[hi].ticks)
		return c->v[hi].raw;
	while (hi - lo > 1) {
		size_t mid = lo + (hi - lo) / 2;

		if (c->v[mid].ticks <= ticks)
			lo = mid;
		else
			hi = mid;
	}
	use_segment(c, lo);
	return ws_clock_ns(c, ticks);
}

void ws_clock_free(struct ws_clock *c)
{
	free(c->v);
	memset(c, 0, sizeof(*c));
}
