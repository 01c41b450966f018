/*
 * path.h - the critical path: the chain of work and waits, each waiting for the one before, that
 * made a stretch of time as long as it was.
 *
 * It is walked backwards from its end. A thread that ran is on the path while it ran. From a thread
 * that waited, the walk goes to what ended the wait: the thread that woke it, or the work on a GPU
 * that it synchronised with; where nothing recorded ended it (a sleep, a disk, the network) the
 * wait itself is on the path. From work on a GPU, the walk goes to the work before it on its
 * stream, or to the call that launched it, whichever came later.
 *
 * The pieces of a path are in order of time, touch each other and cover the whole stretch, so that
 * sums over them always add up to it.
 */
#ifndef WS_ANALYZE_PATH_H
#define WS_ANALYZE_PATH_H

#include "analyze/model.h"

enum ws_piece_kind {
	WS_PIECE_RUN,	   /* a thread on a core */
	WS_PIECE_RUNNABLE, /* a thread that waits for a core */
	WS_PIECE_WAIT,	   /* a thread that waits for what `wait` says */
	WS_PIECE_GPU,	   /* work on a GPU */
	WS_PIECE_LAUNCH,   /* from the return of a call to the beginning of the work it launched */
	WS_PIECE_DELAY,	   /* launched and its stream free, but not running yet */
	WS_PIECE_UNKNOWN,  /* unknown: nothing was recorded */
	WS_PIECE_KINDS
};

struct ws_piece {
	uint64_t start, end;
	uint8_t kind, wait;
	uint32_t thread;  /* the thread that ran, waited or launched; 0 for none */
	uint32_t gpu, op; /* of GPU, LAUNCH and DELAY; else WS_NO_OP */
	uint32_t call;	  /* row of the call of CUDA around it, or WS_NO_CALL */
	uint32_t function, path, callchain; /* of a wait */
};

struct ws_path {
	struct ws_piece *pieces;
	size_t count, cap;
};

/* Where a walk begins: a thread at the end of the stretch, or work on a GPU. */
struct ws_path_end {
	uint32_t thread;
	uint32_t gpu, op; /* op WS_NO_OP: the thread */
};

/* The path from `end` at `to` back to `from`. Free with ws_path_free. */
void ws_path_walk(const struct ws_model *model, const struct ws_path_end *end, uint64_t from,
		  uint64_t to, struct ws_path *path);
void ws_path_free(struct ws_path *path);
/* The first piece that ends after `at`; the number of pieces when there is none. */
size_t ws_path_find(const struct ws_path *path, uint64_t at);
/* Where the path through the model's window ends: the thread of the steps, or the GPU work launched
 * in the last of them, whichever is later. */
struct ws_path_end ws_path_find_end(const struct ws_model *model);

/* The work of a process that ended last, after `since` and no later than `until`; false when there
 * is none. */
bool ws_path_find_last_op(const struct ws_model *model, uint32_t process, uint64_t since,
			  uint64_t until, struct ws_path_end *found);
/* The thread that ended a wait of `thread` at `at`; 0 for none. Interrupts are not threads: a
 * thread that waits for a disk or a timer has no waker. */
uint32_t ws_path_find_waker(const struct ws_model *model, uint32_t thread,
			    const struct ws_model_state *state, uint64_t at);
/* The thread that started this one, when the walk is at its first state; 0 when not known. For a
 * program that replaced another by exec, the thread that started the other. */
uint32_t ws_path_find_starter(const struct ws_model *model, uint32_t thread, uint64_t at);

#endif
