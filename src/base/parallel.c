/* parallel.c - see parallel.h. Threads live only as long as the call: starting threads takes far
 * less time than any work worth sharing out. */
#include "base/parallel.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "base/mem.h"

struct piece_queue {
	void (*piece)(void *ctx, unsigned worker, size_t i);
	void *ctx;
	size_t count, next;
	unsigned workers;
};

unsigned ws_count_workers(void)
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set))
		return 1;
	return (unsigned)CPU_COUNT(&set);
}

static void *do_pieces(void *arg)
{
	struct piece_queue *pieces = arg;
	unsigned worker = __atomic_fetch_add(&pieces->workers, 1, __ATOMIC_RELAXED);
	size_t i;

	while ((i = __atomic_fetch_add(&pieces->next, 1, __ATOMIC_RELAXED)) < pieces->count)
		pieces->piece(pieces->ctx, worker, i);
	return NULL;
}

void ws_run_parallel(unsigned workers, size_t count,
		     void (*piece)(void *ctx, unsigned worker, size_t i), void *ctx)
{
	struct piece_queue pieces = {.piece = piece, .ctx = ctx, .count = count};
	pthread_t *threads = ws_calloc(workers, sizeof(*threads));
	unsigned started = 0;

	while (started + 1 < workers && started + 1 < count &&
	       !pthread_create(&threads[started], NULL, do_pieces, &pieces))
		started++; /* with fewer threads the work only takes longer */
	do_pieces(&pieces);
	while (started)
		pthread_join(threads[--started], NULL);
	free(threads);
}
