/*
 * parallel.h - runs independent pieces of work on all cores that the process may use.
 */
#ifndef WS_BASE_PARALLEL_H
#define WS_BASE_PARALLEL_H

#include <stddef.h>

/* How many threads ws_run_parallel uses at most; at least 1. */
unsigned ws_count_workers(void);

/*
 * Run `piece` for 0 to count - 1, started in that order. It is called from several threads, the
 * caller's among them; `worker` is a number below `workers` (from ws_count_workers) that no
 * other call has at the same time. Returns when all pieces are done.
 */
void ws_run_parallel(unsigned workers, size_t count,
		     void (*piece)(void *ctx, unsigned worker, size_t i), void *ctx);

#endif
