/*
 * nvtx_stack.c - the open-range stack of a thread, beyond the plain case that nvtx.c has inline.
 *
 * One stack holds the ranges of all domains in the order they were pushed; each entry knows its
 * level among those of its domain. A pop takes the innermost range of its domain; when that is not
 * the top, it leaves a hole (start 0) that goes when what is above it has gone. Entries of one
 * domain that follow each other form a run, and each knows the depth at which its run begins, so
 * that finding the innermost range of another domain steps over runs and not over entries: a
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
	uint32_t tid, generation; /* whose counts these are: memory of a thread is used again */
	uint32_t total;
	uint32_t count[WS_NVTX_DOMAINS];
};

static struct deep *deep_of(struct ws_thread *t)
{
	struct deep *p = t->nvtx_deep;

	if (p && (p->tid != t->tid || p->generation != t->generation)) {
		memset(p, 0, sizeof(*p));
		p->tid = t->tid;
		p->generation = t->generation;
	}
	return p;
}

/* Entry `i`, from 0. NULL beyond the chunks there are; with `grow`, a further chunk is made. */
static struct ws_open *entry(struct ws_ring *r, uint32_t i, bool grow)
{
	struct ws_arena *a = ws_rt->arena;
	_Atomic uint32_t *link = &r->open_more;

	if (i < WS_OPEN_DEPTH)
		return &r->open[i];
	i -= WS_OPEN_DEPTH;
	for (;;) {
		uint32_t n = atomic_load_explicit(link, memory_order_relaxed);
		struct ws_open_chunk *c;

		if (!n) {
			n = grow ? ws_chunk_take(a) : 0;
			if (!n)
				return NULL;
			c = ws_chunk_at(a, n);
			memset(c, 0, sizeof(*c));
			c->chunk.kind = WS_CHUNK_OPEN;
			c->chunk.self = n;
			atomic_store_explicit(link, n, memory_order_release);
		}
		c = ws_chunk_at(a, n);
		if (i < WS_OPEN_PER_CHUNK)
			return &c->open[i];
		i -= WS_OPEN_PER_CHUNK;
		link = &c->chunk.next;
	}
}

/* Depth (1 or more) of the innermost open entry of domain `d` at or below `depth`; 0 when there is
 * none. */
static uint32_t innermost(struct ws_ring *r, uint32_t depth, struct nvtx_domain *d)
{
	while (depth) {
		struct ws_open *o = entry(r, depth - 1, false);

		if (!o)
			return 0;
		if (o->domain != d->number)
			depth = o->under;
		else if (o->start)
			return depth;
		else
			depth--;
	}
	return 0;
}

static struct deep *deep_make(struct ws_thread *t)
{
	if (!t->nvtx_deep)
		t->nvtx_deep = ws_nvtx_alloc(sizeof(struct deep));
	return deep_of(t);
}

/* A range that cannot be kept: counts it. */
static void push_deep(struct ws_thread *t, struct nvtx_domain *d, int *level)
{
	struct deep *p = deep_make(t);

	ws_rt_lost(t, WS_LOSS_DEPTH, 1);
	if (!p)
		return;
	*level += (int)p->count[d->number];
	p->count[d->number]++;
	p->total++;
}

struct ws_open *ws_nvtx_open_slow(struct ws_thread *t, struct ws_ring *r, struct nvtx_domain *d,
				  int *level)
{
	uint32_t depth = atomic_load_explicit(&r->open_depth, memory_order_relaxed);
	uint32_t below = innermost(r, depth, d);
	struct deep *p = deep_of(t);
	struct ws_open *o = NULL, *top;

	*level = below ? entry(r, below - 1, false)->level + 1 : 0;
	if (depth < MAX_DEPTH && !(p && p->count[d->number]))
		o = entry(r, depth, true);
	if (!o) {
		push_deep(t, d, level);
		return NULL;
	}
	top = depth ? entry(r, depth - 1, false) : NULL;
	o->under = (uint16_t)(!top ? 0 : top->domain == d->number ? top->under : depth);
	return o;
}

/* Take the entry at `depth` out. */
static void drop(struct ws_ring *r, uint32_t depth, uint32_t at)
{
	if (at < depth) {
		entry(r, at - 1, false)->start = 0;
		return;
	}
	do
		depth--;
	while (depth && !entry(r, depth - 1, false)->start);
	atomic_store_explicit(&r->open_depth, depth, memory_order_release);
}

/* The pop of a range that is only counted; -1 when there is none of this domain. */
static int pop_deep(struct ws_thread *t, struct ws_ring *r, uint32_t depth, struct nvtx_domain *d)
{
	struct deep *p = deep_of(t);
	uint32_t below;

	if (!p || !p->count[d->number])
		return -1;
	p->count[d->number]--;
	p->total--;
	below = innermost(r, depth, d);
	return (int)p->count[d->number] + (below ? entry(r, below - 1, false)->level + 1 : 0);
}

int ws_nvtx_pop_slow(struct ws_thread *t, struct nvtx_domain *d, uint64_t now, uint32_t binary)
{
	struct ws_ring *r = nvtx_ring(t);
	uint32_t depth = atomic_load_explicit(&r->open_depth, memory_order_relaxed), at;
	int level = pop_deep(t, r, depth, d);
	struct ws_open *o;

	if (level >= 0)
		return level;
	at = innermost(r, depth, d);
	if (!at)
		return -1;
	o = entry(r, at - 1, false);
	level = o->level;
	if (!(o->flags & WS_OPEN_LOST)) {
		struct ws_open copy = *o;

		o->flags |= WS_OPEN_CLOSING;
		ws_nvtx_write_range(t, d, &copy, ws_rt_collecting() ? now : 0, binary);
	}
	drop(r, depth, at);
	return level;
}
