/*
 * perf.c - see perf.h: opening, the rounds, collections.
 */
#include "record/perf.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "record/closer.h"
#include "record/perf_private.h"
#include "record/python.h"

#define HORIZON_NS 2000000u /* records this old are certain to have reached their buffers */
#define IDLE_NS 20000000u
#define LEAST_NS 500000u       /* between two rounds, unless a buffer gets full */
#define BRIEF_NS 50000000u     /* threads that live for less than this, */
#define BRIEF_MOST 20	       /* and that more of them than this */
#define BRIEF_SPAN 1000000000u /* within this time are not sampled by events of their own */
#define FULL_ENOUGH 64	       /* of 256: from here on the recorder comes back at once */

/* ---- opening ---- */

/* How long the recorder may sleep before a busy CPU's samples fill a quarter of its ring. */
static void choose_idle(struct ws_perf *perf)
{
	double bytes = 256, rate = 1;

	for (size_t i = 0; i < perf->set.events_n; i++) {
		const struct perf_event_attr *attr = &perf->set.events[i].attr;

		if (perf->set.events[i].role == WS_PERF_SAMPLE)
			rate += attr->freq ? (double)attr->sample_freq
					   : 1e9 / (double)attr->sample_period;
		if (attr->sample_stack_user + 600.0 > bytes)
			bytes = attr->sample_stack_user + 600.0;
	}
	rate = (double)perf->set.ring_bytes / 4 / (bytes * rate) * 1e9;
	perf->idle_ns = rate > IDLE_NS ? IDLE_NS : rate < 500000 ? 500000 : (uint64_t)rate;
}

/* If the limit falls after it was read and before the event is opened, opening fails. */
static void choose_and_open(struct ws_perf *perf)
{
	for (int tries = 0; tries < 3; tries++) {
		perf->limit = ws_perf_limit();
		ws_perf_limit_frequency(perf);
		ws_perf_forget_events(perf);
		ws_perf_choose_events(perf);
		perf->refused = ws_perf_open_set(&perf->set, perf->target, perf->options.attach);
		if (perf->refused != EINVAL || ws_perf_limit() >= perf->limit)
			return;
	}
}

static void open_all(struct ws_perf *perf)
{
	perf->refused = ws_perf_find_scope(perf);
	if (!perf->refused) {
		ws_perf_open_programs(perf);
		choose_and_open(perf);
	}
	if (perf->refused) {
		perf->set.events_n = 0;
		ws_python_bpf_close(perf->drain->python);
		if (perf->options.syscalls)
			ws_perf_refuse_syscalls(perf, "perf events are refused");
		ws_perf_say_refused(perf);
		return;
	}
	perf->active = true;
	ws_perf_say_tracepoints(perf);
	ws_perf_attach_programs(perf);
	choose_idle(perf);
	if ((perf->options.sample == WS_SCOPE_SYSTEM ||
	     perf->options.switches == WS_SCOPE_SYSTEM) &&
	    !perf->set.wide) {
		ws_perf_say(perf, WS_WARNING,
			    "Nothing may be seen beyond the target's processes "
			    "(perf_event_paranoid, see "
			    "'warpsight doctor'): the scope is "
			    "the process tree.");
		perf->options.sample = perf->options.sample ? WS_SCOPE_TREE : WS_SCOPE_NONE;
		perf->options.switches = perf->options.switches ? WS_SCOPE_TREE : WS_SCOPE_NONE;
	}
	if (perf->set.no_kernel)
		ws_perf_say(perf, WS_INFO,
			    "The kernel may not be looked into (perf_event_paranoid): samples are "
			    "of user "
			    "space only.");
}

struct ws_perf *ws_perf_open(const struct ws_perf_opts *options, pid_t target,
			     struct ws_drain *drain, struct ws_sink *main)
{
	struct ws_perf *perf;

	if (!options->sample && !options->switches && !options->ftrace && !options->count_events &&
	    !options->syscalls && !options->core_metrics) {
		ws_sink_meta(main, "session.sample", "none");
		ws_sink_meta(main, "session.cpuctxsw", "none");
		return NULL;
	}
	perf = ws_calloc(1, sizeof(*perf));
	perf->options = *options;
	perf->drain = drain;
	perf->main = main;
	perf->target = target;
	perf->idle_ns = IDLE_NS;
	perf->has_ended = ws_perf_has_ended;
	perf->had_time = ws_proc_had_time;
	perf->wanted_frequency = options->frequency;
	if (!perf->options.stack_bytes)
		perf->options.stack_bytes = 8192;
	if (!perf->options.samples_per_backtrace)
		perf->options.samples_per_backtrace = 1;
	if (options->count_events) {
		ws_perf_open_counters(perf, options->core_events, true);
		ws_perf_open_counters(perf, options->os_events, false);
	}
	ws_perf_open_metrics(perf, options->core_metrics);
	if (options->sample || options->switches || options->ftrace || options->syscalls)
		open_all(perf);
	ws_perf_describe(perf, main);
	ws_perf_tree_init(perf);
	return perf;
}

void ws_perf_add_root(struct ws_perf *perf, pid_t pid)
{
	if (!perf)
		return;
	if (perf->active) {
		ws_perf_open_more(&perf->set, pid);
		ws_perf_attach_programs_to_last(perf);
		if (perf->from && !perf->over)
			ws_perf_begin(perf, perf->from);
	}
	ws_syscalls_add(perf->syscalls, (uint32_t)pid);
	ws_perf_tree_add(perf, (uint32_t)pid);
}

bool ws_perf_wants_stack(const struct ws_perf *perf, uint32_t nth)
{
	return perf && perf->options.backtrace != WS_BACKTRACE_NONE &&
	       nth % perf->options.samples_per_backtrace == 0;
}

bool ws_perf_active(const struct ws_perf *perf)
{
	return perf && perf->active;
}

bool ws_perf_refused(void)
{
	struct ws_perf self = {0}; /* target 0: this process */

	return ws_perf_find_scope(&self) != 0;
}

/* ---- samples by CPU instead of by thread ---- */

bool ws_perf_shift(struct ws_perf *perf)
{
	size_t standby = ws_perf_find_role(&perf->set, WS_PERF_STANDBY);
	bool on_cores = perf->set.wide && !perf->by_thread;

	if ((standby == perf->set.events_n && !on_cores) || perf->over)
		return false;
	if (!perf->shifted) {
		perf->shifted = true;
		ws_perf_stop_calls(perf);
		if (on_cores)
			return true;
		ws_perf_close_event(&perf->set, standby - 1);
		ws_perf_switch(&perf->set, WS_PERF_STANDBY, perf->from != 0);
	}
	return true;
}

static void say_brief(struct ws_perf *perf)
{
	perf->shifted = true; /* as far as possible */
	if (perf->by_thread || !perf->set.wide)
		ws_perf_say(
			perf, WS_INFO,
			"Many threads live for less than 50 ms. They and those that start them are "
			"sampled by events of their own, "
			"which "
			"favour some of their code: read shares of theirs with care. A higher "
			"--sampling-frequency helps; so do rights "
			"to watch whole cores (see 'warpsight doctor').");
}

void ws_perf_lived(struct ws_perf *perf, uint64_t start, uint64_t end)
{
	if (perf->shifted || perf->over || !perf->options.sample || !perf->from || end < start ||
	    end - start > BRIEF_NS)
		return;
	if (end - perf->brief_since > BRIEF_SPAN) {
		perf->brief_since = end;
		perf->brief_n = 0;
	}
	if (++perf->brief_n > BRIEF_MOST && !ws_perf_shift(perf))
		say_brief(perf);
}

/* ---- rounds ---- */

static void take_one(void *ctx, struct ws_perf_ring *ring, const void *rec, size_t size)
{
	struct ws_perf *perf = ctx;

	if (perf->held_n)
		ws_perf_put_held(perf, ws_perf_time(rec, size));
	perf->ring = ring;
	if (ring->tail >= ring->full_at)
		ring->full_at = 0;
	ws_perf_record(perf, rec, size, false);
	ring->last = ws_perf_time(rec, size);
	perf->ring = NULL;
}

static void take(struct ws_perf *perf, uint64_t horizon, bool all)
{
	if (!perf->active || perf->over)
		return;
	ws_perf_note_full(perf);
	ws_perf_expect_held(perf, horizon);
	ws_perf_take(&perf->set, all ? UINT64_MAX : horizon, take_one, perf);
	if (perf->waiting)
		ws_perf_settle_waiting(perf, horizon, all);
	ws_perf_put_held(perf, all ? UINT64_MAX : horizon);
	/* threads that ended before this are not looked up any more */
	perf->drain->keep_from = horizon;
}

void ws_perf_begin(struct ws_perf *perf, uint64_t time)
{
	if (!perf)
		return;
	perf->from = time;
	if (!perf->active)
		return;
	if (!perf->combined)
		ws_perf_switch(&perf->set, WS_PERF_SAMPLE, true);
	if (perf->shifted)
		ws_perf_switch(&perf->set, WS_PERF_STANDBY, true);
	ws_perf_switch(&perf->set, WS_PERF_CALLS, perf->calls_on);
	ws_perf_switch(&perf->set, WS_PERF_WAKE, true);
	ws_perf_switch(&perf->set, WS_PERF_FTRACE, true);
}

static void close_span(struct ws_perf *perf, struct ws_perf_thread *thread, uint64_t time,
		       bool goes_on)
{
	uint64_t on;
	bool seen = thread->seen;

	ws_perf_pass_gaps(perf, thread, UINT64_MAX);
	on = thread->on;
	ws_perf_off(perf, thread, time, WS_AFTER_UNKNOWN);
	ws_perf_settle_time(perf, thread);
	if (!goes_on)
		return;
	/* The state before a first collection: it runs or does not, and nothing has been
	 * sampled. */
	thread->on = on;
	thread->seen = seen;
	thread->ran = thread->slack = 0;
	thread->sampled = false;
	thread->gaps = thread->pauses = 0;
}

static void close_spans(struct ws_perf *perf, uint64_t time, bool go_on)
{
	for (size_t i = 0; i < perf->threads.size; i++)
		if (perf->threads.used[i])
			close_span(perf, (void *)(uintptr_t)perf->threads.slots[i].value, time,
				   go_on);
}

/* Take everything that belongs to the collection that ends at `time`. */
static void take_rest(struct ws_perf *perf, uint64_t time, bool go_on)
{
	perf->to = time;
	take(perf, ws_read_raw_ns(), true);
	ws_perf_add_last_gaps(perf, time);
	ws_perf_find_ended(perf, time, true);
	ws_perf_resume_switches(perf, time);
	close_spans(perf, time, go_on);
	ws_perf_put_gaps(perf, perf->main);
	ws_perf_put_pauses(perf, perf->main);
}

void ws_perf_stop(struct ws_perf *perf, uint64_t time)
{
	if (perf && !perf->over)
		perf->to = time;
}

void ws_perf_end(struct ws_perf *perf, uint64_t time)
{
	if (!perf || perf->over)
		return;
	take_rest(perf, time, false);
	/* Events that are closed next are not turned off first, which would interrupt each core. */
	for (int role = WS_PERF_TRACK; perf->active && !perf->finishing && role <= WS_PERF_FTRACE;
	     role++)
		ws_perf_switch(&perf->set, (enum ws_perf_role)role, false);
	perf->over = true;
}

void ws_perf_round(struct ws_perf *perf, uint64_t since)
{
	if (!perf || perf->over)
		return;
	take(perf, since - HORIZON_NS, false);
	ws_perf_find_ended(perf, since - HORIZON_NS, false);
	ws_perf_count(perf, ws_read_raw_ns());
	ws_perf_pace_switches(perf, ws_read_raw_ns());
	ws_perf_pace_samples(perf, ws_read_raw_ns());
	if (perf->active)
		ws_perf_look_at_waits(perf, ws_read_raw_ns());
}

uint64_t ws_perf_patience(const struct ws_perf *perf)
{
	if (!perf || !perf->active || perf->over)
		return IDLE_NS;
	if (ws_perf_fullness(&perf->set) > FULL_ENOUGH)
		return 0;
	return ws_max(ws_min(perf->idle_ns, ws_perf_time_to_look(perf, ws_read_raw_ns())),
		      LEAST_NS);
}

void ws_perf_rest(struct ws_perf *perf, uint64_t time)
{
	/* What ws_perf_begin turns on. */
	static const enum ws_perf_role begun[] = {WS_PERF_SAMPLE, WS_PERF_STANDBY, WS_PERF_WAKE,
						  WS_PERF_FTRACE};

	bool paused;

	if (!perf || perf->over || !perf->from)
		return;
	paused = perf->resume != 0;
	take_rest(perf, time, true);
	if (paused) /* the next collection begins without a pause */
		ws_perf_end_pause(perf);
	ws_perf_say_losses(perf);
	ws_perf_say_pauses(perf);
	ws_perf_say_sparse(perf);
	ws_perf_take_all_samples(perf, time);
	ws_perf_say_rate(perf);
	for (size_t i = 0; perf->active && i < WS_COUNT(begun); i++)
		if (begun[i] != WS_PERF_SAMPLE || !perf->combined)
			ws_perf_switch(&perf->set, begun[i], false);
	perf->from = perf->to = 0;
	perf->gaps_n = perf->gaps_checked = perf->pauses.n = 0;
	perf->lost = perf->set.bad = 0;
	perf->ran = perf->unsampled = 0;
}

void ws_perf_tell_open(struct ws_perf *perf, uint64_t time)
{
	if (perf && !perf->over && perf->from)
		close_spans(perf, time, true);
}

void ws_perf_finish(struct ws_perf *perf, uint64_t now)
{
	if (!perf)
		return;
	if (!perf->over &&
	    !perf->from) /* nothing is being collected, so there is nothing to report */
		perf->over = true;
	perf->finishing = true;
	ws_perf_end(perf, perf->to ? perf->to : now);
	ws_perf_say_losses(perf);
	ws_perf_say_pauses(perf);
	ws_perf_say_sparse(perf);
	ws_perf_say_rate(perf);
}

struct ws_closer *ws_perf_free(struct ws_perf *perf)
{
	struct ws_closer *closer;

	if (!perf)
		return NULL;
	ws_perf_tree_free(perf);
	closer = ws_perf_close_later(&perf->set);
	ws_closer_join(perf->closer);
	ws_wait_calls_close(perf->wait_calls);
	ws_syscalls_close(perf->syscalls);
	ws_perf_forget_events(perf);
	free(perf->set.events);
	ws_perf_close_metrics(perf);
	for (size_t i = 0; i < perf->counters_n; i++)
		close(perf->counters[i].fd);
	free(perf->counters);
	free(perf->held);
	free(perf->gaps);
	free(perf->pauses.span);
	free(perf);
	return closer;
}
