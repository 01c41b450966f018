/*
 * perf_ring.c - the buffers that the kernel fills, one a CPU, read in the order of time.
 *
 * Records of one CPU are in order; those of several are merged by a heap of rings, keyed by the
 * time of the record at hand. A record may be stamped a little before it is written, so that only
 * what is older than a moment is taken: by then all rings hold what came before it.
 */
#include <string.h>

#include "record/perf_private.h"

static const struct perf_event_header *at(const struct ws_perf_ring *r, uint64_t where)
{
	return (const void *)(r->data +
			      (where &
			       (r->bytes -
				1))); /* records are multiples of 8 bytes: a header never wraps */
}

/* The record at hand in one piece; NULL when its size cannot be. */
static const void *whole(struct ws_perf_set *s, const struct ws_perf_ring *r, size_t *size)
{
	const struct perf_event_header *h = at(r, r->tail);
	size_t offset = (size_t)(r->tail & (r->bytes - 1)), first = r->bytes - offset;

	*size = h->size;
	if (*size < WS_PERF_LEAST || *size > r->head - r->tail || *size % 8)
		return NULL;
	if (*size <= first)
		return h;
	memcpy(s->scratch, h, first);
	memcpy(s->scratch + first, r->data, *size - first);
	return s->scratch;
}

/* Make the next record with a time the one at hand; false when there is none. What does not check
 * out is left out. */
static bool next_record(struct ws_perf_set *s, struct ws_perf_ring *r)
{
	while (r->tail < r->head) {
		size_t size;
		const void *rec = whole(s, r, &size);

		if (!rec) { /* the kernel wrote what it never does: everything up to here is
			       unreadable */
			s->bad++;
			r->tail = r->head;
			break;
		}
		r->time = ws_perf_time(rec, size);
		if (r->time)
			return true;
		s->bad++;
		r->tail += size;
	}
	return false;
}

static void sift_down(struct ws_perf_set *s, size_t i)
{
	for (size_t child; (child = 2 * i + 1) < s->heap_n; i = child) {
		struct ws_perf_ring *t;

		if (child + 1 < s->heap_n && s->heap[child + 1]->time < s->heap[child]->time)
			child++;
		if (s->heap[i]->time <= s->heap[child]->time)
			return;
		t = s->heap[i];
		s->heap[i] = s->heap[child];
		s->heap[child] = t;
	}
}

static void look_at_heads(struct ws_perf_set *s)
{
	s->heap_n = 0;
	for (size_t i = 0; i < s->rings_n; i++) {
		struct ws_perf_ring *r = &s->rings[i];

		r->head = __atomic_load_n(&r->page->data_head, __ATOMIC_ACQUIRE);
		if (next_record(s, r))
			s->heap[s->heap_n++] = r;
	}
	for (size_t i = s->heap_n; i--;)
		sift_down(s, i);
}

uint64_t ws_perf_take(struct ws_perf_set *s, uint64_t until,
		      void (*fn)(void *ctx, struct ws_perf_ring *ring, const void *rec,
				 size_t size),
		      void *ctx)
{
	uint64_t bytes = 0;

	look_at_heads(s);
	while (s->heap_n && s->heap[0]->time < until) {
		struct ws_perf_ring *r = s->heap[0];
		size_t size;
		const void *rec = whole(s, r, &size);

		fn(ctx, r, rec, size);
		r->tail += size;
		bytes += size;
		if (r->tail - r->page->data_tail >
		    r->bytes / 4) /* room for the writer while this goes on */
			__atomic_store_n(&r->page->data_tail, r->tail, __ATOMIC_RELEASE);
		if (!next_record(s, r))
			s->heap[0] = s->heap[--s->heap_n];
		sift_down(s, 0);
	}
	for (size_t i = 0; i < s->rings_n; i++)
		__atomic_store_n(&s->rings[i].page->data_tail, s->rings[i].tail, __ATOMIC_RELEASE);
	return bytes;
}

unsigned ws_perf_fullness(const struct ws_perf_set *s)
{
	unsigned most = 0;

	for (size_t i = 0; i < s->rings_n; i++) {
		const struct ws_perf_ring *r = &s->rings[i];
		uint64_t used = __atomic_load_n(&r->page->data_head, __ATOMIC_RELAXED) - r->tail;
		unsigned full = (unsigned)(used * 256 / r->bytes);

		most = full > most ? full : most;
	}
	return most;
}
