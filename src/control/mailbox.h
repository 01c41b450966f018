/*
 * mailbox.h - connects the loop of a recorder with other threads of its process that control it:
 * they post commands and wait for the results, and read the state of the session.
 *
 * Commands are performed one after the other. A thread that asks for the state of the session never
 * waits for the loop.
 */
#ifndef WS_CONTROL_MAILBOX_H
#define WS_CONTROL_MAILBOX_H

#include <limits.h>
#include <sys/types.h>

#include "control/machine.h"

struct ws_mailbox;

/* For the paths of the hooks; each traced library has a hook of its own. */
#define WS_PRELOAD_ROOM (8 * PATH_MAX)

/* What a program needs in its environment to be recorded (record/launch.h). */
struct ws_control_hooks {
	char arena[PATH_MAX], preload[WS_PRELOAD_ROOM], nvtx[PATH_MAX], cuda[PATH_MAX];
};

/* One of the user's commands: START, STOP, CANCEL, SNAPSHOT or SHUTDOWN; JOIN or LEAVE of a rank.
 */
struct ws_control_request {
	enum ws_event_kind kind;
	/* Of START; NULL leaves a value as it is. They need to live only until the reply. */
	const struct ws_plan *plan;
	const char *range, *domain; /* of a plan whose capture is NVTX */
	const char *output;	    /* template of the report's name; of SNAPSHOT too */
	bool overwrite;
	uint64_t asked; /* of STOP: when the user gave the command, session ns; 0: now */
	int signal;	/* of SHUTDOWN: sent to the target; 0: none */
	int pid;	/* of JOIN: the process to follow; 0: none yet */
	int starter;	/* of JOIN and LEAVE: the process that started it and sends the request */
	struct ws_control_hooks *hooks; /* of JOIN: filled; or NULL */
};

struct ws_control_reply {
	bool done;
	bool last;	       /* of LEAVE: no program of another rank runs */
	char message[1024];    /* why it was not done; or, when done, a warning or "" */
	char report[PATH_MAX]; /* of START: where it will be; of STOP, SNAPSHOT and SHUTDOWN: where
				  it is; "" for none */
};

struct ws_control_status {
	enum ws_machine_state state;
	enum ws_capture capture; /* what a collection waits for, or was begun by */
	pid_t target;		 /* 0: none (yet) */
	bool target_ended;
	uint32_t collections; /* with a report, not counting the running one */
	uint64_t started;     /* session ns: when the recorder started */
	uint64_t began;	      /* when the running collection began; 0 for none */
	uint64_t events;      /* of the running or the last collection */
	uint64_t lost;
	uint32_t snapshots; /* of a flight recorder, and how many bytes and ns it keeps */
	uint64_t kept_bytes, kept_ns;
	char report[PATH_MAX]; /* of the running or the last collection */
};

struct ws_mailbox *ws_mailbox_new(void);
void ws_mailbox_free(struct ws_mailbox *mailbox);

/* ---- any thread ---- */

/* Have a command performed and fill `reply`. Returns when it has been performed; for STOP and
 * SHUTDOWN, when the report is complete. Commands posted before the loop begins wait for it. */
void ws_mailbox_request(struct ws_mailbox *mailbox, const struct ws_control_request *request,
			struct ws_control_reply *reply);
void ws_mailbox_status(struct ws_mailbox *mailbox, struct ws_control_status *status);

/* ---- the loop ---- */

/* From now on a new command wakes the thread that sleeps on this futex (1: one does). */
void ws_mailbox_open(struct ws_mailbox *mailbox, _Atomic uint32_t *sleeping);
/* The next command, or NULL. No other command is returned until this one has been answered. */
const struct ws_control_request *ws_mailbox_take(struct ws_mailbox *mailbox);
/* Answer the command that ws_mailbox_take returned. */
void ws_mailbox_answer(struct ws_mailbox *mailbox, const struct ws_control_reply *reply);
/* Whether a command waits to be taken. The loop checks this after it announces its sleep and before
 * it sleeps. */
bool ws_mailbox_has_request(struct ws_mailbox *mailbox);
void ws_mailbox_publish(struct ws_mailbox *mailbox, const struct ws_control_status *status);
/* Perform no more commands: everyone who waits gets `message`. The futex is no longer used. */
void ws_mailbox_close(struct ws_mailbox *mailbox, const char *message);

#endif
