/*
 * drain.h - from rings to reports: finds processes and threads in the arena, follows their rings,
 * has records converted, and notices ends.
 *
 * A round looks for new processes and rings, notes who has ended, notes how far each ring has got,
 * reads the clocks, converts up to there, and settles those that have ended. In this order every
 * converted record lies between two clock readings, and everything that a process wrote before its
 * end is read before its memory is reused.
 */
#ifndef WS_RECORD_DRAIN_H
#define WS_RECORD_DRAIN_H

#include <sys/types.h>

#include "record/arena.h"
#include "record/clock.h"
#include "record/convert.h"
#include "record/sink.h"

struct ws_drain;
struct ws_perf;
#define WS_STACK_DEEPEST 1000u /* most frames in the stack of a traced call */
/* the same for a CUDA call: frameworks add dozens of frames between the user's function and the
 * call */
#define WS_CUDA_STACK_DEPTH 256u

struct ws_drain_ops {
	void *ctx;
	/* for call stacks: code.h; outlives the drain. NULL: no stacks are made */
	struct ws_code *code;
	uint32_t stack_depth;  /* most frames of the stack of a traced call */
	double osrt_threshold; /* seconds that a call which never returned must have lasted */
	uint32_t cuda_flags;   /* enum ws_cuda_setting */
	uint64_t libraries;    /* whose calls are traced: bits by enum ws_library */
	/*
	 * The report that a new process belongs to; `env` is its reported variables (NUL-separated
	 * NAME=VALUE, `env_len` bytes). `parent` is the sink of its parent, or NULL. Never NULL in
	 * return.
	 */
	struct ws_sink *(*sink_for)(void *ctx, int pid, const char *env, size_t env_len,
				    struct ws_sink *parent);
	/* Called during rounds that take long, so that what has been converted survives a kill.
	 * NULL: nothing is called. */
	void (*commit)(void *ctx);
	/* Called in each round when it is known how far each ring has got, before anything is
	 * converted: what the program has begun or ended by then must be known first. NULL: nothing
	 * is called. */
	void (*before_convert)(void *ctx);
};

struct ws_drain *ws_drain_new(struct ws_area *area, struct ws_clock *clock,
			      const struct ws_drain_ops *ops);

/* The target that profile started, which distinguishes its image from others. */
void ws_drain_target(struct ws_drain *drain, pid_t pid);

/* The span that is collected: [from, to] in session ns; `to` is 0 until it is over. */
void ws_drain_collect(struct ws_drain *drain, uint64_t from, uint64_t to);
/* Collect nothing until ws_drain_collect: all rows of the last collection are written. */
void ws_drain_rest(struct ws_drain *drain);
/* Write what is known by now, between a collection and the next: losses, processes that ended. */
void ws_drain_settle_window(struct ws_drain *drain);
/* How many capture ranges were open in processes that have ended since this was last asked. */
uint32_t ws_drain_take_dropped_ranges(struct ws_drain *drain);
/* Write what the report of a new collection needs from before it and the lasting tables do not
 * hold: live allocations of GPU memory. */
void ws_drain_tell_live(struct ws_drain *drain);

/* perf's records are about the same processes: see proc.h. Call it before the first round. */
void ws_drain_perf(struct ws_drain *drain, struct ws_perf *perf);

/* One round; returns the bytes of records converted. */
uint64_t ws_drain_round(struct ws_drain *drain);
/* Whether threads call a library without pause. Their cores are to take fewer samples from the next
 * ws_perf_pace_samples on. `now`: ws_read_raw_ns. */
bool ws_drain_look_for_storms(struct ws_drain *drain, uint64_t now);
/* Between two rounds that are far apart: tell the hooks that the recorder lives, and how the time
 * passes. */
void ws_drain_beat(struct ws_drain *drain);
/* Whether this many full chunks have not been read yet. */
bool ws_drain_has_backlog(const struct ws_drain *drain, uint32_t chunks);

/* Write rows for the ranges and calls open in every ring, at the end of a collection. Call it after
 * a round. */
void ws_drain_open_events(struct ws_drain *drain);
/* The rows were written for a snapshot: open ranges and calls go on. */
void ws_drain_go_on(struct ws_drain *drain);
/* Hold the passing strings whose ids are remembered here (ws_writer_hold_string). */
void ws_drain_hold_strings(struct ws_drain *drain);

/* Whether a live process has GPU work under way whose records have not arrived yet. */
bool ws_drain_awaits_gpu(const struct ws_drain *drain);
/* Whether a thread of ours uses CUPTI in a live process that was attached to. */
bool ws_drain_has_late_cuda(const struct ws_drain *drain);

/* How many processes have registered, or were announced by the one that started them, and have not
 * ended. */
uint32_t ws_drain_alive(const struct ws_drain *drain);
/* Wait until a process ends, a signal comes or the time is over. */
void ws_drain_await_end(const struct ws_drain *drain, const struct timespec *longest);
/* How many processes have ever registered. */
uint32_t ws_drain_registered(const struct ws_drain *drain);
/* Call fn with the pid of each live process. */
void ws_drain_each(struct ws_drain *drain, void (*fn)(void *ctx, int pid), void *ctx);
/*
 * The last round: settles all that is left, with open ranges, losses and the ends of processes.
 * Frees the drain.
 */
void ws_drain_finish(struct ws_drain *drain);

#endif
