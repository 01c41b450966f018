/*
 * python.c - the Python hook: finds the interpreter that the program is or is linked to
 * (python_later.c: or loads), and watches its threads take and drop the GIL.
 *
 * The interpreter is found by its exported data, _PyRuntime, and its version by the functions that
 * it exports or, from 3.13, by the description that it keeps of itself. Nothing is imported,
 * nothing of it is changed, and none of its functions is called but the two that give a thread's
 * state (and, for named functions, those that python_functions.c lists).
 *
 * The GIL is a condition variable and a mutex. A thread that drops it signals the condition; a
 * thread that takes it signals a second one, which tells the thread that dropped it that it has
 * changed hands; a thread that wants it waits for the first one, five milliseconds at a time. All
 * three are calls into the C library, and the variables lie in _PyRuntime, where nothing else is
 * signalled: so two comparisons tell all other calls apart, and what is left is a clock read and a
 * store. Spans of holding that are shorter than SHORT_NS and follow each other closely are recorded
 * as one: a thread that drops the GIL around each of a million system calls would fill the rings
 * otherwise.
 */
#include "inject/python.h"
#include "inject/readable.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "inject/bind.h"
#include "inject/traced.h"
#include "schema/schema.h"

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

#define PAGE_BITS 12	/* size of the smallest pages: what holds for those holds for larger ones */
#define ADDRESS_BITS 56 /* at most, on any processor; the kernel says which of them are there */
#define SHORT_TICKS(ns) (ws_rt->arena->ticks_per_second / 1000000 * (ns) / 1000)
#define SHORT_NS 20000u
#define LONG_MS                                                                                    \
	100u /* a hold that goes on is recorded so far as it has come, so that a kill loses little \
	      */

struct ws_python ws_python;

/* ---- reading our own memory ---- */

/* Objects reachable from the thread's own frames are alive and stay mapped; garbage pointers might
 * lead elsewhere, which is why the kernel is asked. A page that was checked is not checked again
 * during the sample. */
static bool may_read(struct ws_python_thread *thread, uint64_t from, size_t bytes)
{
	uint64_t page = from >> PAGE_BITS, last = (from + bytes - 1) >> PAGE_BITS;

	if (!bytes || from + bytes < from || last >> (ADDRESS_BITS - PAGE_BITS))
		return !bytes;
	for (; page <= last; page++) {
		uint64_t *slot = thread ? &thread->page[page % WS_COUNT(thread->page)] : NULL,
			 key = page << 16 | (thread ? thread->serial & 0xffff : 0);

		if (slot && *slot == key)
			continue;
		if (!ws_is_page_readable((uintptr_t)page << PAGE_BITS))
			return false;
		if (slot)
			*slot = key;
	}
	return true;
}

size_t ws_python_read_memory(void *ctx, const struct ws_py_piece *piece, size_t n)
{
	size_t done = 0;

	for (; done < n && may_read(ctx, piece[done].from, piece[done].bytes); done++)
		memcpy(piece[done].to, (const void *)(uintptr_t)piece[done].from,
		       piece[done].bytes);
	return done;
}

/* ---- finding the interpreter ---- */

void *ws_python_find_symbol(const char *name)
{
	return ws_python.library ? ws_find_symbol_in(ws_python.library, name)
				 : ws_find_symbol(name);
}

static uint16_t read_version(void)
{
	const unsigned long *v = ws_python_find_symbol("Py_Version"); /* from 3.11 on */

	if (v)
		return (uint16_t)(*v >> 16);
	/* Functions that came with a version. */
	if (ws_python_find_symbol("PyObject_GetAIter"))
		return 0x030a;
	if (ws_python_find_symbol("PyFrame_GetBack"))
		return 0x0309;
	return ws_python_find_symbol("PyCode_NewWithPosOnlyArgs") ? 0x0308 : 0;
}

static uint64_t size_of_symbol(const void *at)
{
	const ElfW(Sym) *sym = NULL;
	Dl_info info;
	int (*find)(const void *, Dl_info *, void **, int) = ws_find_symbol("dladdr1");

	return find && find(at, &info, (void **)&sym, RTLD_DL_SYMENT) && sym ? sym->st_size : 0;
}

static void report_version(uint16_t v)
{
	if (v)
		ws_rt_write_diagnostic(
			WS_WARNING, "python",
			"This version of CPython is not known (3.8 to 3.14 are): its "
			"frames are not recorded.");
	else
		ws_rt_write_diagnostic(
			WS_WARNING, "python",
			"CPython older than 3.8 is not known: its frames are not recorded.");
}

static bool find_interpreter(void)
{
	void *runtime = ws_python_find_symbol("_PyRuntime");
	struct ws_python *python = &ws_python;
	struct ws_py_memory memory = {ws_python_read_memory, NULL};
	uint16_t v;

	python->gilstate_thread =
		(void *(*)(void))ws_python_find_symbol("PyGILState_GetThisThreadState");
	if (!runtime || !python->gilstate_thread)
		return false;
	v = read_version();
	python->runtime = (uint64_t)(uintptr_t)runtime;
	if (!(v >= 0x030d ? ws_py_read_layout(&memory, python->runtime, &python->layout)
			  : ws_py_get_layout(v, &python->layout))) {
		report_version(v);
		return false;
	}
	python->layout.version = v;
	if (v >= 0x030c)
		python->current_thread = (void *(*)(void))ws_python_find_symbol(
			v == 0x030c ? "_PyThreadState_UncheckedGet" : "PyThreadState_GetUnchecked");
	/* Must come last: from then on calls that use its condition variables are examined. */
	__atomic_store_n(&python->runtime_bytes, size_of_symbol(runtime), __ATOMIC_RELEASE);
	return true;
}

static uint32_t describe_sampling(void)
{
	if (ws_python.looked_into)
		return WS_PYTHON_LOOKED_INTO;
	return ws_python.signals || ws_python.timers ? WS_PYTHON_SIGNALS : WS_PYTHON_HANDLER_TAKEN;
}

static void report_seen_python(void)
{
	struct ws_thread *thread = ws_rt_enter();
	struct ws_rec_python_seen *record;

	if (!thread)
		return;
	record = ws_rt_reserve(thread, sizeof(*record), WS_LOSS_PYTHON);
	if (record) {
		record->rec = ws_rec_head(WS_REC_PYTHON_SEEN, sizeof(*record),
					  ws_python.layout.version, describe_sampling());
		record->time = ws_rt_read_ticks();
		record->runtime = ws_python.runtime;
		ws_rt_commit(thread, record, sizeof(*record));
	}
	ws_rt_leave(thread);
}

bool ws_python_begin_recording(void)
{
	if (!find_interpreter())
		return false;
	ws_python.timers =
		ws_rt->features &
		WS_FEATURE_SAMPLE; /* perf events are refused: the sampling hook has the signal */
	/* The recorder's program in the kernel identifies threads by their numbers in its own
	 * namespace or in the outermost one. */
	ws_python.looked_into = ws_rt->features & WS_FEATURE_PYTHON_BPF &&
				(ws_rt->features & WS_FEATURE_PYTHON_ANY_NS ||
				 ws_rt->home->pid_ns == ws_rt->arena->recorder_pid_ns);
	if (ws_python.timers)
		ws_sample_hook = ws_python_start_timer;
	else if (ws_python.looked_into)
		(void)0;
	else if (ws_rt->features & WS_FEATURE_PYTHON_SAMPLES)
		ws_python_take_signal();
	if (ws_rt->features & WS_FEATURE_PYTHON_CUDA)
		ws_stack_hook = ws_python_write_cuda_stack;
	if (ws_rt->features & WS_FEATURE_PYTHON_OSRT)
		ws_frames_hook = ws_python_write_call_frames;
	report_seen_python();
	return true;
}

static __attribute__((constructor)) void ws_python_init(void)
{
	ws_rt_init();
	if (ws_rt->arena && ws_rt->features & WS_FEATURE_PYTHON)
		ws_python_begin_recording();
}

/* ---- threads ---- */

static uint64_t make_cookie(void)
{
	uint64_t pid = (uint64_t)ws_raw_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0);

	if (ws_python.cookie_pid !=
	    pid) { /* also in a forked child, whose parent's cookie this was */
		ws_python.cookie = (ws_rt_read_ticks() ^ pid << 40 ^ (uintptr_t)ws_rt->home) *
					   UINT64_C(0x9e3779b97f4a7c15) |
				   1;
		ws_python.cookie_pid = pid;
	}
	return ws_python.cookie;
}

static uint64_t current_thread_state(void)
{
	return (uint64_t)(uintptr_t)ws_python.gilstate_thread();
}

static struct ws_python_thread *make_python_thread(void)
{
	struct ws_thread *thread = ws_rt_enter();
	struct ws_rec_python_thread *record;
	long p;

	if (!thread)
		return NULL;
	p = ws_rt_is_sandboxed()
		    ? -1
		    : ws_raw_syscall(SYS_mmap, 0, WS_PYTHON_THREAD_BYTES, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p < 0 && p > -4096) {
		ws_rt_leave(thread);
		return NULL;
	}
	ws_raw_syscall(SYS_madvise, p, WS_PYTHON_THREAD_BYTES, MADV_WIPEONFORK, 0, 0, 0);
	thread->python = (void *)p;
	((struct ws_python_thread *)p)->now =
		(struct ws_python_beacon){.cookie = ws_python_cookie(make_cookie(), thread->tid),
					  .state = current_thread_state()};
	record = ws_rt_reserve(thread, sizeof(*record), WS_LOSS_PYTHON);
	if (record) {
		record->rec = ws_rec_head(WS_REC_PYTHON_THREAD, sizeof(*record),
					  ws_python.layout.version, describe_sampling());
		record->time = ws_rt_read_ticks();
		record->runtime = ws_python.runtime;
		record->cookie = ws_python.cookie;
		record->beacon = (uint64_t)p + offsetof(struct ws_python_thread, now);
		ws_rt_commit(thread, record, sizeof(*record));
	}
	ws_rt_leave(thread);
	ws_rt_wake_recorder();
	return thread->python;
}

struct ws_python_thread *ws_python_this_thread(void)
{
	struct ws_thread *thread = ws_self;

	if (!ws_rt_is_collecting())
		return NULL;
	return ws_likely(thread && thread->generation && thread->python) ? thread->python
									 : make_python_thread();
}

/* ---- the GIL ---- */

static void write_span(uint16_t state, uint64_t start, uint64_t end)
{
	struct ws_thread *thread = ws_rt->features & WS_FEATURE_GIL ? ws_rt_enter() : NULL;
	struct ws_rec_gil *record;

	if (!thread)
		return;
	record = ws_rt_reserve(thread, sizeof(*record), WS_LOSS_PYTHON);
	if (record) {
		record->rec = ws_rec_head(WS_REC_GIL, sizeof(*record), state, 0);
		record->start = start;
		record->end = end;
		ws_rt_commit(thread, record, sizeof(*record));
	}
	ws_rt_leave(thread);
}

static void flush_short_waits(struct ws_python_thread *thread)
{
	if (thread->short_start)
		write_span(WS_GIL_HOLDS, thread->short_start, thread->short_end);
	thread->short_start = 0;
}

/*
 * Register the thread; if the kernel reads frames, do so even before a delayed collection: a thread
 * that never drops the GIL again would not be seen later, and this costs nothing until then.
 */
static struct ws_python_thread *find_watched_thread(void)
{
	struct ws_thread *thread = ws_self;

	if (ws_rt_is_collecting() || !ws_python.looked_into || !ws_rt->arena)
		return ws_python_this_thread();
	return ws_likely(thread && thread->generation && thread->python) ? thread->python
									 : make_python_thread();
}

static void note_gil_taken(void)
{
	struct ws_python_thread *thread = find_watched_thread();
	uint64_t now, wait;

	if (!thread)
		return;
	thread->silent = !ws_rt_is_collecting();
	if (!thread->silent)
		ws_python_trace_functions();
	thread->now.state = current_thread_state();
	now = ws_rt_read_ticks();
	wait = thread->silent_wait ? 0 : thread->now.wait_start;
	thread->now.wait_start = 0;
	thread->now.hold_start = now;
	if (thread->silent)
		return;
	if (wait) {
		flush_short_waits(thread);
		write_span(WS_GIL_WAITS, wait, now);
	} else if (thread->short_start && now - thread->short_end > SHORT_TICKS(SHORT_NS)) {
		flush_short_waits(thread);
	}
}

static void note_gil_dropped(void)
{
	struct ws_python_thread *thread = find_watched_thread();
	uint64_t now, start;

	if (!thread)
		return;
	thread->now.state = current_thread_state(); /* none any more, when the thread gives it up
						       with the GIL */
	if (!thread->now.hold_start)
		return;
	now = ws_rt_read_ticks();
	start = thread->now.hold_start;
	thread->now.hold_start = 0;
	if (thread->silent || !ws_rt_is_collecting())
		return;
	if (thread->short_start) {
		thread->short_end = now;
		if (now - thread->short_start > SHORT_TICKS(LONG_MS * 1000000ull))
			flush_short_waits(thread);
	} else if (now - start < SHORT_TICKS(SHORT_NS)) {
		thread->short_start = start;
		thread->short_end = now;
	} else {
		write_span(WS_GIL_HOLDS, start, now);
	}
}

/* Layout of the GIL: interval, last holder, locked, number of switches; then condition, mutex,
 * second condition, its mutex. */
#define GIL_COND 32u
#define GIL_SWITCH (GIL_COND + sizeof(pthread_cond_t) + sizeof(pthread_mutex_t))

static bool in_runtime(const void *at)
{
	return (uintptr_t)at - ws_python.runtime < ws_python.runtime_bytes;
}

/* The first condition signalled in _PyRuntime is the second one of the GIL: the main thread signals
 * it as it takes the GIL. The interval tells whether that is so. */
static WS_NOINLINE void find_gil_functions(uintptr_t cond)
{
	uint64_t interval = *(const uint64_t *)(cond - GIL_SWITCH);
	int32_t locked = *(const int32_t *)(cond - GIL_SWITCH + 16);

	if (interval < 1 || interval > 100000000 || locked < -1 || locked > 1)
		return;
	atomic_store(&ws_python.gil_cond, cond - GIL_SWITCH + GIL_COND);
	atomic_store(&ws_python.gil_switch_cond, cond);
}

static WS_NOINLINE void note_gil_signal(const void *cond)
{
	uintptr_t c = (uintptr_t)cond;

	if (!atomic_load_explicit(&ws_python.gil_cond, memory_order_relaxed) &&
	    c - ws_python.runtime >= GIL_SWITCH)
		find_gil_functions(c);
	if (c == atomic_load_explicit(&ws_python.gil_switch_cond, memory_order_relaxed))
		note_gil_taken();
	else if (c == atomic_load_explicit(&ws_python.gil_cond, memory_order_relaxed))
		note_gil_dropped();
}

static int (*real_signal)(pthread_cond_t *);
static int (*real_wait)(pthread_cond_t *, pthread_mutex_t *);
static int (*real_timedwait)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);

WS_EXPORT int pthread_cond_signal(pthread_cond_t *cond);
int pthread_cond_signal(pthread_cond_t *cond)
{
	if (ws_unlikely(!real_signal))
		real_signal = ws_find_next_symbol("pthread_cond_signal");
	if (ws_unlikely(in_runtime(cond)))
		note_gil_signal(cond);
	return real_signal(cond);
}

static WS_NOINLINE void note_gil_wait(const void *cond, const _Atomic uintptr_t *which)
{
	struct ws_python_thread *thread =
		(uintptr_t)cond == atomic_load_explicit(which, memory_order_relaxed)
			? find_watched_thread()
			: NULL;

	if (thread && !thread->now.wait_start) {
		thread->silent_wait = !ws_rt_is_collecting();
		thread->now.wait_start = ws_rt_read_ticks();
	}
}

WS_EXPORT int pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
				     const struct timespec *until);
int pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
			   const struct timespec *until)
{
	if (ws_unlikely(!real_timedwait))
		real_timedwait = ws_find_next_symbol("pthread_cond_timedwait");
	if (ws_unlikely(in_runtime(cond)))
		note_gil_wait(cond, &ws_python.gil_cond);
	return real_timedwait(cond, mutex, until);
}

/* A thread that was asked to drop the GIL waits until another has taken it, and then for its own
 * turn. */
WS_EXPORT int pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex);
int pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
	if (ws_unlikely(!real_wait))
		real_wait = ws_find_next_symbol("pthread_cond_wait");
	if (ws_unlikely(in_runtime(cond)))
		note_gil_wait(cond, &ws_python.gil_switch_cond);
	return real_wait(cond, mutex);
}
