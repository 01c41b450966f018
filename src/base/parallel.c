/* parallel.c - see parallel.h. Threads live as long as the call: what is worth several is longer by
 * far than their start. */
#include "base/parallel.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "base/mem.h"

struct pieces {
	void (*piece)(void *ctx, unsigned worker, size_t i);
	void *ctx;
	size_t count, next;
	unsigned workers;
};

unsigned ws_parallel_workers(void)
{
	cpu_set_t set;

	return sched_getaffinity(0, sizeof(set), &set) ? 1 : (unsigned)CPU_COUNT(&set);
}

static void *work(void *arg)
{
	struct pieces *pieces = arg;
	unsigned worker = __atomic_fetch_add(&pieces->workers, 1, __ATOMIC_RELAXED);
	size_t i;

	while ((i = __atomic_fetch_add(&pieces->next, 1, __ATOMIC_RELAXED)) < pieces->count)
		pieces->piece(pieces->ctx, worker, i);
	return NULL;
}

void ws_parallel(unsigned workers, size_t count,
		 void (*piece)(void *ctx, unsigned worker, size_t i), void *ctx)
{
	struct pieces pieces = {.piece = piece, .ctx = ctx, .count = count};
	pthread_t *threads = ws_calloc(workers, sizeof(*threads));
	unsigned started = 0;

	while (started + 1 < workers && started + 1 < count &&
	       !pthread_create(&threads[started], NULL, work, &pieces))
		started++; /* fewer do it too */
	work(&pieces);
	while (started)
		pthread_join(threads[--started], NULL);
	free(threads);
}
