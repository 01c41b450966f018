/*
 * session_reports.c - the reports of a session: their names, beginnings and ends.
 *
 * A session has a sink for each report that is open; usually one. While nothing is collected its
 * writer has no file with a name: what lasts is kept and begins the next report.
 */
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/choose.h"
#include "base/mem.h"
#include "record/facts.h"
#include "record/kernel_code.h"
#include "record/from_nccl.h"
#include "record/libraries.h"
#include "record/limits.h"
#include "record/name.h"
#include "record/proc.h"
#include "record/ranks.h"
#include "record/capture.h"
#include "record/session.h"
#include "record/watch.h"

enum { MOST_SINKS = 4096, MOST_NUMBERS = 100000 };

/* ---- names ---- */

struct name_lookup {
	const char *env;
	size_t env_len;
	char **target_env;
};

static const char *look_up_placeholder(void *ctx, const char *name)
{
	const struct name_lookup *l = ctx;
	size_t n = strlen(name);

	for (size_t i = 0; i < l->env_len; i += strnlen(l->env + i, l->env_len - i) + 1)
		if (!strncmp(l->env + i, name, n) && l->env[i + n] == '=')
			return l->env + i + n + 1;
	if (l->env)
		return NULL;
	for (char **e = l->target_env; e && *e; e++)
		if (!strncmp(*e, name, n) && (*e)[n] == '=')
			return *e + n + 1;
	return NULL;
}

static const char *get_template(const struct ws_session *session)
{
	return ws_or(session->output, WS_DEFAULT_NAME);
}

/* Ranks of a job have one template, and a folder that they may share: unless the template
 * distinguishes their reports, a suffix that does so is added to the name. */
static void make_suffix(const struct ws_session *session, char *out, size_t size)
{
	struct ws_variables variables;

	*out = 0;
	if (session->options->attach ||
	    (session->output && ws_name_differs(session->output, session->options->gather)))
		return;
	variables = ws_copy_variables(session->env);
	if (session->options->gather)
		ws_name_node(variables, out, size);
	else
		ws_name_rank(variables, out, size);
	free((char *)variables.text);
}

static char *expand_name(struct ws_session *session, unsigned number, const char *env,
			 size_t env_len, struct ws_err *err)
{
	struct name_lookup l = {env, env_len, session->env};
	char suffix[300];
	struct ws_name_context context = {.pid = ws_or(session->launch.pid, getpid()),
					  .number = number,
					  .suffix = suffix,
					  .variable = look_up_placeholder,
					  .ctx = &l};

	make_suffix(session, suffix, sizeof(suffix));
	return ws_report_name(get_template(session), &context, err);
}

/* Give the old report a second name, so that it can come back if the target cannot be run after
 * all. */
static void keep_old_report(struct ws_session *session, const char *path)
{
	session->kept_old = ws_format("%s.old-%d", path, (int)getpid());
	if (link(path, session->kept_old)) {
		free(session->kept_old);
		session->kept_old = NULL;
	}
	session->starved.kept_old = session->kept_old;
}

void ws_session_settle_old_report(struct ws_session *session, const char *back_to)
{
	if (!session->kept_old)
		return;
	/* Not over what has that name now: it is the old report, untouched, or that of another
	 * recorder which was faster. */
	if (back_to)
		(void)!link(session->kept_old, back_to);
	unlink(session->kept_old);
	session->starved.kept_old = NULL;
	free(session->kept_old);
	session->kept_old = NULL;
}

char *ws_session_folder(struct ws_session *session)
{
	struct ws_err err;
	char *path = expand_name(session, 1, NULL, 0, &err), *folder;

	if (!path)
		return ws_strdup(".");
	folder = ws_strdup(dirname(path));
	free(path);
	return folder;
}

static const char *find_extension(const char *path)
{
	const char *base = strrchr(path, '/'), *dot;

	base = base ? base + 1 : path;
	dot = strrchr(base, '.');
	return dot && dot != base ? dot : base + strlen(base);
}

/* NAME.2.wsrep for the second report of a session, and so on. */
static char *number_name(const char *path, unsigned number)
{
	const char *dot = find_extension(path);

	return ws_format("%.*s.%u%s", (int)(dot - path), path, number, dot);
}

/* Before the extension: a number, unless it is 0, and a word. */
static char *insert_words(const char *path, unsigned number, const char *word)
{
	const char *dot = find_extension(path);

	if (!number)
		return ws_format("%.*s.%s%s", (int)(dot - path), path, word, dot);
	return ws_format("%.*s.%u.%s%s", (int)(dot - path), path, number, word, dot);
}

/* NAME.3.cause.wsrep; %n is the number where the name has it. */
char *ws_session_name_snapshot(struct ws_session *session, const struct ws_sink *sink,
			       const struct ws_control_request *request, unsigned number,
			       const char *cause, struct ws_err *err)
{
	const char *name = ws_or(session->output, WS_FLIGHT_NAME);
	struct name_lookup l = {sink->env, sink->env_len, session->env};
	struct ws_name_context context = {.pid = session->launch.pid,
					  .number = number,
					  .variable = look_up_placeholder,
					  .ctx = &l};
	bool asked = request && request->output, counts = ws_name_counts(name);
	char *path = ws_report_name(asked ? request->output : name, &context, err), *snapshot;

	if (!path || asked)
		return path;
	snapshot = insert_words(path, counts ? 0 : number, cause);
	free(path);
	return snapshot;
}

/* ---- sinks ---- */

/* The n-th name to try for the first report of `env`. NULL with a message. */
static char *make_first_name(struct ws_session *session, const char *env, size_t env_len,
			     unsigned n, struct ws_err *err)
{
	bool counts = ws_name_counts(get_template(session));
	char *path = expand_name(session, counts ? n : 1, env, env_len, err), *numbered;

	if (!path || counts || n == 1)
		return path;
	numbered = number_name(path, n);
	free(path);
	return numbered;
}

/* Whether the n-th name must be left alone: it is a report that %n has already counted, or another
 * recorder, perhaps another rank's, is writing it. */
static bool is_taken(const struct ws_session *session, const char *path, unsigned n)
{
	bool counts = ws_name_counts(get_template(session));
	struct stat st;

	if (lstat(path, &st))
		return false;
	if (counts || ws_report_is_taken(path))
		return true;
	return n > 1 && !session->overwrite;
}

static struct ws_writer *create_at(struct ws_session *session, char *path, bool overwrite,
				   struct ws_err *err)
{
	struct ws_writer_opts opts = {.overwrite = overwrite,
				      .durable = session->options->sync > 0};
	struct stat st;

	if (overwrite && !session->main)
		keep_old_report(session, path);
	if (!session->main && (session->kept_old || lstat(path, &st)))
		session->starved.report = path; /* ours to remove */
	return ws_writer_create(path, &opts, err);
}

static void say_taken(struct ws_session *session, const char *env, size_t env_len, const char *path)
{
	struct ws_err err;
	char *first = make_first_name(session, env, env_len, 1, &err);

	if (first && !session->options->quiet)
		ws_say("another recorder is writing %s: this report is %s", first, path);
	free(first);
}

/* Create the first report of `env`'s name, or under the first number that nobody has. */
static struct ws_writer *create_named(struct ws_session *session, const char *env, size_t env_len,
				      char **path, struct ws_err *err)
{
	bool counts = ws_name_counts(get_template(session));
	struct ws_writer *writer = NULL;
	unsigned n;

	*path = NULL;
	for (n = 1; !writer && n < MOST_NUMBERS; n++) {
		if (!session->main)
			session->starved.report = NULL;
		free(*path);
		*path = make_first_name(session, env, env_len, n, err);
		if (!*path)
			return NULL;
		if (is_taken(session, *path, n))
			continue;
		writer = create_at(session, *path, session->overwrite && !counts, err);
		if (!writer && !session->main)
			ws_session_settle_old_report(session, *path);
		if (!writer && !is_taken(session, *path, n)) /* not a race for the name */
			break;
	}
	if (writer) {
		if (n > 2 && !counts)
			say_taken(session, env, env_len, *path);
		return writer;
	}
	if (!session->main)
		session->starved.report = NULL;
	free(*path);
	return NULL;
}

static struct ws_writer *create_unnamed(struct ws_session *session, struct ws_err *err)
{
	char *folder = ws_session_folder(session);
	const struct ws_flight_plan *plan = &session->machine.plan.flight;
	struct ws_flight_opts flight = {plan->keep, plan->bytes, ws_session_hold_strings, session};
	struct ws_writer_opts opts = {.folder = folder,
				      .flight = plan->on ? &flight : NULL,
				      .durable = session->options->sync > 0};
	struct ws_writer *writer = ws_writer_create(NULL, &opts, err);

	free(folder);
	return writer;
}

static void write_collection(struct ws_sink *sink, uint64_t start, uint64_t end)
{
	struct ws_row_collection row = {.start = start, .end = end};

	ws_writer_add(sink->writer, WS_TABLE_collection, &row);
}

/* Whether reports have names before anything is collected: then an error in a name is reported
 * before the target runs. */
static bool wants_name(const struct ws_session *session)
{
	if (session->main)
		return session->main->path != NULL;
	return session->machine.plan.capture != WS_CAPTURE_USER && !session->machine.plan.flight.on;
}

struct ws_sink *ws_session_create_sink(struct ws_session *session, const char *env, size_t env_len,
				       struct ws_err *err)
{
	struct ws_writer *writer;
	struct ws_sink *sink;
	char *path = NULL;

	if (wants_name(session))
		writer = create_named(session, env, env_len, &path, err);
	else
		writer = create_unnamed(session, err);
	if (!writer)
		return NULL;
	sink = ws_sink_new(path, writer, &session->clock);
	if (env) {
		sink->env = ws_calloc(1, env_len + 1);
		memcpy(sink->env, env, env_len);
		sink->env_len = env_len;
	}
	sink->key = expand_name(session, 1, env, env_len, err);
	sink->number = path != NULL;
	sink->flight = session->machine.plan.flight.on;
	if (sink->flight && session->options->triggers.count)
		sink->watch = ws_watch_new(writer, &session->options->triggers);
	sink->keep_command_lines = session->options->keep_command_lines;
	if (session->options->kernel_code)
		sink->code = ws_kernel_code_new(session->options->kernel_code);
	sink->next = session->sinks;
	session->sinks = sink;
	session->sink_count++;
	ws_facts_write(sink, session->options, session->launch.pid, session->env);
	ws_sink_clock(sink, &session->clock.readings[0]);
	if (session->collecting && !sink->flight)
		write_collection(sink, session->collect_start, WS_NO_TIME);
	return sink;
}

/* %q{VAR} may have another value in this process, which then has a report of its own. */
struct ws_sink *ws_session_find_sink(void *ctx, int pid, const char *env, size_t env_len,
				     struct ws_sink *parent)
{
	struct ws_session *session = ctx;
	struct ws_sink *sink;
	struct ws_err err = {""};
	char *path;

	(void)pid;
	if (!session->output || !strstr(session->output, "%q{") || ws_name_counts(session->output))
		return session->main;
	path = expand_name(session, 1, ws_text_or(env, ""), env_len, &err);
	for (sink = session->sinks; path && sink; sink = sink->next)
		if (sink->key && !strcmp(sink->key, path))
			break;
	free(path);
	if (!sink && path && session->sink_count < MOST_SINKS) {
		sink = ws_session_create_sink(session, ws_text_or(env, ""), env_len, &err);
		if (!sink)
			ws_warn("%s: the events of process %d go to %s", err.msg, pid,
				ws_text_or(session->main->path, "the first report"));
	}
	return sink ? sink : parent ? parent : session->main;
}

/* ---- the next report ---- */

/* The name of a sink's report by number: of those of this template, or of all that %n counts. */
static char *make_name(struct ws_session *session, const struct ws_sink *sink, unsigned number,
		       struct ws_err *err)
{
	bool counts = ws_name_counts(get_template(session));
	char *path = expand_name(session, counts ? number : 1, sink->env, sink->env_len, err),
	     *numbered;

	if (!path || counts || number == 1)
		return path;
	numbered = number_name(path, number);
	free(path);
	return numbered;
}

static int name_report(struct ws_session *session, struct ws_sink *sink, bool strict,
		       struct ws_err *err)
{
	bool counts = ws_name_counts(get_template(session));
	struct ws_writer_opts opts = {.overwrite = session->overwrite && !counts,
				      .durable = session->options->sync > 0};
	unsigned asked = sink->number + 1, number = asked;
	char *path = NULL;
	struct stat st;

	for (; number < asked + MOST_NUMBERS; number++) {
		free(path);
		path = make_name(session, sink, number, err);
		if (!path)
			return -1;
		if (!ws_writer_continue(sink->writer, path, &opts, err))
			break;
		if ((strict && !counts) || lstat(path, &st)) {
			free(path);
			return -1;
		}
	}
	if (number != asked && !counts && !session->options->quiet)
		ws_say("a report of the name that was next exists already: this one is %s", path);
	sink->number = number;
	ws_sink_next_report(sink, path);
	ws_sink_clock(sink, &session->clock.readings[session->clock.n - 1]);
	if (sink == session->main)
		session->starved.report = sink->path;
	return 0;
}

int ws_session_name_reports(struct ws_session *session, bool strict, struct ws_err *err)
{
	for (struct ws_sink *sink = session->sinks; sink; sink = sink->next)
		if (!sink->path && name_report(session, sink, strict, err)) {
			if (strict)
				ws_session_discard_reports(session);
			return -1;
		}
	return 0;
}

void ws_session_begin_reports(struct ws_session *session)
{
	for (struct ws_sink *sink = session->sinks; sink; sink = sink->next)
		write_collection(sink, session->collect_start, WS_NO_TIME);
	ws_drain_tell_live(session->drain);
}

void ws_session_use_template(struct ws_session *session, const char *output, bool overwrite)
{
	struct ws_err err;

	free(session->output);
	session->output = output ? ws_strdup(output) : NULL;
	session->overwrite = overwrite;
	for (struct ws_sink *sink = session->sinks; sink; sink = sink->next) {
		free(sink->key);
		sink->key = expand_name(session, 1, sink->env, sink->env_len, &err);
		sink->number = 0;
	}
}

/* ---- what a report says about itself ---- */

/* The number of processes and threads that found no memory. An impossible count was overwritten,
 * and then only the damage is known. */
static uint64_t count_unregistered(struct ws_session *session)
{
	uint64_t count = atomic_load(&session->area.arena->lost_registrations),
		 most = (ws_read_raw_ns() - session->started) / 1000;

	if (count <= most)
		return count;
	ws_sink_diagnostic(session->main, WS_ERROR, "recorder", 0, ws_read_raw_ns(),
			   "The count of threads that found no memory was overwritten by the "
			   "program itself (a stray write into shared memory).");
	return 0;
}

/* Report what should have been recorded of runtimes that have told nothing. */
static void say_silent(const struct ws_record_opts *options, struct ws_sink *sink)
{
	ws_library_say_silent(sink, options->trace);
	if (options->nccl_events)
		ws_nccl_say_absent(sink);
	if (options->openmp && !sink->openmp_seen)
		ws_sink_diagnostic(sink, WS_WARNING, "openmp", 0, ws_read_raw_ns(),
				   "No event of OpenMP was recorded: no program has started a "
				   "runtime with an interface for tools (OMPT), such as LLVM's.");
	if (options->openacc && !sink->openacc_seen)
		ws_sink_diagnostic(sink, WS_WARNING, "openacc", 0, ws_read_raw_ns(),
				   "No event of OpenACC was recorded: no program has started a "
				   "runtime that loads the libraries of ACC_PROFLIB.");
}

static void write_summary(struct ws_session *session, struct ws_sink *sink, uint64_t unregistered)
{
	struct rusage self;

	if (session->collect_start)
		write_collection(sink, session->collect_start, session->collect_end);
	else
		ws_sink_diagnostic(
			sink, WS_WARNING, "recorder", 0, ws_read_raw_ns(),
			"The target ended before the delay was over: nothing was collected.");
	ws_library_say_absent(sink, session->options->libraries, session->options->attach != 0);
	if (session->collect_start)
		say_silent(session->options, sink);
	if (unregistered && sink == session->main)
		ws_sink_loss(sink, 0,
			     "events of threads or processes that found no memory to record into",
			     unregistered, "the memory for recording was full");
	ws_sink_clock(sink, &session->clock.readings[session->clock.n - 1]);
	if (!getrusage(RUSAGE_SELF, &self)) {
		ws_sink_meta(sink, "recorder.cpu_s", "%.3f",
			     (double)(self.ru_utime.tv_sec + self.ru_stime.tv_sec) +
				     (double)(self.ru_utime.tv_usec + self.ru_stime.tv_usec) / 1e6);
		ws_sink_meta(sink, "recorder.peak_rss_kib", "%ld", self.ru_maxrss);
	}
	ws_limits_end(sink, &sink->throttling);
	ws_sink_meta(sink, "session.registered_processes", "%u",
		     ws_drain_registered(session->drain));
}

static void explain_empty(struct ws_session *session)
{
	char buf[5000], text[6000];
	char *file = ws_launch_find(session->options->argv[0], session->env);
	const struct passwd *user =
		session->options->run_as ? getpwnam(session->options->run_as) : NULL;
	const char *why;

	if (ws_drain_registered(session->drain) ||
	    (!session->options->nvtx && !session->options->osrt && !session->options->cuda) ||
	    !file) {
		free(file);
		return;
	}
	if (session->shut_out) {
		snprintf(buf, sizeof(buf),
			 "user '%s' of --run-as cannot read the hooks beside %.*s; install "
			 "warpsight "
			 "where every user may read it",
			 session->options->run_as, (int)strcspn(session->preload, ":"),
			 session->preload);
		why = buf;
	} else {
		why = ws_image_problem(file, user ? user->pw_uid : geteuid(), buf, sizeof(buf));
	}
	snprintf(text, sizeof(text), "%s: %s.",
		 ws_perf_active(session->perf)
			 ? "Only what the kernel tells (samples, context switches) was recorded"
			 : "Nothing was recorded",
		 why ? why
		     : "no process of the target loaded the hooks (a static, privileged or foreign "
		       "program, or one that was not run at all)");
	ws_sink_diagnostic(session->main, WS_WARNING, "process", 0, ws_read_raw_ns(), text);
	free(file);
}

/* The report holds everything; repeat now what the user should not have to look for. */
static void repeat_warnings(const struct ws_sink *sink)
{
	for (uint64_t i = 0; i < sink->warning_count && i < WS_SINK_WARNINGS; i++)
		ws_warn("%s", sink->warnings[i]);
	if (sink->warning_count > WS_SINK_WARNINGS)
		ws_warn("%llu more warnings are in the report: warpsight info %s",
			(unsigned long long)(sink->warning_count - WS_SINK_WARNINGS), sink->path);
	if (sink->lost)
		ws_warn("%llu events were lost; warpsight info %s says which and why",
			(unsigned long long)sink->lost, sink->path);
}

/* A report that could not be written to its end says so itself: small tables still go in where
 * large ones no longer fit. */
static void count_unwritten(struct ws_sink *sink)
{
	uint64_t lost;

	ws_writer_flush(sink->writer);
	lost = ws_writer_lost(sink->writer);
	if (!lost)
		return;
	ws_sink_loss(sink, 0, "rows", lost, "they could not be written to the report");
	sink->lost -= lost; /* said on its own */
}

static void say_calls_left_out(struct ws_sink *sink, uint64_t count, const char *functions,
			       unsigned recorded)
{
	char text[300];

	if (!count)
		return;
	snprintf(text, sizeof(text),
		 "%llu calls of %s are not in the report: of a thread no more than %u a second "
		 "are recorded, because each slows those that wait for one another. "
		 "--osrt-threshold=0 and --lossless record all.",
		 (unsigned long long)count, functions, recorded);
	ws_sink_diagnostic(sink, WS_INFO, "osrt", 0, ws_read_raw_ns(), text);
}

static void say_left_out(struct ws_sink *sink)
{
	char text[500];

	say_calls_left_out(sink, sink->yields_left_out, "sched_yield", WS_YIELDS_A_SECOND);
	say_calls_left_out(sink, sink->wakes_left_out,
			   "pthread_cond_signal or pthread_cond_broadcast", WS_WAKES_A_SECOND);
	if (!sink->stacks_left_out)
		return;
	snprintf(text, sizeof(text),
		 "%llu calls of the OS runtime have no call stack: no more than %u a second of "
		 "short and as many of long ones (%u ms) are taken in a process, and %u where "
		 "threads crowd, because each slows it. A higher --osrt-backtrace-threshold "
		 "chooses; --lossless takes all.",
		 (unsigned long long)sink->stacks_left_out, WS_STACKS_A_SECOND, WS_LONG_WAIT_MS,
		 WS_STACKS_A_SECOND / WS_STACK_CROWD_PRICE);
	ws_sink_diagnostic(sink, WS_INFO, "osrt", 0, ws_read_raw_ns(), text);
}

/* ---- ends ---- */

static void add_result(struct ws_session *session, const struct ws_sink *sink)
{
	struct ws_record_result *result = session->result;

	result->reports =
		ws_realloc(result->reports, (result->report_count + 1) * sizeof(*result->reports));
	result->reports[result->report_count++] = ws_strdup(sink->path);
	result->events += sink->events;
	result->lost += ws_writer_lost(sink->writer);
	free(session->last_report);
	session->last_report = ws_strdup(sink->path);
}

static void finish_report(struct ws_session *session, struct ws_sink *sink)
{
	struct ws_err err;

	if (!sink->path)
		return;
	write_summary(session, sink, count_unregistered(session));
	say_left_out(sink);
	if (ws_writer_error(sink->writer, &err))
		count_unwritten(sink);
	repeat_warnings(sink);
	add_result(session, sink);
	if (ws_writer_continue(sink->writer, NULL, NULL, &err)) {
		session->result->write_failed = true;
		ws_warn("%s", err.msg);
	}
	ws_sink_next_report(sink, NULL);
}

void ws_session_finish_reports(struct ws_session *session)
{
	/* What lasts first; then what is said of these reports alone. */
	ws_code_tell_modules(session->code);
	for (struct ws_sink *sink = session->sinks; sink; sink = sink->next) {
		if (!sink->path)
			continue;
		ws_code_symbolise(sink, session->options, session->started_epoch, session->code,
				  false);
		ws_sink_begin_own(sink);
	}
	ws_code_tell_mappings(session->code);
	session->starved.report = NULL;
	for (struct ws_sink *sink = session->sinks; sink; sink = sink->next)
		finish_report(session, sink);
}

void ws_session_discard_reports(struct ws_session *session)
{
	session->starved.report = NULL;
	for (struct ws_sink *sink = session->sinks; sink; sink = sink->next) {
		if (!sink->path)
			continue;
		ws_sink_begin_own(sink);
		ws_writer_abandon(sink->writer);
		sink->number -= sink->number > 0;
		ws_sink_next_report(sink, NULL);
	}
}

/* Whether the recording waited for a capture range that never opened. */
static bool never_began(const struct ws_session *session)
{
	return session->machine.plan.capture != WS_CAPTURE_NONE && !session->collect_start;
}

/* Whether launches have repeated; if so, report why they began no collection. */
static bool say_no_launches(const struct ws_capture_step *step, uint32_t first)
{
	static const char *const instead = "ask for later steps, name their NVTX ranges with "
					   "--step-range, or mark them; there is no report";

	if (step->source == WS_STEP_TOO_LATE)
		ws_warn("--steps: the launches repeat every %u from kernel '%s' on, but these "
			"steps were recognised only when step %u had begun: %s",
			step->launches, step->text, step->last, instead);
	else if (step->source == WS_STEP_UNSURE)
		ws_warn("--steps: the launches repeat every %u from kernel '%s' on, but when step "
			"%u began they had not done so for long enough to be steps and not parts "
			"of one: %s",
			step->launches, step->text, first, instead);
	else if (step->source == WS_STEP_AHEAD)
		ws_warn("--steps: step %u did not come: the last one, by the %u launches of each "
			"from kernel '%s' on, was step %u; there is no report",
			first, step->launches, step->text, step->last);
	else
		return false;
	return true;
}

static void say_no_steps(const struct ws_session *session)
{
	struct ws_capture_step step = ws_capture_look_at_step(session->area.arena);
	uint32_t first = session->machine.plan.first_step;
	const char *named = session->options->capture_range;

	if (say_no_launches(&step, first))
		return;
	if (step.source == WS_STEP_RANGE)
		ws_warn("--steps: step %u did not come: the last NVTX range '%s' was step %u; "
			"there "
			"is no report",
			first, step.text, step.last);
	else if (step.source == WS_STEP_OUTERMOST)
		ws_warn("--steps: no range was called a step, and none came again until step %u "
			"(the "
			"last was '%s'): name it with --step-range; there is no report",
			first, step.text);
	else if (named)
		ws_warn("--steps: the program opened no NVTX range '%s'; there is no report",
			named);
	else
		ws_warn("--steps: the program opened no NVTX range that comes again%s; there is no "
			"report",
			session->options->cuda ? ", and its launches did not repeat for long enough"
					       : "");
}

static void say_never_began(const struct ws_session *session)
{
	const struct ws_record_opts *options = session->options;

	if (session->machine.plan.interactive)
		return;
	if (session->machine.plan.capture == WS_CAPTURE_NVTX)
		ws_warn("no NVTX range '%s' of %s%s was opened: there is no report",
			ws_text_or(options->capture_range, ""),
			options->capture_domain ? "domain " : "the default domain",
			ws_text_or(options->capture_domain, ""));
	else if (session->machine.plan.capture == WS_CAPTURE_STEPS)
		say_no_steps(session);
	else if (session->machine.plan.capture == WS_CAPTURE_CUDA)
		ws_warn("the program did not call cudaProfilerStart: there is no report");
	else if (session->machine.plan.capture == WS_CAPTURE_HOTKEY)
		ws_warn("the key %s was not pressed: there is no report",
			ws_text_or(options->capture_range, WS_DEFAULT_KEY));
	else
		ws_warn("the program did not call ws_start: there is no report");
}

void ws_session_sum_up(struct ws_session *session)
{
	if (never_began(session)) {
		say_never_began(session);
		ws_session_discard_reports(session);
	}
	if (!session->options->attach)
		explain_empty(session);
	for (struct ws_sink *sink = session->sinks; sink; sink = sink->next)
		if (sink->path)
			write_summary(session, sink, count_unregistered(session));
}

int ws_session_close_reports(struct ws_session *session, struct ws_err *err)
{
	struct ws_err one;
	int ret = 0;

	while (session->sinks) {
		struct ws_sink *sink = session->sinks;

		session->sinks = sink->next;
		if (sink->path) {
			say_left_out(sink);
			count_unwritten(sink);
			repeat_warnings(sink);
			add_result(session, sink);
		}
		if (ws_sink_close(sink, &one)) {
			session->result->write_failed = true;
			ret = ws_fail(err, "%s", one.msg);
		}
	}
	return ret;
}

int ws_session_close_snapshots(struct ws_session *session, struct ws_err *err)
{
	int rc = 0;

	while (session->sinks) {
		struct ws_sink *sink = session->sinks;

		session->sinks = sink->next;
		say_left_out(sink);
		count_unwritten(sink);
		if (ws_sink_close(sink, err))
			rc = -1;
	}
	return rc;
}

/* ---- during the recording ---- */

void ws_session_commit_reports(void *ctx)
{
	struct ws_session *session = ctx;

	for (struct ws_sink *sink = session->sinks; sink; sink = sink->next)
		ws_writer_commit(sink->writer);
}

void ws_session_sync_reports(struct ws_session *session, uint64_t now)
{
	if (session->options->sync <= 0 ||
	    (double)(now - session->last_sync) < session->options->sync * 1e9)
		return;
	for (struct ws_sink *sink = session->sinks; sink; sink = sink->next)
		ws_writer_sync(sink->writer);
	session->last_sync = now;
}
