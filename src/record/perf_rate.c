/*
 * perf_rate.c - how many samples a second the kernel allows, before a run and during it, and the
 * messages about too few.
 */
#include <inttypes.h>
#include <stdio.h>

#include "record/perf_private.h"
#include "record/python.h"

/* The kernel lowers the limit for everyone when its interrupts take long, and only root can raise
 * it again. */
uint32_t ws_perf_limit(void)
{
	FILE *file = fopen("/proc/sys/kernel/perf_event_max_sample_rate", "re");
	unsigned most = 0;

	if (file && fscanf(file, "%u", &most) != 1)
		most = 0;
	if (file)
		fclose(file);
	return most;
}

#define RAISE_LIMIT "as root: sysctl kernel.perf_event_max_sample_rate=100000"
#define TIMES_HOLD                                                                                 \
	"Times are right nevertheless, for they come from context switches; shares rest on fewer " \
	"samples"

static uint32_t asked_frequency(const struct ws_perf *perf)
{
	return perf->options.period ? (uint32_t)(1000000000u / perf->options.period)
				    : perf->wanted_frequency;
}

/* The kernel refuses events of a higher frequency. Python samples are every n-th of all samples, so
 * choose a frequency that is a multiple of theirs if there is one. */
void ws_perf_limit_frequency(struct ws_perf *perf)
{
	uint32_t python = ws_python_frequency(perf->drain->python, perf->limit), most = perf->limit;
	char text[400];

	perf->options.frequency = perf->wanted_frequency;
	if (!most || asked_frequency(perf) <= most)
		return;
	if (perf->options.frequency && python)
		most -= most % python;
	if (perf->options.frequency)
		perf->options.frequency = most;
	snprintf(text, sizeof(text),
		 "The kernel allows %u samples a second (perf_event_max_sample_rate), not %u: %u "
		 "are taken. " TIMES_HOLD " (" RAISE_LIMIT ").",
		 perf->limit, asked_frequency(perf), most);
	ws_perf_say(perf, WS_WARNING, text);
}

/* Report how the limit changed during the run. */
static void say_limit(struct ws_perf *perf)
{
	uint32_t now = perf->active && perf->options.sample ? ws_perf_limit() : 0,
		 asked = asked_frequency(perf);
	char text[500];

	if (now && now < asked && now < perf->limit)
		snprintf(text, sizeof(text),
			 "The kernel lowered its limit during the run, from %u to %u samples a "
			 "second (perf_event_max_sample_rate; %u were asked for), and paused the "
			 "sampling %" PRIu64 " times. " TIMES_HOLD " (" RAISE_LIMIT ").",
			 perf->limit, now, asked, perf->throttled);
	else if (perf->throttled)
		snprintf(text, sizeof(text),
			 "The kernel paused the sampling %" PRIu64
			 " times, as samples came faster than its limit "
			 "(perf_event_max_sample_rate is %u). " TIMES_HOLD ".",
			 perf->throttled, now ? now : perf->limit);
	else
		return;
	ws_perf_say(perf, now && now < perf->limit ? WS_WARNING : WS_INFO, text);
}

static void say_unsampled(struct ws_perf *perf)
{
	char text[300];

	if (!perf->unsampled || perf->unsampled < perf->ran / 20)
		return;
	snprintf(text, sizeof(text),
		 "%.0f %% of the CPU time is of threads that ended before a sample of them was "
		 "taken; it is shown as [not sampled]. A higher --sampling-frequency sees more of "
		 "them.",
		 100.0 * (double)perf->unsampled / (double)perf->ran);
	ws_perf_say(perf, WS_INFO, text);
}

void ws_perf_say_rate(struct ws_perf *perf)
{
	say_limit(perf);
	say_unsampled(perf);
}
