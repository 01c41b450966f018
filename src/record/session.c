/*
 * session.c - one recording from start to end: make the arena and the report, start the target,
 * drain until it ends, close.
 *
 * Everything happens on one thread, in rounds of draining that are paced by how much there was to
 * drain. When a round found little, the recorder sleeps on a futex that hooks wake when they take
 * new memory. So an idle target costs fifty short wake-ups a second, and a busy one is followed so
 * closely that its rings stay small and in the cache.
 */
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <linux/futex.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/gpu_tools.h"
#include "base/choose.h"
#include "base/mem.h"
#include "base/paths.h"
#include "record/closer.h"
#include "record/code.h"
#include "record/drain.h"
#include "record/facts.h"
#include "record/launch.h"
#include "record/name.h"
#include "record/proc.h"
#include "record/record.h"
#include "record/rights.h"
#include "record/signals.h"
#include "record/starved.h"
#include "record/tee.h"

#define IDLE_NS 20000000u	/* nothing recorded stays unread for longer */
#define BUSY_BYTES (256u << 10) /* a round that converted more is followed by another at once */
#define QUIET_BYTES 4096u	/* after less, who records wakes the recorder */
#define ROUND_BYTES (64u << 10) /* a round should find: it stays in the cache */
#define SHORT_NS 500000u	/* between two such rounds, at least */
#define SOON_NS 100000000u	/* after the end of the target its children often end, too */
#define LONG_NS 4000000u	/* and at most */
#define CLOCK_ROW_NS 1000000000u
#define MOST_SINKS 4096
/* bytes of the stack of a CUDA call: single frames of math libraries hold kernel arguments of
 * some KiB */
#define CUDA_STACK 32768u
#define STACKS_A_SECOND 500 /* of calls of the OS runtime in a process */
/* calls that last longer have backtraces of their own, up to this many a second */
#define LONG_WAIT_MS 5
/* bytes of stack that a sample by signal copies: two such samples fill a chunk of a ring */
#define SIGNAL_STACK 7168u

enum phase { WAITING, COLLECTING, OVER };

struct session {
	const struct ws_record_opts *options;
	struct ws_record_result *result;
	struct ws_area area;
	struct ws_clock clock;
	struct ws_drain *drain;
	struct ws_python_opts python_opts;
	struct ws_python *python; /* NULL when nothing of Python is wanted */
	struct ws_perf_opts perf_opts;
	struct ws_perf *perf; /* NULL when neither samples nor context switches are wanted */
	struct ws_code *code;
	struct ws_sink *sinks; /* the first is the target's */
	struct ws_sink *main;
	size_t sink_count;
	struct ws_launch launch;
	struct ws_tee *tee;
	struct ws_starved starved;
	char **env;
	/* the report that --force-overwrite replaces, which has another name until the target
	 * runs */
	char *kept_old;
	char preload[4 * PATH_MAX + 8], nvtx[PATH_MAX], cuda[PATH_MAX];
	bool shut_out; /* the target's user cannot read our files: it runs unrecorded */
	enum phase phase;
	uint64_t started_epoch; /* CLOCK_REALTIME seconds */
	uint64_t started, collect_start, collect_end, last_clock_row, last_sync;
	bool exited, killed;
	uint64_t exited_at; /* when that was noticed */
	uint64_t round_at;  /* when the last round ended */
	/* all that the target wrote has been read: a round has begun after it had exited */
	bool read_since;
	int wait_status;
	int interrupts_at_exit;
};

/* ---- reports ---- */

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

static char *expand_name(struct session *session, unsigned number, const char *env, size_t env_len,
			 struct ws_err *err)
{
	struct name_lookup l = {env, env_len, session->env};
	struct ws_name_context context = {.pid = session->launch.pid,
					  .number = number,
					  .variable = look_up_placeholder,
					  .ctx = &l};

	return ws_report_name(ws_or(session->options->output, WS_DEFAULT_NAME), &context, err);
}

/* Give the old report a second name, so that it can come back if the target cannot be run after
 * all. */
static void keep_old_report(struct session *session, const char *path)
{
	session->kept_old = ws_format("%s.old-%d", path, (int)getpid());
	if (link(path, session->kept_old)) {
		free(session->kept_old);
		session->kept_old = NULL;
	}
	session->starved.kept_old = session->kept_old;
}

static void settle_old_report(struct session *session, const char *back_to)
{
	if (!session->kept_old)
		return;
	/* If the old report was not touched, both are names of it and rename does nothing. */
	if (back_to)
		(void)!rename(session->kept_old, back_to);
	unlink(session->kept_old);
	session->starved.kept_old = NULL;
	free(session->kept_old);
	session->kept_old = NULL;
}

/* Create the report of `env`'s name; with %n the first number that is free. */
static struct ws_sink *create_report(struct session *session, const char *env, size_t env_len,
				     struct ws_err *err)
{
	const char *name = ws_or(session->options->output, WS_DEFAULT_NAME);
	struct ws_writer_opts opts = {.overwrite =
					      session->options->overwrite && !ws_name_counts(name)};
	struct ws_writer *writer = NULL;
	struct ws_sink *sink;
	char *path = NULL;

	for (unsigned n = 1; !writer && n < 100000; n++) {
		struct stat st;

		if (!session->main)
			session->starved.report = NULL;
		free(path);
		path = expand_name(session, n, env, env_len, err);
		if (!path)
			return NULL;
		if (ws_name_counts(name) && !lstat(path, &st))
			continue;
		if (opts.overwrite && !session->main)
			keep_old_report(session, path);
		if (!session->main && (session->kept_old || lstat(path, &st)))
			session->starved.report = path; /* ours to remove */
		opts.durable = session->options->sync > 0;
		writer = ws_writer_create(path, &opts, err);
		if (!writer && (!ws_name_counts(name) || lstat(path, &st)))
			break;
	}
	if (!writer) {
		if (!session->main) {
			session->starved.report = NULL;
			settle_old_report(session, path);
		}
		free(path);
		return NULL;
	}
	sink = ws_sink_new(path, writer, &session->clock);
	sink->keep_command_lines = session->options->keep_command_lines;
	sink->next = session->sinks;
	session->sinks = sink;
	session->sink_count++;
	ws_facts_write(sink, session->options, session->launch.pid, session->env);
	ws_sink_clock(sink, &session->clock.readings[0]);
	if (session->collect_start) {
		struct ws_row_collection row = {.start = session->collect_start, .end = WS_NO_TIME};

		ws_writer_add(writer, WS_TABLE_collection, &row);
	}
	return sink;
}

/* %q{VAR} may have another value in this process, which then has a report of its own. */
static struct ws_sink *find_sink(void *ctx, int pid, const char *env, size_t env_len,
				 struct ws_sink *parent)
{
	struct session *session = ctx;
	struct ws_sink *sink;
	struct ws_err err = {""};
	char *path;

	(void)pid;
	if (!session->options->output || !strstr(session->options->output, "%q{") ||
	    ws_name_counts(session->options->output))
		return session->main;
	path = expand_name(session, 1, ws_text_or(env, ""), env_len, &err);
	for (sink = session->sinks; path && sink; sink = sink->next)
		if (!strcmp(sink->path, path))
			break;
	free(path);
	if (!sink && path && session->sink_count < MOST_SINKS) {
		sink = create_report(session, ws_text_or(env, ""), env_len, &err);
		if (!sink)
			ws_warn("%s: the events of process %d go to %s", err.msg, pid,
				session->main->path);
	}
	return sink ? sink : parent ? parent : session->main;
}

/* ---- the arena's settings ---- */

static int make_arena(struct session *session, struct ws_err *err)
{
	uid_t owner = (uid_t)-1;

	if (session->options->run_as) {
		struct passwd *pw = getpwnam(session->options->run_as);

		if (!pw)
			return ws_fail(err, "--run-as: there is no user '%s'",
				       session->options->run_as);
		if (geteuid() && pw->pw_uid != geteuid())
			return ws_fail(
				err,
				"--run-as needs root: only root can run a program as another user");
		owner = pw->pw_uid;
	}
	return ws_area_create(&session->area, session->options->ring_bytes, owner, err);
}

static uint32_t list_arenas(struct session *session, struct ws_text *text)
{
	uint32_t at;

	ws_text_add(text, "", 1);
	at = ws_area_text(&session->area, text->text, text->len);
	ws_text_free(text);
	return at;
}

static void fill_domain_texts(struct session *session)
{
	struct ws_text text = {0};

	for (const char *at = session->options->nvtx_domains; at && *at;) {
		size_t n = strcspn(at, ",");

		if (n) {
			ws_text_add(&text, at, n);
			ws_text_add(&text, "", 1);
		}
		at += n + (at[n] == ',');
	}
	session->area.arena->text_domains = list_arenas(session, &text);
}

static bool wants_python(const struct ws_record_opts *options)
{
	return options->python.sampling || options->python.gil || options->python.cuda_stacks ||
	       options->python.function_n;
}

static void fill_stacks(const struct ws_record_opts *options, struct ws_arena *arena)
{
	struct ws_stack_settings *st = &arena->stacks;
	bool any = options->stack_depth && options->stack_bytes;

	st->osrt_threshold =
		any && options->stack_threshold >= 0
			? (uint64_t)(options->stack_threshold * (double)arena->ticks_per_second)
			: UINT64_MAX;
	for (int i = 0; i < 4; i++)
		st->cuda_threshold[i] = options->cuda_stack_ns[i] >= 0
						? (uint64_t)options->cuda_stack_ns[i]
						: UINT64_MAX;
	st->osrt_bytes = options->stack_bytes;
	st->osrt_pause =
		options->lossless ? 0 : ws_max(arena->ticks_per_second / STACKS_A_SECOND, 1);
	st->osrt_long = arena->ticks_per_second / 1000 * LONG_WAIT_MS;
	st->cuda_bytes = CUDA_STACK;
}

static void fill_sampling(const struct session *session, struct ws_arena *arena)
{
	const struct ws_perf_opts *options = &session->perf_opts;

	if (!options->signals)
		return;
	arena->features |= WS_FEATURE_SAMPLE;
	arena->sample.period_ns =
		options->period ? options->period : 1000000000u / options->frequency;
	arena->sample.stack_bytes = options->backtrace == WS_BACKTRACE_NONE ? 8 : SIGNAL_STACK;
}

static uint32_t fill_function_texts(struct session *session)
{
	struct ws_text text = {0};

	for (size_t i = 0; i < session->options->python.function_n; i++) {
		ws_text_add(&text, session->options->python.functions[i].module,
			    strlen(session->options->python.functions[i].module) + 1);
		ws_text_add(&text, session->options->python.functions[i].name,
			    strlen(session->options->python.functions[i].name) + 1);
	}
	return text.len ? list_arenas(session, &text) : 0;
}

static void fill_arena(struct session *session)
{
	const struct ws_record_opts *options = session->options;
	struct ws_reading left = session->clock.readings[0], right;
	struct ws_text vars = {0};
	struct timespec pause = {0, 2000000};
	struct ws_arena *arena = session->area.arena;

	/* a rate for thresholds: 2 ms give it to within 1e-4, and times do not depend on it */
	nanosleep(&pause, NULL);
	right = ws_clock_read(&session->clock);
	arena->clock_mode = session->clock.mode;
	arena->ticks_per_second = (uint64_t)((double)(right.ticks - left.ticks) * 1e9 /
					     (double)(right.raw - left.raw));
	arena->osrt_threshold =
		(uint64_t)(options->osrt_threshold * (double)arena->ticks_per_second);
	arena->features =
		(options->nvtx ? WS_FEATURE_NVTX : 0u) | (options->osrt ? WS_FEATURE_OSRT : 0u) |
		(options->trace_forks ? WS_FEATURE_FORK_TRACE : 0u) |
		(options->cuda ? WS_FEATURE_CUDA : 0u) |
		(wants_python(options) ? WS_FEATURE_PYTHON : 0u) |
		(options->python.gil ? WS_FEATURE_GIL : 0u) |
		(options->python.cuda_stacks ? WS_FEATURE_PYTHON_CUDA : 0u) |
		(options->osrt && options->python.sampling ? WS_FEATURE_PYTHON_OSRT : 0u) |
		(options->python.sampling ? WS_FEATURE_PYTHON_SAMPLES : 0u);
	arena->text_functions = fill_function_texts(session);
	fill_stacks(options, arena);
	fill_sampling(session, arena);
	arena->lossless = options->lossless;
	arena->nvtx_filter = (uint32_t)options->nvtx_filter;
	fill_domain_texts(session);
	for (const char *v = ws_launcher_variables; *v; v += strlen(v) + 1)
		ws_text_add(&vars, v, strlen(v) + 1);
	if (options->output)
		ws_name_variables(options->output, &vars);
	arena->text_report_vars = list_arenas(session, &vars);
	arena->text_preload =
		ws_area_text(&session->area, session->preload, strlen(session->preload));
	arena->text_nvtx = ws_area_text(&session->area, session->nvtx, strlen(session->nvtx));
	arena->text_cuda = ws_area_text(&session->area, session->cuda, strlen(session->cuda));
	arena->cuda.flags = options->cuda_flags;
	arena->cuda.flush_ms = options->cuda_flush_ms;
	arena->cuda.text_apis = options->cuda_apis && *options->cuda_apis
					? ws_area_text(&session->area, options->cuda_apis,
						       strlen(options->cuda_apis))
					: 0;
}

static int add_preload(struct session *session, const char *library, struct ws_err *err)
{
	char path[PATH_MAX];
	size_t n = strlen(session->preload);

	if (ws_find_hook_library(library, path, sizeof(path), err))
		return -1;
	snprintf(session->preload + n, sizeof(session->preload) - n, ":%s", path);
	return 0;
}

static int find_hooks(struct session *session, struct ws_err *err)
{
	char hooks[PATH_MAX];
	size_t n;

	if (ws_find_hook_library("libwarpsight-hooks.so", hooks, sizeof(hooks), err))
		return -1;
	snprintf(session->preload, sizeof(session->preload), "%s", hooks);
	snprintf(session->nvtx, sizeof(session->nvtx), "%s", session->options->nvtx ? hooks : "");
	if (wants_python(session->options) &&
	    add_preload(session, "libwarpsight-python.so",
			err)) /* before the OS-runtime hook, which it calls */
		return -1;
	if (session->options->osrt && add_preload(session, "libwarpsight-osrt.so", err))
		return -1;
	session->perf_opts = session->options->perf;
	session->perf_opts.all_switches = session->options->lossless;
	session->perf_opts.signals = session->options->perf.sample && ws_perf_refused();
	if (session->perf_opts.signals && add_preload(session, "libwarpsight-sample.so", err))
		return -1;
	if (session->options->cuda) {
		/* Loaded by the driver; preloaded too, so that it stands between libcupti and a
		 * profiler inside the program. */
		if (ws_find_hook_library("libwarpsight-cuda.so", session->cuda,
					 sizeof(session->cuda), err))
			return -1;
		n = strlen(session->preload);
		snprintf(session->preload + n, sizeof(session->preload) - n, ":%s", session->cuda);
	}
	return 0;
}

/* ---- the phases of a collection ---- */

static void set_collecting(struct session *session, bool on)
{
	session->drain->collecting = on;
	ws_switch_collecting(session->area.arena, on);
}

static void begin_collecting(struct session *session)
{
	session->phase = COLLECTING;
	session->collect_start = ws_read_raw_ns();
	atomic_store(&session->area.arena->collect_from, session->collect_start);
	atomic_store(&session->area.arena->collect_to, 0);
	ws_drain_collect(session->drain, session->collect_start, 0);
	set_collecting(session, true);
	ws_perf_begin(session->perf, session->collect_start);
	for (struct ws_sink *sink = session->sinks; sink; sink = sink->next) {
		struct ws_row_collection row = {.start = session->collect_start, .end = WS_NO_TIME};

		ws_writer_add(sink->writer, WS_TABLE_collection, &row);
	}
}

static void kill_process(void *ctx, int pid)
{
	struct session *session = ctx;

	if (pid != session->launch.pid)
		kill(pid, session->options->kill_signal);
}

/* The duration has ended the collection: whoever waits for the target's own end should know. */
static void say_why_over(const struct session *session)
{
	double seconds = session->options->duration;

	if (session->killed)
		ws_say("the duration of %g s is over: the target was sent SIG%s (--kill=none lets "
		       "it run on)",
		       seconds, sigabbrev_np(session->options->kill_signal));
	else if (!session->exited)
		ws_say("the duration of %g s is over: the target runs on unrecorded", seconds);
}

static void end_collecting(struct session *session)
{
	set_collecting(session, false);
	session->collect_end = ws_read_raw_ns();
	atomic_store(&session->area.arena->collect_to, session->collect_end);
	ws_drain_collect(session->drain, session->collect_start, session->collect_end);
	ws_drain_round(session->drain);
	ws_perf_end(session->perf, session->collect_end);
	ws_drain_open_events(session->drain);
	session->phase = OVER;
	if (session->options->kill_signal && !session->exited) {
		ws_drain_each(session->drain, kill_process, session);
		kill(session->launch.pid, session->options->kill_signal);
		session->killed = true;
	}
	if (!session->options->quiet)
		say_why_over(session);
}

static void advance_collection(struct session *session, uint64_t now)
{
	if (session->phase == WAITING &&
	    now >= session->started + (uint64_t)(session->options->delay * 1e9))
		begin_collecting(session);
	if (session->phase == COLLECTING && session->options->duration > 0 &&
	    now >= session->collect_start + (uint64_t)(session->options->duration * 1e9))
		end_collecting(session);
}

/* ---- the target ---- */

static void follow_stop(struct session *session)
{
	siginfo_t info = {0};

	/* Job control: the shell that started us must see the stop. A SIGCONT to the job reaches
	 * the target too. */
	if (!waitid(P_PID, (id_t)session->launch.pid, &info, WSTOPPED | WNOHANG) &&
	    info.si_pid == session->launch.pid &&
	    (info.si_status == SIGTSTP || info.si_status == SIGTTIN || info.si_status == SIGTTOU))
		kill(getpid(), SIGSTOP);
}

/* The zombie is kept until its process row has its status: see proc.c. */
static void look_at_target(struct session *session)
{
	siginfo_t info = {0};

	if (session->exited)
		return;
	follow_stop(session);
	if (waitid(P_PID, (id_t)session->launch.pid, &info, WEXITED | WNOHANG | WNOWAIT) ||
	    info.si_pid != session->launch.pid)
		return;
	session->exited = true;
	session->exited_at = ws_read_raw_ns();
	session->interrupts_at_exit = ws_signals_interrupts();
}

static bool is_finished(struct session *session)
{
	if (!session->exited)
		return false;
	if (!session->options->wait_all || (session->phase == OVER && !session->killed))
		return true;
	/*
	 * Children that live on are waited for, unless the user interrupts the wait. A short target
	 * may have come and gone since the last look at the arena, children and all: who is alive
	 * is known only after another.
	 */
	return session->read_since && (!ws_drain_alive(session->drain) ||
				       ws_signals_interrupts() > session->interrupts_at_exit);
}

/* ---- the loop ---- */

/* How long to sleep after a round that found `bytes` of what was recorded in `span` ns. Each round
 * takes a core from the target's threads, and the cache with it. */
static uint64_t choose_sleep(uint64_t bytes, uint64_t span)
{
	double fill = (double)ROUND_BYTES / (double)bytes * (double)span;

	return (uint64_t)ws_min(ws_max(fill, (double)SHORT_NS), (double)LONG_NS);
}

static void sleep_between_rounds(struct session *session, uint64_t bytes)
{
	struct ws_arena *arena = session->area.arena;
	struct timespec time = {0, 0};
	uint64_t patience = ws_min(ws_perf_patience(session->perf),
				   ws_python_patience(session->python)),
		 began = session->round_at, now = ws_read_raw_ns();

	session->round_at = now;
	if (bytes > BUSY_BYTES || !patience)
		return;
	if (bytes > QUIET_BYTES) {
		time.tv_nsec = (long)ws_min(patience, choose_sleep(bytes, now - began));
		nanosleep(&time, NULL);
		return;
	}
	time.tv_nsec = (long)(ws_min(patience, IDLE_NS));
	if (session->exited && ws_read_raw_ns() - session->exited_at < SOON_NS) {
		ws_drain_await_end(session->drain, &time);
		return;
	}
	atomic_store_explicit(&arena->sleeping, 1, memory_order_seq_cst);
	syscall(SYS_futex, &arena->sleeping, FUTEX_WAIT, 1, &time, NULL, 0);
	atomic_store_explicit(&arena->sleeping, 0, memory_order_relaxed);
}

static void commit_reports(void *ctx)
{
	struct session *session = ctx;

	for (struct ws_sink *sink = session->sinks; sink; sink = sink->next)
		ws_writer_commit(sink->writer);
}

static void sync_reports(struct session *session, uint64_t now)
{
	if (session->options->sync <= 0 ||
	    (double)(now - session->last_sync) < session->options->sync * 1e9)
		return;
	for (struct ws_sink *sink = session->sinks; sink; sink = sink->next)
		ws_writer_sync(sink->writer);
	session->last_sync = now;
}

/* Returns how many bytes there were to read. */
static uint64_t run_round(struct session *session)
{
	uint64_t since = ws_read_raw_ns(), bytes = ws_drain_round(session->drain),
		 now = session->clock.readings[session->clock.n - 1].raw;

	session->read_since = session->exited;
	ws_perf_round(session->perf, since);
	if (session->tee)
		ws_tee_collect(session->tee, session->main);
	for (struct ws_sink *sink = session->sinks; sink; sink = sink->next)
		if (now - session->last_clock_row >= CLOCK_ROW_NS)
			ws_sink_clock(sink, &session->clock.readings[session->clock.n - 1]);
	sync_reports(session, now);
	commit_reports(session);
	if (now - session->last_clock_row >= CLOCK_ROW_NS)
		session->last_clock_row = now;
	if (ws_area_repair(&session->area))
		ws_sink_diagnostic(session->main, WS_ERROR, "recorder", 0, now,
				   "The shared memory of the recording was truncated. What had "
				   "not been read is lost, and nothing more was recorded inside "
				   "the program.");
	ws_area_feed(&session->area);
	look_at_target(session);
	advance_collection(session, ws_read_raw_ns());
	return bytes;
}

static void run_session(struct session *session)
{
	for (;;) {
		bool was_there = !session->exited;
		uint64_t bytes;

		for (int sig; (sig = ws_signals_pending());)
			if (!session->exited)
				kill(session->launch.pid, sig);
		bytes = run_round(session);
		if (is_finished(session))
			break;
		/* When the target has just ended the next round settles it: waiting first would be
		 * felt by everyone who profiles something short. */
		if (was_there != session->exited)
			sleep_between_rounds(session, bytes);
	}
	if (session->phase == COLLECTING) {
		set_collecting(session, false);
		session->collect_end = ws_read_raw_ns();
	}
}

/* ---- beginning and end ---- */

static int make_exit_code(int status)
{
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* Processes and threads that found no memory; a count that cannot be was overwritten, and then
 * nothing is known but that there was damage. */
static uint64_t count_unregistered(struct session *session)
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

static void print_summary(struct session *session, struct ws_sink *sink, uint64_t unregistered)
{
	struct ws_row_collection row = {.start = session->collect_start,
					.end = session->collect_end};
	struct rusage self;

	if (session->collect_start)
		ws_writer_add(sink->writer, WS_TABLE_collection, &row);
	else
		ws_sink_diagnostic(
			sink, WS_WARNING, "recorder", 0, ws_read_raw_ns(),
			"The target ended before the delay was over: nothing was collected.");
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
	ws_sink_meta(sink, "session.registered_processes", "%u",
		     ws_drain_registered(session->drain));
}

static void explain_empty(struct session *session)
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

/* The report holds it all; what the user should not have to look for is said now. */
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

static void say_left_out(struct ws_sink *sink)
{
	char text[300];

	if (!sink->stacks_left_out)
		return;
	snprintf(text, sizeof(text),
		 "%llu calls of the OS runtime have no call stack: no more than %u a second of "
		 "short and as many of long ones (%u ms) are taken in a process, because each "
		 "slows it. A higher --osrt-backtrace-threshold chooses; --lossless takes all.",
		 (unsigned long long)sink->stacks_left_out, STACKS_A_SECOND, LONG_WAIT_MS);
	ws_sink_diagnostic(sink, WS_INFO, "osrt", 0, ws_read_raw_ns(), text);
}

static int close_reports(struct session *session, struct ws_err *err)
{
	struct ws_record_result *result = session->result;
	struct ws_err one;
	int ret = 0;

	result->reports = ws_calloc(session->sink_count, sizeof(*result->reports));
	while (session->sinks) {
		struct ws_sink *sink = session->sinks;

		session->sinks = sink->next;
		result->reports[result->report_count++] = ws_strdup(sink->path);
		result->events += sink->events;
		say_left_out(sink);
		count_unwritten(sink);
		result->lost += ws_writer_lost(sink->writer);
		repeat_warnings(sink);
		if (ws_sink_close(sink, &one)) {
			result->write_failed = true;
			ret = ws_fail(err, "%s", one.msg);
		}
	}
	return ret;
}

static int finish_session(struct session *session, struct ws_err *err)
{
	struct ws_closer *closer;
	int status = 0, ret;

	if (session->perf) {
		ws_drain_round(
			session->drain); /* who has registered: perf's last records ask for them */
		ws_perf_finish(session->perf, ws_or(session->collect_end, ws_read_raw_ns()));
	}
	explain_empty(session);
	for (struct ws_sink *sink = session->sinks; sink; sink = sink->next)
		print_summary(session, sink, count_unregistered(session));
	session->starved.tee = NULL;
	if (session->tee)
		ws_tee_finish(session->tee, session->main);
	ws_drain_finish(session->drain);
	ws_python_say_unseen(session->python, session->main);
	ws_python_free(session->python);
	closer = ws_perf_free(session->perf);
	ws_area_destroy(&session->area);
	session->result->started = true;
	if (session->exited && waitpid(session->launch.pid, &status, 0) == session->launch.pid)
		session->result->status = make_exit_code(status);
	ws_code_end(session->code);
	for (struct ws_sink *sink = session->sinks; sink; sink = sink->next)
		ws_code_symbolise(sink, session->options, session->started_epoch, session->code,
				  true);
	ret = close_reports(session, err);
	ws_closer_join(closer);
	return ret;
}

/* Another tool has itself loaded by the driver: it stays, and then CUDA is not ours to record. */
static void respect_injection(struct session *session)
{
	const char *name = "CUDA_INJECTION64_PATH=";
	const char *tool = session->options->cuda ? ws_find_gpu_tool(session->env) : NULL;
	char text[2 * PATH_MAX];

	if (tool) {
		snprintf(text, sizeof(text),
			 "CUDA is not recorded: %s has it, under which warpsight was started. Run "
			 "warpsight without that tool.",
			 tool);
		ws_sink_diagnostic(session->main, WS_WARNING, "cuda", 0, ws_read_raw_ns(), text);
	}
	for (char **e = session->env; session->options->cuda && !tool && *e; e++) {
		const char *value = *e + strlen(name);

		if (strncmp(*e, name, strlen(name)) || !strcmp(value, session->cuda) ||
		    !ws_launch_foreign_cuda(value))
			continue;
		snprintf(text, sizeof(text),
			 "CUDA is not recorded: CUDA_INJECTION64_PATH has %.4000s loaded by the "
			 "driver. Unset it to have warpsight record.",
			 value);
		ws_sink_diagnostic(session->main, WS_WARNING, "cuda", 0, ws_read_raw_ns(), text);
	}
}

/* The target has been forked, and holds. */
static void make_drain(struct session *session)
{
	const struct ws_record_opts *options = session->options;
	struct ws_drain_ops ops = {.ctx = session,
				   .sink_for = find_sink,
				   .commit = commit_reports,
				   .stack_depth = options->stack_depth,
				   .osrt_threshold = options->osrt_threshold,
				   .cuda_flags = options->cuda_flags};

	session->code = ws_code_new();
	ops.code = session->code;
	session->drain = ws_drain_new(&session->area, &session->clock, &ops);
	ws_drain_target(session->drain, session->launch.pid);
	if (!wants_python(options))
		return;
	session->python_opts = options->python;
	session->python_opts.timers = session->perf_opts.signals;
	session->python = ws_python_new(session->drain, &session->python_opts);
	if (session->perf_opts.sample)
		ws_python_bpf_start(session->python);
}

/* Everything up to the target's exec. On failure nothing is left behind. */
static int begin_session(struct session *session, struct ws_err *err_e)
{
	const struct ws_record_opts *options = session->options;
	int out = -1, err = -1;

	if (ws_gpu_tool_must_start(ws_find_gpu_tool(environ)))
		return ws_fail(err_e,
			       "%s would wait for ever for a program that warpsight starts; put "
			       "warpsight first: 'warpsight profile' and then the tool with "
			       "the program",
			       ws_find_gpu_tool(environ));
	ws_clock_init(&session->clock, ws_clock_choose());
	if (make_arena(session, err_e) || find_hooks(session, err_e))
		return -1;
	fill_arena(session);
	if (session->area.text_full)
		return ws_fail(err_e,
			       "the functions, NVTX domains and CUDA calls that are named on the "
			       "command line take more than %d KiB",
			       WS_ARENA_TEXT >> 10);
	session->shut_out =
		!ws_launch_can_read_hooks(options, session->preload, session->area.path);
	session->env = ws_launch_environment(options, session->area.path,
					     session->shut_out ? "" : session->preload,
					     session->nvtx, session->cuda);
	if ((options->store_output || options->hide_output) &&
	    !(session->tee = ws_tee_new(!options->hide_output, &out, &err, err_e)))
		return -1;
	if (ws_launch_prepare(&session->launch, options, session->env, out, err, err_e))
		return -1;
	make_drain(session);
	session->main = create_report(session, NULL, 0, err_e);
	if (!session->main) {
		ws_launch_cancel(&session->launch);
		waitpid(session->launch.pid, NULL, 0);
		ws_python_free(session->python);
		return -1;
	}
	respect_injection(session);
	session->started_epoch = (uint64_t)time(NULL);
	session->perf = ws_perf_open(&session->perf_opts, session->launch.pid, session->drain,
				     session->main);
	ws_drain_perf(session->drain, session->perf);
	if (ws_python_bpf_is_on(session->python)) /* the target has not begun yet */
		session->area.arena->features |=
			WS_FEATURE_PYTHON_BPF |
			(ws_python_bpf_any_ns() ? WS_FEATURE_PYTHON_ANY_NS : 0);
	return 0;
}

/* What exec means by its error, where that is not plain; `file` is what was tried, NULL when
 * nothing of the name was found. */
static const char *explain_exec_failure(const char *name, const char *file, int error)
{
	struct stat st;

	if (!*name)
		return "it has no name";
	if (file && error == EACCES && !stat(file, &st) && S_ISDIR(st.st_mode))
		return "it is a directory";
	if (file && error == ENOENT && !stat(file, &st))
		return "it is there, but not the interpreter or loader that it names";
	return strerror(error);
}

static int report_exec_failure(struct session *session, int error, struct ws_err *err)
{
	char *file = ws_launch_find(session->options->argv[0], session->env);
	const char *why;

	/* exec answers EACCES when some folder of PATH may not be searched; if no other has the
	 * program, it was not found. */
	if (error == EACCES && !file)
		error = ENOENT;
	why = explain_exec_failure(session->options->argv[0], file, error);
	free(file);
	waitpid(session->launch.pid, NULL, 0);
	ws_drain_finish(session->drain);
	ws_python_free(session->python);
	ws_closer_join(ws_perf_free(session->perf));
	ws_writer_discard(session->main->writer);
	settle_old_report(session, session->main->path);
	ws_sink_free(session->main);
	session->result->status = error == ENOENT || error == ENOTDIR ? 127 : 126;
	return ws_fail(err, "cannot run %s: %s",
		       *session->options->argv[0] ? session->options->argv[0] : "''", why);
}

/* What another user's programs write is read with as few rights as possible. */
static void reduce_rights(const struct session *session)
{
	char *folder;

	if (session->area.owner == (uid_t)-1 || session->area.owner == geteuid())
		return;
	folder = ws_strdup(session->main->path);
	ws_rights_reduce(dirname(folder));
	free(folder);
}

int ws_record(const struct ws_record_opts *options, struct ws_record_result *result,
	      struct ws_err *err)
{
	struct session *session = ws_calloc(1, sizeof(*session));
	struct ws_perf_warmth *warmth;
	int error, ret = -1;

	memset(result, 0, sizeof(*result));
	result->status = 1;
	session->options = options;
	session->result = result;
	ws_signals_install();
	session->starved.area = &session->area;
	session->starved.status = &result->status;
	ws_starved_watch(&session->starved);
	warmth = ws_perf_warm_up(&options->perf);
	error = begin_session(session, err);
	ws_perf_end_warm_up(warmth);
	if (!error) {
		session->started = ws_read_raw_ns();
		if (options->delay <= 0)
			begin_collecting(session);
		/* A target that keeps every core busy must not starve what empties its rings.
		 * Permitted or not, it is only a help. */
		setpriority(PRIO_PROCESS, 0, -10);
		reduce_rights(session);
		ws_area_admit(&session->area);
		commit_reports(session); /* so that there is something to recover */
		error = ws_launch_go(&session->launch);
		if (error) {
			ret = report_exec_failure(session, error, err);
		} else {
			session->starved.target = session->launch.pid;
			session->starved.tee = session->tee;
			settle_old_report(session, NULL);
			if (session->tee)
				ws_tee_started(session->tee);
			run_session(session);
			ret = finish_session(session, err);
		}
	}
	ws_starved_watch(NULL);
	settle_old_report(session, NULL);
	ws_area_destroy(&session->area);
	ws_code_free(session->code);
	ws_clock_free(&session->clock);
	ws_signals_restore();
	ws_launch_environment_free(session->env);
	free(session);
	return ret;
}
