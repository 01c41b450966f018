/*
 * session.c - one recording from start to end: make the arena and the report, start the target,
 * drain until it ends, close.
 *
 * Everything happens on one thread, in rounds of draining that are paced by how much there was to
 * drain. When a round found little, the recorder sleeps on a futex that hooks wake when they take
 * new memory. So an idle target costs fifty short wake-ups a second, and a busy one is followed so
 * closely that its rings stay small and in the cache. Where no core is free the recorder would take
 * one from the target each time: there it makes few rounds, each with more to do.
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
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/gpu_tools.h"
#include "base/choose.h"
#include "base/mem.h"
#include "base/paths.h"
#include "record/rights.h"
#include "record/linked.h"
#include "record/proc.h"
#include "record/session.h"
#include "record/signals.h"

#define IDLE_NS 20000000u	/* nothing recorded stays unread for longer */
#define BUSY_BYTES (256u << 10) /* a round that converted more is followed by another at once */
#define QUIET_BYTES 4096u	/* after less, threads that record wake the recorder */
#define ROUND_BYTES (64u << 10) /* a round should find: it stays in the cache */
#define SHORT_NS 500000u	/* between two such rounds, at least */
#define SOON_NS 100000000u	/* after the end of the target its children often end, too */
#define LONG_NS 4000000u	/* and at most */
/* Where no core is free, rounds are IDLE_NS apart, and find no more than this if possible. */
#define CROWDED_CHUNKS 128u
#define STORM_NS 70000000u /* while threads call a library without pause */
#define GLANCE_NS \
	4000000u /* meanwhile the recorder looks this often whether it can go on sleeping */
#define STORM_GLANCE_NS 8000000u /* and this often if threads call a library without pause */
#define CLOCK_ROW_NS 1000000000u
#define LEAVE_NS UINT64_C(3000000000) /* for CUPTI to hand over its last records */

/* ---- the target ---- */

static void follow_stop(struct ws_session *session)
{
	siginfo_t info = {0};

	/* Job control: the shell that started us must see the stop. A SIGCONT to the job reaches
	 * the target too. */
	if (!waitid(P_PID, (id_t)session->launch.pid, &info, WSTOPPED | WNOHANG) &&
	    info.si_pid == session->launch.pid &&
	    (info.si_status == SIGTSTP || info.si_status == SIGTTIN || info.si_status == SIGTTOU))
		kill(getpid(), SIGSTOP);
}

bool ws_session_has_child(const struct ws_session *session)
{
	return !session->options->attach && !session->options->gather;
}

static void look_at_gathered(struct ws_session *session)
{
	session->exited = ws_gathered_is_over(&session->gathered, ws_read_raw_ns());
	session->exited_at = ws_read_raw_ns();
}

/* The zombie is kept until its process row has its status: see proc.c. */
static void look_at_target(struct ws_session *session)
{
	siginfo_t info = {0};

	if (session->exited)
		return;
	if (session->options->gather) {
		look_at_gathered(session);
		return;
	}
	if (session->options->attach) {
		session->exited = ws_attach_has_ended(&session->attached.target);
		return;
	}
	follow_stop(session);
	if (waitid(P_PID, (id_t)session->launch.pid, &info, WEXITED | WNOHANG | WNOWAIT) ||
	    info.si_pid != session->launch.pid)
		return;
	session->exited = true;
	session->exited_at = ws_read_raw_ns();
	session->interrupts_at_exit = ws_signals_interrupts();
}

static bool is_finished(struct ws_session *session)
{
	if (session->shut && session->machine.plan.interactive && !session->action_count &&
	    (session->exited || !session->killed))
		return true;
	if (session->options->attach)
		return session->exited || ws_signals_interrupts() ||
		       (session->machine.state == WS_MACHINE_OVER && !session->action_count);
	if (session->options->gather && ws_signals_interrupts())
		return true;
	if (!session->exited)
		return false;
	if (!session->options->wait_all ||
	    (session->machine.state == WS_MACHINE_OVER && !session->killed))
		return true;
	/*
	 * Wait for children that live on, unless the user interrupts the wait. A short target and
	 * its children may have come and gone since the last look at the arena, so only another
	 * look shows who is alive.
	 */
	return session->read_since && (!ws_drain_alive(session->drain) ||
				       ws_signals_interrupts() > session->interrupts_at_exit);
}

/* ---- the loop ---- */

/* How long it takes until there are `wanted` bytes to read, as there were `bytes` of them after
 * `span` ns; SHORT_NS to `most`. */
static uint64_t choose_sleep(uint64_t wanted, uint64_t bytes, uint64_t span, uint64_t most)
{
	double fill = (double)wanted / (double)ws_max(bytes, 1u) * (double)span;

	return (uint64_t)ws_min(ws_max(fill, (double)SHORT_NS), (double)most);
}

/* Returns whether somebody woke us before the time was over. */
static bool sleep_until_woken(struct ws_session *session, enum ws_sleep depth, uint64_t ns)
{
	struct ws_arena *arena = session->area.arena;
	const struct timespec time = {0, (long)ns};
	bool woken = true;

	atomic_store_explicit(&arena->sleeping, depth, memory_order_seq_cst);
	if (!session->options->mailbox || !ws_mailbox_has_request(session->options->mailbox))
		woken = !syscall(SYS_futex, &arena->sleeping, FUTEX_WAIT, depth, &time, NULL, 0) ||
			errno != ETIMEDOUT;
	atomic_store_explicit(&arena->sleeping, WS_AWAKE, memory_order_relaxed);
	return woken;
}

/*
 * Each round takes a core from the target's threads, and the cache with it. So there are few,
 * fewest while each of these threads waits for others all the time, and in between only looks at
 * how far the rings have been filled. `fill`: ns until they may be full.
 */
static void sleep_in_crowd(struct ws_session *session, uint64_t ns, uint64_t fill)
{
	uint64_t from = ws_read_raw_ns(), now = from, until = from + ns;
	uint64_t storm_ns = ws_min(ws_min(ws_session_patience(session), STORM_NS),
				   ws_python_patience(session->python));
	uint64_t glance = ws_min(fill, GLANCE_NS);
	bool storms;

	session->slept_deep = true;
	while (now < until) {
		if (sleep_until_woken(session, WS_SLEEP_DEEP, ws_min(glance, until - now)) ||
		    ws_drain_has_backlog(session->drain, CROWDED_CHUNKS) ||
		    !ws_perf_patience(session->perf))
			return;
		ws_drain_beat(session->drain);
		now = ws_read_raw_ns();
		storms = ws_drain_look_for_storms(session->drain, now);
		until = from + (storms ? storm_ns : ns);
		glance = ws_min(fill, storms ? STORM_GLANCE_NS : GLANCE_NS);
		ws_perf_pace_samples(session->perf, now);
	}
}

/* What a round finds when the recorder has fallen behind. */
static uint64_t most_bytes(const struct ws_session *session)
{
	return session->slept_deep ? UINT64_C(2) * CROWDED_CHUNKS * WS_CHUNK_SIZE : BUSY_BYTES;
}

static void sleep_between_rounds(struct ws_session *session, uint64_t bytes)
{
	uint64_t span, now = ws_read_raw_ns();
	uint64_t patience =
		ws_min(ws_perf_patience(session->perf), ws_python_patience(session->python));
	bool behind = bytes > most_bytes(session) || !patience;

	patience = ws_min(patience, ws_session_patience(session));
	span = now - session->round_at;
	session->round_at = now;
	session->slept_deep = false;
	ws_priority_follow(&session->priority, behind, now);
	if (behind || !patience)
		return;
	if (!session->exited && ws_crowd_is_full(&session->crowd)) {
		sleep_in_crowd(session, ws_min(patience, IDLE_NS),
			       choose_sleep(CROWDED_CHUNKS * WS_CHUNK_SIZE, bytes, span,
					    STORM_GLANCE_NS));
		return;
	}
	if (bytes > QUIET_BYTES) {
		const struct timespec time = {
			0, (long)ws_min(patience, choose_sleep(ROUND_BYTES, bytes, span, LONG_NS))};

		nanosleep(&time, NULL);
		return;
	}
	if (session->exited && now - session->exited_at < SOON_NS) {
		const struct timespec time = {0, (long)ws_min(patience, IDLE_NS)};

		ws_drain_await_end(session->drain, &time);
		return;
	}
	sleep_until_woken(session, WS_SLEEP, ws_min(patience, IDLE_NS));
}

/* Returns how many bytes there were to read. */
static uint64_t run_round(struct ws_session *session)
{
	uint64_t since = ws_read_raw_ns(), bytes = ws_drain_round(session->drain),
		 now = session->clock.readings[session->clock.n - 1].raw;

	session->read_since = session->exited;
	ws_perf_round(session->perf, since);
	if (session->tee)
		ws_tee_collect(session->tee, session->main);
	ws_session_put_metrics(session, false);
	for (struct ws_sink *sink = session->sinks; sink; sink = sink->next) {
		ws_code_look_at_frames(session->code, sink);
		if (now - session->last_clock_row >= CLOCK_ROW_NS)
			ws_sink_clock(sink, &session->clock.readings[session->clock.n - 1]);
	}
	ws_session_sync_reports(session, now);
	ws_session_commit_reports(session);
	if (now - session->last_clock_row >= CLOCK_ROW_NS)
		session->last_clock_row = now;
	if (ws_area_repair(&session->area))
		ws_sink_diagnostic(session->main, WS_ERROR, "recorder", 0, now,
				   "The shared memory of the recording was truncated. What had "
				   "not been read is lost, and nothing more was recorded inside "
				   "the program.");
	ws_area_feed(&session->area);
	look_at_target(session);
	ws_session_follow_control(session);
	return bytes;
}

/* Nobody reads the rings in the meantime, which does no harm for a few milliseconds. */
static void load_into_attached(struct ws_session *session)
{
	if (!session->attach_now)
		return;
	session->attach_now = false;
	ws_attached_load(&session->attached, session->options, session->preload, session->late_cuda,
			 session->area.path, session->main);
}

static void run_session(struct ws_session *session)
{
	for (;;) {
		bool was_there = !session->exited;
		uint64_t bytes;

		for (int sig; (sig = ws_signals_pending());)
			if (!session->exited && ws_session_has_child(session))
				kill(session->launch.pid, sig);
		bytes = run_round(session);
		load_into_attached(session);
		if (is_finished(session))
			break;
		/* When the target has just ended the next round settles it: waiting first would be
		 * felt by everyone who profiles something short. */
		if (was_there != session->exited)
			sleep_between_rounds(session, bytes);
	}
	ws_session_end_collecting(session);
}

/* ---- beginning and end ---- */

/*
 * CUPTI has a thread of ours in the process that was attached to. It turns everything off and hands
 * over what is left; until then the memory that CUPTI writes to must stay. Should the driver not
 * let it, the process keeps an idle thread, and memory in place of ours.
 */
static void end_late_cuda(struct ws_session *session)
{
	struct ws_arena *arena = session->area.arena;
	const struct timespec pause = {0, 2000000};
	uint64_t until = ws_read_raw_ns() + LEAVE_NS;

	if (!session->attached.loaded)
		return;
	atomic_store(&arena->leaving, 1);
	ws_switch_collecting(arena, false);
	while (ws_drain_has_late_cuda(session->drain) && ws_read_raw_ns() < until &&
	       !ws_attach_has_ended(&session->attached.target)) {
		nanosleep(&pause, NULL);
		ws_drain_round(session->drain);
		ws_session_commit_reports(session);
	}
	if (ws_drain_has_late_cuda(session->drain) &&
	    !ws_attach_has_ended(&session->attached.target))
		ws_sink_diagnostic(session->main, WS_WARNING, "attach", 0, ws_read_raw_ns(),
				   "CUPTI did not hand over its last records in time: work on the "
				   "GPU may be missing from the end.");
}

static int make_exit_code(int status)
{
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static int finish_session(struct ws_session *session, struct ws_err *err)
{
	struct ws_closer *closer;
	int status = 0, ret;

	if (session->perf) {
		ws_drain_round(
			session->drain); /* who has registered: perf's last records ask for them */
		ws_perf_finish(session->perf, ws_or(session->collect_end, ws_read_raw_ns()));
	}
	end_late_cuda(session);
	ws_attached_unload(&session->attached, session->preload, session->main);
	ws_metrics_stop(session->metrics);
	ws_gpu_sampling_stop(session->gpu_metrics);
	ws_session_put_metrics(session, true);
	ws_session_sum_up(session);
	session->starved.tee = NULL;
	if (session->tee)
		ws_tee_finish(session->tee, session->main);
	ws_drain_finish(session->drain);
	ws_python_say_unseen(session->python, session->main);
	ws_python_free(session->python);
	closer = ws_perf_free(session->perf);
	ws_area_destroy(&session->area);
	session->result->started = true;
	if (!ws_session_has_child(session))
		session->result->status = 0;
	else if (session->exited && waitpid(session->launch.pid, &status, 0) == session->launch.pid)
		session->result->status = make_exit_code(status);
	else if (session->shut) /* the target runs on */
		session->result->status = 0;
	if (session->options->machine_only)
		session->result->status = 0;
	ws_code_end(session->code);
	for (struct ws_sink *sink = session->sinks; sink; sink = sink->next)
		if (sink->path)
			ws_code_symbolise(sink, session->options, session->started_epoch,
					  session->code, true);
	ret = ws_session_close_reports(session, err);
	ws_closer_join(closer);
	return ret;
}

/* If the driver loads another tool, that tool stays, and we do not record CUDA. */
static void respect_injection(struct ws_session *session)
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
	if (session->options->attach)
		return;
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

/* If the user has given NCCL a plug-in of their own, that one stays. */
static void respect_nccl_plugin(struct ws_session *session)
{
	static const char name[] = WS_NCCL_PLUGIN_VARIABLE "=";
	char text[512];

	for (char **e = session->env; session->options->nccl_events && *e; e++) {
		if (strncmp(*e, name, strlen(name)) || strstr(*e, "libwarpsight-nccl.so"))
			continue;
		snprintf(text, sizeof(text),
			 "--nccl-trace records nothing: NCCL_PROFILER_PLUGIN has NCCL load %.300s. "
			 "Unset it to have warpsight record.",
			 *e + strlen(name));
		ws_sink_diagnostic(session->main, WS_WARNING, "nccl", 0, ws_read_raw_ns(), text);
		session->main->nccl_seen = true;
	}
}

/* Whether to look for interpreters without a hook. */
static bool seeks_python(const struct ws_record_opts *options)
{
	return options->attach && options->python.sampling && options->perf.sample;
}

/* The target has been forked and waits. */
static void make_drain(struct ws_session *session)
{
	const struct ws_record_opts *options = session->options;
	struct ws_drain_ops ops = {.ctx = session,
				   .sink_for = ws_session_find_sink,
				   .commit = ws_session_commit_reports,
				   .before_convert = ws_session_look_at_captures,
				   .stack_depth = options->stack_depth,
				   .osrt_threshold = options->osrt_threshold,
				   .libraries = session->libraries,
				   .cuda_flags = options->cuda_flags};

	session->code = ws_code_new();
	ops.code = session->code;
	session->drain = ws_drain_new(&session->area, &session->clock, &ops);
	ws_drain_target(session->drain, session->launch.pid);
	if (options->plan.capture == WS_CAPTURE_STEPS) /* CUPTI is on from the step before */
		ws_drain_rest(session->drain);
	if (!ws_session_wants_python(options) && !seeks_python(options))
		return;
	session->python_opts = options->python;
	session->python_opts.timers = session->perf_opts.signals;
	session->python = ws_python_new(session->drain, &session->python_opts);
	if (session->perf_opts.sample)
		ws_python_bpf_start(session->python);
}

static void prepare_environment(struct ws_session *session)
{
	const struct ws_record_opts *options = session->options;

	if (options->attach) {
		session->env = ws_attached_environment(&session->attached);
		return;
	}
	session->shut_out =
		!ws_launch_can_read_hooks(options, session->preload, session->area.path);
	session->env = ws_launch_environment(options, session->area.path,
					     session->shut_out ? "" : session->preload,
					     session->nvtx, session->cuda);
}

/* Whether hooks will tell what the target's threads wait for. */
static bool takes_hooks(const struct ws_session *session)
{
	const struct ws_record_opts *options = session->options;
	char *file, why[5000];
	bool hooked;

	if (options->attach || session->shut_out || !session->preload[0] || !options->argv ||
	    !options->argv[0])
		return false;
	file = ws_launch_find(options->argv[0], session->env);
	hooked = file && !ws_image_problem(file, geteuid(), why, sizeof(why));
	free(file);
	return hooked;
}

/* `target` has not called exec yet, unless it is attached to. */
static void open_perf(struct ws_session *session, pid_t target)
{
	session->perf_opts.hooked = takes_hooks(session);
	session->perf = ws_perf_open(&session->perf_opts, target, session->drain, session->main);
	ws_drain_perf(session->drain, session->perf);
	if (ws_python_bpf_is_on(session->python))
		session->area.arena->features |=
			WS_FEATURE_PYTHON_BPF |
			(ws_python_bpf_any_ns() ? WS_FEATURE_PYTHON_ANY_NS : 0);
}

/* Events are opened for the first of the programs, because there is no process to open them for
 * earlier. */
static int follow_program(struct ws_session *session, int pid, int starter, struct ws_err *err)
{
	bool first = !session->gathered.count;

	if (ws_gathered_add(&session->gathered, pid, starter, err))
		return -1;
	if (!first) {
		ws_perf_add_root(session->perf, pid);
		return 0;
	}
	open_perf(session, pid);
	if (session->collecting)
		ws_perf_begin(session->perf, session->collect_start);
	return 0;
}

int ws_session_join(struct ws_session *session, const struct ws_control_request *request,
		    struct ws_err *err)
{
	if (!session->options->gather)
		return ws_fail(err, "this session records one program, and no other can join it");
	if (session->exited || session->shut)
		return ws_fail(err, "the session is ending");
	if (request->hooks) {
		snprintf(request->hooks->arena, sizeof(request->hooks->arena), "%s",
			 session->area.path);
		snprintf(request->hooks->preload, sizeof(request->hooks->preload), "%s",
			 session->preload);
		snprintf(request->hooks->nvtx, sizeof(request->hooks->nvtx), "%s", session->nvtx);
		snprintf(request->hooks->cuda, sizeof(request->hooks->cuda), "%s", session->cuda);
	}
	return request->pid ? follow_program(session, request->pid, request->starter, err) : 0;
}

/* Everything up to the target's exec. On failure nothing is left behind. */
static int begin_session(struct ws_session *session, struct ws_err *err_e)
{
	const struct ws_record_opts *options = session->options;
	int out = -1, err = -1;

	if (options->attach && ws_attached_begin(&session->attached, options, err_e))
		return -1;
	if (ws_session_open_hotkey(session, &options->plan, options->capture_range, err_e))
		return -1;
	if (!options->attach && ws_gpu_tool_must_start(ws_find_gpu_tool(environ)))
		return ws_fail(err_e,
			       "%s would wait for ever for a program that warpsight starts; put "
			       "warpsight first: 'warpsight profile' and then the tool with "
			       "the program",
			       ws_find_gpu_tool(environ));
	ws_clock_init(&session->clock, ws_clock_choose());
	if (ws_session_make_arena(session, err_e) || ws_session_find_hooks(session, err_e))
		return -1;
	if (ws_session_fill_arena(session, err_e))
		return -1;
	session->metrics = ws_metrics_new(&options->metrics);
	ws_session_init_machine(session);
	prepare_environment(session);
	if ((options->store_output || options->hide_output) &&
	    !(session->tee = ws_tee_new(!options->hide_output, &out, &err, err_e)))
		return -1;
	session->launch.pid = options->attach;
	if (ws_session_has_child(session) &&
	    ws_launch_prepare(&session->launch, options, session->env, out, err, err_e))
		return -1;
	make_drain(session);
	session->main = ws_session_create_sink(session, NULL, 0, err_e);
	if (!session->main) {
		if (ws_session_has_child(session)) {
			ws_launch_cancel(&session->launch);
			waitpid(session->launch.pid, NULL, 0);
		}
		ws_python_free(session->python);
		return -1;
	}
	respect_injection(session);
	respect_nccl_plugin(session);
	session->started_epoch = (uint64_t)time(NULL);
	if (!options->gather)
		open_perf(session, session->launch.pid);
	if (seeks_python(options))
		session->attached.no_python =
			ws_python_seek(session->python, options->attach, session->main);
	return 0;
}

static int report_exec_failure(struct ws_session *session, int error, struct ws_err *err)
{
	const char *why = ws_launch_explain(session->options->argv[0], session->env,
					    &session->result->status, error);

	waitpid(session->launch.pid, NULL, 0);
	ws_drain_finish(session->drain);
	ws_python_free(session->python);
	ws_closer_join(ws_perf_free(session->perf));
	ws_writer_discard(session->main->writer);
	ws_session_settle_old_report(session, session->main->path);
	ws_sink_free(session->main);
	return ws_fail(err, "cannot run %s: %s",
		       *session->options->argv[0] ? session->options->argv[0] : "''", why);
}

/* What another user's programs write is read with as few rights as possible. */
static void reduce_rights(struct ws_session *session)
{
	char *folder;

	if (session->area.owner == (uid_t)-1 || session->area.owner == geteuid())
		return;
	folder = ws_session_folder(session);
	ws_rights_reduce(folder);
	free(folder);
}

int ws_record(const struct ws_record_opts *options, struct ws_record_result *result,
	      struct ws_err *err)
{
	struct ws_session *session = ws_calloc(1, sizeof(*session));
	struct ws_perf_warmth *warmth;
	int error, ret = -1;

	memset(result, 0, sizeof(*result));
	result->status = 1;
	session->options = options;
	session->libraries = options->libraries;
	if (options->argv && !options->attach)
		session->libraries |=
			ws_find_linked_libraries(options->argv[0], options->libraries_if_linked);
	session->result = result;
	session->attached.target.pidfd = -1;
	session->gathered.expected = options->gather_expected;
	ws_signals_install();
	ws_crowd_begin(&session->crowd);
	session->starved.area = &session->area;
	session->starved.status = &result->status;
	ws_starved_watch(&session->starved);
	session->gpu_metrics = ws_gpu_sampling_new(&options->gpu_metrics); /* forks: first of all */
	warmth = ws_perf_warm_up(&options->perf);
	error = ws_session_begin_flight(session, err);
	if (!error)
		error = begin_session(session, err);
	ws_perf_end_warm_up(warmth);
	if (!error) {
		ws_gpu_sampling_await(session->gpu_metrics);
		session->started = ws_read_raw_ns();
		ws_session_post(session, WS_CONTROL_LAUNCH);
		reduce_rights(session);
		ws_area_admit(&session->area);
		ws_session_commit_reports(session); /* so that there is something to recover */
		error = ws_session_has_child(session) ? ws_launch_go(&session->launch) : 0;
		if (error) {
			ret = report_exec_failure(session, error, err);
		} else {
			/* Keep the unfinished report unless we have a child to wait for. */
			if (!ws_session_has_child(session))
				session->starved.report = NULL;
			else
				session->starved.target = session->launch.pid;
			session->starved.tee = session->tee;
			ws_session_settle_old_report(session, NULL);
			if (session->tee)
				ws_tee_started(session->tee);
			run_session(session);
			ret = finish_session(session, err);
		}
	}
	ws_starved_watch(NULL);
	ws_session_end_flight(session);
	ws_hotkey_close(session->hotkey);
	ws_attached_end(&session->attached);
	ws_gathered_free(&session->gathered);
	ws_session_settle_old_report(session, NULL);
	ws_area_destroy(&session->area);
	ws_code_free(session->code);
	ws_metrics_free(session->metrics);
	ws_gpu_sampling_free(session->gpu_metrics);
	ws_clock_free(&session->clock);
	ws_signals_restore();
	ws_crowd_end(&session->crowd);
	ws_launch_environment_free(session->env);
	free(session->output);
	free(session->last_report);
	free(session);
	return ret;
}
