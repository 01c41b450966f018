/*
 * perf_rate.c - how many samples a second the kernel allows, before a run and during it, and what
 * is said of too few.
 */
#include <inttypes.h>
#include <stdio.h>

#include "record/perf_private.h"
#include "record/python.h"

static void say(struct ws_perf *p, enum ws_severity severity, const char *text)
{
	ws_sink_diagnostic(p->main, severity, "perf", 0, ws_raw_ns(), text);
}

/* The kernel lowers it when its interrupts take long, for everyone, and only root raises it again.
 */
uint32_t ws_perf_limit(void)
{
	FILE *f = fopen("/proc/sys/kernel/perf_event_max_sample_rate", "re");
	unsigned most = 0;

	if (f && fscanf(f, "%u", &most) != 1)
		most = 0;
	if (f)
		fclose(f);
	return most;
}

#define RAISE_LIMIT "as root: sysctl kernel.perf_event_max_sample_rate=100000"
#define TIMES_HOLD                                                                                 \
	"Times are right nevertheless, for they come from context switches; shares rest on fewer " \
	"samples"

static uint32_t asked_frequency(const struct ws_perf *p)
{
	return p->o.period ? (uint32_t)(1000000000u / p->o.period) : p->wanted_frequency;
}

/* The kernel refuses events of a higher frequency. Python's samples are some of all, each manieth:
 * a frequency that theirs divides is kept, where there is one. */
void ws_perf_limit_frequency(struct ws_perf *p)
{
	uint32_t python = ws_python_frequency(p->drain->python, p->limit), most = p->limit;
	char text[400];

	p->o.frequency = p->wanted_frequency;
	if (!most || asked_frequency(p) <= most)
		return;
	if (p->o.frequency && python)
		most -= most % python;
	if (p->o.frequency)
		p->o.frequency = most;
	snprintf(text, sizeof(text),
		 "The kernel allows %u samples a second (perf_event_max_sample_rate), not %u: %u "
		 "are taken. " TIMES_HOLD " (" RAISE_LIMIT ").",
		 p->limit, asked_frequency(p), most);
	say(p, WS_WARNING, text);
}

/* What became of the rate during the run. */
static void say_limit(struct ws_perf *p)
{
	uint32_t now = p->active && p->o.sample ? ws_perf_limit() : 0, asked = asked_frequency(p);
	char text[500];

	if (now && now < asked && now < p->limit)
		snprintf(text, sizeof(text),
			 "The kernel lowered its limit during the run, from %u to %u samples a "
			 "second (perf_event_max_sample_rate; %u were asked for), and paused the "
			 "sampling %" PRIu64 " times. " TIMES_HOLD " (" RAISE_LIMIT ").",
			 p->limit, now, asked, p->throttled);
	else if (p->throttled)
		snprintf(text, sizeof(text),
			 "The kernel paused the sampling %" PRIu64
			 " times, as samples came faster than its limit "
			 "(perf_event_max_sample_rate is %u). " TIMES_HOLD ".",
			 p->throttled, now ? now : p->limit);
	else
		return;
	say(p, now && now < p->limit ? WS_WARNING : WS_INFO, text);
}

static void say_unsampled(struct ws_perf *p)
{
	char text[300];

	if (!p->unsampled || p->unsampled < p->ran / 20)
		return;
	snprintf(text, sizeof(text),
		 "%.0f %% of the CPU time is of threads that ended before a sample of them was "
		 "taken; it is shown as [not sampled]. A higher --sampling-frequency sees more of "
		 "them.",
		 100.0 * (double)p->unsampled / (double)p->ran);
	say(p, WS_INFO, text);
}

void ws_perf_say_rate(struct ws_perf *p)
{
	say_limit(p);
	say_unsampled(p);
}
