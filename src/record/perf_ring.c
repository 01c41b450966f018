/*
 * perf_ring.c - the buffers that the kernel fills, one for each CPU, read in the order of time.
 *
 * Records of one CPU are in order; those of several CPUs are merged by a heap of rings, keyed by
 * the time of their current record. A record may get its time a little before it is written, so
 * only records that are a little older are read: by then all rings hold everything that came before
 * them.
 */
#include <string.h>

#include "record/perf_private.h"
#include "base/choose.h"

static const struct perf_event_header *at(const struct ws_perf_ring *ring, uint64_t where)
{
	return (const void *)(ring->data +
			      (where &
			       (ring->bytes -
				1))); /* records are multiples of 8 bytes: a header never wraps */
}

/* The current record in one piece; NULL when its size is impossible. */
static const void *whole(struct ws_perf_set *set, const struct ws_perf_ring *ring, size_t *size)
{
	const struct perf_event_header *header = at(ring, ring->tail);
	size_t offset = (size_t)(ring->tail & (ring->bytes - 1)), first = ring->bytes - offset;

	*size = header->size;
	if (*size < WS_PERF_LEAST || *size > ring->head - ring->tail || *size % 8)
		return NULL;
	if (*size <= first)
		return header;
	memcpy(set->scratch, header, first);
	memcpy(set->scratch + first, ring->data, *size - first);
	return set->scratch;
}

/* Make the next record that has a time the current one; false when there is none. Invalid records
 * are skipped. */
static bool next_record(struct ws_perf_set *set, struct ws_perf_ring *ring)
{
	while (ring->tail < ring->head) {
		size_t size;
		const void *rec = whole(set, ring, &size);

		if (!rec) { /* the kernel never writes this: everything up to here is unreadable */
			set->bad++;
			ring->tail = ring->head;
			break;
		}
		ring->time = ws_perf_time(rec, size);
		if (ring->time)
			return true;
		set->bad++;
		ring->tail += size;
	}
	return false;
}

static void sift_down(struct ws_perf_set *set, size_t i)
{
	for (size_t child; (child = 2 * i + 1) < set->heap_n; i = child) {
		struct ws_perf_ring *ring;

		if (child + 1 < set->heap_n && set->heap[child + 1]->time < set->heap[child]->time)
			child++;
		if (set->heap[i]->time <= set->heap[child]->time)
			return;
		ring = set->heap[i];
		set->heap[i] = set->heap[child];
		set->heap[child] = ring;
	}
}

static void look_at_heads(struct ws_perf_set *set)
{
	set->heap_n = 0;
	for (size_t i = 0; i < set->rings_n; i++) {
		struct ws_perf_ring *ring = &set->rings[i];

		ring->head = __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);
		if (ring->copy) {
			ring->tail = ring->head;
			continue;
		}
		if (next_record(set, ring))
			set->heap[set->heap_n++] = ring;
	}
	for (size_t i = set->heap_n; i--;)
		sift_down(set, i);
}

uint64_t ws_perf_take(struct ws_perf_set *set, uint64_t until,
		      void (*fn)(void *ctx, struct ws_perf_ring *ring, const void *rec,
				 size_t size),
		      void *ctx)
{
	uint64_t bytes = 0;

	look_at_heads(set);
	while (set->heap_n && set->heap[0]->time < until) {
		struct ws_perf_ring *perf_ring = set->heap[0];
		size_t size;
		const void *rec = whole(set, perf_ring, &size);

		fn(ctx, perf_ring, rec, size);
		perf_ring->tail += size;
		bytes += size;
		if (perf_ring->tail - perf_ring->page->data_tail >
		    perf_ring->bytes / 4) /* room for the writer while this goes on */
			__atomic_store_n(&perf_ring->page->data_tail, perf_ring->tail,
					 __ATOMIC_RELEASE);
		if (!next_record(set, perf_ring))
			set->heap[0] = set->heap[--set->heap_n];
		sift_down(set, 0);
	}
	for (size_t i = 0; i < set->rings_n; i++)
		__atomic_store_n(&set->rings[i].page->data_tail, set->rings[i].tail,
				 __ATOMIC_RELEASE);
	return bytes;
}

unsigned ws_perf_fullness(const struct ws_perf_set *set)
{
	unsigned most = 0;

	for (size_t i = 0; i < set->rings_n; i++) {
		const struct ws_perf_ring *ring = &set->rings[i];
		uint64_t used =
			__atomic_load_n(&ring->page->data_head, __ATOMIC_RELAXED) - ring->tail;
		unsigned full = (unsigned)(used * 256 / ring->bytes);

		most = ws_max(full, most);
	}
	return most;
}
