/*
 * session.h - one recording, as its parts share it; private to record/.
 *
 * session.c          begins and ends it, follows the target, runs the rounds
 * session_arena.c    the arena's settings, the hooks, the environment
 * session_collect.c  collections: performs what the machine of control/ decides
 * session_flight.c   snapshots of a flight recorder
 * session_reports.c  reports: names, beginnings, ends
 */
#ifndef WS_RECORD_SESSION_H
#define WS_RECORD_SESSION_H

#include <limits.h>

#include "control/mailbox.h"
#include "record/attached.h"
#include "record/closer.h"
#include "record/code.h"
#include "record/drain.h"
#include "record/gathered.h"
#include "record/launch.h"
#include "record/crowd.h"
#include "record/priority.h"
#include "record/record.h"
#include "record/starved.h"
#include "record/tee.h"
#include "record/watch.h"
#include "record/hotkey.h"
#include "record/xid.h"

#define WS_STACKS_A_SECOND 500	/* of calls of the OS runtime in a process */
#define WS_YIELDS_A_SECOND 1000 /* of a thread */
#define WS_WAKES_A_SECOND 1000	/* the same */
#define WS_LONG_WAIT_MS \
	5 /* calls that last longer have backtraces of their own, so many a second */

/* The state of a flight recorder. */
struct ws_session_flight {
	uint64_t began;				  /* session ns */
	uint64_t asked_at;			  /* of the snapshot under way; 0: there is none */
	const struct ws_control_request *request; /* of the command that asked for it; or NULL */
	pid_t child;				  /* that writes it; 0: it does not run */
	int answer;				  /* pipe from it: what went wrong */
	unsigned number;			  /* of the last snapshot */
	bool told_death;			  /* there is a snapshot of it */
	struct ws_fired fired; /* a trigger that has not been passed to the machine yet... */
	bool has_fired;	       /* ...if there is one */
	uint32_t others;       /* that fired meanwhile */
	struct ws_xid *xid;    /* NULL: no trigger needs it */
	uint32_t written;
};

struct ws_session {
	const struct ws_record_opts *options;
	uint64_t libraries; /* whose calls are traced: bits by enum ws_library */
	struct ws_record_result *result;
	struct ws_area area;
	struct ws_clock clock;
	struct ws_drain *drain;
	struct ws_python_opts python_opts;
	struct ws_python *python;	     /* NULL when Python is not recorded */
	struct ws_metrics *metrics;	     /* NULL when nothing of the machine is wanted */
	struct ws_gpu_sampling *gpu_metrics; /* NULL when GPUs are not sampled */
	uint64_t metrics_at;		     /* when its values were last written, session ns */
	struct ws_perf_opts perf_opts;
	struct ws_perf *perf; /* NULL when neither samples nor context switches are wanted */
	struct ws_code *code;
	struct ws_sink *sinks; /* the first is the target's */
	struct ws_sink *main;
	size_t sink_count;
	struct ws_launch launch;
	struct ws_attached attached; /* instead, where options->attach */
	struct ws_gathered gathered; /* instead, where options->gather */
	bool attach_now; /* the hooks are to be loaded into the process that is attached to */
	struct ws_tee *tee;
	struct ws_starved starved;
	char **env;
	/* the report that --force-overwrite replaces, which has another name until the target
	 * runs */
	char *kept_old;
	char preload[WS_PRELOAD_ROOM], nvtx[PATH_MAX], cuda[PATH_MAX];
	char late_cuda[PATH_MAX]; /* the CUDA hook, for a process that is attached to */
	bool shut_out;		  /* the target's user cannot read our files: it runs unrecorded */
	struct ws_machine machine;
	struct ws_action actions[WS_MOST_ACTIONS]; /* still to be performed, in order */
	unsigned action_count;
	bool collecting;   /* between the actions BEGIN and END */
	bool in_round;	   /* of the drain: nothing may begin another */
	bool shut;	   /* the session is to end, whatever the target does */
	bool settling;	   /* a collection has ended, and what belongs to it still arrives */
	bool flushed;	   /* no record of a GPU is on its way to it any more */
	bool stays_open;   /* the report of a collection that is over goes on until the target's end
			    */
	bool answer_later; /* the current command is answered when its report is complete */
	struct ws_control_reply reply; /* with this */
	char *output;		       /* template of the reports' names; NULL: the default */
	bool overwrite;
	struct ws_session_flight flight;
	struct ws_hotkey *hotkey; /* begins and ends collections; NULL: no key does */
	bool hotkey_pressed;	  /* and that has not had its effect yet */
	char *last_report;	  /* path of the last one that was finished; NULL: none */
	uint64_t started_epoch;	  /* CLOCK_REALTIME seconds */
	uint64_t started, collect_start, collect_end, last_clock_row, last_sync; /* session ns */
	uint64_t settle_since;
	int kill_signal; /* for the target, when the session says so; 0: none */
	bool exited, killed;
	uint64_t exited_at; /* when that was noticed */
	uint64_t round_at;  /* when the last round ended */
	struct ws_priority priority;
	struct ws_crowd crowd;
	bool slept_deep; /* before the last round */
	/* all that the target wrote has been read: a round has begun after it had exited */
	bool read_since;
	int wait_status;
	int interrupts_at_exit;
};

/* ---- session.c ---- */

/* Whether the target is our child: not one that already ran, or that others have started. */
bool ws_session_has_child(const struct ws_session *session);
/* A rank of options->gather asks what its program needs, or asks us to follow the process that will
 * execute it. -1 with a message. */
int ws_session_join(struct ws_session *session, const struct ws_control_request *request,
		    struct ws_err *err);

/* ---- session_arena.c ---- */

int ws_session_make_arena(struct ws_session *session, struct ws_err *err);
/* The libraries that the target is to load. */
int ws_session_find_hooks(struct ws_session *session, struct ws_err *err);
/* Tell the hooks what to record; -1 when the settings do not fit. */
int ws_session_fill_arena(struct ws_session *session, struct ws_err *err);
bool ws_session_wants_python(const struct ws_record_opts *options);

/* ---- session_collect.c ---- */

/* The plan of the options; once there is an arena. */
void ws_session_init_machine(struct ws_session *session);
/* Post an event that happens now and perform what it leads to. */
void ws_session_post(struct ws_session *session, enum ws_event_kind kind);
/* Take the key that begins and ends collections, if the plan wants one; give up an earlier one. */
int ws_session_open_hotkey(struct ws_session *session, const struct ws_plan *plan, const char *key,
			   struct ws_err *err);
/* Between the snapshot of the rings and their conversion: ranges that hooks saw begin and end. */
void ws_session_look_at_captures(void *session);
/* After each round: time, commands, collections that have settled. */
void ws_session_follow_control(struct ws_session *session);
/* The target has ended: end the collection too. */
void ws_session_end_collecting(struct ws_session *session);
/* How long the loop may sleep at most because of all this, ns. */
uint64_t ws_session_patience(const struct ws_session *session);

/* Whether what was on its way at settle_since has arrived. */
bool ws_session_has_settled(struct ws_session *session);
/* Answer the current command: it cannot be performed. */
void ws_session_refuse(struct ws_session *session, const char *why);
void ws_session_set_last_report(struct ws_session *session, const char *path);

/* ---- session_flight.c ---- */

/* Before the target starts. -1 with a message when a trigger is not available. */
int ws_session_begin_flight(struct ws_session *session, struct ws_err *err);
void ws_session_end_flight(struct ws_session *session);
/* Perform a part of WS_ACTION_SNAPSHOT; false while it must wait. */
bool ws_session_take_snapshot(struct ws_session *session, const struct ws_action *action);
/* The program has died: turn what is held into the reports, which the session then closes. */
void ws_session_keep_last(struct ws_session *session);
/* Perform WS_ACTION_SNAPSHOT, or what is left to be done of it, at once. */
void ws_session_finish_snapshot(struct ws_session *session, const struct ws_action *action);
/* Look whether triggers have fired; true when the machine is to be told: *event is filled. */
bool ws_session_look_at_triggers(struct ws_session *session, struct ws_control_event *event);
/* Report it when a flight recorder ends without any snapshot. */
void ws_session_say_nothing_kept(const struct ws_session *session);
void ws_session_fill_flight(const struct ws_session *session, struct ws_control_status *status);
/* For struct ws_flight_opts. */
void ws_session_hold_strings(void *session);

/* ---- metric_rows.c ---- */

/* What the machine did: write what has been read since this was last done. With `last`, all that
 * belongs to the collection that is over; else not in each round. */
void ws_session_put_metrics(struct ws_session *session, bool last);

/* ---- session_reports.c ---- */

/* A sink for the processes whose reported variables are `env`; named, unless no report is wanted
 * yet. NULL with a message. */
struct ws_sink *ws_session_create_sink(struct ws_session *session, const char *env, size_t env_len,
				       struct ws_err *err);
/* For struct ws_drain_ops. */
struct ws_sink *ws_session_find_sink(void *session, int pid, const char *env, size_t env_len,
				     struct ws_sink *parent);
void ws_session_commit_reports(void *session);
void ws_session_sync_reports(struct ws_session *session, uint64_t now);
/* The old report of --force-overwrite: back to `back_to`, or, with NULL, gone. */
void ws_session_settle_old_report(struct ws_session *session, const char *back_to);
/* The folder that reports are made in; owned by the caller. */
char *ws_session_folder(struct ws_session *session);
/*
 * Give the reports of a collection that begins their files. With `strict`, a name that is taken is
 * an error (and nothing is named then); else another one is found, with a warning. 0, or -1 with a
 * message.
 */
int ws_session_name_reports(struct ws_session *session, bool strict, struct ws_err *err);
/* A collection has begun, in reports that have names. */
void ws_session_begin_reports(struct ws_session *session);
/* From now on reports are named by this template (NULL: the default). */
void ws_session_use_template(struct ws_session *session, const char *output, bool overwrite);
/* End the reports of a collection whose events have all arrived, and go on without. */
void ws_session_finish_reports(struct ws_session *session);
/* Delete the reports instead. */
void ws_session_discard_reports(struct ws_session *session);
/* The end of the session: write and close what is open. 0, or -1 with a message when a report could
 * not be written to its end. Frees the sinks. */
void ws_session_sum_up(struct ws_session *session);
/* The path of a snapshot of the sink: as `request` (or NULL) says, else by number and cause. NULL
 * with a message. */
char *ws_session_name_snapshot(struct ws_session *session, const struct ws_sink *sink,
			       const struct ws_control_request *request, unsigned number,
			       const char *cause, struct ws_err *err);
/* Close the reports of snapshots without a message about them. Frees the sinks. */
int ws_session_close_snapshots(struct ws_session *session, struct ws_err *err);
int ws_session_close_reports(struct ws_session *session, struct ws_err *err);

#endif
