/*
 * rt_state.h - what the files of the runtime share; the hooks include rt.h alone.
 *
 * rt.c          beginning and end, pausing, notes for the recorder
 * rt_open.c     a descriptor of the arena
 * rt_map.c      the arena in this process's memory
 * rt_chunk.c    chunks to write into, and waiting for them; rings
 * rt_process.c  making the process, or a forked child, known to the recorder
 * rt_thread.c   states of threads, and nests of handlers
 * rt_string.c   strings and texts
 *
 * Private state (struct ws_rt, struct ws_thread) lives in anonymous pages marked MADV_WIPEONFORK. A
 * forked child therefore finds zeroes wherever the parent's state was, whichever way it was forked,
 * while a vfork child, which runs in the parent's memory with the parent stopped, finds the
 * parent's. Where the kernel does not know the advice, the fork handler wipes by hand. What must
 * survive a fork (where the arena is mapped, the session's path) is in `ws_rt_kept`.
 */
#ifndef WS_RT_STATE_H
#define WS_RT_STATE_H

#include <linux/futex.h>
#include <pthread.h>

#include "inject/rt.h"
#include "ring/syscall.h"

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#define MADV_KEEPONFORK 19
#endif

#define SLAB_THREADS 64u
#define SLABS (WS_DIR_SLOTS / SLAB_THREADS) /* further threads would find no directory slot */

/* Thread states, mapped together. The links of the free list stand beside the states, so that a
 * racing reader of a stale link reads a number and never the state of a thread that runs. */
struct thread_slab {
	_Atomic uint32_t next_free[SLAB_THREADS]; /* number of a state, 0 at the end of the list */
	struct {
		_Alignas(64) struct ws_thread thread;
	} states[SLAB_THREADS];
};

/* Private state that a fork wipes, beside the public part. */
struct private_state {
	struct ws_rt rt;
	_Atomic uint64_t free_threads; /* tag << 32 | number of a thread state; number 0: none */
	_Atomic uint32_t threads_made; /* states up to this number have been handed out */
	_Atomic(struct thread_slab *) slabs[SLABS];
	_Atomic uint32_t setting_up;
};

struct rt_kept {
	struct ws_arena *arena;
	_Atomic uint64_t mapped;     /* bytes of it, from its start */
	_Atomic uint64_t map_failed; /* ticks when more of it could not be had; 0: never */
	_Atomic uint64_t stuck; /* sum_free_lists when all memory was held for good; 0: never */
	uint64_t buffers[WS_BUFFERS / 64]; /* bits: which of the arena's buffers are mapped */
	struct private_state *state;
	_Atomic int init; /* 0 not tried, 1 at work, 2 done */
	int key_ok;
	pthread_key_t key;
	uintptr_t page; /* bytes: 4, 16 or 64 KiB on aarch64 */
	uint32_t image; /* generations already used in this image */
	uint32_t parent_home;
	uint64_t parent_start;
	uint64_t pid_ns;
	bool sandboxed;
	bool no_memory; /* nor may the states of further threads get any */
	bool filtered;	/* a filter would end the program for calls that the runtime makes */
	/* The C library's own, which write the thread's number into the mutex; set when a filter is
	 * installed, NULL when they do not. */
	int (*lock_mutex)(pthread_mutex_t *);
	int (*unlock_mutex)(pthread_mutex_t *);
	bool locked;	     /* the program locks its memory */
	bool refuse_threads; /* a new state could be mistaken for a shared one */
	bool unanswered;     /* the recorder has not answered in time: it is not asked again */
	bool keep_in_child;  /* the fork in progress comes from the middle of a hook */
	char path[512];
};
/* Declared hidden, so that data is reached without the global offset table and functions without
 * the procedure linkage table. */
#pragma GCC visibility push(hidden)
extern struct rt_kept ws_rt_kept;

#define SYS1(nr, a) ws_raw_syscall(nr, (long)(a), 0, 0, 0, 0, 0)
#define SYS3(nr, a, b, c) ws_raw_syscall(nr, (long)(a), (long)(b), (long)(c), 0, 0, 0)
#define SYS4(nr, a, b, c, d) ws_raw_syscall(nr, (long)(a), (long)(b), (long)(c), (long)(d), 0, 0)

static inline bool is_syscall_error(long result)
{
	return result < 0 && result > -4096;
}

static inline void wake_recorder(struct ws_arena *arena)
{
	if (atomic_load_explicit(&arena->sleeping, memory_order_relaxed) && !ws_rt_kept.sandboxed &&
	    atomic_exchange_explicit(&arena->sleeping, 0, memory_order_acq_rel))
		SYS3(SYS_futex, &arena->sleeping, FUTEX_WAKE, 1);
}

/* There is something to read. */
static inline void wake_reader(struct ws_arena *arena)
{
	if (atomic_load_explicit(&arena->sleeping, memory_order_relaxed) != WS_SLEEP_DEEP)
		wake_recorder(arena);
}

/* ---- rt_open.c ---- */

/* A descriptor of the session's arena, to be closed soon; negative when it cannot be opened. May
 * wait for the recorder, a second at most. */
long ws_rt_open_arena(void);
/* The same without the recorder's help: it never waits. */
long ws_rt_open_directly(void);

/* ---- rt_map.c ---- */

/* Anonymous memory that a fork wipes, or NULL. The kernel rounds `bytes` up to whole pages. */
void *ws_rt_map_private(size_t bytes);
/* Map the head of the session's arena; false when the file is not there or none of ours. */
bool ws_rt_attach_arena(const char *path);
uint32_t ws_rt_count_mapped_chunks(void);
/* Whether the part of the arena that this process has not mapped has memory behind it. */
bool ws_rt_has_more_to_map(const struct ws_arena *arena);
/* Map more of the arena; false when the kernel, a limit or the sandbox forbids it. */
bool ws_rt_map_more(struct ws_arena *arena);
/* Put memory that only looks like the arena, a closed one, where the arena is mapped. */
void ws_rt_leave_session(void);
/* Another arena is to be mapped: nothing is known of the old one's mapping any more. */
void ws_rt_forget_mapping(void);

/* ---- rt_chunk.c ---- */

/* Get a chunk by whatever means there is; WS_CHUNK_NONE when the budget is spent or the recorder
 * has gone. */
uint32_t ws_rt_get_chunk(struct ws_arena *arena);
/* A new ring of the thread `tid` in the recorder's directory; NULL without memory or place. */
struct ws_ring *ws_rt_make_ring(struct ws_rt *rt, uint32_t tid, uint32_t nest);

/* ---- rt_process.c ---- */

/* The inode of this process's pid namespace; 0 when it cannot be asked. */
uint64_t ws_rt_find_pid_namespace(void);
/* Make the process known to the recorder and start recording it; without memory for that it stays
 * off, and the loss is counted. */
void ws_rt_enter_session(struct private_state *private_state, bool fork_child);

/* ---- rt_thread.c ---- */

/* The destructor of the thread-specific key: closes the calling thread's state. */
void ws_rt_note_thread_end(void *round);
/* Memory for the states of threads to come, for when none can be had any more. */
void ws_rt_map_threads_ahead(void);
/* Have every thread set itself up anew at its next event. */
void ws_rt_forget_threads(void);

#pragma GCC visibility pop
#endif
