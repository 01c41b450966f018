/*
 * cuda.c - the CUDA hook: starts when the driver loads it (CUDA_INJECTION64_PATH), or when a
 * profiler inside the program calls CUPTI first; has CUPTI record what the session asks for;
 * flushes it regularly on a thread of its own and once more, within a bounded time, when the
 * process ends.
 *
 * The target never pays for a failure here: whatever is refused becomes a diagnostic and the run
 * goes on. Exit is delayed by at most EXIT_MS; if a flush hangs, the recorder takes what is left in
 * CUPTI's buffers from shared memory, as after a kill.
 *
 * A forked child inherits all this state and none of the threads: it makes no call to CUPTI, which
 * would hang or crash there.
 */
#include "inject/cuda.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/choose.h"
#include "base/gpu_tools.h"
#include "inject/bind.h"
#include "inject/capture.h"
#include "ring/cuda_record.h"
#include "schema/schema.h"

enum { EXIT_MS = 800, POLL_MS = 50, FIRST_MS = 5, IDLE_MS = 500 };
enum { SWITCH_MS = 200, WORK_MS = 900 };

struct ws_cupti ws_cupti;
_Atomic int ws_cuda_state = WS_CUDA_IDLE;

static uint32_t start_pid, own_tid;
static uint64_t kinds_on; /* bits of CUPTI_KIND_* that we enabled */

/* Shared by the flushing thread and the threads that want a flush: numbers of requests made and
 * done, waited on as futexes. */
static _Atomic uint32_t asked, answered;
static _Atomic uint32_t ended, ended_once;

bool ws_cuda_reset_after_fork(void)
{
	return (uint32_t)ws_raw_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0) != start_pid;
}

uint32_t ws_cuda_is_own_thread(void)
{
	return own_tid;
}

bool ws_cuda_is_kind_on(uint32_t kind)
{
	return kind < 64 && kinds_on >> kind & 1;
}

/* ---- messages ---- */

void ws_cuda_report(int severity, const char *a, const char *b, const char *c)
{
	char text[1024];
	size_t n = 0;
	const char *parts[] = {a, b, c};

	for (int i = 0; i < 3; i++) {
		size_t len = strlen(parts[i]);

		if (len > sizeof(text) - 1 - n)
			len = sizeof(text) - 1 - n;
		memcpy(text + n, parts[i], len);
		n += len;
	}
	text[n] = 0;
	ws_rt_write_diagnostic(severity, "cuda", text);
}

const char *ws_cuda_report_error(int result)
{
	const char *text = NULL;

	if (!ws_cupti.GetResultString || ws_cupti.GetResultString(result, &text) || !text)
		return "an error without a name";
	return text;
}

/* ---- what CUPTI records ---- */

/* The session clock. Registered once: CUPTI corrupts records in flight when the callback changes.
 */
static uint64_t read_session_clock(void)
{
	return ws_read_raw_ns();
}

static const struct {
	uint32_t kind, needs; /* `needs`: a flag of ws_cuda_setting, or 0 */
	const char *name;
} kinds[] = {
	{CUPTI_KIND_CONCURRENT_KERNEL, 0, "kernels: "},
	{CUPTI_KIND_MEMCPY, 0, "copies: "},
	{CUPTI_KIND_MEMCPY2, 0, "copies between GPUs: "},
	{CUPTI_KIND_MEMSET, 0, "memory sets: "},
	{CUPTI_KIND_OVERHEAD, 0, "profiling overhead: "},
	{CUPTI_KIND_JIT, 0, "run-time compilation: "},
	{CUPTI_KIND_CUDA_EVENT, WS_CUDA_EVENT_TIMES, "times of CUDA events: "},
	{CUPTI_KIND_MEMORY2, WS_CUDA_MEMORY, "allocations: "},
	{CUPTI_KIND_MEMORY_POOL, WS_CUDA_MEMORY, "memory pools: "},
};

/* Of contexts and streams that there are already CUPTI writes records only when it is told to dump
 * them. */
static int enable_activity(uint32_t kind)
{
	bool lasts = kind == CUPTI_KIND_DEVICE || kind == CUPTI_KIND_CONTEXT ||
		     kind == CUPTI_KIND_STREAM;

	if (ws_rt_late && lasts && ws_cupti.ActivityEnableAndDump)
		return ws_cupti.ActivityEnableAndDump(kind);
	return ws_cupti.ActivityEnable(kind);
}

static void enable_kind(uint32_t kind, const char *name)
{
	int rc = enable_activity(kind);

	if (!rc)
		kinds_on |= UINT64_C(1) << kind;
	else if (rc != CUPTI_ERR_NOT_COMPATIBLE || kind != CUPTI_KIND_JIT)
		ws_cuda_report(WS_WARNING, "CUPTI refuses to record ", name,
			       ws_cuda_report_error(rc));
}

static void disable_kind(uint32_t kind)
{
	kinds_on &= ~(UINT64_C(1) << kind);
	if (!atomic_load(&ws_inner_there) || !ws_inner_is_only_reader(kind))
		ws_cupti.ActivityDisable(kind);
}

static void enable_unified_memory(uint32_t flags)
{
	/* CUpti_ActivityUnifiedMemoryCounterKind: bytes to the device, to the host, CPU faults, GPU
	 * faults, between devices */
	struct cupti_um_config configs[5] = {{2, 1, 0, 1}, {2, 2, 0, 1}, {2, 8, 0, 1}};
	uint32_t n = 3;
	int rc;

	if (flags & WS_CUDA_UM_CPU_FAULTS)
		configs[n++] = (struct cupti_um_config){2, 3, 0, 1};
	if (flags & WS_CUDA_UM_GPU_FAULTS)
		configs[n++] = (struct cupti_um_config){2, 4, 0, 1};
	rc = ws_cupti.ActivityConfigureUnifiedMemoryCounter
		     ? ws_cupti.ActivityConfigureUnifiedMemoryCounter(configs, n)
		     : CUPTI_ERR_NOT_SUPPORTED;
	if (rc)
		ws_cuda_report(WS_WARNING,
			       "Traffic and page faults of unified memory are not recorded: ",
			       ws_cuda_report_error(rc), "");
	else
		enable_kind(CUPTI_KIND_UNIFIED_MEMORY_COUNTER, "unified memory: ");
}

static void switch_collection(bool on)
{
	uint32_t flags = ws_rt->arena->cuda.flags;

	for (size_t i = 0; i < WS_COUNT(kinds); i++) {
		if (kinds[i].needs && !(flags & kinds[i].needs))
			continue;
		if (on)
			enable_kind(kinds[i].kind, kinds[i].name);
		else
			disable_kind(kinds[i].kind);
	}
	/* Recording graphs as a whole turns the records of their nodes off. CUPTI (13.0) crashes in
	 * the launch of a graph that was made before CUPTI was there; their nodes it can record. */
	if (on && !(flags & WS_CUDA_GRAPH_NODES) && !ws_rt_late)
		enable_kind(CUPTI_KIND_GRAPH_TRACE, "CUDA graphs: ");
	else if (!on && ws_cuda_is_kind_on(CUPTI_KIND_GRAPH_TRACE))
		disable_kind(CUPTI_KIND_GRAPH_TRACE);
	if (flags & (WS_CUDA_UM_CPU_FAULTS | WS_CUDA_UM_GPU_FAULTS)) {
		if (on)
			enable_unified_memory(flags);
		else
			disable_kind(CUPTI_KIND_UNIFIED_MEMORY_COUNTER);
	}
	ws_cuda_enable_apis(on);
	ws_cuda_switch_callbacks(on);
}

/* ---- the flushing thread ---- */

static long futex_wait(_Atomic uint32_t *word, uint32_t value, uint32_t ms)
{
	struct timespec time = {ms / 1000, (long)(ms % 1000) * 1000000};

	return ws_raw_syscall(SYS_futex, (long)word, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, (long)value,
			      (long)&time, 0, 0);
}

/*
 * Nothing is collected, and there is nothing to do until that changes. The recorder, or the thread
 * that ends a collection inside the program, wakes the threads that wait on this word. A request to
 * flush wakes them too, repeatedly, since a single wake-up a moment before the wait would be
 * missed.
 */
static void wait_for_collection(struct ws_arena *arena)
{
	struct timespec time = {0, IDLE_MS * 1000000};

	ws_raw_syscall(SYS_futex, (long)&arena->collecting, FUTEX_WAIT, 0, (long)&time, 0, 0);
}

static void wake_from_wait(struct ws_arena *arena)
{
	ws_raw_syscall(SYS_futex, (long)&arena->collecting, FUTEX_WAKE, INT_MAX, 0, 0, 0);
}

static void futex_wake(_Atomic uint32_t *word)
{
	ws_raw_syscall(SYS_futex, (long)word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 64, 0, 0, 0);
}

bool ws_cuda_flush(uint32_t ms)
{
	uint32_t mine = atomic_fetch_add(&asked, 1) + 1, done;
	uint64_t until = ws_read_raw_ns() + ms * UINT64_C(1000000), now;

	futex_wake(&asked);
	while ((int32_t)((done = atomic_load(&answered)) - mine) < 0) {
		now = ws_read_raw_ns();
		if (now >= until)
			return false;
		if (!ws_rt_is_collecting())
			wake_from_wait(ws_rt->arena);
		futex_wait(&answered, done,
			   ws_min((uint32_t)((until - now) / 1000000) + 1, (uint32_t)FIRST_MS));
	}
	return true;
}

static bool described; /* the devices */

/* Once a context exists, and before the driver shuts down. */
static void describe_devices(void)
{
	if (described || !atomic_load_explicit(&ws_cuda_context_seen, memory_order_relaxed))
		return;
	described = true;
	ws_cuda_devices();
}

static void answer_flush_request(uint32_t request)
{
	ws_cupti.ActivityFlushAll(CUPTI_FLUSH_FORCED);
	describe_devices();
	atomic_store(&answered, request);
	futex_wake(&answered);
}

/* The thread that turns CUPTI on or off: the flushing thread, or a thread of the program, which
 * calls CUPTI from a callback and must therefore not wait indefinitely for the flushing thread. */
static _Atomic uint32_t switching;
static _Atomic bool switched_on;

static bool take_switch(uint32_t ms)
{
	uint64_t until = ws_read_raw_ns() + ms * UINT64_C(1000000);

	while (atomic_exchange(&switching, 1)) {
		if (ws_read_raw_ns() > until)
			return false;
		futex_wait(&switching, 1, 1);
	}
	return true;
}

/* Whether CUPTI should be on. */
static bool is_cupti_wanted(void)
{
	return atomic_load(&ws_rt->arena->collecting) || atomic_load(&ws_cuda_early);
}

/* Turn CUPTI on, or off, if that is still what the session wants. */
static void switch_cupti(bool on)
{
	if (!take_switch(SWITCH_MS))
		return;
	if (atomic_load(&switched_on) != on && is_cupti_wanted() == on) {
		if (on)
			atomic_store(&ws_rt->home->gpu_flushes, 1);
		switch_collection(on);
		atomic_store(&switched_on, on);
	}
	atomic_store(&switching, 0);
	futex_wake(&switching);
}

/* A thread of the program has begun or ended a collection (inject/capture.h). What it launches next
 * is recorded from now on; at the end CUPTI stays on until the work that is under way has ended. */
static void follow_at_once(bool on)
{
	if (atomic_load(&ws_cuda_state) != WS_CUDA_ON || ws_cuda_reset_after_fork())
		return;
	atomic_store(&ws_cuda_early, false);
	if (on)
		switch_cupti(true);
	else
		futex_wake(&asked);
}

void ws_cuda_switch_early(void)
{
	switch_cupti(true);
}

static bool is_end_wanted(void)
{
	return !is_cupti_wanted() && !atomic_load(&ended) &&
	       atomic_load(&asked) == atomic_load(&answered);
}

/*
 * A collection has ended, and the program may go on launching. Before CUPTI is turned off, wait for
 * the work launched so far, if it ends soon: the recorder keeps what belongs to the collection and
 * waits for this work, too.
 */
static void finish_collection(void)
{
	uint64_t until = ws_read_raw_ns() + WORK_MS * UINT64_C(1000000);

	ws_cuda_note_work();
	while (ws_cuda_has_unfinished_work() && is_end_wanted() && ws_read_raw_ns() < until) {
		futex_wait(&asked, atomic_load(&asked), FIRST_MS);
		ws_cupti.ActivityFlushAll(0);
	}
	if (!is_end_wanted())
		return;
	switch_cupti(false);
	ws_cupti.ActivityFlushAll(CUPTI_FLUSH_FORCED);
	if (!atomic_load(&switched_on))
		atomic_store(&ws_rt->home->gpu_flushes, 0);
}

/* Follow the collection's beginning and end. Returns whether there is anything left to do. */
static bool follow_session(void)
{
	static bool watched;

	if (is_cupti_wanted())
		switch_cupti(true);
	else if (atomic_load(&switched_on))
		finish_collection();
	if (watched && !ws_cuda_watches_launches())
		ws_cuda_switch_launch_callbacks(false);
	watched = ws_cuda_watches_launches();
	return !atomic_load_explicit(&ws_rt->arena->closed, memory_order_acquire) &&
	       !ws_cuda_must_leave();
}

void ws_cuda_become_own_thread(void)
{
	ws_raw_syscall(SYS_prctl, PR_SET_NAME, (long)"warpsight-cuda", 0, 0, 0, 0);
	__atomic_store_n(&own_tid, (uint32_t)ws_raw_syscall(SYS_gettid, 0, 0, 0, 0, 0, 0),
			 __ATOMIC_RELEASE);
}

void ws_cuda_keep_flushing(void)
{
	uint32_t every = ws_rt->arena->cuda.flush_ms,
		 wait = every && every < POLL_MS ? every : POLL_MS;
	uint64_t last = ws_read_raw_ns();
	bool on;

	/* This runs often at first: programs launch most of their kernels for the first time early
	 * on. */
	for (uint32_t round = 0;; round++) {
		uint32_t done = atomic_load(&answered), want = atomic_load(&asked);

		on = atomic_load(&switched_on);
		if (want == done && on && is_cupti_wanted())
			futex_wait(&asked, want, round < 100 && FIRST_MS < wait ? FIRST_MS : wait);
		else if (want == done && !on)
			wait_for_collection(ws_rt->arena);
		want = atomic_load(&asked);
		if (atomic_load(&ended) && want == done)
			return;
		describe_devices();
		if (want != done) {
			answer_flush_request(want);
			continue;
		}
		if (!follow_session())
			return;
		if (every && on && ws_read_raw_ns() - last >= every * UINT64_C(1000000)) {
			ws_cupti.ActivityFlushAll(0);
			last = ws_read_raw_ns();
		}
		ws_cuda_scan_buffers();
	}
}

static void *flush_buffers(void *arg)
{
	(void)arg;
	ws_cuda_become_own_thread();
	ws_cuda_keep_flushing();
	return NULL;
}

/* Programs expect their signals to arrive on their own threads. */
bool ws_cuda_start_thread(void *(*fn)(void *))
{
	int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) =
		ws_find_symbol("pthread_create");
	int (*detach)(pthread_t) = ws_find_symbol("pthread_detach");
	uint64_t all = ~UINT64_C(0), old;
	pthread_t thread;
	bool ok;

	ws_raw_syscall(SYS_rt_sigprocmask, SIG_SETMASK, (long)&all, (long)&old, sizeof(all), 0, 0);
	ok = create && !create(&thread, NULL, fn, NULL);
	ws_raw_syscall(SYS_rt_sigprocmask, SIG_SETMASK, (long)&old, 0, sizeof(old), 0, 0);
	if (ok && detach)
		detach(thread);
	return ok;
}

static void flush_at_process_end(void)
{
	if (atomic_load(&ws_cuda_state) != WS_CUDA_ON || ws_cuda_reset_after_fork() ||
	    atomic_exchange(&ended_once, 1))
		return;
	if (!ws_cuda_flush(EXIT_MS))
		ws_cuda_report(WS_WARNING,
			       "CUPTI did not hand over its last records in time at the end of the "
			       "program; "
			       "those that were complete are taken from its buffers.",
			       "", "");
	/* The driver shuts down from here on, so CUPTI must not be called any more. */
	atomic_store(&ended, 1);
	futex_wake(&asked);
}

/*
 * _exit skips exit handlers. Programs that use it (interpreters that end early, test runners) keep
 * their last records this way; a forked or vforked child has another pid and passes straight
 * through.
 */
static _Noreturn void exit_after_flush(int status)
{
	flush_at_process_end();
	for (;;)
		ws_raw_syscall(SYS_exit_group, status, 0, 0, 0, 0, 0);
}
WS_EXPORT void _exit(int status)
{
	exit_after_flush(status);
}
WS_EXPORT void _Exit(int status)
{
	exit_after_flush(status);
}

/* ---- starting ---- */

static void set_up_cupti(void)
{
	uint8_t one = 1;
	size_t size = sizeof(one);

	/* Our buffers are already zeroed; otherwise CUPTI would zero them in the program's
	 * threads. */
	ws_cupti.ActivitySetAttribute(CUPTI_ATTR_ZEROED_OUT_ACTIVITY_BUFFER, &size, &one);
	if (ws_cupti.ActivityRegisterTimestampCallback)
		ws_cupti.ActivityRegisterTimestampCallback(read_session_clock);
	if (ws_cupti.SetThreadIdType)
		ws_cupti.SetThreadIdType(CUPTI_THREAD_ID_SYSTEM);
	if (ws_rt->arena->cuda.flags & WS_CUDA_EVENT_TIMES &&
	    ws_cupti.ActivityEnableCudaEventDeviceTimestamps)
		ws_cupti.ActivityEnableCudaEventDeviceTimestamps(1);
}

static void write_cupti_version(void)
{
	struct ws_thread *thread = ws_rt_enter();
	struct ws_rec_cuda_seen *record;
	uint32_t path;

	if (!thread)
		return;
	path = ws_rt_find_string(thread, ws_cupti.path, strlen(ws_cupti.path));
	record = ws_rt_reserve(thread, sizeof(*record), WS_LOSS_OTHER);
	if (record) {
		*record = (struct ws_rec_cuda_seen){ws_rec_head(WS_REC_CUDA_SEEN, sizeof(*record),
								0, path),
						    ws_cupti.version, ws_cupti.driver};
		ws_rt_commit(thread, record, sizeof(*record));
	}
	ws_rt_leave(thread);
}

bool ws_cuda_set_up(void)
{
	const char *tool = ws_find_gpu_tool(environ);
	int rc;

	if (tool) {
		ws_cuda_report(WS_WARNING, "CUDA is not recorded: ", tool,
			       " has it for itself. Run it without that tool.");
		return false;
	}
	if (!ws_cuda_find_cupti() || !ws_cuda_subscribe())
		return false;
	write_cupti_version();
	set_up_cupti();
	atomic_store(&ws_rt_cuda_numbers, ws_cuda_find_name_functions);
	rc = ws_cupti.ActivityRegisterCallbacks(ws_cuda_request_buffer, ws_cuda_complete_buffer);
	if (rc) {
		ws_cuda_report(WS_ERROR, "CUDA is not recorded: CUPTI refuses buffers: ",
			       ws_cuda_report_error(rc), "");
		return false;
	}
	enable_kind(CUPTI_KIND_DEVICE, "devices: ");
	enable_kind(CUPTI_KIND_CONTEXT, "contexts: ");
	enable_kind(CUPTI_KIND_STREAM, "streams: ");
	ws_cuda_write_api_names();
	ws_cuda_enable_callbacks();
	if (ws_rt_late)
		ws_cuda_expect_contexts();
	if (ws_rt_is_collecting())
		switch_cupti(true);
	ws_cuda_expect_contexts();
	atomic_store(&ws_capture_switched, follow_at_once);
	return true;
}

void ws_cuda_flush_at_exit(void)
{
	static bool registered;

	if (!registered)
		atexit(flush_at_process_end);
	registered = true;
}

static bool start_cuda(void)
{
	if (!ws_cuda_set_up())
		return false;
	if (!ws_cuda_start_thread(flush_buffers))
		ws_cuda_report(
			WS_WARNING,
			"No thread could be started to flush CUDA's records: what a kill loses "
			"is more than usual.",
			"", "");
	ws_cuda_flush_at_exit();
	return true;
}

bool ws_cuda_belongs_to_process(void)
{
	uint32_t pid = (uint32_t)ws_raw_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0);

	if (!start_pid)
		start_pid = pid;
	return start_pid == pid;
}

void ws_cuda_tear_down(void)
{
	static const uint32_t lasting[] = {CUPTI_KIND_DEVICE, CUPTI_KIND_CONTEXT,
					   CUPTI_KIND_STREAM};

	atomic_store(&ws_capture_switched, NULL);
	atomic_store(&ws_rt_cuda_numbers, NULL);
	if (atomic_exchange(&switched_on, false))
		switch_collection(false);
	for (size_t i = 0; i < WS_COUNT(lasting); i++)
		disable_kind(lasting[i]);
	ws_cuda_disable_callbacks();
	ws_cupti.Unsubscribe(ws_cuda_subscriber);
	ws_cupti.ActivityFlushAll(CUPTI_FLUSH_FORCED);
	ws_cuda_settle_buffers(SWITCH_MS);
}

void ws_cuda_forget_session(void)
{
	kinds_on = 0;
	described = false;
	atomic_store(&switched_on, false);
	atomic_store(&ws_cuda_early, false);
	ws_cuda_forget_apis();
	ws_cuda_forget_buffers();
	ws_cuda_forget_stack_calls();
	ws_cuda_forget_launches();
}

bool ws_cuda_start(void)
{
	int idle = WS_CUDA_IDLE;

	if (ws_likely(atomic_load_explicit(&ws_cuda_state, memory_order_acquire) == WS_CUDA_ON))
		return !ws_cuda_reset_after_fork();
	ws_rt_init();
	if (!ws_rt->arena && !ws_rt_is_collecting_slow() && !ws_rt->arena)
		return false;
	if (!(ws_rt->features & WS_FEATURE_CUDA) || atomic_load(&ws_rt->arena->closed) ||
	    !atomic_compare_exchange_strong(&ws_cuda_state, &idle, WS_CUDA_STARTING))
		return false;
	start_pid = (uint32_t)ws_raw_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0);
	atomic_store_explicit(&ws_cuda_state, start_cuda() ? WS_CUDA_ON : WS_CUDA_REFUSED,
			      memory_order_release);
	return atomic_load(&ws_cuda_state) == WS_CUDA_ON;
}

/* This process is a tool that refuses to start programs with another tool's injection set, so ours
 * is removed before the tool looks. */
__attribute__((constructor(103))) static void make_way_for_tool(void)
{
	const char *path = getenv("CUDA_INJECTION64_PATH"), *ours;

	if (!path || !ws_wants_no_injection(program_invocation_short_name))
		return;
	ws_rt_init();
	if (!ws_rt->arena && !ws_rt_is_collecting_slow() && !ws_rt->arena)
		return;
	ours = ws_rt->arena->text + ws_rt->arena->text_cuda;
	if (strcmp(path, ours))
		return;
	unsetenv("CUDA_INJECTION64_PATH");
	ws_cuda_report(WS_WARNING, "CUDA is not recorded in what ", program_invocation_short_name,
		       " starts: Nsight Compute has it for itself. Run it without that tool.");
}

/* The driver calls this while it initialises. Any return value but 1 would make CUDA fail in the
 * program. */
WS_EXPORT int InitializeInjection(void);
WS_EXPORT int InitializeInjection(void)
{
	ws_cuda_start();
	return 1;
}
