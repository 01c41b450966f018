/*
 * perf_pause.c - threads that switch so often that recording each switch would slow them down.
 *
 * A context switch with its wake-up costs the kernel more than a microsecond to record and the
 * recorder half of one to read. Threads that hand a lock around switch a hundred thousand times a
 * second, and would then take half as long again. Where the recorded threads switch more often than
 * MOST on a core for TOO_LONG looks in a row, switches are recorded for ON_NS and then paused for
 * as long as brings their average down to that.
 *
 * What ran on the cores in a pause is not known, as where records were lost (perf_gaps.c): spans
 * end where it begins, and a thread's state is known again from its next record on. Pauses are rows
 * of sched_gap, one a core. Processes, threads, mappings and samples are recorded all the time; a
 * sample in a pause stands for its period.
 */
#include <stdio.h>

#include "base/choose.h"
#include "record/perf_private.h"

#define MOST 30000.0	  /* switches a second of the recorded threads on a core: some 5 % of it */
#define LOOK_NS 50000000u /* between two looks, until there are too many */
#define TOO_LONG 4	  /* looks in a row */
#define ON_NS 20000000u	  /* switches are recorded for so long, at least, between two pauses */
#define PAUSE_NS 1000000000u /* the longest pause */

void ws_perf_pause_switches(struct ws_perf *perf, uint64_t time)
{
	ws_grow(perf->pauses, perf->pauses_cap, perf->pauses_n + 1);
	perf->pauses[perf->pauses_n++] = (struct ws_perf_pause){.from = time, .to = UINT64_MAX};
}

void ws_perf_resume_switches(struct ws_perf *perf, uint64_t time)
{
	struct ws_perf_pause *last = perf->pauses_n ? &perf->pauses[perf->pauses_n - 1] : NULL;

	if (last && last->to == UINT64_MAX)
		last->to = ws_max(time, last->from);
	perf->resume = 0;
}

/* Asked about what has just happened, so the search rarely goes further back than the last
 * pause. */
bool ws_perf_is_paused(const struct ws_perf *perf, uint64_t time)
{
	for (size_t i = perf->pauses_n; i--;)
		if (perf->pauses[i].from <= time)
			return time < perf->pauses[i].to;
	return false;
}

void ws_perf_pass_pauses(struct ws_perf *perf, struct ws_perf_thread *thread, uint64_t time)
{
	while (thread->pauses < perf->pauses_n && perf->pauses[thread->pauses].from <= time) {
		uint64_t from = perf->pauses[thread->pauses++].from;

		ws_perf_off(perf, thread, ws_max(from, thread->on), WS_AFTER_UNKNOWN);
		thread->strayed = true;
		thread->off = thread->woken = 0;
		thread->waker = 0;
	}
}

static void put_pause(const struct ws_perf *perf, struct ws_sink *sink,
		      const struct ws_perf_pause *pause)
{
	struct ws_row_sched_gap row = {.start = ws_max(pause->from, perf->from), .end = pause->to};

	if (perf->to)
		row.end = ws_min(row.end, perf->to);
	if (!perf->from || !perf->options.switches || row.start >= row.end)
		return;
	for (size_t i = 0; i < perf->set.rings_n; i++) {
		row.cpu = perf->set.rings[i].cpu;
		ws_writer_add(sink->writer, WS_TABLE_sched_gap, &row);
	}
}

void ws_perf_put_pauses(struct ws_perf *perf, struct ws_sink *sink)
{
	while (sink->pauses < perf->pauses_n && perf->pauses[sink->pauses].to != UINT64_MAX)
		put_pause(perf, sink, &perf->pauses[sink->pauses++]);
}

/* ---- pacing ---- */

static void record_switches(struct ws_perf *perf, bool on)
{
	ws_perf_switch(&perf->set, WS_PERF_SWITCHES, on);
	ws_perf_switch(&perf->set, WS_PERF_WAKE, on);
}

/* Switches a second of the recorded threads on the core that had most of them, since the last look:
 * each makes two records. */
static double busiest_rate(struct ws_perf *perf, uint64_t span)
{
	uint64_t most = 0;

	for (size_t i = 0; i < perf->set.rings_n; i++) {
		most = ws_max(most, perf->set.rings[i].switches);
		perf->set.rings[i].switches = 0;
	}
	return (double)most / 2 * 1e9 / (double)span;
}

static void begin_pause(struct ws_perf *perf, uint64_t now, double ns)
{
	/* The moment comes first: what single cores still record, or do already, is not used. */
	ws_perf_pause_switches(perf, now);
	record_switches(perf, false);
	perf->resume = now + (uint64_t)ws_min(ns, (double)PAUSE_NS);
}

static void end_pause(struct ws_perf *perf, uint64_t now)
{
	record_switches(perf, true);
	ws_perf_resume_switches(perf, ws_read_raw_ns());
	busiest_rate(perf, 1); /* what came from before the pause */
	perf->counted_from = now;
}

static void look_at_rate(struct ws_perf *perf, uint64_t now)
{
	uint64_t span = now - perf->counted_from;
	double rate;

	if (span < (perf->busy < TOO_LONG ? LOOK_NS : ON_NS))
		return;
	rate = busiest_rate(perf, span);
	perf->counted_from = now;
	if (rate <= MOST) {
		perf->busy = 0;
		return;
	}
	perf->busy = ws_min(perf->busy + 1, TOO_LONG);
	if (perf->busy < TOO_LONG)
		return;
	/* Events that threads inherit are exchanged at each switch, which costs as much again. */
	ws_perf_shift(perf);
	begin_pause(perf, now, (double)span * (rate / MOST - 1));
}

void ws_perf_pace_switches(struct ws_perf *perf, uint64_t now)
{
	if (!perf->active || !perf->from || !perf->set.wide || perf->options.all_switches ||
	    !(perf->options.switches || perf->options.sample))
		return;
	if (perf->resume) {
		if (now >= perf->resume)
			end_pause(perf, now);
		return;
	}
	if (perf->counted_from) {
		look_at_rate(perf, now);
		return;
	}
	busiest_rate(perf, 1); /* what came before the collection */
	perf->counted_from = now;
}

void ws_perf_say_pauses(struct ws_perf *perf)
{
	uint64_t sum = 0;
	char text[500];

	for (size_t i = 0; i < perf->pauses_n; i++)
		sum += ws_min(perf->pauses[i].to, perf->to) - perf->pauses[i].from;
	if (!sum)
		return;
	snprintf(text, sizeof(text),
		 "Threads switched more than %.0f times a second on a core. So as not to slow "
		 "them down, context switches and wake-ups were not recorded for %.3f of %.3f s: "
		 "what ran on the cores then is unknown, and samples stand for their period. "
		 "--lossless records all.",
		 MOST, (double)sum / 1e9, (double)(perf->to - perf->from) / 1e9);
	ws_sink_diagnostic(perf->main, WS_INFO, "perf", 0, perf->to, text);
}
