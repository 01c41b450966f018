/*
 * drain.h - from rings to reports: finds processes and threads in the arena, follows their rings,
 * has records converted, and notices ends.
 *
 * A round is: look for new processes and rings; note who has ended; note how far each ring has got;
 * read the clocks; convert up to there; settle those that ended. In this order every record
 * converted lies between two clock readings, and everything a process wrote before its end is taken
 * before its memory is reused.
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
#define WS_STACK_DEEPEST 1000u /* frames of the stack of a traced call */
#define WS_CUDA_STACK_DEPTH                                                                     \
	256u /* of a CUDA call: frameworks stand dozens of frames above the function that asked \
		for it */

struct ws_drain_ops {
	void *ctx;
	struct ws_code *code; /* for call stacks: code.h; outlives the drain. NULL: none are made */
	uint32_t stack_depth; /* most frames of the stack of a traced call */
	double osrt_threshold; /* seconds that a call that never returned has lasted at least */
	uint32_t cuda_flags;   /* enum ws_cuda_setting */
	/*
	 * The report that a new process belongs to; `env` is its reported variables (NUL-separated
	 * NAME=VALUE, `env_len` bytes). `parent` is the sink of its parent, or NULL. Never NULL in
	 * return.
	 */
	struct ws_sink *(*sink_for)(void *ctx, int pid, const char *env, size_t env_len,
				    struct ws_sink *parent);
	/* Have what was converted so far survive a kill: called during rounds that take long. NULL:
	 * nothing. */
	void (*commit)(void *ctx);
};

struct ws_drain *ws_drain_new(struct ws_area *area, struct ws_clock *clock,
			      const struct ws_drain_ops *ops);

/* The target that profile started, so that its image is distinguished from others'. */
void ws_drain_target(struct ws_drain *drain, pid_t pid);

/* What is collected: [from, to] in session ns; `to` is 0 until it is over. */
void ws_drain_collect(struct ws_drain *drain, uint64_t from, uint64_t to);

/* perf's records are about the same processes: see proc.h. Before the first round. */
void ws_drain_perf(struct ws_drain *drain, struct ws_perf *perf);

/* One round; returns the bytes of records converted. */
uint64_t ws_drain_round(struct ws_drain *drain);

/* Rows for ranges and calls open now in every ring: at the end of a collection. Call after a round.
 */
void ws_drain_open_events(struct ws_drain *drain);

/* Processes that registered, or were announced by the one that started them, and have not ended. */
uint32_t ws_drain_alive(const struct ws_drain *drain);
/* Wait until one of them ends, a signal comes or the time is over. */
void ws_drain_await_end(const struct ws_drain *drain, const struct timespec *longest);
/* How many registered at all. */
uint32_t ws_drain_registered(const struct ws_drain *drain);
/* Call fn with the pid of each live one. */
void ws_drain_each(struct ws_drain *drain, void (*fn)(void *ctx, int pid), void *ctx);
/*
 * The last round: settles everything that is left, with ranges left open, losses, process ends.
 * Frees the drain.
 */
void ws_drain_finish(struct ws_drain *drain);

#endif
