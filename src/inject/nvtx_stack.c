/*
 * nvtx_stack.c - the open-range stack of a thread, beyond the simple case that nvtx.c handles
 * inline.
 *
 * One stack holds the ranges of all domains in the order they were pushed; each entry knows its
 * level among those of its domain. A pop takes the innermost range of its domain; when that is not
 * the top, it leaves a hole (start 0), which disappears once everything above it has been popped.
 * Entries of one domain that follow each other form a run, and each knows the depth at which its
 * run begins, so that a search for the innermost range of another domain skips whole runs. A
 * program that forgets its pops in one domain does not slow the others down.
 *
 * The first WS_OPEN_DEPTH entries lie in the ring's home chunk, more in chunks of kind OPEN that
 * stay with the ring. Beyond MAX_DEPTH, or when there is no chunk, ranges are only counted, by
 * domain, so that levels and pops stay right: the counts live in private memory found by
 * ws_thread.nvtx_deep.
 */
#include <sys/syscall.h>

#include "inject/nvtx_state.h"

enum { MAX_DEPTH = 4096 };

struct deep {
	uint32_t tid, generation; /* the owner of these counts: a thread's memory is reused */
	uint32_t total;
	uint32_t count[WS_NVTX_DOMAINS];
};

static struct deep *find_deep_stack(struct ws_thread *thread)
{
	struct deep *deep = thread->nvtx_deep;

	if (deep && (deep->tid != thread->tid || deep->generation != thread->generation)) {
		memset(deep, 0, sizeof(*deep));
		deep->tid = thread->tid;
		deep->generation = thread->generation;
	}
	return deep;
}

/* Entry `i`, from 0. NULL beyond the existing chunks; with `grow`, a further chunk is added. */
static struct ws_open *open_entry(struct ws_ring *ring, uint32_t i, bool grow)
{
	struct ws_arena *arena = ws_rt->arena;
	_Atomic uint32_t *link = &ring->open_more;

	if (i < WS_OPEN_DEPTH)
		return &ring->open[i];
	i -= WS_OPEN_DEPTH;
	for (;;) {
		uint32_t n = atomic_load_explicit(link, memory_order_relaxed);
		struct ws_open_chunk *chunk;

		if (!n) {
			n = grow ? ws_rt_take_chunk() : 0;
			if (!n)
				return NULL;
			chunk = ws_chunk_at(arena, n);
			memset(chunk, 0, sizeof(*chunk));
			chunk->chunk.kind = WS_CHUNK_OPEN;
			chunk->chunk.self = n;
			atomic_store_explicit(link, n, memory_order_release);
		}
		chunk = ws_chunk_at(arena, n);
		if (i < WS_OPEN_PER_CHUNK)
			return &chunk->open[i];
		i -= WS_OPEN_PER_CHUNK;
		link = &chunk->chunk.next;
	}
}

/* Depth (1 or more) of the innermost open entry of domain `d` at or below `depth`; 0 when there is
 * none. */
static uint32_t innermost_entry(struct ws_ring *ring, uint32_t depth, struct nvtx_domain *domain)
{
	while (depth) {
		struct ws_open *open = open_entry(ring, depth - 1, false);

		if (!open)
			return 0;
		if (open->domain != domain->number)
			depth = open->under;
		else if (open->start)
			return depth;
		else
			depth--;
	}
	return 0;
}

static struct deep *make_deep_stack(struct ws_thread *thread)
{
	if (!thread->nvtx_deep)
		thread->nvtx_deep = ws_nvtx_allocate(sizeof(struct deep));
	thread->idle_ring = NULL;
	return find_deep_stack(thread);
}

/* A range that cannot be kept: counts it. */
static void push_deep(struct ws_thread *thread, struct nvtx_domain *domain, int *level)
{
	struct deep *deep = make_deep_stack(thread);

	ws_rt_count_loss(thread, WS_LOSS_DEPTH, 1);
	if (!deep)
		return;
	*level += (int)deep->count[domain->number];
	deep->count[domain->number]++;
	deep->total++;
}

struct ws_open *ws_nvtx_open_range_slow(struct ws_thread *thread, struct ws_ring *ring,
					struct nvtx_domain *domain, int *level)
{
	uint32_t depth = atomic_load_explicit(&ring->open_depth, memory_order_relaxed);
	uint32_t below = innermost_entry(ring, depth, domain);
	struct deep *deep = find_deep_stack(thread);
	struct ws_open *open = NULL, *top;

	*level = below ? open_entry(ring, below - 1, false)->level + 1 : 0;
	if (depth < MAX_DEPTH && !(deep && deep->count[domain->number]))
		open = open_entry(ring, depth, true);
	if (!open) {
		push_deep(thread, domain, level);
		return NULL;
	}
	top = depth ? open_entry(ring, depth - 1, false) : NULL;
	open->under = (uint16_t)(!top ? 0 : top->domain == domain->number ? top->under : depth);
	return open;
}

/* Remove the entry at `depth`. */
static void drop(struct ws_ring *ring, uint32_t depth, uint32_t at)
{
	if (at < depth) {
		open_entry(ring, at - 1, false)->start = 0;
		return;
	}
	do
		depth--;
	while (depth && !open_entry(ring, depth - 1, false)->start);
	atomic_store_explicit(&ring->open_depth, depth, memory_order_release);
}

/* The pop of a range that is only counted; -1 when there is none of this domain. */
static int pop_deep(struct ws_thread *thread, struct ws_ring *ring, uint32_t depth,
		    struct nvtx_domain *domain)
{
	struct deep *deep = find_deep_stack(thread);
	uint32_t below;

	if (!deep || !deep->count[domain->number])
		return -1;
	deep->count[domain->number]--;
	deep->total--;
	below = innermost_entry(ring, depth, domain);
	return (int)deep->count[domain->number] +
	       (below ? open_entry(ring, below - 1, false)->level + 1 : 0);
}

/* Whether a range that ends now belongs to a collection: to the present one, or, while that is
 * being read out, to the one in which it began. */
static bool is_wanted(const struct ws_open *open)
{
	return ws_rt_is_collecting() ||
	       open->start <= atomic_load_explicit(&ws_rt->arena->ended_at, memory_order_relaxed);
}

int ws_nvtx_pop_range_slow(struct ws_thread *thread, struct nvtx_domain *domain, uint64_t now,
			   uint32_t binary)
{
	struct ws_ring *ring = nvtx_ring(thread);
	uint32_t depth = atomic_load_explicit(&ring->open_depth, memory_order_relaxed), at;
	int level = pop_deep(thread, ring, depth, domain);
	struct ws_open *open;
	bool wanted;

	if (level >= 0)
		return level;
	at = innermost_entry(ring, depth, domain);
	if (!at)
		return -1;
	open = open_entry(ring, at - 1, false);
	level = open->level;
	wanted = is_wanted(open); /* asked once: a collection may begin or end any moment */
	if (open->flags & WS_OPEN_IDLE && wanted)
		ws_nvtx_name_idle_range(thread, open);
	if (!(open->flags & WS_OPEN_LOST)) {
		struct ws_open copy = *open;

		open->flags |= WS_OPEN_CLOSING;
		ws_nvtx_write_range(thread, domain, &copy, wanted ? now : 0, binary);
	}
	drop(ring, depth, at);
	return level;
}
