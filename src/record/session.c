/*
 * session.c - one recording from start to end: make the arena and the report, start the target,
 * drain until it ends, close.
 *
 * Everything happens on one thread: rounds of draining, paced by how much there was to drain. When
 * a round found little the recorder sleeps on a futex that hooks ring when they take new memory, so
 * an idle target costs fifty short wake-ups a second and a busy one is followed closely enough that
 * its rings stay small and in the cache.
 */
#include <errno.h>
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
#include "base/mem.h"
#include "base/paths.h"
#include "record/code.h"
#include "record/drain.h"
#include "record/facts.h"
#include "record/launch.h"
#include "record/name.h"
#include "record/proc.h"
#include "record/record.h"
#include "record/signals.h"
#include "record/tee.h"

#define IDLE_NS 20000000u	/* nothing recorded stays unread for longer */
#define BUSY_BYTES (256u << 10) /* a round that converted more is followed by another at once */
#define SHORT_NS 500000u
#define CLOCK_ROW_NS 1000000000u
#define MOST_SINKS 4096
#define CUDA_STACK                                                                              \
	32768u /* of a CUDA call: single frames of math libraries hold kernel arguments of some \
		  KiB */
#define SIGNAL_STACK                                                                               \
	7168u /* bytes of stack that a sample by signal copies: two such samples fill a chunk of a \
		 ring */

enum phase { WAITING, COLLECTING, OVER };

struct session {
	const struct ws_record_opts *o;
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
	char **env;
	char *kept_old; /* the report that --force-overwrite replaces, under another name until the
			   target runs */
	char preload[4 * PATH_MAX + 8], nvtx[PATH_MAX], cuda[PATH_MAX];
	enum phase phase;
	uint64_t started_epoch; /* CLOCK_REALTIME seconds */
	uint64_t started, collect_start, collect_end, last_clock_row;
	bool exited, killed;
	bool read_since; /* all that the target wrote has been read: a round began after it had
			    exited */
	int wait_status;
	int interrupts_at_exit;
};

/* ---- reports ---- */

struct name_lookup {
	const char *env;
	size_t env_len;
	char **target_env;
};

static const char *lookup(void *ctx, const char *name)
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

static char *expand(struct session *s, unsigned number, const char *env, size_t env_len,
		    struct ws_err *e)
{
	struct name_lookup l = {env, env_len, s->env};
	struct ws_name_context c = {
		.pid = s->launch.pid, .number = number, .variable = lookup, .ctx = &l};

	return ws_report_name(s->o->output ? s->o->output : WS_DEFAULT_NAME, &c, e);
}

/* A second name for the old report, so that it can come back when the target cannot be run after
 * all. */
static void keep_old(struct session *s, const char *path)
{
	s->kept_old = ws_format("%s.old-%d", path, (int)getpid());
	if (link(path, s->kept_old)) {
		free(s->kept_old);
		s->kept_old = NULL;
	}
}

static void settle_old(struct session *s, const char *back_to)
{
	if (!s->kept_old)
		return;
	if (!back_to || rename(s->kept_old, back_to))
		unlink(s->kept_old);
	free(s->kept_old);
	s->kept_old = NULL;
}

/* Create the report of `env`'s name; with %n the first number that is free. */
static struct ws_sink *create_report(struct session *s, const char *env, size_t env_len,
				     struct ws_err *e)
{
	const char *name = s->o->output ? s->o->output : WS_DEFAULT_NAME;
	struct ws_writer_opts opts = {.overwrite = s->o->overwrite && !ws_name_counts(name)};
	struct ws_writer *w = NULL;
	struct ws_sink *sink;
	char *path = NULL;

	for (unsigned n = 1; !w && n < 100000; n++) {
		struct stat st;

		free(path);
		path = expand(s, n, env, env_len, e);
		if (!path)
			return NULL;
		if (ws_name_counts(name) && !lstat(path, &st))
			continue;
		if (opts.overwrite && !s->main)
			keep_old(s, path);
		w = ws_writer_create(path, &opts, e);
		if (!w && (!ws_name_counts(name) || lstat(path, &st)))
			break;
	}
	if (!w) {
		free(path);
		return NULL;
	}
	sink = ws_sink_new(path, w, &s->clock);
	sink->next = s->sinks;
	s->sinks = sink;
	s->sink_count++;
	ws_facts_write(sink, s->o, s->launch.pid, s->env);
	ws_sink_clock(sink, &s->clock.v[0]);
	if (s->collect_start) {
		struct ws_row_collection row = {.start = s->collect_start, .end = WS_NO_TIME};

		ws_writer_add(w, WS_TABLE_collection, &row);
	}
	return sink;
}

/* %q{VAR} may have another value in this process: then it has a report of its own. */
static struct ws_sink *sink_for(void *ctx, int pid, const char *env, size_t env_len,
				struct ws_sink *parent)
{
	struct session *s = ctx;
	struct ws_sink *sink;
	struct ws_err e = {""};
	char *path;

	(void)pid;
	if (!s->o->output || !strstr(s->o->output, "%q{") || ws_name_counts(s->o->output))
		return s->main;
	path = expand(s, 1, env ? env : "", env_len, &e);
	for (sink = s->sinks; path && sink; sink = sink->next)
		if (!strcmp(sink->path, path))
			break;
	free(path);
	if (!sink && path && s->sink_count < MOST_SINKS) {
		sink = create_report(s, env ? env : "", env_len, &e);
		if (!sink)
			ws_warn("%s: the events of process %d go to %s", e.msg, pid, s->main->path);
	}
	return sink ? sink : parent ? parent : s->main;
}

/* ---- the arena's settings ---- */

static int make_arena(struct session *s, struct ws_err *e)
{
	uid_t owner = (uid_t)-1;

	if (s->o->run_as) {
		struct passwd *pw = getpwnam(s->o->run_as);

		if (!pw)
			return ws_fail(e, "--run-as: there is no user '%s'", s->o->run_as);
		if (geteuid() && pw->pw_uid != geteuid())
			return ws_fail(
				e,
				"--run-as needs root: only root can run a program as another user");
		owner = pw->pw_uid;
	}
	return ws_area_create(&s->area, s->o->ring_bytes, owner, e);
}

static uint32_t arena_list(struct session *s, struct ws_text *t)
{
	uint32_t at;

	ws_text_add(t, "", 1);
	at = ws_area_text(&s->area, t->s, t->len);
	ws_text_free(t);
	return at;
}

static void domain_texts(struct session *s)
{
	struct ws_text t = {0};

	for (const char *p = s->o->nvtx_domains; p && *p;) {
		size_t n = strcspn(p, ",");

		if (n) {
			ws_text_add(&t, p, n);
			ws_text_add(&t, "", 1);
		}
		p += n + (p[n] == ',');
	}
	s->area.a->text_domains = arena_list(s, &t);
}

static bool wants_python(const struct ws_record_opts *o)
{
	return o->python.sampling || o->python.gil || o->python.cuda_stacks || o->python.function_n;
}

static void fill_stacks(const struct ws_record_opts *o, struct ws_arena *arena)
{
	struct ws_stack_settings *st = &arena->stacks;
	bool any = o->stack_depth && o->stack_bytes;

	st->osrt_threshold =
		any && o->stack_threshold >= 0
			? (uint64_t)(o->stack_threshold * (double)arena->ticks_per_second)
			: UINT64_MAX;
	for (int i = 0; i < 4; i++)
		st->cuda_threshold[i] =
			o->cuda_stack_ns[i] >= 0 ? (uint64_t)o->cuda_stack_ns[i] : UINT64_MAX;
	st->osrt_bytes = o->stack_bytes;
	st->cuda_bytes = CUDA_STACK;
}

static void fill_sampling(const struct session *s, struct ws_arena *arena)
{
	const struct ws_perf_opts *p = &s->perf_opts;

	if (!p->signals)
		return;
	arena->features |= WS_FEATURE_SAMPLE;
	arena->sample.period_ns = p->period ? p->period : 1000000000u / p->frequency;
	arena->sample.stack_bytes = p->backtrace == WS_BACKTRACE_NONE ? 8 : SIGNAL_STACK;
}

static uint32_t function_texts(struct session *s)
{
	struct ws_text t = {0};

	for (size_t i = 0; i < s->o->python.function_n; i++) {
		ws_text_add(&t, s->o->python.functions[i].module,
			    strlen(s->o->python.functions[i].module) + 1);
		ws_text_add(&t, s->o->python.functions[i].name,
			    strlen(s->o->python.functions[i].name) + 1);
	}
	return t.len ? arena_list(s, &t) : 0;
}

static void fill_arena(struct session *s)
{
	const struct ws_record_opts *o = s->o;
	struct ws_reading a = s->clock.v[0], b;
	struct ws_text vars = {0};
	struct timespec pause = {0, 2000000};
	struct ws_arena *arena = s->area.a;

	nanosleep(&pause, NULL); /* a rate for thresholds: 2 ms give it to 1e-4, and times do not
				    depend on it */
	b = ws_clock_read(&s->clock);
	arena->clock_mode = s->clock.mode;
	arena->ticks_per_second =
		(uint64_t)((double)(b.ticks - a.ticks) * 1e9 / (double)(b.raw - a.raw));
	arena->osrt_threshold = (uint64_t)(o->osrt_threshold * (double)arena->ticks_per_second);
	arena->features =
		(o->nvtx ? WS_FEATURE_NVTX : 0u) | (o->osrt ? WS_FEATURE_OSRT : 0u) |
		(o->trace_forks ? WS_FEATURE_FORK_TRACE : 0u) | (o->cuda ? WS_FEATURE_CUDA : 0u) |
		(wants_python(o) ? WS_FEATURE_PYTHON : 0u) | (o->python.gil ? WS_FEATURE_GIL : 0u) |
		(o->python.cuda_stacks ? WS_FEATURE_PYTHON_CUDA : 0u) |
		(o->python.sampling ? WS_FEATURE_PYTHON_SAMPLES : 0u);
	arena->text_functions = function_texts(s);
	fill_stacks(o, arena);
	fill_sampling(s, arena);
	arena->lossless = o->lossless;
	arena->nvtx_filter = (uint32_t)o->nvtx_filter;
	domain_texts(s);
	for (const char *v = ws_launcher_variables; *v; v += strlen(v) + 1)
		ws_text_add(&vars, v, strlen(v) + 1);
	if (o->output)
		ws_name_variables(o->output, &vars);
	arena->text_report_vars = arena_list(s, &vars);
	arena->text_preload = ws_area_text(&s->area, s->preload, strlen(s->preload));
	arena->text_nvtx = ws_area_text(&s->area, s->nvtx, strlen(s->nvtx));
	arena->text_cuda = ws_area_text(&s->area, s->cuda, strlen(s->cuda));
	arena->cuda.flags = o->cuda_flags;
	arena->cuda.flush_ms = o->cuda_flush_ms;
	arena->cuda.text_apis = o->cuda_apis && *o->cuda_apis
					? ws_area_text(&s->area, o->cuda_apis, strlen(o->cuda_apis))
					: 0;
}

static int preload_too(struct session *s, const char *library, struct ws_err *e)
{
	char path[PATH_MAX];
	size_t n = strlen(s->preload);

	if (ws_hook_path(library, path, sizeof(path), e))
		return -1;
	snprintf(s->preload + n, sizeof(s->preload) - n, ":%s", path);
	return 0;
}

static int find_hooks(struct session *s, struct ws_err *e)
{
	char hooks[PATH_MAX];
	size_t n;

	if (ws_hook_path("libwarpsight-hooks.so", hooks, sizeof(hooks), e))
		return -1;
	snprintf(s->preload, sizeof(s->preload), "%s", hooks);
	snprintf(s->nvtx, sizeof(s->nvtx), "%s", s->o->nvtx ? hooks : "");
	if (wants_python(s->o) &&
	    preload_too(s, "libwarpsight-python.so",
			e)) /* before the OS-runtime hook, which is what it calls */
		return -1;
	if (s->o->osrt && preload_too(s, "libwarpsight-osrt.so", e))
		return -1;
	s->perf_opts = s->o->perf;
	s->perf_opts.signals = s->o->perf.sample && ws_perf_refused();
	if (s->perf_opts.signals && preload_too(s, "libwarpsight-sample.so", e))
		return -1;
	if (s->o->cuda) {
		/* Loaded by the driver; preloaded too, so that it stands between libcupti and a
		 * profiler inside the program. */
		if (ws_hook_path("libwarpsight-cuda.so", s->cuda, sizeof(s->cuda), e))
			return -1;
		n = strlen(s->preload);
		snprintf(s->preload + n, sizeof(s->preload) - n, ":%s", s->cuda);
	}
	return 0;
}

/* ---- the phases of a collection ---- */

static void set_collecting(struct session *s, bool on)
{
	atomic_store_explicit(&s->area.a->collecting, on, memory_order_release);
}

static void begin_collecting(struct session *s)
{
	s->phase = COLLECTING;
	s->collect_start = ws_raw_ns();
	atomic_store(&s->area.a->collect_from, s->collect_start);
	atomic_store(&s->area.a->collect_to, 0);
	set_collecting(s, true);
	ws_perf_begin(s->perf, s->collect_start);
	for (struct ws_sink *k = s->sinks; k; k = k->next) {
		struct ws_row_collection row = {.start = s->collect_start, .end = WS_NO_TIME};

		ws_writer_add(k->writer, WS_TABLE_collection, &row);
	}
}

static void kill_one(void *ctx, int pid)
{
	struct session *s = ctx;

	if (pid != s->launch.pid)
		kill(pid, s->o->kill_signal);
}

static void end_collecting(struct session *s)
{
	set_collecting(s, false);
	s->collect_end = ws_raw_ns();
	atomic_store(&s->area.a->collect_to, s->collect_end);
	ws_drain_round(s->drain);
	ws_perf_end(s->perf, s->collect_end);
	ws_drain_open_events(s->drain);
	s->phase = OVER;
	if (s->o->kill_signal && !s->exited) {
		ws_drain_each(s->drain, kill_one, s);
		kill(s->launch.pid, s->o->kill_signal);
		s->killed = true;
	}
}

static void advance(struct session *s, uint64_t now)
{
	if (s->phase == WAITING && now >= s->started + (uint64_t)(s->o->delay * 1e9))
		begin_collecting(s);
	if (s->phase == COLLECTING && s->o->duration > 0 &&
	    now >= s->collect_start + (uint64_t)(s->o->duration * 1e9))
		end_collecting(s);
}

/* ---- the target ---- */

static void follow_stop(struct session *s)
{
	siginfo_t info = {0};

	/* Job control: the shell that started us must see the stop. A SIGCONT to the job reaches
	 * the target too. */
	if (!waitid(P_PID, (id_t)s->launch.pid, &info, WSTOPPED | WNOHANG) &&
	    info.si_pid == s->launch.pid &&
	    (info.si_status == SIGTSTP || info.si_status == SIGTTIN || info.si_status == SIGTTOU))
		kill(getpid(), SIGSTOP);
}

/* The zombie is kept until its process row has its status: see proc.c. */
static void look_at_target(struct session *s)
{
	siginfo_t info = {0};

	if (s->exited)
		return;
	follow_stop(s);
	if (waitid(P_PID, (id_t)s->launch.pid, &info, WEXITED | WNOHANG | WNOWAIT) ||
	    info.si_pid != s->launch.pid)
		return;
	s->exited = true;
	s->interrupts_at_exit = ws_signals_interrupts();
}

static bool finished(struct session *s)
{
	if (!s->exited)
		return false;
	if (!s->o->wait_all || (s->phase == OVER && !s->killed))
		return true;
	/*
	 * Children that live on are waited for, unless the user interrupts the wait. A short target
	 * may have come and gone since the last look at the arena, children and all: who is alive
	 * is known only after another.
	 */
	return s->read_since &&
	       (!ws_drain_alive(s->drain) || ws_signals_interrupts() > s->interrupts_at_exit);
}

/* ---- the loop ---- */

static void rest(struct session *s, uint64_t bytes)
{
	struct ws_arena *a = s->area.a;
	struct timespec t = {0, SHORT_NS};
	uint64_t patience = ws_perf_patience(s->perf);

	if (patience > ws_python_patience(s->python))
		patience = ws_python_patience(s->python);
	if (bytes > BUSY_BYTES || !patience)
		return;
	if (bytes > 4096) {
		nanosleep(&t, NULL);
		return;
	}
	t.tv_nsec = (long)(patience < IDLE_NS ? patience : IDLE_NS);
	atomic_store_explicit(&a->sleeping, 1, memory_order_seq_cst);
	syscall(SYS_futex, &a->sleeping, FUTEX_WAIT, 1, &t, NULL, 0);
	atomic_store_explicit(&a->sleeping, 0, memory_order_relaxed);
}

/* Returns how many bytes there were to read. */
static uint64_t one_round(struct session *s)
{
	uint64_t since = ws_raw_ns(), bytes = ws_drain_round(s->drain),
		 now = s->clock.v[s->clock.n - 1].raw;

	s->read_since = s->exited;
	ws_perf_round(s->perf, since);
	if (s->tee)
		ws_tee_collect(s->tee, s->main);
	for (struct ws_sink *k = s->sinks; k; k = k->next) {
		if (now - s->last_clock_row >= CLOCK_ROW_NS)
			ws_sink_clock(k, &s->clock.v[s->clock.n - 1]);
		ws_writer_commit(k->writer);
	}
	if (now - s->last_clock_row >= CLOCK_ROW_NS)
		s->last_clock_row = now;
	ws_area_feed(&s->area);
	look_at_target(s);
	advance(s, ws_raw_ns());
	return bytes;
}

static void run(struct session *s)
{
	for (;;) {
		bool was_there = !s->exited;
		uint64_t bytes;

		for (int sig; (sig = ws_signals_pending());)
			if (!s->exited)
				kill(s->launch.pid, sig);
		bytes = one_round(s);
		if (finished(s))
			break;
		/* When the target has just ended the next round settles it: waiting first would be
		 * felt by everyone who profiles something short. */
		if (was_there != s->exited)
			rest(s, bytes);
	}
	if (s->phase == COLLECTING) {
		set_collecting(s, false);
		s->collect_end = ws_raw_ns();
	}
}

/* ---- beginning and end ---- */

static int exit_code(int status)
{
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static void last_words(struct session *s, struct ws_sink *k, uint64_t unregistered)
{
	struct ws_row_collection row = {.start = s->collect_start, .end = s->collect_end};
	struct rusage self;

	if (s->collect_start)
		ws_writer_add(k->writer, WS_TABLE_collection, &row);
	else
		ws_sink_diagnostic(
			k, WS_WARNING, "recorder", 0, ws_raw_ns(),
			"The target ended before the delay was over: nothing was collected.");
	if (unregistered && k == s->main)
		ws_sink_loss(k, 0,
			     "events of threads or processes that found no memory to record into",
			     unregistered, "the memory for recording was full");
	ws_sink_clock(k, &s->clock.v[s->clock.n - 1]);
	if (!getrusage(RUSAGE_SELF, &self)) {
		ws_sink_meta(k, "recorder.cpu_s", "%.3f",
			     (double)(self.ru_utime.tv_sec + self.ru_stime.tv_sec) +
				     (double)(self.ru_utime.tv_usec + self.ru_stime.tv_usec) / 1e6);
		ws_sink_meta(k, "recorder.peak_rss_kib", "%ld", self.ru_maxrss);
	}
	ws_sink_meta(k, "session.registered_processes", "%u", ws_drain_registered(s->drain));
}

static void explain_empty(struct session *s)
{
	char buf[5000], text[6000];
	char *file = ws_launch_find(s->o->argv[0], s->env);
	const struct passwd *user = s->o->run_as ? getpwnam(s->o->run_as) : NULL;
	const char *why;

	if (ws_drain_registered(s->drain) || (!s->o->nvtx && !s->o->osrt && !s->o->cuda) || !file) {
		free(file);
		return;
	}
	why = ws_image_problem(file, user ? user->pw_uid : geteuid(), buf, sizeof(buf));
	snprintf(text, sizeof(text), "%s: %s.",
		 ws_perf_active(s->perf)
			 ? "Only what the kernel tells (samples, context switches) was recorded"
			 : "Nothing was recorded",
		 why ? why
		     : "no process of the target loaded the hooks (a static, privileged or foreign "
		       "program, or one that was not run at all)");
	ws_sink_diagnostic(s->main, WS_WARNING, "process", 0, ws_raw_ns(), text);
	free(file);
}

/* The report holds it all; what the user should not have to look for is said now. */
static void repeat_warnings(const struct ws_sink *k)
{
	for (uint64_t i = 0; i < k->warning_count && i < WS_SINK_WARNINGS; i++)
		ws_warn("%s", k->warnings[i]);
	if (k->warning_count > WS_SINK_WARNINGS)
		ws_warn("%llu more warnings are in the report: warpsight info %s",
			(unsigned long long)(k->warning_count - WS_SINK_WARNINGS), k->path);
	if (k->lost)
		ws_warn("%llu events were lost; warpsight info %s says which and why",
			(unsigned long long)k->lost, k->path);
}

/* A report that could not be written to its end says so itself: small tables still go in where
 * large ones no longer fit. */
static void count_unwritten(struct ws_sink *k)
{
	uint64_t lost;

	ws_writer_flush(k->writer);
	lost = ws_writer_lost(k->writer);
	if (!lost)
		return;
	ws_sink_loss(k, 0, "rows", lost, "they could not be written to the report");
	k->lost -= lost; /* said on its own */
}

static int close_reports(struct session *s, struct ws_err *e)
{
	struct ws_record_result *r = s->result;
	struct ws_err one;
	int ret = 0;

	r->reports = ws_calloc(s->sink_count, sizeof(*r->reports));
	while (s->sinks) {
		struct ws_sink *k = s->sinks;

		s->sinks = k->next;
		r->reports[r->report_count++] = ws_strdup(k->path);
		r->events += k->events;
		count_unwritten(k);
		r->lost += ws_writer_lost(k->writer);
		repeat_warnings(k);
		if (ws_sink_close(k, &one)) {
			r->write_failed = true;
			ret = ws_fail(e, "%s", one.msg);
		}
	}
	return ret;
}

static int finish(struct session *s, struct ws_err *e)
{
	int status = 0;

	if (s->perf) {
		ws_drain_round(s->drain); /* who has registered: perf's last records ask for them */
		ws_perf_finish(s->perf, s->collect_end ? s->collect_end : ws_raw_ns());
	}
	explain_empty(s);
	for (struct ws_sink *k = s->sinks; k; k = k->next)
		last_words(s, k, atomic_load(&s->area.a->lost_registrations));
	if (s->tee)
		ws_tee_finish(s->tee, s->main);
	ws_drain_finish(s->drain);
	ws_python_say_unseen(s->python, s->main);
	ws_python_free(s->python);
	ws_perf_free(s->perf);
	ws_area_destroy(&s->area);
	s->result->started = true;
	if (s->exited && waitpid(s->launch.pid, &status, 0) == s->launch.pid)
		s->result->status = exit_code(status);
	ws_code_end(s->code);
	for (struct ws_sink *k = s->sinks; k; k = k->next)
		ws_code_symbolise(k, s->o, s->started_epoch, true);
	return close_reports(s, e);
}

/* Another tool has itself loaded by the driver: it stays, and then CUDA is not ours to record. */
static void respect_injection(struct session *s)
{
	const char *name = "CUDA_INJECTION64_PATH=";
	const char *tool = s->o->cuda ? ws_gpu_tool(s->env) : NULL;
	char text[2 * PATH_MAX];

	if (tool) {
		snprintf(text, sizeof(text),
			 "CUDA is not recorded: %s has it, under which warpsight was started. Run "
			 "warpsight without that tool.",
			 tool);
		ws_sink_diagnostic(s->main, WS_WARNING, "cuda", 0, ws_raw_ns(), text);
	}
	for (char **e = s->env; s->o->cuda && !tool && *e; e++) {
		const char *value = *e + strlen(name);

		if (strncmp(*e, name, strlen(name)) || !strcmp(value, s->cuda) ||
		    !ws_launch_foreign_cuda(value))
			continue;
		snprintf(text, sizeof(text),
			 "CUDA is not recorded: CUDA_INJECTION64_PATH has %.4000s loaded by the "
			 "driver. Unset it to have warpsight record.",
			 value);
		ws_sink_diagnostic(s->main, WS_WARNING, "cuda", 0, ws_raw_ns(), text);
	}
}

/* Everything up to the target's exec. On failure nothing is left behind. */
static int begin(struct session *s, struct ws_err *e)
{
	const struct ws_record_opts *o = s->o;
	struct ws_drain_ops ops = {.ctx = s, .sink_for = sink_for};
	int out = -1, err = -1;

	if (ws_gpu_tool_must_start(ws_gpu_tool(environ)))
		return ws_fail(e,
			       "%s would wait for ever for a program that warpsight starts; put "
			       "warpsight first: 'warpsight profile' and then the tool with "
			       "the program",
			       ws_gpu_tool(environ));
	ws_clock_init(&s->clock, ws_clock_choose());
	if (make_arena(s, e) || find_hooks(s, e))
		return -1;
	fill_arena(s);
	if (s->area.text_full)
		return ws_fail(e,
			       "the functions, NVTX domains and CUDA calls that are named on the "
			       "command line take more than %d KiB",
			       WS_ARENA_TEXT >> 10);
	s->env = ws_launch_environment(o, s->area.path, s->preload, s->nvtx, s->cuda);
	if ((o->store_output || o->hide_output) &&
	    !(s->tee = ws_tee_new(!o->hide_output, &out, &err, e)))
		return -1;
	if (ws_launch_prepare(&s->launch, o, s->env, out, err, e))
		return -1;
	s->main = create_report(s, NULL, 0, e);
	if (!s->main) {
		ws_launch_cancel(&s->launch);
		waitpid(s->launch.pid, NULL, 0);
		return -1;
	}
	respect_injection(s);
	s->code = ws_code_new();
	s->started_epoch = (uint64_t)time(NULL);
	ops.code = s->code;
	ops.stack_depth = o->stack_depth;
	s->drain = ws_drain_new(&s->area, &s->clock, &ops);
	ws_drain_target(s->drain, s->launch.pid);
	if (wants_python(o)) {
		s->python_opts = o->python;
		s->python_opts.timers = s->perf_opts.signals;
		s->python = ws_python_new(s->drain, &s->python_opts);
	}
	s->perf = ws_perf_open(&s->perf_opts, s->launch.pid, s->drain, s->main);
	ws_drain_perf(s->drain, s->perf);
	if (ws_python_bpf_is_on(s->python)) /* the target has not begun yet */
		s->area.a->features |= WS_FEATURE_PYTHON_BPF |
				       (ws_python_bpf_any_ns() ? WS_FEATURE_PYTHON_ANY_NS : 0);
	return 0;
}

/* What exec means by its error, where that is not plain; `file` is what was tried, NULL when
 * nothing of the name was found. */
static const char *why_not_run(const char *name, const char *file, int error)
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

static int cannot_run(struct session *s, int error, struct ws_err *e)
{
	char *file = ws_launch_find(s->o->argv[0], s->env);
	const char *why;

	/* exec answers EACCES when some folder of PATH may not be searched; if no other has the
	 * program, it was not found. */
	if (error == EACCES && !file)
		error = ENOENT;
	why = why_not_run(s->o->argv[0], file, error);
	free(file);
	waitpid(s->launch.pid, NULL, 0);
	ws_drain_finish(s->drain);
	ws_python_free(s->python);
	ws_perf_free(s->perf);
	ws_writer_discard(s->main->writer);
	settle_old(s, s->main->path);
	ws_sink_free(s->main);
	s->result->status = error == ENOENT || error == ENOTDIR ? 127 : 126;
	return ws_fail(e, "cannot run %s: %s", *s->o->argv[0] ? s->o->argv[0] : "''", why);
}

int ws_record(const struct ws_record_opts *o, struct ws_record_result *result, struct ws_err *e)
{
	struct session *s = ws_calloc(1, sizeof(*s));
	int error, ret = -1;

	memset(result, 0, sizeof(*result));
	result->status = 1;
	s->o = o;
	s->result = result;
	ws_signals_install();
	if (!begin(s, e)) {
		s->started = ws_raw_ns();
		if (o->delay <= 0)
			begin_collecting(s);
		error = ws_launch_go(&s->launch);
		if (error) {
			ret = cannot_run(s, error, e);
		} else {
			settle_old(s, NULL);
			/* A target that keeps every core busy must not starve what empties its
			 * rings. Permitted or not, it is only a help. */
			setpriority(PRIO_PROCESS, 0, -10);
			if (s->tee)
				ws_tee_started(s->tee);
			run(s);
			ret = finish(s, e);
		}
	}
	settle_old(s, NULL);
	ws_area_destroy(&s->area);
	ws_code_free(s->code);
	ws_clock_free(&s->clock);
	ws_signals_restore();
	ws_launch_environment_free(s->env);
	free(s);
	return ret;
}
