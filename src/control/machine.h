/*
 * machine.h - when a session collects, as a state machine without input or output.
 *
 * Everything that can happen to a session, from the clock to a command of the user, comes in as one
 * of a few events; what to do about it comes out as a list of actions, in order. The session
 * performs them (record/). Not thread-safe: events of other threads go through mailbox.h.
 */
#ifndef WS_CONTROL_MACHINE_H
#define WS_CONTROL_MACHINE_H

#include "control/plan.h"

enum ws_machine_state {
	WS_MACHINE_IDLE,  /* nothing has been asked for yet */
	WS_MACHINE_ARMED, /* waits for the delay, or for a range to begin */
	WS_MACHINE_COLLECTING,
	WS_MACHINE_OVER, /* nothing more will be collected */
};

enum ws_event_kind {
	WS_CONTROL_LAUNCH, /* the target begins */
	WS_CONTROL_TIME,   /* time has passed */
	WS_CONTROL_RANGE_BEGIN,
	WS_CONTROL_RANGE_END,
	WS_CONTROL_START, /* the user's commands; START may have a new plan */
	WS_CONTROL_STOP,
	WS_CONTROL_CANCEL,
	WS_CONTROL_SHUTDOWN,
	WS_CONTROL_SNAPSHOT, /* a flight recorder is to write what it holds */
	WS_CONTROL_TARGET_ENDED,
	WS_CONTROL_JOIN, /* sent by ranks; the machine ignores them */
	WS_CONTROL_LEAVE,
};

struct ws_control_event {
	enum ws_event_kind kind;
	uint64_t time;		    /* session ns: when it happened */
	const struct ws_plan *plan; /* of START; NULL: the plan stays */
	unsigned cause; /* of SNAPSHOT: enum ws_snapshot_cause; WS_SNAPSHOT_TRIGGER plus a trigger's
			   number */
	bool failed;	/* of TARGET_ENDED: by a signal or with a status other than 0 */
};

enum ws_action_kind {
	WS_ACTION_ARM,	    /* from now on the ranges of the plan begin collections */
	WS_ACTION_DISARM,   /* ranges no longer begin collections */
	WS_ACTION_BEGIN,    /* a collection began at `time` */
	WS_ACTION_END,	    /* it ended at `time` */
	WS_ACTION_FINISH,   /* its report is complete once the events under way have arrived */
	WS_ACTION_DISCARD,  /* drop it without a report */
	WS_ACTION_SNAPSHOT, /* write what the flight recorder holds, for `cause` */
	WS_ACTION_KILL,	    /* send the target the signal of --kill */
	WS_ACTION_SHUTDOWN, /* end the session */
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
	bool launched;		/* and the target has not ended yet */
	bool armed;		/* ranges begin collections now */
	bool shut;		/* SHUTDOWN has been acted on */
	uint64_t launch, began; /* session ns */
	uint32_t collections;	/* that have ended and have, or will have, a report */
	uint32_t ranges;	/* of the current plan, those that have ended */
	enum ws_end_cause cause;
	/* of a flight recorder: snapshots by triggers, the time of the last one, and how often
	 * triggers have fired since then without a snapshot */
	uint32_t triggered, passed_over;
	uint64_t last_trigger;
};

/* What an event has led to. `refused` says why a command was not carried out, as a sentence without
 * its full stop; NULL when it was carried out. */
struct ws_machine_answer {
	struct ws_action actions[WS_MOST_ACTIONS];
	unsigned count;
	const char *refused;
};

void ws_machine_init(struct ws_machine *machine, const struct ws_plan *plan);
/* Post one event. Events that mean nothing in the current state are ignored. */
struct ws_machine_answer ws_machine_post(struct ws_machine *machine, struct ws_control_event event);
/* The time (session ns) at which the next event of kind TIME will do something; UINT64_MAX:
 * never. */
uint64_t ws_machine_next_time(const struct ws_machine *machine);
const char *ws_machine_state_name(enum ws_machine_state state);

#endif
