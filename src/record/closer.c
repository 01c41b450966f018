/*
 * closer.c - see closer.h.
 *
 * Closing the last descriptor of a tracepoint takes 40 ms, because the kernel waits until no core
 * can be in it any more, even when it closes the descriptor at the end of the process. A map of
 * perf events holds a reference to each; the kernel gives up a map, and with it the events, in a
 * thread of its own. So where maps may be made, closing does not wait.
 */
#include "record/closer.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"
#include "record/bpf.h"

struct ws_closer {
	pthread_t thread;
	bool threaded;
	int *fds; /* closed in the order in which they were added */
	size_t count, capacity;
	struct mapping {
		void *address;
		size_t bytes;
	} * mappings;
	size_t mapping_count, mapping_capacity;
};

struct ws_closer *ws_closer_add(struct ws_closer *closer, int fd)
{
	if (!closer)
		closer = ws_calloc(1, sizeof(*closer));
	ws_grow(closer->fds, closer->capacity, closer->count + 1);
	closer->fds[closer->count++] = fd;
	return closer;
}

struct ws_closer *ws_closer_add_mapping(struct ws_closer *closer, void *address, size_t bytes)
{
	if (!closer)
		closer = ws_calloc(1, sizeof(*closer));
	ws_grow(closer->mappings, closer->mapping_capacity, closer->mapping_count + 1);
	closer->mappings[closer->mapping_count++] = (struct mapping){address, bytes};
	return closer;
}

/* A map that holds the events; negative when there is none. It takes no events that threads
 * inherit, which are quick to close. */
static int hand_to_kernel(const struct ws_closer *closer)
{
	int map = ws_bpf_map_new(BPF_MAP_TYPE_PERF_EVENT_ARRAY, 4, 4, (uint32_t)closer->count);

	for (uint32_t i = 0; map >= 0 && i < closer->count; i++)
		ws_bpf_map_set(map, &i, &closer->fds[i]);
	return map;
}

static void *close_all(void *arg)
{
	const struct ws_closer *closer = arg;
	int map = hand_to_kernel(closer);

	for (size_t i = 0; i < closer->count; i++)
		close(closer->fds[i]);
	for (size_t i = 0; i < closer->mapping_count; i++)
		munmap(closer->mappings[i].address, closer->mappings[i].bytes);
	if (map >= 0)
		close(map);
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
	free(closer->mappings);
	free(closer);
}
