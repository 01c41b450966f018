/*
 * rt.h - the runtime that all hooks in a process share: who am I, am I recording, write a record,
 * define a string.
 *
 * These rules hold for everything in inject/: no malloc, no stdio, no lock that the program could
 * hold, no errno change, no call into an interposed function (system calls go through ws_sys_*),
 * safe in signal handlers, before main, at exit, in a forked child, on a 16 KiB stack. Nothing
 * prints and nothing exits. C library functions that neither allocate nor are interposed (memcpy,
 * strlen, memcmp, clock_gettime) are fine.
 *
 * A record is written like this:
 *
 *     struct ws_thread *t = ws_rt_enter();          // NULL: not recording here, do nothing
 *     if (t) {
 *             struct ws_rec_x *r = ws_rt_reserve(t, sizeof(*r), WS_LOSS_OTHER);
 *             if (r) { ... fill ...; ws_rt_commit(t, r, sizeof(*r)); }
 *             ws_rt_leave(t);
 *     }
 *
 * enter marks the thread busy, so that a signal handler that records in between gets a ring of its
 * own; between enter and leave do no more than a few stores. One ws_rt_enter may cover several
 * records.
 */
#ifndef WS_RT_H
#define WS_RT_H

#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>

#include "ring/record.h"
#include "ring/ring.h"

struct ws_string_slot { /* of the per-thread string cache */
	uint64_t hash;
	const char *pointer; /* the caller's pointer, last seen; the content is always verified */
	uint32_t handle, len;
};

/* The strings used last, by the caller's pointer: literals are recognised without measuring or
 * hashing them. */
struct ws_known_string {
	const char *pointer; /* the caller's */
	const char *bytes;   /* the definition's */
	uint32_t handle, len;
};
#define WS_KNOWN_STRINGS 16

#define WS_STRING_SLOTS 256	  /* to begin with */
#define WS_STRING_SLOTS_MORE 4096 /* once a thread has shown that it uses more names */

/*
 * Where a thread writes: one for the program proper, and further ones for signal handlers that
 * interrupt it between enter and leave. Each has its own ring and therefore its own open-range
 * stack: t->nest[t->busy - 1].ring, never NULL inside enter.
 */
struct ws_nest {
	char *cur, *end;	/* free space in the current chunk; both NULL: take the slow path */
	struct ws_chunk *chunk; /* current */
	struct ws_ring *ring;	/* shared part */
	uint64_t base;		/* of the current chunk */
	uint32_t texts;		/* local text numbers given so far */
	uint32_t repeats;	/* of the first: found too deep; of the sampler's: chunks taken */
};
#define WS_NESTS 4
#define WS_NEST_SAMPLER \
	(WS_NESTS -     \
	 1) /* shared with the sampler, which never runs while that deep a nest is open */

/* No page of any processor we run on is smaller. Code that must not reach into a page that may not
 * exist uses this size, since every larger page size is a multiple of it. */
#define WS_SMALLEST_PAGE 4096u

#define WS_PYTHON_THREAD_BYTES (192u << 10)

/*
 * Set in ws_thread.paused once the thread has made a child that runs on its thread-local storage
 * (clone with CLONE_VM, without CLONE_SETTLS): code that finds the state must check whose it is. It
 * makes every event of the thread take the slow path.
 */
#define WS_SHARED_THREAD (UINT32_C(1) << 31)

/*
 * A thread's private state. Lives in memory that a fork wipes (MADV_WIPEONFORK), so that in a
 * forked child the first record finds zeroes and takes the slow path, which gives the child its own
 * ring.
 */
struct ws_thread {
	struct ws_nest nest[WS_NESTS];
	_Alignas(8) uint32_t busy; /* how many ws_rt_enter are open: index + 1 of the nest in use */
	uint32_t paused; /* > 0: record nothing (a vfork child runs on this thread, or the runtime
			    itself is at work); WS_SHARED_THREAD beside that count */
	struct ws_ring *idle_ring; /* of the first nest, while its open stack is all there is of
				      open ranges; NULL: none yet, or see nvtx_deep */
	uint32_t tid;
	uintptr_t nest_stack[WS_NESTS]; /* where the stack stood at each nested enter */
	uint32_t generation;		/* of the process (ws_rt.generation) it was set up in */
	bool muted;			/* paused for good: see ws_rt_mute_thread */
	uint64_t vfork_start;		/* ticks; the thread waits for its vfork child */
	uint64_t yielded;		/* ticks; end of its last sched_yield that was recorded */
	uint64_t wake_period;		/* the arena's period of its last wake-up */
	uint32_t wakes;			/* recorded in that period */
	void *vfork_env; /* memory that the child took for its exec, to be freed when that has
			    succeeded, and its size */
	size_t vfork_env_bytes;
	uint32_t string_misses,
		string_lookups; /* for switching to a larger cache, then to inline texts */
	struct ws_string_slot *more_strings; /* the larger cache, or NULL */
	uint64_t nvtx_id,
		nvtx_id_end; /* start/end range ids set aside for this thread: next and limit */
	void *nvtx_deep;     /* levels beyond what the open stack holds; see inject/nvtx_stack.c */
	const void *capture; /* domain of the range that this thread has a collection begun with */
	int32_t capture_level; /* its level there */
	uint64_t cuda_call; /* start of the outermost CUDA call, session ns, where calls come from
			       callbacks; see inject/cuda_old.c */
	void *python;	    /* state of the Python hook: WS_PYTHON_THREAD_BYTES of it, or NULL; see
			       inject/python.h */
	uint32_t number; /* of this state among those of the process; 0 once a fork has wiped it */
	struct ws_known_string known[WS_KNOWN_STRINGS];
	struct ws_string_slot strings[WS_STRING_SLOTS];
};

/* Process-wide state, one per process whatever number of hook libraries is loaded; wiped by fork
 * likewise. */
struct ws_rt {
	struct ws_arena *arena; /* NULL: no session, everything is off */
	struct ws_process_home *home;
	uint32_t generation; /* counts images and forks; 0 means wiped */
	uint32_t features;   /* of the arena; 0 when off */
	uint32_t clock_mode;
};

WS_EXPORT extern struct ws_rt
	*ws_rt; /* never NULL; points to a dummy with arena == NULL when there is no session */
WS_EXPORT extern __thread struct ws_thread *ws_self __attribute__((tls_model("initial-exec")));

/*
 * Set by the CUDA hook while it records: how CUPTI numbers the device, context or stream that
 * `handle` is (`type`: enum ws_nvtx_cuda_resource). Numbers that it cannot tell stay as they are.
 */
struct ws_cuda_numbers {
	uint32_t device, context, stream;
};
#define WS_CUDA_NO_NUMBERS ((struct ws_cuda_numbers){UINT32_MAX, UINT32_MAX, UINT32_MAX})
WS_EXPORT extern void (*_Atomic ws_rt_cuda_numbers)(uint32_t type, uint64_t handle,
						    struct ws_cuda_numbers *out);

/* Set the process up from WARPSIGHT_SESSION; runs as a constructor and at any entry point that may
 * come before it. Idempotent. */
WS_EXPORT void ws_rt_init(void);

/*
 * Join the session whose arena is `path`, in a program that runs already and in no other session:
 * see late.c. False when the arena cannot be mapped, or another recorder has the process. Not while
 * it forks; by one thread at a time.
 */
WS_EXPORT bool ws_rt_join(const char *path);
/* The hooks were opened in a program that runs, not loaded with it: the functions behind ours are
 * those that the program uses. */
WS_EXPORT extern bool ws_rt_late;
/* Whether a live recorder has this process: one that was killed has left its arena unlocked. */
WS_EXPORT bool ws_rt_is_in_session(void);
/* Leave the session: the arena's memory is given back, and nothing more is recorded. */
WS_EXPORT void ws_rt_end_session(void);

/* Raw system calls: no errno, no interposition, no cancellation. Return -errno. */
WS_EXPORT long ws_raw_syscall(long nr, long a, long b, long c, long d, long e, long f);

/* The name of an NVTX domain by its number in ws_open; "" for the default one. */
WS_EXPORT const char *ws_nvtx_name_domain(uint32_t number);
/* An open start/end range of any thread. */
struct ws_nvtx_started {
	uint64_t id;
	uint32_t domain;
	char name[116]; /* cut where it is too long */
};
/* Those that are open while kernels are measured; returns how many there are, `most` at most. */
WS_EXPORT size_t ws_nvtx_list_started(struct ws_nvtx_started *out, size_t most);
/* Set by the kernel hook: called on the thread that has opened or closed a range, afterwards. */
WS_EXPORT extern void (*_Atomic ws_nvtx_changed)(void);

/* Cold paths. */
WS_EXPORT struct ws_thread *ws_rt_enter_slow(bool count);
WS_EXPORT void *ws_rt_reserve_slow(struct ws_thread *thread, size_t bytes, enum ws_loss_kind loss);

static inline uint64_t ws_rt_read_ticks(void)
{
	return ws_likely(ws_rt->clock_mode == WS_CLOCK_COUNTER) ? ws_read_counter()
								: ws_read_raw_ns();
}

/* In a process whose state a fork wiped (a child of a raw clone): sets it up and answers; false
 * without a session. */
WS_EXPORT bool ws_rt_is_collecting_slow(void);

/* Whether events are wanted now. False before a delayed start, after the end, and without a
 * session. */
static inline bool ws_rt_is_collecting(void)
{
	struct ws_arena *arena = ws_rt->arena;

	if (ws_unlikely(!arena))
		return ws_rt_is_collecting_slow();
	return atomic_load_explicit(&arena->collecting, memory_order_relaxed);
}

static inline bool ws_rt_is_paused(const struct ws_thread *thread)
{
	return (thread->paused & ~WS_SHARED_THREAD) != 0;
}

/* Neither in a hook nor paused: both counts are read at once, which is fast unless one of them was
 * written just before. */
static inline bool ws_rt_is_free(const struct ws_thread *thread)
{
	uint64_t both;

	memcpy(&both, &thread->busy, sizeof(both));
	return !both;
}
_Static_assert(offsetof(struct ws_thread, paused) == offsetof(struct ws_thread, busy) + 4,
	       "busy and paused are one word");

WS_EXPORT bool ws_rt_is_thread_of(const struct ws_thread *thread);

/* False in a child that runs on the thread-local storage of the thread whose state this is. */
static inline bool ws_rt_is_own_thread(const struct ws_thread *thread)
{
	return ws_likely(!(thread->paused & WS_SHARED_THREAD)) || ws_rt_is_thread_of(thread);
}

/*
 * Call this before the calling thread makes such a child, whose events are then not recorded, and
 * with false when no such child is left. Returns whether this changed anything.
 */
WS_EXPORT bool ws_rt_share_thread(bool on);

/* Begin writing on this thread; NULL when nothing can be recorded. Does not look at `collecting`.
 */
static inline struct ws_thread *ws_rt_enter(void)
{
	struct ws_thread *thread = ws_self;

	if (ws_unlikely(!thread || thread->busy | thread->paused))
		return ws_rt_enter_slow(true);
	thread->busy = 1;
	__asm__ volatile("" ::: "memory");
	if (ws_unlikely(!thread->generation)) { /* asked last: a handler may fork up to here, and
					      the child finds zeroes */
		thread->busy = 0;
		return ws_rt_enter_slow(true);
	}
	return thread;
}

/*
 * The same for the second half of an event (a pop): if there is no memory for the thread, there was
 * none for the first half either, and the loss has been counted.
 */
static inline struct ws_thread *ws_rt_enter_again(void)
{
	struct ws_thread *thread = ws_self;

	if (ws_unlikely(!thread || thread->busy | thread->paused))
		return ws_rt_enter_slow(false);
	thread->busy = 1;
	__asm__ volatile("" ::: "memory");
	if (ws_unlikely(!thread->generation)) { /* asked last: a handler may fork up to here, and
					      the child finds zeroes */
		thread->busy = 0;
		return ws_rt_enter_slow(false);
	}
	return thread;
}

static inline void ws_rt_leave(struct ws_thread *thread)
{
	__asm__ volatile("" ::: "memory");
	thread->busy--;
}

/*
 * For the sampler's signal handler, which may interrupt anything: it writes into its own ring, so
 * that descriptions written once are in the same ring as the records that refer to them. `t` is the
 * calling thread's state, already set up. All signals must be blocked until ws_rt_leave_sampler.
 * False when that ring is in use or there is no memory for it.
 */
WS_EXPORT bool ws_rt_enter_sampler(struct ws_thread *thread, uint32_t *was);
static inline void ws_rt_leave_sampler(struct ws_thread *thread, uint32_t was)
{
	__asm__ volatile("" ::: "memory");
	thread->busy = was;
}

/* Room for a record of `bytes` (a multiple of 8, at most WS_REC_MAX_BYTES); NULL when there is no
 * memory: the loss has been counted. */
static inline void *ws_rt_reserve(struct ws_thread *thread, size_t bytes, enum ws_loss_kind loss)
{
	struct ws_nest *nest = &thread->nest[thread->busy - 1];

	if (ws_unlikely((size_t)(nest->end - nest->cur) < bytes))
		return ws_rt_reserve_slow(thread, bytes, loss);
	return nest->cur;
}

/* Publish the record at `rec`, which must be what the last reserve gave. */
static inline void ws_rt_commit(struct ws_thread *thread, void *rec, size_t bytes)
{
	struct ws_nest *nest = &thread->nest[thread->busy - 1];

	nest->cur = (char *)rec + bytes;
	atomic_store_explicit(&nest->chunk->used, (uint32_t)(nest->cur - (char *)nest->chunk),
			      memory_order_release);
}

static inline struct ws_rec ws_rec_head(enum ws_rec_kind kind, size_t bytes, uint16_t small,
					uint32_t value)
{
	return (struct ws_rec){.kind = (uint8_t)kind,
			       .words = (uint8_t)(bytes / 8),
			       .small = small,
			       .value = value};
}

/*
 * Handle of a string for records of this process: looked up in the thread's cache by content, else
 * defined in shared memory, before this returns. Between enter and leave. 0 when there is no memory
 * for it, or when the string is too long (over WS_STRING_MAX bytes): use ws_rt_write_text then.
 */
#define WS_STRING_MAX 8000u
WS_EXPORT uint32_t ws_rt_find_string(struct ws_thread *thread, const char *text, size_t len);
/* The same for callers without a thread state at hand (registrations); any time. */
WS_EXPORT uint32_t ws_rt_define_string(const char *text, size_t len);

/*
 * Write `s` as TEXT records into the current ring and return its local number; for strings that
 * seldom repeat or are long. Between enter and leave. 0 when there was no room (counted).
 */
WS_EXPORT uint32_t ws_rt_write_text(struct ws_thread *thread, const char *text, size_t len,
				    enum ws_loss_kind loss);

/*
 * Chooses one of the two for a string that may or may not repeat; sets *local when the number is a
 * local text. Uses texts while most strings of the thread are new.
 */
WS_EXPORT uint32_t ws_rt_write_string_or_text(struct ws_thread *thread, const char *text,
					      size_t len, bool *local, enum ws_loss_kind loss);

/* Called by the fork handler in the child, and by whoever finds the state wiped: makes the process
 * known to the recorder. */
WS_EXPORT void ws_rt_set_up_child(void);
/*
 * Around a fork made by this thread: a fork in a signal handler that interrupted a hook would wipe
 * the state with which that hook continues in the child. The result of the first function must be
 * passed to the second.
 */
WS_EXPORT bool ws_rt_before_fork(void);
WS_EXPORT void ws_rt_after_fork(bool interrupted, bool in_child);
/*
 * Writes a note for the recorder about a process that this one starts: enum ws_process_note. `time`
 * is in ticks, before the new process or image could begin. Works in a vfork child too.
 */
WS_EXPORT void ws_rt_write_process_note(int note, uint64_t time, const char *path, int pid,
					int error);
/* The session's path, as the environment gave it; "" without one. */
WS_EXPORT const char *ws_rt_session_path(void);

/* A chunk that is available now, without waiting or allocating memory for more chunks; 0 for none.
 */
WS_EXPORT uint32_t ws_rt_take_chunk(void);
/* The program has locked its memory (mlockall): what is ours is unlocked again. */
WS_EXPORT void ws_rt_unlock_memory(void);
/* A buffer of the arena (ring.h) for this process, mapped, or -1. */
WS_EXPORT int ws_rt_take_buffer(void);
/* A buffer is taken shortly before it is mapped. */
WS_EXPORT bool ws_rt_is_buffer_mapped(uint32_t i);

static inline struct ws_known_string *ws_rt_find_known_slot(struct ws_thread *thread,
							    const char *text)
{
	return &thread->known[((uintptr_t)text >> 3) % WS_KNOWN_STRINGS];
}

/*
 * Handle of a string last seen at this address, if the bytes there are still the same, its end
 * included; else 0. They are compared eight at a time, so up to seven bytes behind the string are
 * read: only where those are on the same page.
 */
static inline uint32_t ws_rt_find_known_string(struct ws_thread *thread, const char *text)
{
	const struct ws_known_string *string = ws_rt_find_known_slot(thread, text);
	size_t n = (size_t)string->len + 1, i = 0;
	uint64_t a, b;

	if (string->pointer != text ||
	    (uintptr_t)text % WS_SMALLEST_PAGE + n > WS_SMALLEST_PAGE - 8)
		return 0;
	for (; i + 8 <= n; i += 8) {
		memcpy(&a, text + i, 8);
		memcpy(&b, string->bytes + i, 8);
		if (a != b)
			return 0;
	}
	if (i < n) {
		memcpy(&a, text + i, 8);
		memcpy(&b, string->bytes + i, 8);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
		if ((a ^ b) << (64 - 8 * (n - i)))
			return 0;
#else
#error "the comparison counts bytes from the low end"
#endif
	}
	return string->handle;
}

static inline void ws_rt_remember_string(struct ws_thread *thread, const char *text, size_t len,
					 uint32_t handle)
{
	if (len < 256)
		*ws_rt_find_known_slot(thread, text) =
			(struct ws_known_string){.pointer = text,
						 .bytes = ws_string_at(ws_rt->arena, handle)->bytes,
						 .handle = handle,
						 .len = (uint32_t)len};
}

/* Put a diagnostic for the user into the report; callable at any time. severity: enum
 * ws_severity. */
WS_EXPORT void ws_rt_write_diagnostic(int severity, const char *source, const char *text);

/*
 * The program enters a sandbox (seccomp, no-new-privileges): from now on the runtime makes no
 * system call that is not needed to go on, because one that is not allowed may kill the program.
 * Memory then comes only from what the recorder keeps ready.
 */
WS_EXPORT void ws_rt_enter_sandbox(void);
WS_EXPORT bool ws_rt_is_sandboxed(void);
/*
 * The same for a filter that is known to end the program for calls that the runtime makes: threads
 * and forked children are set up without any but those that get memory, if these are allowed, and
 * what the program starts is not recorded.
 */
WS_EXPORT void ws_rt_enter_filter(bool allows_memory);
WS_EXPORT bool ws_rt_is_filtered(void);
/* Whether nothing more will be collected in this process's session, or its recorder has gone. */
WS_EXPORT bool ws_rt_is_over(void);
/* The filter was refused: the program is as it was. */
WS_EXPORT void ws_rt_leave_filter(void);
/* The calling thread's number, by a system call if that is allowed; 0 when it cannot be found. */
WS_EXPORT uint32_t ws_rt_find_tid(void);
/* The calling thread may not even read the clock any more (seccomp's strict mode, PR_SET_TSC):
 * nothing of it is recorded while muted. */
WS_EXPORT void ws_rt_mute_thread(bool on);
/* Have the recorder look at once, if it sleeps. */
WS_EXPORT void ws_rt_wake_recorder(void);

/* Count a loss that no record can report. */
static inline void ws_rt_count_loss(struct ws_thread *thread, enum ws_loss_kind kind, uint64_t n)
{
	struct ws_ring *ring = thread->nest[0].ring;

	if (ring)
		atomic_store_explicit(
			&ring->lost[kind],
			atomic_load_explicit(&ring->lost[kind], memory_order_relaxed) + n,
			memory_order_relaxed);
}

#endif
