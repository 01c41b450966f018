/* machine.c - see machine.h. */
#include "control/machine.h"

#include <assert.h>

#include "base/choose.h"

static const char *const state_names[] = {
	[WS_MACHINE_IDLE] = "idle",
	[WS_MACHINE_ARMED] = "waiting",
	[WS_MACHINE_COLLECTING] = "collecting",
	[WS_MACHINE_OVER] = "over",
};

const char *ws_machine_state_name(enum ws_machine_state state)
{
	return state_names[state];
}

void ws_machine_init(struct ws_machine *machine, const struct ws_plan *plan)
{
	*machine = (struct ws_machine){.plan = *plan};
}

/* ---- actions ---- */

static void add_action(struct ws_machine_answer *answer, enum ws_action_kind kind, uint64_t time)
{
	assert(answer->count < WS_MOST_ACTIONS);
	answer->actions[answer->count++] = (struct ws_action){.kind = kind, .time = time};
}

static bool has_ranges(const struct ws_machine *machine)
{
	return machine->plan.capture != WS_CAPTURE_NONE && machine->plan.capture != WS_CAPTURE_USER;
}

static void disarm(struct ws_machine *machine, struct ws_machine_answer *answer, uint64_t time)
{
	if (machine->armed)
		add_action(answer, WS_ACTION_DISARM, time);
	machine->armed = false;
}

static void begin(struct ws_machine *machine, struct ws_machine_answer *answer, uint64_t time)
{
	machine->state = WS_MACHINE_COLLECTING;
	machine->began = time;
	machine->cause = WS_CAUSE_NONE;
	add_action(answer, WS_ACTION_BEGIN, time);
}

/* What the session does after the last collection of a plan. */
static void rest(struct ws_machine *machine, struct ws_machine_answer *answer, uint64_t time)
{
	disarm(machine, answer, time);
	machine->state = machine->plan.interactive ? WS_MACHINE_IDLE : WS_MACHINE_OVER;
}

static void shut_down(struct ws_machine *machine, struct ws_machine_answer *answer, uint64_t time)
{
	disarm(machine, answer, time);
	machine->state = WS_MACHINE_OVER;
	if (machine->shut)
		return;
	machine->shut = true;
	if (machine->plan.kill && machine->launched)
		add_action(answer, WS_ACTION_KILL, time);
	add_action(answer, WS_ACTION_SHUTDOWN, time);
}

static void end(struct ws_machine *machine, struct ws_machine_answer *answer, uint64_t time,
		enum ws_end_cause cause)
{
	time = ws_max(time, machine->began);
	machine->cause = cause;
	machine->collections += !machine->plan.flight.on; /* a flight recorder leaves no report */
	add_action(answer, WS_ACTION_END, time);
	add_action(answer, WS_ACTION_FINISH, time);
}

/* Begin a collection if the plan begins one by itself; otherwise wait for what begins it. */
static void arm(struct ws_machine *machine, struct ws_machine_answer *answer, uint64_t time)
{
	machine->state = WS_MACHINE_ARMED;
	if (!machine->launched || time < machine->launch + machine->plan.delay)
		return;
	if (!has_ranges(machine)) {
		begin(machine, answer, time);
		return;
	}
	machine->armed = true;
	add_action(answer, WS_ACTION_ARM, time);
}

/* ---- events ---- */

static void end_range(struct ws_machine *machine, struct ws_machine_answer *answer, uint64_t time)
{
	const struct ws_plan *plan = &machine->plan;
	bool last = plan->repeats && machine->ranges + 1 >= plan->repeats;

	if (!has_ranges(machine) || plan->range_end == WS_RANGE_END_NONE)
		return;
	machine->ranges++;
	end(machine, answer, time, WS_CAUSE_RANGE);
	switch (plan->range_end) {
	case WS_RANGE_END_STOP:
		rest(machine, answer, time);
		break;
	case WS_RANGE_END_STOP_SHUTDOWN:
		shut_down(machine, answer, time);
		break;
	default:
		if (!last) {
			machine->state = WS_MACHINE_ARMED;
			add_action(answer, WS_ACTION_ARM, time);
		} else if (plan->range_end == WS_RANGE_END_REPEAT_SHUTDOWN) {
			shut_down(machine, answer, time);
		} else {
			rest(machine, answer, time);
		}
	}
}

static void pass_time(struct ws_machine *machine, struct ws_machine_answer *answer, uint64_t time)
{
	if (machine->state == WS_MACHINE_ARMED && !machine->armed)
		arm(machine, answer, time);
	if (machine->state != WS_MACHINE_COLLECTING || !machine->plan.duration ||
	    time < machine->began + machine->plan.duration)
		return;
	/* The range outlasts the duration of its collection, so wait for the next range. */
	if (has_ranges(machine) && machine->plan.range_end >= WS_RANGE_END_REPEAT) {
		end_range(machine, answer, time);
		machine->cause = WS_CAUSE_DURATION;
		return;
	}
	end(machine, answer, time, WS_CAUSE_DURATION);
	rest(machine, answer, time);
	if (machine->plan.kill && !machine->plan.interactive)
		add_action(answer, WS_ACTION_KILL, time);
}

static void start(struct ws_machine *machine, struct ws_machine_answer *answer,
		  const struct ws_control_event *event)
{
	switch (machine->state) {
	case WS_MACHINE_COLLECTING:
		answer->refused = "a collection is running already: stop or cancel it first";
		return;
	case WS_MACHINE_ARMED:
		answer->refused = "a collection has been asked for already and waits for its "
				  "beginning: cancel it first";
		return;
	case WS_MACHINE_OVER:
		answer->refused = "the session is over";
		return;
	default:
		break;
	}
	if (event->plan)
		machine->plan = *event->plan;
	machine->ranges = 0;
	arm(machine, answer, event->time);
}

static const char no_collections[] =
	"a flight recorder goes on until its program ends: 'warpsight snapshot' writes what it "
	"holds, 'warpsight shutdown' ends it";

static void stop(struct ws_machine *machine, struct ws_machine_answer *answer,
		 const struct ws_control_event *event)
{
	if (machine->plan.flight.on) {
		answer->refused = no_collections;
		return;
	}
	if (machine->state == WS_MACHINE_COLLECTING) {
		end(machine, answer, event->time, WS_CAUSE_COMMAND);
	} else if (machine->state != WS_MACHINE_ARMED) {
		answer->refused = "nothing is being collected";
		return;
	}
	disarm(machine, answer, event->time);
	machine->state = WS_MACHINE_IDLE;
}

static void cancel(struct ws_machine *machine, struct ws_machine_answer *answer,
		   const struct ws_control_event *event)
{
	if (machine->plan.flight.on) {
		answer->refused = no_collections;
		return;
	}
	if (machine->state == WS_MACHINE_COLLECTING) {
		add_action(answer, WS_ACTION_END, ws_max(event->time, machine->began));
		add_action(answer, WS_ACTION_DISCARD, event->time);
		machine->cause = WS_CAUSE_COMMAND;
	} else if (machine->state != WS_MACHINE_ARMED) {
		answer->refused = "nothing is being collected";
		return;
	}
	disarm(machine, answer, event->time);
	machine->state = WS_MACHINE_IDLE;
}

static void add_snapshot(struct ws_machine_answer *answer, uint64_t time, unsigned cause)
{
	add_action(answer, WS_ACTION_SNAPSHOT, time);
	answer->actions[answer->count - 1].cause = cause;
}

/* Whether a trigger may write a snapshot now. Snapshots by triggers never overlap in time. */
static bool may_trigger(const struct ws_machine *machine, uint64_t time)
{
	if (machine->triggered >= WS_SNAPSHOTS_BY_TRIGGERS)
		return false;
	return !machine->triggered || time >= machine->last_trigger + machine->plan.flight.keep;
}

static void take_snapshot(struct ws_machine *machine, struct ws_machine_answer *answer,
			  const struct ws_control_event *event)
{
	if (!machine->plan.flight.on) {
		answer->refused = "no flight recorder runs in this session: give "
				  "--flight-recorder=TIME to 'warpsight profile' or 'launch'";
		return;
	}
	if (machine->state != WS_MACHINE_COLLECTING) {
		answer->refused = "nothing has been recorded yet, or no more is";
		return;
	}
	if (event->cause >= WS_SNAPSHOT_TRIGGER) {
		if (!may_trigger(machine, event->time)) {
			machine->passed_over++;
			return;
		}
		machine->triggered++;
		machine->last_trigger = event->time;
	}
	add_snapshot(answer, event->time, event->cause);
}

static void end_session(struct ws_machine *machine, struct ws_machine_answer *answer,
			const struct ws_control_event *event, enum ws_end_cause cause)
{
	if (machine->state == WS_MACHINE_COLLECTING && machine->plan.flight.on && event->failed)
		add_snapshot(answer, event->time, WS_SNAPSHOT_DEATH);
	if (machine->state == WS_MACHINE_COLLECTING)
		end(machine, answer, event->time, cause);
	if (cause == WS_CAUSE_COMMAND) {
		shut_down(machine, answer, event->time);
		return;
	}
	disarm(machine, answer, event->time);
	machine->launched = false; /* there is nobody left to send a signal to */
	machine->state = WS_MACHINE_OVER;
}

static void launch(struct ws_machine *machine, struct ws_machine_answer *answer, uint64_t time)
{
	if (machine->launched || machine->state == WS_MACHINE_OVER)
		return;
	machine->launched = true;
	machine->launch = time;
	/* What a `start` before the launch has asked for begins now. */
	if (machine->state == WS_MACHINE_ARMED || machine->plan.capture != WS_CAPTURE_USER)
		arm(machine, answer, time);
}

struct ws_machine_answer ws_machine_post(struct ws_machine *machine, struct ws_control_event event)
{
	struct ws_machine_answer answer = {.count = 0};

	switch (event.kind) {
	case WS_CONTROL_LAUNCH:
		launch(machine, &answer, event.time);
		break;
	case WS_CONTROL_TIME:
		pass_time(machine, &answer, event.time);
		break;
	case WS_CONTROL_RANGE_BEGIN:
		if (machine->state == WS_MACHINE_ARMED && machine->armed)
			begin(machine, &answer, event.time);
		break;
	case WS_CONTROL_RANGE_END:
		if (machine->state == WS_MACHINE_COLLECTING)
			end_range(machine, &answer, event.time);
		break;
	case WS_CONTROL_START:
		start(machine, &answer, &event);
		break;
	case WS_CONTROL_STOP:
		stop(machine, &answer, &event);
		break;
	case WS_CONTROL_CANCEL:
		cancel(machine, &answer, &event);
		break;
	case WS_CONTROL_SNAPSHOT:
		take_snapshot(machine, &answer, &event);
		break;
	case WS_CONTROL_SHUTDOWN:
		end_session(machine, &answer, &event, WS_CAUSE_COMMAND);
		break;
	case WS_CONTROL_TARGET_ENDED:
		end_session(machine, &answer, &event, WS_CAUSE_TARGET);
		break;
	case WS_CONTROL_JOIN:
	case WS_CONTROL_LEAVE:
		break;
	}
	return answer;
}

uint64_t ws_machine_next_time(const struct ws_machine *machine)
{
	if (machine->state == WS_MACHINE_ARMED && !machine->armed && machine->launched)
		return machine->launch + machine->plan.delay;
	if (machine->state == WS_MACHINE_COLLECTING && machine->plan.duration)
		return machine->began + machine->plan.duration;
	return UINT64_MAX;
}
