/*
 * mailbox.h - between the loop of a recorder and other threads of its process that control it: they
 * post commands and wait for what became of them, and read how the session stands.
 *
 * Commands are performed one after the other. A thread that asks how the session stands never
 * waits for the loop.
 */
#ifndef WS_CONTROL_MAILBOX_H
#define WS_CONTROL_MAILBOX_H

#include <limits.h>
#include <sys/types.h>

#include "control/machine.h"

struct ws_mailbox;

/* For the paths of the hooks, of which a library that is traced has its own. */
#define WS_PRELOAD_ROOM (8 * PATH_MAX)

/* What a program needs in its environment to be recorded (record/launch.h). */
struct ws_control_hooks {
	char arena[PATH_MAX], preload[WS_PRELOAD_ROOM], nvtx[PATH_MAX], cuda[PATH_MAX];
};

/* One of the user's commands: START, STOP, CANCEL, SNAPSHOT or SHUTDOWN; JOIN or LEAVE of a rank.
 */
struct ws_control_request {
	enum ws_event_kind kind;
	/* Of START; what is NULL stays as it is. They need live only until the reply. */
	const struct ws_plan *plan;
	const char *range, *domain; /* of a plan whose capture is NVTX */
	const char *output;	    /* template of the report's name; of SNAPSHOT too */
	bool overwrite;
	uint64_t asked; /* of STOP: when the user said so, session ns; 0: now */
	int signal;	/* of SHUTDOWN: sent to the target; 0: none */
	int pid;	/* of JOIN: the process that is to be followed; 0: none yet */
	int starter;	/* of JOIN and LEAVE: the process that has started it, which asks */
	struct ws_control_hooks *hooks; /* of JOIN: filled; or NULL */
};

struct ws_control_reply {
	bool done;
	bool last;	       /* of LEAVE: no program of another rank runs */
	char message[1024];    /* why not; or, when done, a warning or "" */
	char report[PATH_MAX]; /* of START: where it will be; of STOP, SNAPSHOT and SHUTDOWN: where
				  it is; "" for none */
};

struct ws_control_status {
	enum ws_machine_state state;
	enum ws_capture capture; /* what a collection waits for, or was begun by */
	pid_t target;		 /* 0: none (yet) */
	bool target_ended;
	uint32_t collections; /* with a report, the running one not counted */
	uint64_t started;     /* session ns: of the recorder */
	uint64_t began;	      /* of the running collection, 0 for none */
	uint64_t events;      /* of the running or the last collection */
	uint64_t lost;
	uint32_t snapshots; /* of a flight recorder, which keeps the last so many bytes and ns */
	uint64_t kept_bytes, kept_ns;
	char report[PATH_MAX]; /* of the running or the last collection */
};

struct ws_mailbox *ws_mailbox_new(void);
void ws_mailbox_free(struct ws_mailbox *mailbox);

/* ---- any thread ---- */

/* Have a command performed; returns when it has been, STOP and SHUTDOWN when the report is whole.
 * `reply` is filled. Before the loop begins, commands wait for it. */
void ws_mailbox_request(struct ws_mailbox *mailbox, const struct ws_control_request *request,
			struct ws_control_reply *reply);
void ws_mailbox_status(struct ws_mailbox *mailbox, struct ws_control_status *status);

/* ---- the loop ---- */

/* From now on a new command wakes the thread that sleeps on this futex (1: one does). */
void ws_mailbox_open(struct ws_mailbox *mailbox, _Atomic uint32_t *sleeping);
/* The next command, or NULL. It is in hand until it is answered; meanwhile there is no other. */
const struct ws_control_request *ws_mailbox_take(struct ws_mailbox *mailbox);
/* Answer the command in hand. */
void ws_mailbox_answer(struct ws_mailbox *mailbox, const struct ws_control_reply *reply);
/* Whether a command waits to be taken: looked at between the announcement to sleep and the sleep.
 */
bool ws_mailbox_has_request(struct ws_mailbox *mailbox);
void ws_mailbox_publish(struct ws_mailbox *mailbox, const struct ws_control_status *status);
/* No command is performed any more: everyone who waits gets `message`. The futex is forgotten. */
void ws_mailbox_close(struct ws_mailbox *mailbox, const char *message);

#endif
