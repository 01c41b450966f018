/*
 * session_collect.c - the collections of a session: feeds the machine of control/ and performs its
 * actions.
 *
 * A collection ends in two steps. Hooks are told at once and the moment is noted; what belongs to
 * it may still be on its way: in rings, in CUPTI's buffers, on the GPU. Until that has settled, a
 * second at most, rounds go on as usual; then the report is finished, and only after that comes
 * what follows (the next range, a signal to the target).
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/choose.h"
#include "base/mem.h"
#include "record/capture.h"
#include "record/proc.h"
#include "record/session.h"
#include "record/signals.h"

#define SETTLE_NS UINT64_C(5000000) /* for threads that were in the middle of a record */
#define GPU_NS UINT64_C(1000000000)

/* ---- the beginning and the end ---- */

static void set_collecting(struct ws_session *session, bool on)
{
	session->drain->collecting = on;
	ws_switch_collecting(session->area.arena, on);
}

/* While nothing is collected, which may last long, hooks do as little as they can. */
static void set_idle(struct ws_session *session)
{
	const struct ws_plan *plan = &session->machine.plan;

	atomic_store(&session->area.arena->idle,
		     plan->interactive || plan->capture != WS_CAPTURE_NONE);
}

/* Nothing can begin another collection. What has been sent the signal of --kill began with hooks.
 */
static void set_over(struct ws_session *session)
{
	session->drain->over = true;
	atomic_store(&session->area.arena->over, 1);
}

/* Report what was taken as steps. */
static void say_steps(struct ws_session *session)
{
	static const char *const sources[WS_STEP_SOURCES] = {
		[WS_STEP_RANGE] = "the NVTX ranges",
		[WS_STEP_OUTERMOST] = "from one to the next of the outermost NVTX ranges",
		[WS_STEP_LAUNCHES] = "from one launch to the next of the kernel"};
	struct ws_capture_step step = ws_capture_look_at_step(session->area.arena);
	char text[200], launches[40] = "";

	if (session->machine.plan.capture != WS_CAPTURE_STEPS || !sources[step.source])
		return;
	if (step.source == WS_STEP_LAUNCHES)
		snprintf(launches, sizeof(launches), " (%u launch%s each)", step.launches,
			 step.launches == 1 ? "" : "es");
	snprintf(text, sizeof(text), "Steps are %s '%s'%s; this collection begins with step %u.",
		 sources[step.source], step.text, launches, step.begun);
	ws_sink_diagnostic(session->main, WS_INFO, "control", 0, ws_read_raw_ns(), text);
	if (!session->options->quiet)
		ws_say("%s", text);
}

/* Have the hooks loaded into a process that is attached to, at the end of this round. */
static void wish_hooks(struct ws_session *session)
{
	session->attach_now = session->options->attach && !session->attached.loaded;
}

static void begin_collecting(struct ws_session *session, uint64_t time)
{
	struct ws_err err;

	session->flight.began = time;
	if (!session->machine.plan.flight.on && ws_session_name_reports(session, false, &err))
		ws_warn("%s: nothing is kept of this collection", err.msg);
	set_collecting(session, true);
	/* If hooks began the collection, they said when. Otherwise all hooks see it from now on. */
	if (!session->in_round)
		time = ws_read_raw_ns();
	session->machine.began = time; /* a duration counts from then on */
	session->collect_start = time;
	session->collect_end = 0;
	session->collecting = true;
	session->stays_open = false;
	wish_hooks(session);
	atomic_store(&session->area.arena->collect_from, time);
	atomic_store(&session->area.arena->collect_to, 0);
	ws_drain_collect(session->drain, time, 0);
	ws_perf_begin(session->perf, time);
	ws_metrics_begin(session->metrics);
	ws_gpu_sampling_begin(session->gpu_metrics);
	if (!session->machine.plan.flight.on)
		ws_session_begin_reports(session);
	say_steps(session);
}

static uint64_t read_ticks(const struct ws_session *session)
{
	return session->clock.mode == WS_CLOCK_COUNTER ? ws_read_counter() : ws_read_raw_ns();
}

static void end_collecting(struct ws_session *session, uint64_t time)
{
	/* Hooks must not be idle before everything has been read. */
	atomic_store(&session->area.arena->idle, 0);
	/* First: a range that ends from here on is to be recorded though nothing is collected. */
	atomic_store(&session->area.arena->ended_at, read_ticks(session));
	set_collecting(session, false);
	session->collect_end = time;
	atomic_store(&session->area.arena->collect_to, time);
	ws_drain_collect(session->drain, session->collect_start, time);
	ws_perf_stop(session->perf, time);
	ws_metrics_stop(session->metrics);
	ws_gpu_sampling_stop(session->gpu_metrics);
	session->collecting = false;
	session->settling = true;
	session->flushed = false;
	session->settle_since = ws_read_raw_ns();
}

bool ws_session_has_settled(struct ws_session *session)
{
	uint64_t now = ws_read_raw_ns(), passed = now - session->settle_since;

	if (session->in_round)
		return false;
	if (session->exited)
		return session->read_since;
	if (passed < SETTLE_NS)
		return false;
	if (passed < GPU_NS && ws_drain_awaits_gpu(session->drain))
		return false;
	/* The round after the last flush reads what that flush brought. */
	if (!session->flushed) {
		session->flushed = true;
		return false;
	}
	return true;
}

/* Write what was under way when the collection ended. */
static void write_rest(struct ws_session *session)
{
	if (session->stays_open)
		ws_perf_end(session->perf, session->collect_end);
	else
		ws_perf_rest(session->perf, session->collect_end);
	ws_drain_open_events(session->drain);
	ws_session_put_metrics(session, true);
	atomic_store(&session->area.arena->ended_at, 0);
	ws_drain_round(session->drain); /* ranges that ended while open ones were looked at */
	set_idle(session);
	session->settling = false;
}

static void say_skipped(struct ws_session *session)
{
	uint32_t skipped = ws_capture_take_skipped(session->area.arena);
	char text[200];

	if (!skipped)
		return;
	snprintf(text, sizeof(text),
		 "%u capture ranges began before the report of the one before was written, waited "
		 "for %u ms and went on uncollected.",
		 skipped, WS_CAPTURE_WAIT_MS);
	ws_sink_diagnostic(session->main, WS_WARNING, "control", 0, ws_read_raw_ns(), text);
}

/* Answer the current command, which has taken effect. */
static void answer(struct ws_session *session)
{
	if (!session->answer_later)
		return;
	session->answer_later = false;
	snprintf(session->reply.report, sizeof(session->reply.report), "%s",
		 ws_text_or(session->last_report, ""));
	ws_mailbox_answer(session->options->mailbox, &session->reply);
}

static void finish(struct ws_session *session, bool discard)
{
	write_rest(session);
	say_skipped(session);
	if (session->stays_open)
		return;
	ws_drain_settle_window(session->drain);
	if (discard)
		ws_session_discard_reports(session);
	else
		ws_session_finish_reports(session);
	ws_drain_rest(session->drain);
}

/* ---- the target ---- */

static void kill_process(void *ctx, int pid)
{
	struct ws_session *session = ctx;

	if (pid != session->launch.pid)
		kill(pid, session->kill_signal);
}

static void kill_target(struct ws_session *session)
{
	if (!session->kill_signal || session->exited || session->options->attach)
		return;
	ws_drain_each(session->drain, kill_process, session);
	ws_gathered_kill(&session->gathered, session->kill_signal);
	if (ws_session_has_child(session))
		kill(session->launch.pid, session->kill_signal);
	session->killed = true;
}

/* Tell a user who waits for the target's own end why nothing more is recorded. */
static void say_why_over(const struct ws_session *session)
{
	char why[100];

	if (session->options->quiet || session->options->machine_only || session->exited)
		return;
	if (session->machine.cause == WS_CAUSE_DURATION)
		snprintf(why, sizeof(why), "the duration of %g s is over",
			 session->options->duration);
	else if (session->machine.cause == WS_CAUSE_RANGE)
		snprintf(why, sizeof(why), "the capture range has ended");
	else
		return;
	if (session->killed)
		ws_say("%s: the target was sent SIG%s (--kill=none lets it run on)", why,
		       sigabbrev_np(session->kill_signal));
	else
		ws_say("%s: the target runs on unrecorded", why);
}

/* ---- actions ---- */

/* The report of a recording from beginning to end stays open until the target ends, so that it also
 * shows how the processes ended. */
static bool stays_open(const struct ws_session *session)
{
	const struct ws_machine *machine = &session->machine;

	return machine->plan.capture == WS_CAPTURE_NONE && !machine->plan.interactive &&
	       machine->cause == WS_CAUSE_DURATION;
}

/* False when it must wait. */
static bool perform(struct ws_session *session, const struct ws_action *action)
{
	switch (action->kind) {
	case WS_ACTION_ARM:
		wish_hooks(session); /* they see the ranges */
		ws_capture_arm(session->area.arena);
		break;
	case WS_ACTION_DISARM:
		ws_capture_disarm(session->area.arena);
		break;
	case WS_ACTION_BEGIN:
		begin_collecting(session, action->time);
		break;
	case WS_ACTION_END:
		if (session->machine.plan.capture != WS_CAPTURE_NONE)
			ws_capture_end(session->area.arena);
		session->stays_open = stays_open(session);
		end_collecting(session, action->time);
		break;
	case WS_ACTION_FINISH:
	case WS_ACTION_DISCARD:
		if (!ws_session_has_settled(session))
			return false;
		finish(session, action->kind == WS_ACTION_DISCARD);
		break;
	case WS_ACTION_SNAPSHOT:
		return ws_session_take_snapshot(session, action);
	case WS_ACTION_KILL:
		kill_target(session);
		break;
	case WS_ACTION_SHUTDOWN:
		session->shut = true;
		break;
	}
	return true;
}

static void drop_actions(struct ws_session *session, unsigned count)
{
	session->action_count -= count;
	memmove(session->actions, session->actions + count,
		session->action_count * sizeof(session->actions[0]));
}

/* Perform what is left to do, up to what must wait. */
static void perform_actions(struct ws_session *session)
{
	unsigned done = 0;
	bool ended = false;

	while (done < session->action_count && perform(session, &session->actions[done])) {
		ended |= session->actions[done].kind == WS_ACTION_FINISH;
		done++;
	}
	drop_actions(session, done);
	if (session->action_count)
		return;
	if (session->machine.state == WS_MACHINE_OVER)
		set_over(session);
	if (ended && session->machine.state == WS_MACHINE_OVER)
		say_why_over(session);
	answer(session);
}

/* NULL, or why a command was refused. */
static const char *post_event(struct ws_session *session, struct ws_control_event event)
{
	struct ws_machine_answer actions;

	if (session->action_count) /* time goes on; commands wait until this is over */
		return NULL;
	actions = ws_machine_post(&session->machine, event);
	memcpy(session->actions, actions.actions, sizeof(session->actions));
	session->action_count = actions.count;
	if (!actions.refused)
		perform_actions(session);
	return actions.refused;
}

void ws_session_post(struct ws_session *session, enum ws_event_kind kind)
{
	post_event(session, (struct ws_control_event){.kind = kind, .time = ws_read_raw_ns()});
}

/* ---- events ---- */

void ws_session_init_machine(struct ws_session *session)
{
	const struct ws_record_opts *options = session->options;
	struct ws_plan plan = options->plan;

	plan.delay = (uint64_t)(options->delay * 1e9);
	plan.duration = (uint64_t)(options->duration * 1e9);
	session->kill_signal = options->kill_signal;
	plan.kill = options->kill_signal != 0;
	ws_machine_init(&session->machine, &plan);
	session->overwrite = options->overwrite;
	if (options->output)
		session->output = ws_strdup(options->output);
	set_idle(session);
	ws_capture_set(session->area.arena, &plan, options->capture_range, options->capture_domain);
}

/* A moment that the program names lies between the last round and now. */
static uint64_t check_time(struct ws_session *session, uint64_t ticks, uint64_t least)
{
	uint64_t time = ws_clock_ns(&session->clock, ticks),
		 now = session->clock.readings[session->clock.n - 1].raw;

	time = ws_max(time, least);
	return ws_min(time, now);
}

void ws_session_look_at_captures(void *ctx)
{
	struct ws_session *session = ctx;
	struct ws_control_event event = {.kind = WS_CONTROL_RANGE_BEGIN};
	struct ws_capture_look look;

	if (!session->machine.armed || session->action_count)
		return;
	session->in_round = true;
	look = ws_capture_look(session->area.arena);
	if (look.begun && session->machine.state == WS_MACHINE_ARMED) {
		event.time = check_time(session, look.begin, session->started);
		post_event(session, event);
	}
	if (look.ended && session->machine.state == WS_MACHINE_COLLECTING) {
		event.kind = WS_CONTROL_RANGE_END;
		event.time = check_time(session, look.end, session->collect_start);
		post_event(session, event);
	}
	session->in_round = false;
}

/* Processes that have ended took their ranges with them. */
static void drop_ranges(struct ws_session *session)
{
	uint32_t ranges = ws_drain_take_dropped_ranges(session->drain);

	if (!ranges || !ws_capture_drop(session->area.arena, ranges))
		return;
	if (session->machine.state == WS_MACHINE_COLLECTING)
		ws_session_post(session, WS_CONTROL_RANGE_END);
	else if (session->machine.armed && !session->action_count)
		ws_capture_arm(session->area.arena); /* it died while beginning one */
}

static void publish_status(struct ws_session *session)
{
	struct ws_control_status status = {.state = session->machine.state,
					   .capture = session->machine.plan.capture,
					   .target = session->launch.pid,
					   .target_ended = session->exited,
					   .collections = session->machine.collections,
					   .started = session->started};

	if (!session->options->mailbox)
		return;
	if (session->collecting)
		status.began = session->collect_start;
	status.events = session->main->events;
	status.lost = session->main->lost;
	ws_session_fill_flight(session, &status);
	snprintf(status.report, sizeof(status.report), "%s",
		 ws_text_or(session->main->path, ws_text_or(session->last_report, "")));
	ws_mailbox_publish(session->options->mailbox, &status);
}

int ws_session_open_hotkey(struct ws_session *session, const struct ws_plan *plan, const char *key,
			   struct ws_err *err)
{
	ws_hotkey_close(session->hotkey);
	session->hotkey = NULL;
	session->hotkey_pressed = false;
	if (plan->capture != WS_CAPTURE_HOTKEY)
		return 0;
	session->hotkey = ws_hotkey_open(ws_text_or(key, WS_DEFAULT_KEY), err);
	return session->hotkey ? 0 : -1;
}

/* A `start` command names its reports: an error in the names is its answer. */
static int prepare_start(struct ws_session *session, const struct ws_control_request *request,
			 struct ws_err *err)
{
	if (session->machine.state != WS_MACHINE_IDLE)
		return 0; /* the machine refuses it */
	if (request->output)
		ws_session_use_template(session, request->output, request->overwrite);
	if (request->plan && ws_session_open_hotkey(session, request->plan, request->range, err))
		return -1;
	if (request->plan)
		ws_capture_set(session->area.arena, request->plan, request->range, request->domain);
	return ws_session_name_reports(session, true, err);
}

void ws_session_set_last_report(struct ws_session *session, const char *path)
{
	free(session->last_report);
	session->last_report = path ? ws_strdup(path) : NULL;
}

void ws_session_refuse(struct ws_session *session, const char *why)
{
	session->reply.done = false;
	snprintf(session->reply.message, sizeof(session->reply.message), "%s", why);
	session->answer_later = true;
	answer(session);
}

/* A rank joins, or asks whether it was the last that ran; both are answered at once. */
static void answer_rank(struct ws_session *session, const struct ws_control_request *request)
{
	struct ws_control_reply reply = {.done = true};
	struct ws_err err = {""};

	if (request->kind == WS_CONTROL_JOIN) {
		reply.done = !ws_session_join(session, request, &err);
		snprintf(reply.message, sizeof(reply.message), "%s", err.msg);
	} else {
		reply.last = ws_gathered_leave(&session->gathered, request->starter);
	}
	ws_mailbox_answer(session->options->mailbox, &reply);
}

/* A collection ends when the user gave the command, or at the last round that has been read: on a
 * busy machine a command takes a while to arrive here. */
static uint64_t find_command_time(const struct ws_session *session,
				  const struct ws_control_request *request)
{
	const struct ws_clock *clock = &session->clock;
	uint64_t now = ws_read_raw_ns(), time = now;

	if (request->asked && request->asked < now)
		time = request->asked;
	if (clock->n)
		time = ws_max(time, clock->readings[clock->n - 1].raw);
	return ws_min(ws_max(time, session->collect_start), now);
}

static void perform_command(struct ws_session *session, const struct ws_control_request *request)
{
	struct ws_control_event event = {.kind = request->kind,
					 .time = find_command_time(session, request),
					 .plan = request->plan};
	struct ws_err err = {""};
	const char *refused;

	if (request->kind == WS_CONTROL_JOIN || request->kind == WS_CONTROL_LEAVE) {
		answer_rank(session, request);
		return;
	}
	session->reply = (struct ws_control_reply){.done = true};
	ws_session_set_last_report(session, NULL);
	if (request->kind == WS_CONTROL_START) {
		if (prepare_start(session, request, &err)) {
			ws_session_refuse(session, err.msg);
			return;
		}
		ws_session_set_last_report(session, session->main->path);
	}
	if (request->kind == WS_CONTROL_SNAPSHOT)
		session->flight.request = request;
	if (request->kind == WS_CONTROL_SHUTDOWN) {
		session->kill_signal = request->signal;
		session->machine.plan.kill = request->signal != 0;
	}
	session->answer_later = true;
	refused = post_event(session, event);
	if (refused) {
		session->flight.request = NULL;
		ws_session_set_last_report(session, NULL);
		ws_session_refuse(session, refused);
		return;
	}
	/* What was named for a collection that has not begun. */
	if (session->machine.state == WS_MACHINE_IDLE && !session->action_count)
		ws_session_discard_reports(session);
}

static void follow_commands(struct ws_session *session)
{
	struct ws_mailbox *mailbox = session->options->mailbox;
	const struct ws_control_request *request;

	while (mailbox && !session->action_count && (request = ws_mailbox_take(mailbox)))
		perform_command(session, request);
}

/* The first press begins a collection, the next one ends it. While a report is being finished, a
 * press waits; a second one takes it back. */
static void follow_hotkey(struct ws_session *session)
{
	struct ws_control_event event = {.kind = WS_CONTROL_RANGE_END, .time = ws_read_raw_ns()};
	bool lost;

	if (!session->hotkey)
		return;
	session->hotkey_pressed ^= ws_hotkey_count_presses(session->hotkey, &lost) % 2;
	if (session->hotkey_pressed && !session->action_count) {
		session->hotkey_pressed = false;
		if (session->machine.state == WS_MACHINE_ARMED)
			event.kind = WS_CONTROL_RANGE_BEGIN;
		post_event(session, event);
	}
	if (!lost)
		return;
	ws_warn("the display is gone: no key begins or ends a collection any more");
	ws_hotkey_close(session->hotkey);
	session->hotkey = NULL;
}

static void follow_triggers(struct ws_session *session)
{
	struct ws_control_event event;

	if (session->options->triggers.count && ws_session_look_at_triggers(session, &event))
		post_event(session, event);
}

/* Whether the target ended by a signal that we did not send, or with a status other than 0. */
static bool has_failed(const struct ws_session *session)
{
	siginfo_t info = {0};

	if (!session->exited || session->killed || session->options->attach ||
	    waitid(P_PID, (id_t)session->launch.pid, &info, WEXITED | WNOHANG | WNOWAIT))
		return false;
	return info.si_pid == session->launch.pid && info.si_status != 0;
}

/* What the target has started may live on for long. By the time it ends, the seconds before the
 * death would be gone. */
static void follow_death(struct ws_session *session)
{
	struct ws_control_event event = {
		.kind = WS_CONTROL_SNAPSHOT, .time = ws_read_raw_ns(), .cause = WS_SNAPSHOT_DEATH};

	if (!session->machine.plan.flight.on || session->flight.told_death ||
	    session->action_count || !session->read_since || !ws_drain_alive(session->drain) ||
	    !has_failed(session))
		return;
	session->flight.told_death = true;
	post_event(session, event);
}

static void follow_snapshot_signal(struct ws_session *session)
{
	struct ws_control_event event = {
		.kind = WS_CONTROL_SNAPSHOT, .time = ws_read_raw_ns(), .cause = WS_SNAPSHOT_SIGNAL};
	const char *refused;

	if (session->action_count || !ws_signals_take_snapshot())
		return;
	refused = post_event(session, event);
	if (refused)
		ws_warn("no snapshot is written: %s", refused);
}

void ws_session_follow_control(struct ws_session *session)
{
	if (session->action_count)
		perform_actions(session);
	follow_snapshot_signal(session);
	follow_triggers(session);
	follow_hotkey(session);
	follow_death(session);
	drop_ranges(session);
	ws_session_post(session, WS_CONTROL_TIME);
	follow_commands(session);
	publish_status(session);
}

void ws_session_end_collecting(struct ws_session *session)
{
	struct ws_control_event event = {.kind = WS_CONTROL_TARGET_ENDED,
					 .time = ws_read_raw_ns(),
					 .failed = has_failed(session) &&
						   !session->flight.told_death};
	struct ws_machine_answer end;

	if (session->action_count && session->actions[0].kind == WS_ACTION_SNAPSHOT) {
		ws_session_finish_snapshot(session, &session->actions[0]);
		drop_actions(session, 1);
		answer(session);
	}
	if (session->action_count)
		perform_actions(session);
	if (session->collecting) {
		set_collecting(session, false);
		session->collect_end = ws_read_raw_ns();
	}
	end = ws_machine_post(&session->machine, event);
	if (end.count && end.actions[0].kind == WS_ACTION_SNAPSHOT)
		ws_session_keep_last(session);
	else
		ws_session_say_nothing_kept(session);
}

uint64_t ws_session_patience(const struct ws_session *session)
{
	uint64_t next = ws_machine_next_time(&session->machine), now = ws_read_raw_ns();

	if (session->settling)
		return SETTLE_NS / 5;
	if (session->options->mailbox && ws_mailbox_has_request(session->options->mailbox))
		return 1;
	if (next == UINT64_MAX)
		return UINT64_MAX;
	return next > now ? next - now : 1;
}
