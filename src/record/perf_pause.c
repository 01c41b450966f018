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
 * Threads that switch more often than that mostly wait for one another, and the cost of a record
 * delays them all: the full allowance lost a fifth of the time. So the allowance shrinks as the
 * rate grows, by its square, and fewer samples are taken (perf_sparse.c).
 *
 * What ran on the cores during a pause is unknown, as after lost records (perf_gaps.c): spans end
 * where the pause begins, and a thread's state is known again from its next record on. Pauses are
 * rows of sched_gap, one for each core. Processes, threads, mappings and samples are always
 * recorded; a sample in a pause stands for its period.
 */
#include <stdio.h>
#include <sys/ioctl.h>

#include "base/choose.h"
#include "record/closer.h"
#include "record/perf_private.h"
#include "record/python.h"

#define MOST 15000.0	  /* switches a second of the recorded threads on a core: some 4 % of it */
#define LEAST 1000.0	  /* but never less than this */
#define BURST 2000.0	  /* the most that can be saved up: some 5 ms */
#define DEBT MOST	  /* the most that a core can owe: the longest pause makes up for it */
#define LOOK_NS 10000000u /* between two looks */
#define SOON_NS 5000000u  /* the same where an allowance is nearly spent */
#define ON_NS 10000000u	  /* switches are recorded for at least this long between two pauses */
#define SPARSE_NS 20000000u  /* a pause in which samples are sparse takes at least this */
#define CLOSE_NS 100000000u  /* and this one in which events are closed */
#define PAUSE_NS 1000000000u /* the longest pause */
#define SHIFT_LOOKS 2	     /* looks in a row that found many switches */

/* ---- spans of time ---- */

void ws_perf_begin_span(struct ws_perf_spans *spans, uint64_t time)
{
	ws_grow(spans->span, spans->cap, spans->n + 1);
	spans->span[spans->n++] = (struct ws_perf_span){time, UINT64_MAX};
}

bool ws_perf_span_lasts(const struct ws_perf_spans *spans)
{
	return spans->n && spans->span[spans->n - 1].to == UINT64_MAX;
}

void ws_perf_end_span(struct ws_perf_spans *spans, uint64_t time)
{
	if (ws_perf_span_lasts(spans))
		spans->span[spans->n - 1].to = ws_max(time, spans->span[spans->n - 1].from);
}

/* Callers ask about recent times, so the search rarely goes further back than the last span. */
bool ws_perf_is_in_span(const struct ws_perf_spans *spans, uint64_t time)
{
	for (size_t i = spans->n; i--;)
		if (spans->span[i].from <= time)
			return time < spans->span[i].to;
	return false;
}

uint64_t ws_perf_sum_spans(const struct ws_perf_spans *spans, uint64_t to)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < spans->n; i++)
		sum += ws_min(spans->span[i].to, to) - ws_min(spans->span[i].from, to);
	return sum;
}

/* ---- pauses ---- */

void ws_perf_pause_switches(struct ws_perf *perf, uint64_t time)
{
	ws_perf_begin_span(&perf->pauses, time);
}

void ws_perf_resume_switches(struct ws_perf *perf, uint64_t time)
{
	ws_perf_end_span(&perf->pauses, time);
	perf->resume = 0;
}

bool ws_perf_is_paused(const struct ws_perf *perf, uint64_t time)
{
	return ws_perf_is_in_span(&perf->pauses, time);
}

void ws_perf_pass_pauses(struct ws_perf *perf, struct ws_perf_thread *thread, uint64_t time)
{
	while (thread->pauses < perf->pauses.n && perf->pauses.span[thread->pauses].from <= time) {
		uint64_t from = perf->pauses.span[thread->pauses++].from;

		ws_perf_off(perf, thread, ws_max(from, thread->on), WS_AFTER_UNKNOWN);
		thread->strayed = true;
		thread->off = thread->woken = 0;
		thread->waker = 0;
	}
}

static void put_pause(const struct ws_perf *perf, struct ws_sink *sink,
		      const struct ws_perf_span *pause)
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
	while (sink->pauses < perf->pauses.n && perf->pauses.span[sink->pauses].to != UINT64_MAX)
		put_pause(perf, sink, &perf->pauses.span[sink->pauses++]);
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
	double share = MOST / ws_max(rate, MOST);

	return ws_max(MOST * share * share, LEAST);
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
		ws_perf_note_rate(perf, ring, n / span, now);
		if (ring->allowance <= busiest.allowance)
			busiest = (struct busiest){ring->allowance, n / span};
	}
	perf->counted_from = now;
	return busiest;
}

/* Events that are off still cost something at each switch and wake-up of every core, and they are
 * soon opened. */
static void close_events(struct ws_perf *perf)
{
	if (perf->closer)
		return;
	perf->closer = ws_perf_close_role(&perf->set, WS_PERF_SWITCHES, NULL);
	perf->closer = ws_perf_close_role(&perf->set, WS_PERF_WAKE, perf->closer);
	ws_closer_start(perf->closer);
}

static void reopen_events(struct ws_perf *perf)
{
	bool all;

	if (!perf->closer)
		return;
	ws_closer_join(perf->closer);
	perf->closer = NULL;
	all = ws_perf_reopen_role(&perf->set, WS_PERF_SWITCHES);
	all &= ws_perf_reopen_role(&perf->set, WS_PERF_WAKE);
	if (!all)
		ws_sink_diagnostic(perf->main, WS_WARNING, "perf", 0, ws_read_raw_ns(),
				   "Context switches or wake-ups of some core are not recorded any "
				   "more: the kernel refused to begin again after a pause.");
}

/* No switch tells in a pause where the threads are. They may be on any core, but mostly stay on
 * those where they were; clocks of other cores would only wake them up. */
static void want_sparse_pause(struct ws_perf *perf)
{
	for (size_t i = 0; i < perf->set.rings_n; i++) {
		struct ws_perf_ring *ring = &perf->set.rings[i];

		if (ring->switch_rate > 0 || !perf->by_thread || perf->shifted)
			ws_perf_want_sparse(perf, ring, perf->resume + 2 * LOOK_NS);
	}
}

static void begin_pause(struct ws_perf *perf, uint64_t now, double ns)
{
	ws_perf_stop_calls(perf);
	/* Take the time first: what single cores record beyond it is not used. */
	ws_perf_pause_switches(perf, now);
	record_switches(perf, false);
	if (ns >= CLOSE_NS)
		close_events(perf);
	perf->resume = now + (uint64_t)ws_min(ns, (double)PAUSE_NS);
	if (ns >= SPARSE_NS)
		want_sparse_pause(perf);
}

void ws_perf_end_pause(struct ws_perf *perf)
{
	reopen_events(perf);
	record_switches(perf, true);
}

static void end_pause(struct ws_perf *perf, uint64_t now)
{
	ws_perf_end_pause(perf);
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
	uint64_t sum = ws_perf_sum_spans(&perf->pauses, perf->to);
	char text[600];

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
