/*
 * osrt.h - the building blocks of the wrappers of the OS-runtime trace; private to
 * src/inject/osrt*.c.
 *
 * A wrapper reads the clock, notes the call in the thread's ring (struct ws_open_call), calls the
 * function behind it, reads the clock again, and writes a record when the call lasted long enough.
 * Nothing is allocated, no lock is taken and errno is left alone, so that a wrapper can be called
 * inside malloc, in signal handlers and in forked children.
 *
 * A call can also end without returning: by a longjmp out of a signal handler, by cancellation, by
 * an exception. A longjmp leaves the call's note behind, which the thread's next call recognises by
 * its position on the stack and by the missing frame. For the other two each wrapper has a
 * personality routine of ours, which the unwinder calls when it removes the wrapper's frame and
 * which ends the call there. The routine uses nothing of the unwinder, so that it works with
 * whichever unwinder the program has, and the hook needs no libgcc.
 */
#ifndef WS_OSRT_H
#define WS_OSRT_H

#include <errno.h>

#include "ring/osrt_record.h"
#include "inject/rt.h"

#define WS_HIDDEN __attribute__((visibility("hidden")))

/* ---- the functions behind ours (osrt_next.c) ---- */

/* Filled at start; NULL for a function that was not found then. */
extern void *ws_osrt_real[WS_OSRT_COUNT] WS_HIDDEN;
/* Look it up; if no library has it, returns a function that fails with ENOSYS. Never NULL. No
 * allocation, no lock. */
void *ws_osrt_resolve_function(unsigned fn) WS_HIDDEN WS_NOINLINE;
void ws_osrt_resolve_all(void) WS_HIDDEN;
/* Next definition of `name` behind this library; NULL when there is none. */
void *ws_osrt_find_function(const char *name) WS_HIDDEN;
/* The definition of `name` that everybody uses, variables included. */
void *ws_osrt_find_first_function(const char *name) WS_HIDDEN;
/* This library's own definition of `name`; NULL when it has none. */
void *ws_osrt_find_own_function(const char *name) WS_HIDDEN;
/* Whether both names come from one library, or both from the C library. */
int ws_osrt_is_same_library(const char *a, const char *b) WS_HIDDEN;

static inline void *ws_osrt_real_of(unsigned fn)
{
	void *memory = ws_osrt_real[fn];

	return ws_likely(memory != NULL) ? memory : ws_osrt_resolve_function(fn);
}

/* ---- paths behind descriptors (osrt_path.c) ---- */

/* A path as records hold it; 0 for none. */
struct ws_osrt_path {
	uint32_t number;
	bool local; /* a local text of the ring */
};

/* The path of a descriptor. Call this before ws_rt_enter, and pass its result to _done between
 * enter and leave. */
#define WS_OSRT_PATH_ROOM 512
struct ws_osrt_found {
	uint64_t dev, ino, born;
	uint32_t handle; /* known already */
	bool stream;	 /* a pipe or a socket: it has no offsets */
	int fd;
	long len; /* of the path if it had to be looked up; otherwise 0 */
	char buf[WS_OSRT_PATH_ROOM];
};
void ws_osrt_find_path(int fd, struct ws_osrt_found *found) WS_HIDDEN;
struct ws_osrt_path ws_osrt_release_path(struct ws_thread *thread,
					 struct ws_osrt_found *found) WS_HIDDEN;

/* ---- calls (osrt.c) ---- */

struct ws_call { /* on the wrapper's stack */
	struct ws_ring *ring;
	uint64_t start;
	uint32_t depth;
	volatile uint32_t mark; /* low half of `start`: unchanged as long as the frame exists */
	uint32_t holder;	/* thread that held the lock when the wait began; 0 for none */
};

struct ws_thread *ws_osrt_enter_slow(void) WS_HIDDEN WS_NOINLINE;
uint32_t ws_osrt_is_still_open(struct ws_ring *ring, uint32_t depth,
			       uintptr_t stack) WS_HIDDEN WS_NOINLINE;

/* Write the record of a call and remove its note; keeps errno, and reads it if `result` says that
 * the call failed. */
void ws_osrt_record_call(unsigned fn, const struct ws_call *call, uint64_t end, int64_t result,
			 uint64_t value) WS_HIDDEN WS_NOINLINE;
/* The same with the path of its descriptor found beforehand. */
void ws_osrt_record_call_of(unsigned fn, const struct ws_call *call, uint64_t end, int64_t result,
			    struct ws_osrt_found *found) WS_HIDDEN WS_NOINLINE;

/* The thread's state if its calls should be recorded now, otherwise NULL. */
static inline struct ws_thread *ws_osrt_thread(void)
{
	struct ws_thread *thread = ws_self;

	if (!ws_rt_is_collecting() || ws_unlikely(!(ws_rt->features & WS_FEATURE_OSRT)))
		return NULL;
	if (ws_unlikely(!thread || !thread->generation || thread->paused))
		return ws_osrt_enter_slow();
	return thread;
}

static inline bool ws_osrt_begin(struct ws_call *call, unsigned fn, uint64_t object)
{
	struct ws_thread *thread = ws_osrt_thread();
	uint32_t depth;

	if (!thread)
		return false;
	call->ring = thread->nest[0].ring;
	if (ws_unlikely(!call->ring)) /* a handler forked just now, and this is the child */
		return false;
	depth = atomic_load_explicit(&call->ring->calls_open, memory_order_relaxed);
	if (ws_unlikely(depth))
		depth = ws_osrt_is_still_open(call->ring, depth, (uintptr_t)&call->mark);
	call->depth = depth;
	call->start = ws_rt_read_ticks();
	call->mark = (uint32_t)call->start;
	call->holder = 0;
	if (ws_likely(depth < WS_OPEN_CALLS)) {
		struct ws_open_call *open_call = &call->ring->calls[depth];

		open_call->start = call->start;
		open_call->object = object;
		open_call->stack = (uintptr_t)&call->mark;
		open_call->function = fn;
	}
	atomic_store_explicit(&call->ring->calls_open, depth + 1, memory_order_release);
	return true;
}

static inline void ws_osrt_pop(const struct ws_call *call)
{
	atomic_store_explicit(&call->ring->calls_open, call->depth, memory_order_release);
}

/*
 * The call is over. True when it should be recorded; its note is then removed only after that, so
 * that a kill in between loses nothing. False in a child that was forked inside the call, which has
 * a different state.
 */
static inline bool ws_osrt_over(const struct ws_call *call, uint64_t end)
{
	struct ws_thread *thread = ws_self;

	if (ws_unlikely(!thread || thread->nest[0].ring != call->ring))
		return false;
	if (ws_unlikely(end - call->start >= ws_rt->arena->osrt_threshold))
		return true;
	ws_osrt_pop(call);
	return false;
}

static inline void ws_osrt_end(const struct ws_call *call, unsigned fn, int64_t result,
			       uint64_t value)
{
	uint64_t end = ws_rt_read_ticks();

	if (ws_osrt_over(call, end))
		ws_osrt_record_call(fn, call, end, result, value);
}

/* What a thread does from then on depends on some calls: they are told, with their stack, however
 * short they are. */
static inline bool ws_osrt_is_lasting(unsigned fn)
{
	return fn == WS_OSRT_pthread_setaffinity_np || fn == WS_OSRT_sched_setaffinity;
}

static inline void ws_osrt_end_lasting(const struct ws_call *call, unsigned fn, int64_t result)
{
	struct ws_thread *thread = ws_self;

	if (thread && thread->nest[0].ring == call->ring)
		ws_osrt_record_call(fn, call, ws_rt_read_ticks(), result, 0);
}

/* Placed next to the call in each wrapper: makes the unwinder call ws_osrt_record_unwound for this
 * frame (pcrel, 4 bytes). */
#define WS_OSRT_UNWINDABLE() __asm__ volatile(".cfi_personality 0x1b, ws_osrt_record_unwound")

#define WS_OSRT_WORD(value) ((uint64_t)(uintptr_t)(value))

/* Body of a wrapper whose function is `real`. */
#define WS_OSRT_BODY(fn, ret, real, args, value)                            \
	struct ws_call ws_call;                                             \
	ret ws_result;                                                      \
                                                                            \
	if (!ws_osrt_begin(&ws_call, fn, WS_OSRT_WORD(value)))              \
		return real args;                                           \
	WS_OSRT_UNWINDABLE();                                               \
	ws_result = real args;                                              \
	ws_osrt_end(&ws_call, fn, (int64_t)ws_result, WS_OSRT_WORD(value)); \
	return ws_result

/* The same for a lock that is held by thread `who`. */
#define WS_OSRT_BODY_HELD(fn, ret, real, args, value, who)                  \
	struct ws_call ws_call;                                             \
	ret ws_result;                                                      \
                                                                            \
	if (!ws_osrt_begin(&ws_call, fn, WS_OSRT_WORD(value)))              \
		return real args;                                           \
	ws_call.holder = who;                                               \
	WS_OSRT_UNWINDABLE();                                               \
	ws_result = real args;                                              \
	ws_osrt_end(&ws_call, fn, (int64_t)ws_result, WS_OSRT_WORD(value)); \
	return ws_result

#define WS_OSRT_REAL(symbol) ((__typeof__(&symbol))ws_osrt_real_of(WS_OSRT_##symbol))

/* ---- prepared at start ---- */

void ws_osrt_init_locks(void) WS_HIDDEN;

#endif
