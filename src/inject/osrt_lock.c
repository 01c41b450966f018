/*
 * osrt_lock.c - locks, semaphores and wake-ups. Locks are tried first, and traced only when that
 * fails, so that an uncontended lock costs no clock read. A try that succeeds, or fails otherwise
 * than by being busy, does exactly what the lock function would have done, for every kind of mutex
 * (recursive, robust, priority-inheriting...); "busy" covers the rest (including an error-checking
 * mutex that the caller holds), and the real function decides.
 *
 * Where another library interposes the lock function but not the try function, nothing is tried,
 * because that would bypass it.
 */
#include <pthread.h>
#include <semaphore.h>
#include <sys/syscall.h>
#include <time.h>

#include "inject/osrt.h"

typedef int try_fn(void *);

/*
 * glibc (from 2.32) reports when there is only one thread, and its lock functions then use no
 * locked instruction; its try functions still would. A free mutex that is not shared between
 * processes cannot be contended then, so it is locked directly. The fields used are those that
 * static initialisers are compiled to.
 */
#define MUTEX_SHARED 0x80
static const char many_threads;
static const char *one_thread = &many_threads;

static inline bool lock_cannot_wait(const pthread_mutex_t *mutex)
{
	return *one_thread && !mutex->__data.__lock && !(mutex->__data.__kind & MUTEX_SHARED);
}

static int never_waits(void *lock)
{
	(void)lock;
	return EBUSY;
}

/* Used before the constructor has run, and permanently if trying is not possible. */
static struct {
	try_fn *mutex, *mutex_timed, *mutex_clock;
	try_fn *read, *write, *read_timed, *write_timed, *read_clock, *write_clock;
	try_fn *spin, *sem, *sem_timed, *sem_clock;
	void (*test_cancel)(void);
} attempt = {never_waits, never_waits, never_waits, never_waits, never_waits,
	     never_waits, never_waits, never_waits, never_waits, never_waits,
	     never_waits, never_waits, never_waits, NULL};

/*
 * A lock contains the number of its holder in fields private to glibc. They are used only if a lock
 * that this thread takes at start shows the thread's number there. Read without any lock, so only a
 * hint: the holder may change at any moment.
 */
static bool mutex_tells, rwlock_tells;

static uint32_t mutex_holder(const pthread_mutex_t *mutex)
{
	return mutex_tells ? (uint32_t)__atomic_load_n(&mutex->__data.__owner, __ATOMIC_RELAXED)
			   : 0;
}

static uint32_t rwlock_holder(const pthread_rwlock_t *l)
{
	return rwlock_tells ? (uint32_t)__atomic_load_n(&l->__data.__cur_writer, __ATOMIC_RELAXED)
			    : 0;
}

static uint32_t no_holder(const void *lock)
{
	(void)lock;
	return 0;
}

static void learn_holders(void)
{
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
	int (*lock)(pthread_mutex_t *) = ws_osrt_find_function("pthread_mutex_lock"),
				    (*unlock)(pthread_mutex_t *) =
					    ws_osrt_find_function("pthread_mutex_unlock");
	int (*write)(pthread_rwlock_t *) = ws_osrt_find_function("pthread_rwlock_wrlock"),
				      (*release)(pthread_rwlock_t *) =
					      ws_osrt_find_function("pthread_rwlock_unlock");
	int tid = (int)ws_raw_syscall(SYS_gettid, 0, 0, 0, 0, 0, 0);

	if (lock && unlock && ws_osrt_is_same_library("pthread_mutex_lock", "pthread_create") &&
	    !lock(&mutex)) {
		mutex_tells = mutex.__data.__owner == tid;
		unlock(&mutex);
		mutex_tells = mutex_tells && !mutex.__data.__owner;
	}
	if (write && release &&
	    ws_osrt_is_same_library("pthread_rwlock_wrlock", "pthread_create") && !write(&rwlock)) {
		rwlock_tells = rwlock.__data.__cur_writer == tid;
		release(&rwlock);
		rwlock_tells = rwlock_tells && !rwlock.__data.__cur_writer;
	}
}

static try_fn *choose_wait(const char *lock, const char *try_name)
{
	return ws_osrt_is_same_library(lock, try_name) ? (try_fn *)ws_osrt_find_function(try_name)
						       : never_waits;
}

void ws_osrt_init_locks(void)
{
	const char *one = ws_osrt_find_first_function("__libc_single_threaded");

	if (one)
		one_thread = one;
	learn_holders();
	attempt.mutex = choose_wait("pthread_mutex_lock", "pthread_mutex_trylock");
	attempt.mutex_timed = choose_wait("pthread_mutex_timedlock", "pthread_mutex_trylock");
	attempt.mutex_clock = choose_wait("pthread_mutex_clocklock", "pthread_mutex_trylock");
	attempt.read = choose_wait("pthread_rwlock_rdlock", "pthread_rwlock_tryrdlock");
	attempt.write = choose_wait("pthread_rwlock_wrlock", "pthread_rwlock_trywrlock");
	attempt.read_timed = choose_wait("pthread_rwlock_timedrdlock", "pthread_rwlock_tryrdlock");
	attempt.write_timed = choose_wait("pthread_rwlock_timedwrlock", "pthread_rwlock_trywrlock");
	attempt.read_clock = choose_wait("pthread_rwlock_clockrdlock", "pthread_rwlock_tryrdlock");
	attempt.write_clock = choose_wait("pthread_rwlock_clockwrlock", "pthread_rwlock_trywrlock");
	attempt.spin = choose_wait("pthread_spin_lock", "pthread_spin_trylock");
	attempt.test_cancel = (void (*)(void))ws_osrt_find_function("pthread_testcancel");
	if (!attempt.test_cancel)
		return; /* waiting on a semaphore is a cancellation point even when it need not wait
			 */
	attempt.sem = choose_wait("sem_wait", "sem_trywait");
	attempt.sem_timed = choose_wait("sem_timedwait", "sem_trywait");
	attempt.sem_clock = choose_wait("sem_clockwait", "sem_trywait");
}

/* The C library refuses a bad deadline or clock even if it need not wait: then nothing is tried. */
static inline bool is_valid_deadline(const struct timespec *time)
{
	return time && (unsigned long)time->tv_nsec < 1000000000ul;
}

static inline bool is_valid_clock(clockid_t c, const struct timespec *time)
{
	return (c == CLOCK_REALTIME || c == CLOCK_MONOTONIC) && is_valid_deadline(time);
}

#define LOCK(symbol, params, lock, args, possible, try_it, who)                            \
	WS_EXPORT int symbol params;                                                       \
	static WS_NOINLINE int wait_##symbol params                                        \
	{                                                                                  \
		WS_OSRT_BODY_HELD(WS_OSRT_##symbol, int, WS_OSRT_REAL(symbol), args, lock, \
				  who((void *)lock));                                      \
	}                                                                                  \
	int symbol params                                                                  \
	{                                                                                  \
		if (possible) {                                                            \
			int r = attempt.try_it((void *)lock);                              \
                                                                                           \
			if (ws_likely(r != EBUSY))                                         \
				return r;                                                  \
		}                                                                          \
		return wait_##symbol args;                                                 \
	}

WS_EXPORT int pthread_mutex_lock(pthread_mutex_t *lock);
static WS_NOINLINE int wait_for_mutex(pthread_mutex_t *lock)
{
	WS_OSRT_BODY_HELD(WS_OSRT_pthread_mutex_lock, int, WS_OSRT_REAL(pthread_mutex_lock), (lock),
			  lock, mutex_holder(lock));
}

int pthread_mutex_lock(pthread_mutex_t *lock)
{
	int r;

	if (lock_cannot_wait(lock))
		return WS_OSRT_REAL(pthread_mutex_lock)(lock);
	r = attempt.mutex(lock);
	return ws_likely(r != EBUSY) ? r : wait_for_mutex(lock);
}

LOCK(pthread_mutex_timedlock, (pthread_mutex_t * lock, const struct timespec *until), lock,
     (lock, until), is_valid_deadline(until), mutex_timed, mutex_holder)
LOCK(pthread_mutex_clocklock,
     (pthread_mutex_t * lock, clockid_t clock, const struct timespec *until), lock,
     (lock, clock, until), is_valid_clock(clock, until), mutex_clock, mutex_holder)
LOCK(pthread_rwlock_rdlock, (pthread_rwlock_t * lock), lock, (lock), true, read, rwlock_holder)
LOCK(pthread_rwlock_wrlock, (pthread_rwlock_t * lock), lock, (lock), true, write, rwlock_holder)
LOCK(pthread_rwlock_timedrdlock, (pthread_rwlock_t * lock, const struct timespec *until), lock,
     (lock, until), is_valid_deadline(until), read_timed, rwlock_holder)
LOCK(pthread_rwlock_timedwrlock, (pthread_rwlock_t * lock, const struct timespec *until), lock,
     (lock, until), is_valid_deadline(until), write_timed, rwlock_holder)
LOCK(pthread_rwlock_clockrdlock,
     (pthread_rwlock_t * lock, clockid_t clock, const struct timespec *until), lock,
     (lock, clock, until), is_valid_clock(clock, until), read_clock, rwlock_holder)
LOCK(pthread_rwlock_clockwrlock,
     (pthread_rwlock_t * lock, clockid_t clock, const struct timespec *until), lock,
     (lock, clock, until), is_valid_clock(clock, until), write_clock, rwlock_holder)
LOCK(pthread_spin_lock, (pthread_spinlock_t * lock), lock, (lock), true, spin, no_holder)

/* Semaphores report errors by errno, and waiting for one is a cancellation point. */
static inline bool try_semaphore(try_fn *attempt_fn, sem_t *sem)
{
	int error = errno;

	if (attempt_fn == never_waits)
		return false;
	attempt.test_cancel();
	if (ws_likely(!attempt_fn(sem)))
		return true;
	errno = error;
	return false;
}

#define SEMAPHORE(symbol, params, args, possible, try_it)                             \
	WS_EXPORT int symbol params;                                                  \
	static WS_NOINLINE int wait_##symbol params                                   \
	{                                                                             \
		WS_OSRT_BODY(WS_OSRT_##symbol, int, WS_OSRT_REAL(symbol), args, sem); \
	}                                                                             \
	int symbol params                                                             \
	{                                                                             \
		if ((possible) && try_semaphore(attempt.try_it, sem))                 \
			return 0;                                                     \
		return wait_##symbol args;                                            \
	}

SEMAPHORE(sem_wait, (sem_t * sem), (sem), true, sem)
SEMAPHORE(sem_timedwait, (sem_t * sem, const struct timespec *until), (sem, until),
	  is_valid_deadline(until), sem_timed)
SEMAPHORE(sem_clockwait, (sem_t * sem, clockid_t clock, const struct timespec *until),
	  (sem, clock, until), is_valid_clock(clock, until), sem_clock)

/*
 * Waking nobody is common and costs the C library two instructions: it looks at the count of
 * waiters in the upper bits of
 * __wrefs, and so do we. (Were that word ever to mean something else, too much or too little would
 * be timed.)
 */
static inline bool nobody_waits(const pthread_cond_t *c)
{
	return !(__atomic_load_n(&c->__data.__wrefs, __ATOMIC_RELAXED) >> 3);
}

/*
 * Who wakes another thread usually holds the mutex that the other needs next, and where threads
 * crowd, a few dozen nanoseconds more of holding it send many more of them to sleep: the two
 * readings of the clock made such programs take half as long again. So of a thread's wake-ups the
 * first of each period are timed, and the others counted. The period comes from the recorder, as
 * asking how late it is would cost what is saved.
 */
static inline bool is_wake_left_out(void)
{
	struct ws_thread *thread = ws_osrt_thread();
	uint64_t period;

	if (!thread || !ws_rt->arena->period_wakes)
		return false;
	period = atomic_load_explicit(&ws_rt->arena->period, memory_order_relaxed);
	if (thread->wake_period != period) {
		thread->wake_period = period;
		thread->wakes = 0;
	}
	if (thread->wakes < ws_rt->arena->period_wakes) {
		thread->wakes++;
		return false;
	}
	ws_rt_count_loss(thread, WS_LOSS_WAKE, 1);
	return true;
}

#define WAKE(symbol)                                                                     \
	WS_EXPORT int symbol(pthread_cond_t *cond);                                      \
	static __attribute__((noinline)) int timed_##symbol(pthread_cond_t *cond)        \
	{                                                                                \
		WS_OSRT_BODY(WS_OSRT_##symbol, int, WS_OSRT_REAL(symbol), (cond), cond); \
	}                                                                                \
	int symbol(pthread_cond_t *cond)                                                 \
	{                                                                                \
		if (nobody_waits(cond) || is_wake_left_out())                            \
			return WS_OSRT_REAL(symbol)(cond);                               \
		return timed_##symbol(cond);                                             \
	}

WAKE(pthread_cond_signal)
WAKE(pthread_cond_broadcast)

/*
 * A try never waits, but interpreters try each of their locks first: Python's queues four times an
 * item, most of them under another lock. So tries are timed only where all calls are wanted.
 */
static inline bool is_try_left_out(void)
{
	const struct ws_arena *arena = ws_rt->arena;

	return ws_likely(arena != NULL) && arena->period_wakes;
}

#define TRY(symbol, type)                                                                \
	WS_EXPORT int symbol(type *lock);                                                \
	static WS_NOINLINE int timed_##symbol(type *lock)                                \
	{                                                                                \
		WS_OSRT_BODY(WS_OSRT_##symbol, int, WS_OSRT_REAL(symbol), (lock), lock); \
	}                                                                                \
	int symbol(type *lock)                                                           \
	{                                                                                \
		return ws_likely(is_try_left_out()) ? WS_OSRT_REAL(symbol)(lock)         \
						    : timed_##symbol(lock);              \
	}

TRY(pthread_mutex_trylock, pthread_mutex_t)
TRY(pthread_rwlock_tryrdlock, pthread_rwlock_t)
TRY(pthread_rwlock_trywrlock, pthread_rwlock_t)
TRY(pthread_spin_trylock, pthread_spinlock_t)
TRY(sem_trywait, sem_t)
