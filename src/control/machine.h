/*
 * machine.h - when a session collects, as a state machine without input or output.
 *
 * Everything that can happen to a session, from the clock to a command of the user, comes in as one
 * of a few events; what is to be done about it comes out as a list of actions, in order. The
 * session performs them (record/). Not thread-safe: events of other threads go through mailbox.h.
 */
#ifndef WS_CONTROL_MACHINE_H
#define WS_CONTROL_MACHINE_H

#include "control/plan.h"

enum ws_machine_state {
	WS_MACHINE_IDLE,  /* nothing is wanted yet */
	WS_MACHINE_ARMED, /* waits for the delay, or for a range to begin */
	WS_MACHINE_COLLECTING,
	WS_MACHINE_OVER, /* nothing more will be collected */
};

enum ws_event_kind {
	WS_CONTROL_LAUNCH, /* the target begins */
	WS_CONTROL_TIME,   /* it is later now */
	WS_CONTROL_RANGE_BEGIN,
	WS_CONTROL_RANGE_END,
	WS_CONTROL_START, /* the user's commands; START may have a new plan */
	WS_CONTROL_STOP,
	WS_CONTROL_CANCEL,
	WS_CONTROL_SHUTDOWN,
	WS_CONTROL_SNAPSHOT, /* a flight recorder is to write what it holds */
	WS_CONTROL_TARGET_ENDED,
	WS_CONTROL_JOIN, /* of ranks; they are no business of the machine's */
	WS_CONTROL_LEAVE,
};

struct ws_control_event {
	enum ws_event_kind kind;
	uint64_t time;		    /* session ns: when it happened */
	const struct ws_plan *plan; /* of START; NULL: the plan stays */
	unsigned cause;		    /* of SNAPSHOT: enum ws_snapshot_cause, or a trigger's number
				       behind the last */
	bool failed;		    /* of TARGET_ENDED: by a signal or with a status other than 0 */
};

enum ws_action_kind {
	WS_ACTION_ARM,	    /* have the ranges of the plan begin collections */
	WS_ACTION_DISARM,   /* and no longer */
	WS_ACTION_BEGIN,    /* a collection began at `time` */
	WS_ACTION_END,	    /* it ended at `time` */
	WS_ACTION_FINISH,   /* its report is complete as soon as what was on its way has arrived */
	WS_ACTION_DISCARD,  /* no report is wanted of it */
	WS_ACTION_SNAPSHOT, /* write what the flight recorder holds, for `cause` */
	WS_ACTION_KILL,	    /* send the target the signal of --kill */
	WS_ACTION_SHUTDOWN, /* nothing more is awaited of this session */
};

struct ws_action {
	enum ws_action_kind kind;
	uint64_t time;
	unsigned cause;
};

/* Why a collection ended, for those who wait for it. */
enum ws_end_cause {
	WS_CAUSE_NONE,
	WS_CAUSE_DURATION,
	WS_CAUSE_RANGE,
	WS_CAUSE_COMMAND,
	WS_CAUSE_TARGET,
};

enum { WS_MOST_ACTIONS = 8 };

struct ws_machine {
	struct ws_plan plan;
	enum ws_machine_state state;
	bool launched;		/* and the target has not ended */
	bool armed;		/* ranges begin collections now */
	bool shut;		/* SHUTDOWN has been acted on */
	uint64_t launch, began; /* session ns */
	uint32_t collections;	/* that have ended with a report, or will have one */
	uint32_t ranges;	/* of the present plan that have ended */
	enum ws_end_cause cause;
	/* of a flight recorder: snapshots by triggers, the time of the last, and how often triggers
	 * fired since then that made none */
	uint32_t triggered, passed_over;
	uint64_t last_trigger;
};

/* What an event has led to. `refused`: why nothing was done about a command, a sentence without its
 * full stop; NULL when it was. */
struct ws_machine_answer {
	struct ws_action actions[WS_MOST_ACTIONS];
	unsigned count;
	const char *refused;
};

void ws_machine_init(struct ws_machine *machine, const struct ws_plan *plan);
/* Post one event. Events that mean nothing in the present state do nothing. */
struct ws_machine_answer ws_machine_post(struct ws_machine *machine, struct ws_control_event event);
/* When the next event of kind TIME will do something, session ns; UINT64_MAX: never. */
uint64_t ws_machine_next_time(const struct ws_machine *machine);
const char *ws_machine_state_name(enum ws_machine_state state);

#endif
