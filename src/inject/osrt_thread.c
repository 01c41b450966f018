/*
 * osrt_thread.c - threads: their creation, so that each registers itself when it starts, and the
 * names they are given.
 */
#include <pthread.h>
#include <stdarg.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "inject/osrt.h"
#include "inject/place.h"
#include "inject/sandbox.h"

/* ---- creation ---- */

static void *begin_traced_thread(void *arg)
{
	struct ws_place_to_run *place_to_run = arg;
	void *(*run)(void *) = place_to_run->run;
	struct ws_thread *thread;

	arg = place_to_run->arg;
	ws_give_start_place(place_to_run);
	thread = ws_rt_enter();
	if (thread)
		ws_rt_leave(thread);
	return run(arg);
}

WS_EXPORT int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
			     void *arg);
int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
	__typeof__(&pthread_create) real = WS_OSRT_REAL(pthread_create);
	struct ws_place_to_run *place_to_run;
	struct ws_call call;
	int r;

	if (!ws_osrt_begin(&call, WS_OSRT_pthread_create, 0))
		return real(thread, attr, run, arg);
	place_to_run = ws_take_start_place(run, arg);
	WS_OSRT_UNWINDABLE();
	r = place_to_run ? real(thread, attr, begin_traced_thread, place_to_run)
			 : real(thread, attr, run, arg);
	if (r && place_to_run)
		ws_give_start_place(place_to_run);
	ws_osrt_end(&call, WS_OSRT_pthread_create, r, r ? 0 : (uint64_t)*thread);
	return r;
}

/* ---- which cores they may run on ---- */

WS_EXPORT int pthread_setaffinity_np(pthread_t thread, size_t size, const cpu_set_t *set);
int pthread_setaffinity_np(pthread_t thread, size_t size, const cpu_set_t *set)
{
	__typeof__(&pthread_setaffinity_np) real = WS_OSRT_REAL(pthread_setaffinity_np);
	struct ws_call call;
	int r;

	if (!ws_osrt_begin(&call, WS_OSRT_pthread_setaffinity_np, 0))
		return real(thread, size, set);
	WS_OSRT_UNWINDABLE();
	r = real(thread, size, set);
	ws_osrt_end_lasting(&call, WS_OSRT_pthread_setaffinity_np, r);
	return r;
}

WS_EXPORT int sched_setaffinity(pid_t pid, size_t size, const cpu_set_t *set);
int sched_setaffinity(pid_t pid, size_t size, const cpu_set_t *set)
{
	__typeof__(&sched_setaffinity) real = WS_OSRT_REAL(sched_setaffinity);
	struct ws_call call;
	int r;

	if (!ws_osrt_begin(&call, WS_OSRT_sched_setaffinity, 0))
		return real(pid, size, set);
	WS_OSRT_UNWINDABLE();
	r = real(pid, size, set);
	ws_osrt_end_lasting(&call, WS_OSRT_sched_setaffinity, r);
	return r;
}

/* ---- names ---- */

static void write_thread_name(uint32_t tid, const char *name)
{
	struct ws_thread *thread = ws_osrt_thread() ? ws_rt_enter() : NULL;
	struct ws_rec_thread_name *record;
	uint32_t handle;

	if (!thread)
		return;
	handle = ws_rt_find_string(thread, name, strnlen(name, 15)); /* the kernel keeps no more */
	record = handle ? ws_rt_reserve(thread, sizeof(*record), WS_LOSS_OTHER) : NULL;
	if (record) {
		record->rec = ws_rec_head(WS_REC_THREAD_NAME, sizeof(*record), 0, handle);
		record->time = ws_rt_read_ticks();
		record->tid = tid ? tid : thread->tid;
		record->priority = 20;
		ws_rt_commit(thread, record, sizeof(*record));
	}
	ws_rt_leave(thread);
}

/*
 * Thread id of another thread: the C library does not give it, but the number of a thread's CPU
 * clock contains it. 0 when not known.
 */
static uint32_t find_tid(pthread_t thread)
{
	static int (*get_clock)(pthread_t, clockid_t *);
	clockid_t clock;

	if (!get_clock)
		get_clock = (int (*)(pthread_t, clockid_t *))ws_osrt_find_function(
			"pthread_getcpuclockid");
	return get_clock && !get_clock(thread, &clock) ? (uint32_t) ~(clock >> 3) : 0;
}

WS_EXPORT int pthread_setname_np(pthread_t thread, const char *name);
int pthread_setname_np(pthread_t thread, const char *name)
{
	static __typeof__(&pthread_setname_np) real;
	int r, error;

	if (!real)
		real = (__typeof__(real))ws_osrt_find_function("pthread_setname_np");
	if (!real)
		return ENOSYS;
	r = real(thread, name);
	error = errno;
	if (!r) {
		bool own = thread == pthread_self();
		uint32_t tid = own ? 0 : find_tid(thread);

		if (own || tid)
			write_thread_name(tid, name);
	}
	errno = error;
	return r;
}

WS_EXPORT int prctl(int option, ...);
int prctl(int option, ...)
{
	__typeof__(&prctl) real = WS_OSRT_REAL(prctl);
	unsigned long a[4];
	struct ws_call call;
	va_list ap;
	bool traced;
	int r;

	va_start(ap, option);
	for (int i = 0; i < 4; i++)
		a[i] = va_arg(ap, unsigned long);
	va_end(ap);
	/* The hook before this one (sandbox.c) does the work that every recording needs. */
	if (ws_forbids_all_calls(option, a[0]))
		return real(option, a[0], a[1], a[2], a[3]);
	traced = ws_osrt_begin(&call, WS_OSRT_prctl, 0);
	r = real(option, a[0], a[1], a[2], a[3]);
	if (traced)
		ws_osrt_end(&call, WS_OSRT_prctl, r, 0);
	if (option == PR_SET_NAME && !r)
		write_thread_name(0, (const char *)a[0]);
	return r;
}
