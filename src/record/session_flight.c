/*
 * session_flight.c - the snapshots of a flight recorder.
 *
 * A snapshot is made by a forked child: it has what the recorder holds, and everything that names
 * it, as they are at that moment, and writes and finishes the report while the recorder goes on.
 * What can only be seen by the recorder itself, ranges and calls that are open, is noted before the
 * fork and forgotten by the recorder afterwards.
 *
 * When the program has died, the recorder itself writes its memory as a report, since there is
 * nothing left to record.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/choose.h"
#include "base/mem.h"
#include "record/flight_open.h"
#include "record/proc.h"
#include "record/session.h"
#include "record/signals.h"

enum { MOST_NUMBERS = 100000, CAUSE_LENGTH = 40 };
#define LONGEST_S 600 /* that a snapshot may take */
#define GPU_FLUSHES 2 /* of CUPTI's buffers until what ran before has arrived */
#define GPU_LONGEST_MS 1000u

/* ---- names ---- */

static const struct ws_flight_trigger *get_trigger(const struct ws_session *session, unsigned cause)
{
	return &session->options->triggers.triggers[cause - WS_SNAPSHOT_TRIGGER];
}

/* The cause as part of a file's name: letters, digits, and - for the rest. */
static void name_cause(const struct ws_session *session, unsigned cause, char *out)
{
	static const char *const names[] = {[WS_SNAPSHOT_COMMAND] = "snapshot",
					    [WS_SNAPSHOT_SIGNAL] = "signal",
					    [WS_SNAPSHOT_DEATH] = "death"};

	if (cause < WS_SNAPSHOT_TRIGGER)
		snprintf(out, CAUSE_LENGTH, "%s", names[cause]);
	else
		snprintf(out, CAUSE_LENGTH, "%s", get_trigger(session, cause)->label);
}

/* Names for a snapshot of every sink, the same number in each; sink->next_path gets them. */
static int choose_names(struct ws_session *session, unsigned cause, struct ws_err *err)
{
	struct ws_session_flight *flight = &session->flight;
	bool named = flight->request && flight->request->output;
	char name[CAUSE_LENGTH];

	name_cause(session, cause, name);
	for (struct ws_sink *sink = session->sinks; sink; sink = sink->next) {
		struct stat st;
		unsigned number = flight->number + 1;

		do {
			free(sink->next_path);
			sink->next_path = ws_session_name_snapshot(session, sink, flight->request,
								   number, name, err);
			if (!sink->next_path)
				return -1;
		} while (!named && !lstat(sink->next_path, &st) && ++number < MOST_NUMBERS);
		flight->number = ws_max(flight->number, number - 1);
	}
	flight->number += !named;
	return 0;
}

/* ---- the report ---- */

static void say_limit(struct ws_session *session, struct ws_sink *sink,
		      const struct ws_flight_state *state)
{
	const struct ws_flight_plan *plan = &session->machine.plan.flight;
	uint64_t kept = session->collect_end - ws_min(state->from, session->collect_end);
	char text[300];

	if (kept >= plan->keep || state->from <= session->flight.began)
		return;
	snprintf(text, sizeof(text),
		 "The flight recorder held %.1f s of the %.1f s asked for: that is what fits into "
		 "%llu MiB at this rate of events. --flight-recorder=TIME,MEMORY takes more.",
		 (double)kept / 1e9, (double)plan->keep / 1e9,
		 (unsigned long long)(plan->bytes >> 20));
	ws_sink_diagnostic(sink, WS_WARNING, "control", 0, session->collect_end, text);
}

/* Write into the report why this snapshot was made. */
static void say_cause(struct ws_session *session, struct ws_sink *sink, unsigned cause)
{
	const struct ws_session_flight *flight = &session->flight;
	char name[CAUSE_LENGTH];

	name_cause(session, cause, name);
	ws_sink_meta(sink, "snapshot.cause", "%s",
		     cause < WS_SNAPSHOT_TRIGGER ? name : get_trigger(session, cause)->text);
	if (cause >= WS_SNAPSHOT_TRIGGER && flight->fired.duration)
		ws_sink_meta(sink, "snapshot.duration_ns", "%llu",
			     (unsigned long long)flight->fired.duration);
	if (cause >= WS_SNAPSHOT_TRIGGER)
		ws_sink_meta(sink, "snapshot.time_ns", "%llu",
			     (unsigned long long)flight->fired.time);
	if (session->machine.passed_over)
		ws_sink_meta(sink, "snapshot.passed_over", "%u", session->machine.passed_over);
}

/* Have the sink's writer write what it holds, and go on in that report, which is called `path`. */
static int leave_flight(struct ws_session *session, struct ws_sink *sink, char *path,
			struct ws_err *err)
{
	struct ws_writer_opts opts = {.durable = session->options->sync > 0};
	struct ws_flight_state state = ws_writer_flight_state(sink->writer);

	if (ws_writer_leave_flight(sink->writer, path, &opts, err)) {
		free(path);
		return -1;
	}
	ws_sink_leave_flight(sink, path);
	session->collect_start = ws_max(session->collect_start, state.from);
	say_limit(session, sink, &state);
	return 0;
}

/* The name that a snapshot has until it is complete. */
static char *get_unfinished_name(const struct ws_sink *sink, pid_t writer)
{
	return ws_format("%s.%d.tmp", sink->next_path, (int)writer);
}

static int leave_all(struct ws_session *session, unsigned cause, bool unfinished,
		     struct ws_err *err)
{
	int rc = 0;

	session->collect_end = session->clock.readings[session->clock.n - 1].raw;
	for (struct ws_sink *sink = session->sinks; sink && !rc; sink = sink->next) {
		char *path = unfinished ? get_unfinished_name(sink, getpid())
					: ws_strdup(sink->next_path);

		rc = leave_flight(session, sink, path, err);
		if (!rc)
			say_cause(session, sink, cause);
	}
	return rc;
}

/* ---- the child ---- */

/* The session's socket and the kernel's events end with the recorder, not with us. */
static void close_shared(void)
{
	DIR *folder = opendir("/proc/self/fd");
	const struct dirent *entry;

	while (folder && (entry = readdir(folder))) {
		char what[64];
		ssize_t n = readlinkat(dirfd(folder), entry->d_name, what, sizeof(what) - 1);

		if (n <= 0)
			continue;
		what[n] = 0;
		if (!strncmp(what, "socket:", 7) || !strcmp(what, "anon_inode:[perf_event]"))
			close(atoi(entry->d_name));
	}
	if (folder)
		closedir(folder);
}

static int write_snapshot(struct ws_session *session, unsigned cause, struct ws_err *err)
{
	if (leave_all(session, cause, true, err))
		return -1;
	ws_perf_tell_open(session->perf, session->collect_end);
	ws_drain_settle_window(session->drain);
	ws_session_sum_up(session);
	for (struct ws_sink *sink = session->sinks; sink; sink = sink->next)
		ws_code_symbolise(sink, session->options, session->started_epoch, session->code,
				  false);
	ws_code_tell_mappings(session->code);
	return ws_session_close_snapshots(session, err);
}

/* Does not return. What went wrong goes into the pipe. */
static void run_child(struct ws_session *session, unsigned cause, int out)
{
	struct ws_err err = {""};
	int rc;

	close_shared();
	ws_starved_watch(NULL);
	/* Set a time limit, and give up the recorder's raised priority. */
	signal(SIGALRM, SIG_DFL);
	alarm(LONGEST_S);
	setpriority(PRIO_PROCESS, 0, 0);
	rc = write_snapshot(session, cause, &err);
	if (rc)
		(void)!write(out, err.msg, strlen(err.msg));
	_exit(rc ? 1 : 0);
}

/* ---- the recorder ---- */

static int fork_child(struct ws_session *session, unsigned cause, struct ws_err *err)
{
	struct ws_session_flight *flight = &session->flight;
	int ends[2];

	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK))
		return ws_fail_errno(err, "no snapshot can be written");
	fflush(NULL);
	flight->child = fork();
	if (!flight->child) {
		close(ends[0]);
		run_child(session, cause, ends[1]);
	}
	close(ends[1]);
	if (flight->child > 0) {
		flight->answer = ends[0];
		return 0;
	}
	flight->child = 0;
	close(ends[0]);
	return ws_fail_errno(err, "no snapshot can be written");
}

/* What is open, and after that all that had ended by then, are in the stages afterwards; the former
 * alone, for the child. */
static void stage_open_rows(struct ws_session *session)
{
	struct ws_open_rows *open = ws_calloc(session->sink_count, sizeof(*open));
	size_t n = 0;

	for (struct ws_sink *sink = session->sinks; sink; sink = sink->next)
		ws_writer_flush(sink->writer);
	ws_drain_open_events(session->drain);
	for (struct ws_sink *sink = session->sinks; sink; sink = sink->next)
		ws_open_rows_take(&open[n++], sink->writer,
				  ws_or(session->flight.asked_at, ws_read_raw_ns()));
	ws_drain_go_on(session->drain);
	ws_drain_round(session->drain);
	for (size_t i = 0; i < n; i++) {
		ws_open_rows_close(&open[i]);
		ws_writer_flush(open[i].writer);
		ws_open_rows_give(&open[i]);
	}
	free(open);
}

static int begin_snapshot(struct ws_session *session, unsigned cause, struct ws_err *err)
{
	int rc;

	ws_code_tell_modules(session->code);
	stage_open_rows(session); /* may find processes that have reports of their own */
	rc = choose_names(session, cause, err);
	if (!rc)
		rc = fork_child(session, cause, err);
	for (struct ws_sink *sink = session->sinks; sink; sink = sink->next)
		ws_writer_forget_staged(sink->writer);
	return rc;
}

/* The user may be in another folder than we are, so the path must be absolute. */
static void note_report(struct ws_session *session, const char *path)
{
	char *folder = *path == '/' ? NULL : getcwd(NULL, 0), *whole = NULL;

	if (folder)
		whole = ws_format("%s/%s", folder, path);
	ws_session_set_last_report(session, ws_or(whole, path));
	free(whole);
	free(folder);
}

static void end_snapshot(struct ws_session *session, unsigned cause, const char *failure)
{
	struct ws_session_flight *flight = &session->flight;
	bool asked = cause == WS_SNAPSHOT_COMMAND;

	if (failure && asked)
		ws_session_refuse(session, failure);
	else if (failure)
		ws_warn("a snapshot was not written: %s", failure);
	flight->written += !failure;
	for (struct ws_sink *sink = session->sinks; sink; sink = sink->next) {
		if (!failure && !asked && !session->options->quiet)
			ws_say("Generated: %s", sink->next_path);
		if (!failure && sink == session->main)
			note_report(session, sink->next_path);
		free(sink->next_path);
		sink->next_path = NULL;
	}
	flight->request = NULL;
	flight->asked_at = 0;
}

static int rename_snapshot(const char *from, const char *to, bool overwrite, struct ws_err *err)
{
	unsigned flags = overwrite ? 0 : RENAME_NOREPLACE;
	int rc = renameat2(AT_FDCWD, from, AT_FDCWD, to, flags);

	if (rc && errno == EINVAL && !link(from, to)) /* a file system without that flag */
		rc = unlink(from);
	if (rc && errno == EEXIST)
		return ws_fail(err, "%s exists already; --force-overwrite=true (-f) replaces it",
			       to);
	return rc ? ws_fail_errno(err, "cannot write %s", to) : 0;
}

/* The child has ended: give its reports their names, or remove them. */
static int name_snapshots(struct ws_session *session, pid_t child, bool whole, struct ws_err *err)
{
	const struct ws_control_request *request = session->flight.request;
	int rc = whole ? 0 : -1;

	for (struct ws_sink *sink = session->sinks; sink; sink = sink->next) {
		char *path = get_unfinished_name(sink, child);

		if (!rc)
			rc = rename_snapshot(path, sink->next_path, request && request->overwrite,
					     err);
		if (rc)
			unlink(path);
		free(path);
	}
	return rc;
}

/* Whether the child has ended; if so, report its result. */
static bool reap_child(struct ws_session *session, unsigned cause, bool wait)
{
	struct ws_session_flight *flight = &session->flight;
	struct ws_err err = {"the process that wrote it was ended"};
	pid_t child = flight->child, got;
	int status, rc;
	ssize_t n;

	do
		got = waitpid(flight->child, &status, wait ? 0 : WNOHANG);
	while (got < 0 && errno == EINTR);
	if (!got)
		return false;
	flight->child = 0;
	n = read(flight->answer, err.msg, sizeof(err.msg) - 1);
	close(flight->answer);
	if (n > 0)
		err.msg[n] = 0;
	rc = name_snapshots(session, child, got > 0 && WIFEXITED(status) && !WEXITSTATUS(status),
			    &err);
	end_snapshot(session, cause, rc ? err.msg : NULL);
	return true;
}

/* Work on a GPU is reported when CUPTI's buffers are flushed. */
static uint64_t get_settling_time(const struct ws_session *session)
{
	const struct ws_record_opts *options = session->options;

	if (!options->cuda)
		return 0;
	return (uint64_t)ws_min(options->cuda_flush_ms * GPU_FLUSHES, GPU_LONGEST_MS) * 1000000;
}

bool ws_session_take_snapshot(struct ws_session *session, const struct ws_action *action)
{
	struct ws_session_flight *flight = &session->flight;
	struct ws_err err;

	if (flight->child)
		return reap_child(session, action->cause, false);
	if (!flight->asked_at) {
		flight->asked_at = ws_read_raw_ns();
		session->flushed = false;
		session->settle_since = flight->asked_at + get_settling_time(session);
	}
	if (ws_read_raw_ns() < session->settle_since || !ws_session_has_settled(session))
		return false;
	if (begin_snapshot(session, action->cause, &err)) {
		end_snapshot(session, action->cause, err.msg);
		return true;
	}
	return false;
}

void ws_session_keep_last(struct ws_session *session)
{
	struct ws_err err;

	if (choose_names(session, WS_SNAPSHOT_DEATH, &err) ||
	    leave_all(session, WS_SNAPSHOT_DEATH, false, &err))
		ws_warn("what the flight recorder held was not written: %s", err.msg);
	else
		session->flight.written++;
}

void ws_session_say_nothing_kept(const struct ws_session *session)
{
	if (session->options->quiet || session->flight.written || !session->machine.plan.flight.on)
		return;
	ws_say("nothing was written: the program did not die, and nothing asked the flight "
	       "recorder for a snapshot");
}

void ws_session_finish_snapshot(struct ws_session *session, const struct ws_action *action)
{
	struct ws_err err;

	if (!session->flight.child && begin_snapshot(session, action->cause, &err))
		end_snapshot(session, action->cause, err.msg);
	else
		reap_child(session, action->cause, true);
}

void ws_session_fill_flight(const struct ws_session *session, struct ws_control_status *status)
{
	status->snapshots = session->flight.written;
	for (const struct ws_sink *sink = session->sinks; sink; sink = sink->next) {
		struct ws_flight_state state = ws_writer_flight_state(sink->writer);

		status->kept_bytes += state.bytes;
		if (state.from)
			status->kept_ns = ws_max(status->kept_ns, ws_read_raw_ns() - state.from);
	}
}

/* Its number among the triggers; those of the driver's errors are all alike. */
static int find_xid(const struct ws_session *session)
{
	const struct ws_flight_triggers *list = &session->options->triggers;

	for (size_t i = 0; i < list->count; i++)
		if (list->triggers[i].kind == WS_TRIGGER_ON_XID)
			return (int)i;
	return -1;
}

int ws_session_begin_flight(struct ws_session *session, struct ws_err *err)
{
	if (find_xid(session) >= 0 && !(session->flight.xid = ws_xid_open(err)))
		return -1;
	if (session->options->plan.flight.on)
		ws_signals_await_snapshot();
	return 0;
}

void ws_session_end_flight(struct ws_session *session)
{
	ws_xid_close(session->flight.xid);
	session->flight.xid = NULL;
}

/* The first trigger of all reports that has fired since the machine was last informed. */
static void gather_fired(struct ws_session *session)
{
	struct ws_session_flight *flight = &session->flight;
	uint64_t now = session->clock.readings[session->clock.n - 1].raw;
	struct ws_fired fired;
	uint32_t more;

	for (struct ws_sink *sink = session->sinks; sink; sink = sink->next) {
		if (!sink->watch || !ws_watch_take(sink->watch, now, &fired, &more))
			continue;
		flight->others += more + flight->has_fired;
		if (!flight->has_fired)
			flight->fired = fired;
		flight->has_fired = true;
	}
	if (!flight->xid || !ws_xid_look(flight->xid, now))
		return;
	flight->others += flight->has_fired;
	if (!flight->has_fired)
		flight->fired =
			(struct ws_fired){.trigger = (unsigned)find_xid(session), .time = now};
	flight->has_fired = true;
}

bool ws_session_look_at_triggers(struct ws_session *session, struct ws_control_event *event)
{
	struct ws_session_flight *flight = &session->flight;

	gather_fired(session);
	if (!flight->has_fired || session->action_count || !session->collecting)
		return false;
	*event = (struct ws_control_event){.kind = WS_CONTROL_SNAPSHOT,
					   .time = flight->fired.time,
					   .cause = WS_SNAPSHOT_TRIGGER + flight->fired.trigger};
	session->machine.passed_over += flight->others;
	flight->others = 0;
	flight->has_fired = false;
	return true;
}

void ws_session_hold_strings(void *ctx)
{
	struct ws_session *session = ctx;

	if (session->drain)
		ws_drain_hold_strings(session->drain);
	for (const struct ws_sink *sink = session->sinks; sink; sink = sink->next)
		ws_sink_hold_strings(sink);
}
