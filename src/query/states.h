/*
 * states.h - what each thread did at any time: running, ready to run, or waiting, and for what.
 *
 * From scheduling (table sched), calls of the OS runtime, calls of CUDA and waits for Python's GIL.
 * Where a thread's scheduling was recorded, a span on a core is *running*; between two spans the
 * thread waits, and from its wake-up (or from the switch, if it was preempted) it is *runnable*.
 * What it waits for is what it was inside of then, in this order: a wait for the GIL, a CUDA call,
 * the innermost call of the OS runtime, the system call in which the recorder found it. Time on a
 * core inside a CUDA call that waits for the GPU is running too, with `wait` set to WS_WAIT_GPU: by
 * default these calls poll.
 *
 * Where records of scheduling were lost (table sched_gap), what a thread did is not known
 * (WS_DOING_UNKNOWN) from the beginning of the gap until its next record.
 *
 * Where scheduling was not recorded, a thread waits while it is inside the outermost of such calls,
 * and what it does otherwise is not known (WS_DOING_UNKNOWN): it may run or not.
 *
 * A thread's states do not overlap and come in order of time; before its first event and after its
 * end there are none. A last wait ends where the thread's process or the recording is known to have
 * ended.
 */
#ifndef WS_QUERY_STATES_H
#define WS_QUERY_STATES_H

#include "query/query.h"

enum ws_doing { WS_DOING_UNKNOWN, WS_DOING_RUN, WS_DOING_RUNNABLE, WS_DOING_WAIT, WS_DOINGS };

/* Append only: numbers are in exports. */
enum ws_wait {
	WS_WAIT_NONE,	   /* it does not wait, or nothing recorded says for what */
	WS_WAIT_LOCK,	   /* a mutex, a reader-writer lock, a spin lock */
	WS_WAIT_CONDITION, /* a condition variable */
	WS_WAIT_SEMAPHORE,
	WS_WAIT_BARRIER,
	WS_WAIT_JOIN,  /* the end of a thread */
	WS_WAIT_CHILD, /* the end or a signal of a process */
	WS_WAIT_IO,    /* files, descriptors, sockets */
	WS_WAIT_POLL,  /* any of several descriptors: poll, select, epoll */
	WS_WAIT_SLEEP, /* time */
	WS_WAIT_SIGNAL,
	WS_WAIT_GPU,   /* work on a GPU: calls of CUDA that synchronise, copies that block */
	WS_WAIT_CUDA,  /* inside another call of CUDA */
	WS_WAIT_GIL,   /* Python's global interpreter lock */
	WS_WAIT_QUEUE, /* a core: it was runnable */
	WS_WAIT_FAULT, /* in the kernel, not to be interrupted, in no recorded call: a page fault,
			  mostly */
	WS_WAIT_CALL,  /* another call of the OS runtime */
	WS_WAIT_FUTEX, /* a lock, condition or the like that does not come from the C library */
	WS_WAITS
};
const char *ws_name_wait(enum ws_wait wait); /* "lock", "GPU synchronisation"... */

struct ws_state {
	uint64_t start, end;
	uint32_t thread;
	uint32_t cpu; /* while running, else WS_NO_U32 */
	uint8_t doing, wait;
	bool lost;     /* it is unknown because records were lost */
	uint8_t after; /* enum ws_sched_after: why it left its core, while it waits or is runnable
			*/
	/* of the call that it waits in; 0 where there is none */
	uint32_t function; /* string */
	uint32_t path;	   /* string */
	uint32_t holder;   /* thread of the same process that held the lock, by the system's number;
			      for the GIL, the one that held it longest during the wait */
	uint32_t waker; /* id of the thread that ended the wait, where wake-ups were traced; else 0
			 */
	uint32_t callchain; /* stack */
	uint64_t object;
};

struct ws_states;

/* Read what is needed. Blocks that could not be read are added to *damaged. Never NULL. */
struct ws_states *ws_states_open(const struct ws_report *report, const struct ws_names_by_id *who,
				 uint64_t *damaged);
/*
 * Read a part: threads for which `threads`, an array of `n` bytes by thread id, is not 0 (NULL:
 * all), and only what touches from..to. States that begin and end within from..to are complete,
 * except for calls that never returned and began before. With `holders`, any thread that held the
 * GIL is named; otherwise only one of these threads. With `coreless`, states have no core, with
 * `brief` neither core nor waker, which saves much memory.
 */
struct ws_states_part {
	const uint8_t *threads;
	size_t count;
	uint64_t from, to;
	bool holders, coreless, brief;
	/* Only ws_walk_states_once will walk them, all of them: then scheduling need not be in
	 * memory as a whole. */
	bool once;
	/* The calls of CUDA where the caller has them, with their names and stacks; read otherwise.
	 * They are left as they are. */
	const struct ws_rows *calls;
};
struct ws_states *ws_states_open_part(const struct ws_report *report,
				      const struct ws_names_by_id *who,
				      const struct ws_states_part *part, uint64_t *damaged);
void ws_states_close(struct ws_states *states); /* NULL is fine */
/* Whether scheduling was recorded at all. */
bool ws_states_has_scheduling(const struct ws_states *states);

/* How many spans on cores were recorded of a thread: for each of them it has about two states. */
size_t ws_states_count_spans(const struct ws_states *states, uint32_t thread);

/* What a function of the OS runtime waits for, judged by its name: enum ws_wait. */
uint8_t ws_classify_osrt_call(const char *name);
/* The same of a call of CUDA: WS_WAIT_GPU or WS_WAIT_CUDA. */
uint8_t ws_classify_cuda_call(const char *name);

/* How many workers ws_walk_states uses, for sizing per-worker state. */
uint32_t ws_count_state_workers(const struct ws_states *states);
/*
 * Call `fn` for each state that has a part in [from, to), cut to it. One worker delivers all states
 * of a thread, in order; threads come in no order, several at once.
 */
void ws_walk_states(const struct ws_states *states, uint64_t from, uint64_t to,
		    void (*fn)(void *ctx, uint32_t worker, const struct ws_state *state),
		    void *ctx);
/* The same for all states, once: gives back what it has read as it goes, or reads it only now,
 * which halves the memory where `fn` keeps the states. Those of a thread come in order, but from
 * several workers, one after the other. The states can only be closed afterwards. Returns how many
 * blocks that it read only now could not be read. */
uint64_t ws_walk_states_once(struct ws_states *states,
			     void (*fn)(void *ctx, uint32_t worker, const struct ws_state *state),
			     void *ctx);

#endif
