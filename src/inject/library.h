/*
 * library.h - the building blocks of the wrappers of a library's functions.
 * scripts/make-libraries.py writes the wrappers from src/inject/libraries/NAME.calls; each library
 * has a hook library of its own, which is preloaded only when its trace was asked for.
 *
 * A wrapper reads the clock, calls the function behind it, reads the clock again and writes one
 * record with the values that the declaration keeps. A call inside another wrapped call of the same
 * library (a collective made of messages, C called by Fortran) is part of that call and makes no
 * record. errno is left alone.
 */
#ifndef WS_INJECT_LIBRARY_H
#define WS_INJECT_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/compiler.h"
#include "inject/rt.h"
#include "ring/library_record.h"

#pragma GCC visibility push(hidden)

/* ---- made from the declaration ---- */

/* One entry per function, in the order of the declaration, each followed by the entry of its twin.
 */
struct ws_library_behind {
	const char *name; /* NULL: there is no twin */
	void *own;	  /* the wrapper */
	void *_Atomic real;
};
extern struct ws_library_behind ws_library_behinds[];
/* The entries with names, in the order of strcmp. */
extern const uint16_t ws_library_sorted[];
extern const unsigned ws_library_sorted_count;
extern const unsigned ws_library_number; /* enum ws_library */
/* The second entry of a function is its wrapper for addresses that the library itself tells
 * (eglGetProcAddress); only files with names that begin like these have the first. */
extern const bool ws_library_pointers;
extern const char *const ws_library_files[]; /* ends with NULL */
/* Called when a function of the library has been found, before it is first called; or NULL. Threads
 * may call it at the same time. */
extern void (*const ws_library_prepare)(void);

/* ---- library.c ---- */

struct ws_library_call {     /* on the wrapper's stack */
	uint64_t start, end; /* `start` is unchanged as long as the frame exists */
	struct ws_ring *ring;
	unsigned function;
};

/* The entry of a function; NULL when it has no wrapper. */
struct ws_library_behind *ws_library_find_wrapped(const char *name);
/* In layers: the function behind entry `i` for an object whose functions the loader has told. */
void *ws_library_find_next(const void *object, unsigned i);
/* The function behind entry `i`; NULL if no library defines it. */
void *ws_library_resolve(unsigned i) WS_NOINLINE;
/* The wrapper for a function that the library says is at `theirs`; `theirs` where there is none. */
void *ws_library_wrap_pointer(const char *name, void *theirs);
/* A function of the libraries behind this one, by name; NULL when there is none. */
void *ws_library_find(const char *name);
/* The same, looked up once and then kept in *known. */
void *ws_library_find_once(void *_Atomic *known, const char *name);
/* Whether the function is in a file whose name has this prefix. */
bool ws_library_is_in(const char *name, const char *file);
/* A variable, which may have been copied into the program. */
void *ws_library_find_variable(const char *name);
/* Whether this thread is inside a wrapped call. */
bool ws_library_is_inside(void);
/* The same of the call of the note, which may have been abandoned; `call` is the next one. */
bool ws_library_is_nested(struct ws_open_library_call *note,
			  const struct ws_library_call *call) WS_NOINLINE;
struct ws_ring *ws_library_find_ring(void) WS_NOINLINE;

/* What ws_library_reserve does where the short way does not do. */
struct ws_nest *ws_library_reserve_slowly(const struct ws_library_call *call,
					  size_t bytes) WS_NOINLINE;
/* The handle of a text that a record keeps; 0 for NULL. Before ws_library_reserve. */
int64_t ws_library_keep_text(const char *text);
/* Set where calls are wrapped for other reasons than to be recorded. */
extern bool ws_library_quiet;
/* Called before a function of a declaration with a mark; not while nothing is collected. */
void ws_library_note_mark(unsigned mark, unsigned function);
/* The call should not be recorded after all. */
void ws_library_drop(const struct ws_library_call *call);
/* Write a row of a table declared by `rows`: the values of its columns, except those of kind G and
 * its time, which is now. Works while nothing is collected, too. */
void ws_library_write_row(enum ws_library_table table, const int64_t *kept, unsigned count,
			  uint32_t texts);
/* The handle of a text for records; 0 when there is no memory for it. */
uint32_t ws_library_define_text(const char *text, size_t length);
/* Write a span of a table declared by `spans`; `kept` has the values of its columns that a span
 * must say itself. */
struct ws_library_span {
	enum ws_library_table table;
	uint32_t name, track; /* texts; without a track it is on the thread's own row */
	uint64_t anchor;      /* ticks that start and end count from, in ns; 0: they are ticks */
	int64_t start, end;
	const int64_t *kept;
	unsigned count;
};
void ws_library_write_span(const struct ws_library_span *span);
/* Record that a call has begun or ended work; see struct ws_rec_library_work. Must come after the
 * call's record. */
void ws_library_write_work(const struct ws_library_call *call, bool begins, const uint64_t *work,
			   unsigned count);

/* ---- library_bunch.c, of libraries that are declared dense ---- */

/* Whether the bunch, which is not open for this call, can be made so; false: the call is not
 * collected. */
bool ws_library_make_room(const struct ws_library_call *call, struct ws_ring *ring,
			  bool waits) WS_APART;
/* Write the bunch, whose last call ended by `end`. */
void ws_library_close_bunch(struct ws_library_bunch *bunch, uint64_t end) WS_NOINLINE;
/* Add a call that has ended to its bunch; the first word of its shape is `head`. */
void ws_library_collect(struct ws_library_bunch *bunch, int64_t head, const int64_t *kept) WS_APART;
/* A number of calls have been recorded by themselves; the last is this one. */
void ws_library_judge_pace(const struct ws_library_call *call) WS_NOINLINE;

static inline void *ws_library_find_behind(unsigned i)
{
	void *real = atomic_load_explicit(&ws_library_behinds[i].real, memory_order_acquire);

	return ws_likely(real != NULL) ? real : ws_library_resolve(i);
}

static inline int64_t ws_library_real(double value)
{
	int64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

/* The slot of this library in struct ws_ring. */
static inline struct ws_open_library_call *ws_library_slot(struct ws_ring *ring)
{
	return &ring->library_calls[ws_library_number % WS_OPEN_LIBRARY_CALLS];
}

/*
 * False if the call should not be recorded. What a message waits for is what its sender does before
 * the library's function and its receiver after it: both is kept short, and calls no function.
 */
static WS_ALWAYS_INLINE bool ws_library_begin(struct ws_library_call *call, unsigned function)
{
	struct ws_thread *thread = ws_self;
	struct ws_open_library_call *note;

	if (!ws_rt_is_collecting())
		return false;
	if (ws_likely(thread && thread->generation && !thread->paused)) {
		call->ring = thread->nest[0].ring;
		/* The recorder was the last to read what the record will overwrite. It comes while
		 * the library works. */
		ws_fetch_to_write(thread->nest[0].cur + WS_CACHE_LINE);
		ws_fetch_to_write(thread->nest[0].cur + 2 * WS_CACHE_LINE);
	} else if (!(call->ring = ws_library_find_ring())) {
		return false;
	}
	note = ws_library_slot(call->ring);
	if (ws_unlikely(note->start) && ws_library_is_nested(note, call))
		return false;
	call->function = function;
	note->function = function;
	note->stack = (uintptr_t)call;
	call->start = ws_rt_read_ticks();
#ifdef WS_LIBRARY_IS_DENSE
	if (ws_unlikely(atomic_load_explicit(&call->ring->bunch.calls, memory_order_relaxed)))
		ws_library_close_bunch(&call->ring->bunch, call->start);
#endif
	__atomic_store_n(&note->start, call->start, __ATOMIC_RELEASE);
	return true;
}

static WS_ALWAYS_INLINE void ws_library_end(struct ws_library_call *call)
{
	call->end = ws_rt_read_ticks();
}

/*
 * Where the record of a call that keeps `count` values goes; NULL if it is not to be written, or
 * there is no room. Afterwards, only the values may be stored until ws_library_publish.
 */
static WS_ALWAYS_INLINE struct ws_nest *ws_library_reserve(const struct ws_library_call *call,
							   unsigned count)
{
	size_t bytes = sizeof(struct ws_rec_library) + count * sizeof(int64_t);
	struct ws_thread *thread = ws_self;

	if (ws_unlikely(!thread || thread->nest[0].ring != call->ring ||
			thread->busy | thread->paused || ws_library_quiet))
		return ws_library_reserve_slowly(call, bytes);
	thread->busy = 1;
	__asm__ volatile("" ::: "memory");
	if (ws_unlikely(!thread->generation || /* see ws_rt_enter */
			(size_t)(thread->nest[0].end - thread->nest[0].cur) < bytes)) {
		thread->busy = 0;
		return ws_library_reserve_slowly(call, bytes);
	}
	return &thread->nest[0];
}

static inline struct ws_rec_library *ws_library_record(const struct ws_nest *nest)
{
	return (void *)nest->cur;
}

/* Publish the record. The note is cleared only after that, so that a kill in between loses
 * nothing. */
static WS_ALWAYS_INLINE void ws_library_publish(const struct ws_library_call *call,
						struct ws_nest *nest, struct ws_rec_library *record,
						unsigned function, unsigned count)
{
	size_t bytes = sizeof(*record) + count * sizeof(*record->kept);

	record->rec = ws_rec_head(WS_REC_LIBRARY, bytes, (uint16_t)function, count);
	record->start = call->start;
	record->end = call->end;
	nest->cur = (char *)record + bytes;
	atomic_store_explicit(&nest->chunk->used,
			      (uint32_t)((char *)record + bytes - (char *)nest->chunk),
			      memory_order_release);
	__atomic_store_n(&ws_library_slot(call->ring)->start, 0, __ATOMIC_RELEASE);
	ws_rt_leave(ws_self);
}

/* ---- calls that may be collected ---- */

#define WS_PACE_CALLS 64u
/* The calls of a full bunch. Its first call is the one whose duration is known: a number that is
 * not a multiple of the period of what a program repeats lets each of its calls be the first. */
#define WS_BUNCH_FULL 61u

static inline uint64_t ws_library_read_heartbeat(const struct ws_arena *arena)
{
	return atomic_load_explicit(&arena->heartbeat, memory_order_relaxed);
}

/* Where a call is collected: kept in registers, unlike struct ws_library_call. */
struct ws_library_place {
	const struct ws_arena *arena;
	const struct ws_thread *thread;
	struct ws_ring *ring;
};

/*
 * ws_library_begin where calls may be collected: then the clock is seldom read. False if this one
 * is not to be; then ws_library_begin decides about it. `waits`: the call waits for others, and has
 * the time to do what was left to do.
 */
static WS_ALWAYS_INLINE bool ws_library_begin_collected(struct ws_library_call *call,
							struct ws_library_place *place,
							unsigned function, bool waits)
{
	struct ws_arena *arena = ws_rt->arena;
	struct ws_thread *thread = ws_self;
	struct ws_open_library_call *note;
	struct ws_library_bunch *bunch;
	struct ws_ring *ring;

	if (ws_unlikely(!thread || thread->paused || !(ring = thread->nest[0].ring) || !arena))
		return false;
	note = ws_library_slot(ring);
	bunch = &ring->bunch;
	if (ws_unlikely(bunch->open != ws_library_read_heartbeat(arena) || note->start)) {
		if (!bunch->dense || !ws_library_make_room(call, ring, waits))
			return false;
	} else if (ws_unlikely(!atomic_load_explicit(&arena->collecting, memory_order_relaxed))) {
		return false;
	} else if (waits &&
		   ws_unlikely(atomic_load_explicit(&bunch->pending, memory_order_relaxed)) &&
		   !ws_library_make_room(call, ring, waits)) {
		return false;
	}
	*place = (struct ws_library_place){arena, thread, ring};
	note->function = function;
	note->stack = (uintptr_t)call;
	call->start = bunch->start;
	__atomic_store_n(&note->start, call->start, __ATOMIC_RELEASE);
	return true;
}

/* The first word of a shape. */
static inline int64_t ws_library_shape(unsigned function, unsigned count)
{
	return (int64_t)((uint64_t)function << 32 | count);
}

/*
 * A call that waits, and after which others wait for this thread, leaves its values pending: the
 * next send, once it has sent, or the next call that waits does the rest. Here they go, from when
 * the call has begun; no other call is pending then.
 */
static WS_ALWAYS_INLINE int64_t *ws_library_prepare_pending(struct ws_library_place place,
							    int64_t head)
{
	place.ring->bunch.pending_word[0] = head;
	return place.ring->bunch.pending_word + 1;
}

/* Whether the call can be collected: in a child forked inside it the thread has another ring, or
 * none yet. */
static WS_ALWAYS_INLINE bool ws_library_has_bunch(struct ws_library_place place)
{
	return ws_likely(place.thread->nest[0].ring == place.ring);
}

static WS_ALWAYS_INLINE void ws_library_leave_pending(struct ws_library_place place, int64_t head)
{
	struct ws_library_bunch *bunch = &place.ring->bunch;
	uint32_t calls = atomic_load_explicit(&bunch->calls, memory_order_relaxed);

	if (ws_unlikely(bunch->open != ws_library_read_heartbeat(place.arena))) {
		ws_library_collect(bunch, head, bunch->pending_word + 1);
		return;
	}
	atomic_store_explicit(&bunch->pending, calls << WS_PENDING_SHIFT | (1 + (uint8_t)head),
			      memory_order_release);
	__atomic_store_n(&ws_library_slot(place.ring)->start, 0, __ATOMIC_RELEASE);
}

static WS_ALWAYS_INLINE void ws_library_note_pace(const struct ws_library_call *call)
{
	struct ws_library_bunch *bunch = &call->ring->bunch;

	if (ws_unlikely(++bunch->since_mark >= WS_PACE_CALLS))
		ws_library_judge_pace(call);
}

#pragma GCC visibility pop
#endif
