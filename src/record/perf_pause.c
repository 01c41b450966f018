/*
 * perf_pause.c - pauses recording for threads that switch so often that recording each switch would
 * slow them down.
 *
 * A context switch with its wake-up costs the kernel two microseconds to record and the recorder
 * half of one to read. Threads that pass a lock around switch a hundred thousand times a second,
 * and would then take half as long again. So each core has an allowance of MOST switches of the
 * recorded threads a second, of which up to BURST can be saved up. When a core has spent its
 * allowance, recording pauses on all cores until the allowance would last for ON_NS again at the
 * current rate.
 *
 * Where threads switch more than CONVOY times a second, each of them waits for the one before, and
 * the cost of a record delays them all: the full allowance lost a fifth of the time. So the
 * allowance shrinks as the rate grows.
 *
 * What ran on the cores during a pause is unknown, as after lost records (perf_gaps.c): spans end
 * where the pause begins, and a thread's state is known again from its next record on. Pauses are
 * rows of sched_gap, one for each core. Processes, threads, mappings and samples are always
 * recorded; a sample in a pause stands for its period.
 */
#include <stdio.h>

#include "base/choose.h"
#include "record/perf_private.h"
#include "record/python.h"

#define MOST 15000.0	  /* switches a second of the recorded threads on a core: some 4 % of it */
#define CONVOY 30000.0	  /* a core that switches more often has a smaller allowance */
#define BURST 2000.0	  /* the most that can be saved up: some 5 ms */
#define DEBT MOST	  /* the most that a core can owe: the longest pause makes up for it */
#define LOOK_NS 10000000u /* between two looks */
#define SOON_NS 5000000u  /* the same where an allowance is nearly spent */
#define ON_NS 20000000u	  /* switches are recorded for at least this long between two pauses */
#define PAUSE_NS 1000000000u /* the longest pause */
#define SHIFT_LOOKS 2	     /* looks in a row that found many switches */

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

/* Callers ask about recent times, so the search rarely goes further back than the last pause. */
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

/* The core with the least allowance. */
struct busiest {
	double allowance;
	double rate; /* switches a second since the last look */
};

/* Switches a second that may be recorded, on a core whose threads switch `rate` times. */
static double choose_allowance(double rate)
{
	return rate <= CONVOY ? MOST : MOST * CONVOY / rate;
}

/* Add to each core's allowance for the time since the last look and subtract what was recorded: a
 * switch makes two records. */
static struct busiest settle_allowances(struct ws_perf *perf, uint64_t now)
{
	double span = (double)(now - perf->counted_from) / 1e9;
	double more = choose_allowance(perf->switch_rate) * span;
	struct busiest busiest = {.allowance = BURST};

	for (size_t i = 0; i < perf->set.rings_n; i++) {
		struct ws_perf_ring *ring = &perf->set.rings[i];
		double n = (double)ring->switches / 2;

		ring->switches = 0;
		ring->allowance = ws_min(ring->allowance + more, BURST) - n;
		ring->allowance = ws_max(ring->allowance, -DEBT);
		if (ring->allowance <= busiest.allowance)
			busiest = (struct busiest){ring->allowance, n / span};
	}
	perf->counted_from = now;
	return busiest;
}

static void begin_pause(struct ws_perf *perf, uint64_t now, double ns)
{
	ws_perf_stop_calls(perf);
	/* Take the time first: what single cores record beyond it is not used. */
	ws_perf_pause_switches(perf, now);
	record_switches(perf, false);
	perf->resume = now + (uint64_t)ws_min(ns, (double)PAUSE_NS);
}

static void end_pause(struct ws_perf *perf, uint64_t now)
{
	record_switches(perf, true);
	ws_perf_resume_switches(perf, ws_read_raw_ns());
	settle_allowances(perf, now); /* with what was recorded before and read since */
}

/*
 * The kernel exchanges events of threads at each switch, which takes more than a microsecond.
 * Events on cores cost nothing then, but they interrupt idle cores too, so they cost more the more
 * cores there are.
 */
static void consider_shift(struct ws_perf *perf, uint64_t now, double rate)
{
	if (rate < 4000 + 1000 * (double)perf->set.rings_n) {
		perf->busy = 0;
	} else if (++perf->busy >= SHIFT_LOOKS) {
		ws_perf_shift(perf);
		ws_python_leave_signals(perf->drain->python, now);
	}
}

static void look_at_rate(struct ws_perf *perf, uint64_t now)
{
	struct busiest busiest;
	double most, wanted, left;

	if (now < perf->look_at)
		return;
	busiest = settle_allowances(perf, now);
	perf->switch_rate = busiest.rate;
	most = choose_allowance(busiest.rate);
	consider_shift(perf, now, busiest.rate);
	wanted = (busiest.rate - most) * (ON_NS / 1e9);
	if (busiest.allowance <= 0 && perf->set.wide) {
		begin_pause(perf, now, (ws_max(wanted, 0) - busiest.allowance) / most * 1e9);
		return;
	}
	left = wanted > 0 ? busiest.allowance / wanted * ON_NS : LOOK_NS;
	perf->look_at = now + (uint64_t)ws_max(ws_min(left, (double)LOOK_NS), (double)SOON_NS);
}

uint64_t ws_perf_time_to_look(const struct ws_perf *perf, uint64_t now)
{
	if (!perf->counted_from || perf->resume || !perf->busy)
		return UINT64_MAX;
	return perf->look_at - ws_min(now, perf->look_at);
}

static void start_counting(struct ws_perf *perf, uint64_t now)
{
	for (size_t i = 0; i < perf->set.rings_n; i++) {
		perf->set.rings[i].switches = 0; /* drop the count from before the collection */
		perf->set.rings[i].allowance = BURST;
	}
	perf->counted_from = now;
}

void ws_perf_pace_switches(struct ws_perf *perf, uint64_t now)
{
	if (!perf->active || !perf->from || perf->options.all_switches ||
	    !(perf->options.switches || perf->options.sample))
		return;
	if (perf->resume) {
		if (now >= perf->resume)
			end_pause(perf, now);
		return;
	}
	if (perf->counted_from)
		look_at_rate(perf, now);
	else
		start_counting(perf, now);
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
