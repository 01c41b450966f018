/* closer.c - see closer.h. */
#include "record/closer.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"

struct ws_closer {
	pthread_t thread;
	bool threaded;
	int *fds; /* closed in the order in which they were added */
	size_t count, capacity;
};

struct ws_closer *ws_closer_add(struct ws_closer *closer, int fd)
{
	if (!closer)
		closer = ws_calloc(1, sizeof(*closer));
	ws_grow(closer->fds, closer->capacity, closer->count + 1);
	closer->fds[closer->count++] = fd;
	return closer;
}

static void *close_all(void *arg)
{
	const struct ws_closer *closer = arg;

	for (size_t i = 0; i < closer->count; i++)
		close(closer->fds[i]);
	return NULL;
}

void ws_closer_start(struct ws_closer *closer)
{
	if (!closer)
		return;
	closer->threaded = !pthread_create(&closer->thread, NULL, close_all, closer);
	if (!closer->threaded)
		close_all(closer);
}

void ws_closer_join(struct ws_closer *closer)
{
	if (!closer)
		return;
	if (closer->threaded)
		pthread_join(closer->thread, NULL);
	free(closer->fds);
	free(closer);
}
