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
 * rate grows, by its square, and in all but short pauses a core takes a sample only every fourth
 * period: each copies a stack while all others wait.
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
#define SPARSE_NS 20000000u  /* a pause in which there are fewer samples takes at least this */
#define CLOSE_NS 100000000u  /* and this one in which events are closed */
#define PAUSE_NS 1000000000u /* the longest pause */
#define SHIFT_LOOKS 2	     /* looks in a row that found many switches */

void ws_perf_pause_switches(struct ws_perf *perf, uint64_t time, bool sparse)
{
	ws_grow(perf->pauses, perf->pauses_cap, perf->pauses_n + 1);
	perf->pauses[perf->pauses_n++] =
		(struct ws_perf_pause){.from = time, .to = UINT64_MAX, .sparse = sparse};
}

void ws_perf_resume_switches(struct ws_perf *perf, uint64_t time)
{
	struct ws_perf_pause *last = perf->pauses_n ? &perf->pauses[perf->pauses_n - 1] : NULL;

	if (last && last->to == UINT64_MAX)
		last->to = ws_max(time, last->from);
	perf->resume = 0;
}

/* The pause at `time`, or NULL. Callers ask about recent times, so the search rarely goes further
 * back than the last pause. */
static const struct ws_perf_pause *find_pause(const struct ws_perf *perf, uint64_t time)
{
	for (size_t i = perf->pauses_n; i--;)
		if (perf->pauses[i].from <= time)
			return time < perf->pauses[i].to ? &perf->pauses[i] : NULL;
	return NULL;
}

bool ws_perf_is_paused(const struct ws_perf *perf, uint64_t time)
{
	return find_pause(perf, time) != NULL;
}

unsigned ws_perf_count_periods(const struct ws_perf *perf, uint64_t time)
{
	const struct ws_perf_pause *pause = find_pause(perf, time);

	return pause && pause->sparse ? WS_PERF_SPARSE : 1;
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
	double share = MOST / ws_max(rate, MOST);

	return ws_max(MOST * share * share, LEAST);
}

static bool can_space_out(const struct ws_perf *perf, const struct ws_perf_event *event)
{
	if (!event->clock || event->attr.inherit) /* no copy that a thread has inherited changes */
		return false;
	return event->role == WS_PERF_SAMPLE || (event->role == WS_PERF_STANDBY && perf->shifted);
}

/* Have the clocks of cores take a sample every `periods` of their periods. False when there are
 * none, or the kernel refuses it. */
static bool space_out_samples(struct ws_perf *perf, unsigned periods)
{
	const struct ws_perf_set *set = &perf->set;
	uint64_t ns = (uint64_t)perf->timer_ns * periods;
	bool done = false;

	for (size_t i = 0; ns && i < set->rings_n; i++)
		for (size_t k = 0; k < set->rings[i].fds_n; k++)
			if (set->rings[i].fds[k] >= 0 &&
			    can_space_out(perf, &set->events[k % set->events_n]))
				done |= !ioctl(set->rings[i].fds[k], PERF_EVENT_IOC_PERIOD, &ns);
	return done;
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

static void begin_pause(struct ws_perf *perf, uint64_t now, double ns)
{
	bool sparse;

	ws_perf_stop_calls(perf);
	/* Take the time first: what single cores record beyond it is not used. */
	sparse = ns >= SPARSE_NS && space_out_samples(perf, WS_PERF_SPARSE);
	ws_perf_pause_switches(perf, now, sparse);
	record_switches(perf, false);
	if (ns >= CLOSE_NS)
		close_events(perf);
	perf->resume = now + (uint64_t)ws_min(ns, (double)PAUSE_NS);
}

void ws_perf_end_pause(struct ws_perf *perf)
{
	if (perf->pauses_n && perf->pauses[perf->pauses_n - 1].sparse)
		space_out_samples(perf, 1);
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
	uint64_t sum = 0;
	bool sparse = false;
	char text[600];

	for (size_t i = 0; i < perf->pauses_n; i++) {
		sum += ws_min(perf->pauses[i].to, perf->to) - perf->pauses[i].from;
		sparse |= perf->pauses[i].sparse;
	}
	if (!sum)
		return;
	snprintf(text, sizeof(text),
		 "Threads switched more than %.0f times a second on a core. So as not to slow "
		 "them down, context switches and wake-ups were not recorded for %.3f of %.3f s: "
		 "what ran on the cores then is unknown, and samples stand for their period%s. "
		 "--lossless records all.",
		 MOST, (double)sum / 1e9, (double)(perf->to - perf->from) / 1e9,
		 sparse ? ", four times theirs in pauses of 20 ms and more, where fewer are taken"
			: "");
	ws_sink_diagnostic(perf->main, WS_INFO, "perf", 0, perf->to, text);
}
