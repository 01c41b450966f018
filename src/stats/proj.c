/*
 * proj.c - see proj.h.
 *
 * Work is added to the node of its launch (enclose.h), then each node to the one around it, from
 * the inside out: a node's parent has a lower number.
 */
#include "stats/proj.h"

#include <stdlib.h>
#include <string.h>

#include "stats/cuda.h"

struct pass {
	struct ws_launches *l;
	const struct ws_cuda_columns *c;
	struct ws_proj_span *node;
	uint64_t unended, backwards;
};

static void least(uint64_t *v, uint64_t x)
{
	uint64_t old = __atomic_load_n(v, __ATOMIC_RELAXED);

	while (x < old &&
	       !__atomic_compare_exchange_n(v, &old, x, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

static void most(uint64_t *v, uint64_t x)
{
	uint64_t old = __atomic_load_n(v, __ATOMIC_RELAXED);

	while (x > old &&
	       !__atomic_compare_exchange_n(v, &old, x, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

static int scan(void *ctx, const struct ws_batch *b)
{
	struct pass *p = ctx;
	const uint64_t *start = b->col[p->c->start], *end = b->col[p->c->end];
	const uint64_t *process = b->col[p->c->process], *correlation = b->col[p->c->correlation];

	for (size_t i = 0; i < b->rows; i++) {
		uint32_t node = ws_launches_node(p->l, process[i], correlation[i]);

		if (!node)
			continue;
		if (ws_unlikely(end[i] == WS_NO_TIME || end[i] < start[i])) {
			__atomic_fetch_add(end[i] == WS_NO_TIME ? &p->unended : &p->backwards, 1,
					   __ATOMIC_RELAXED);
			continue;
		}
		least(&p->node[node].first, start[i]);
		most(&p->node[node].last, end[i]);
		__atomic_fetch_add(&p->node[node].ops, 1, __ATOMIC_RELAXED);
	}
	return 0;
}

static void merge(struct ws_proj_span *to, const struct ws_proj_span *from)
{
	if (!from->ops)
		return;
	to->first = from->first < to->first ? from->first : to->first;
	to->last = from->last > to->last ? from->last : to->last;
	to->ops += from->ops;
}

static struct ws_proj_span *new_spans(size_t n)
{
	struct ws_proj_span *v = ws_malloc(n * sizeof(*v));

	for (size_t i = 0; i < n; i++)
		v[i] = (struct ws_proj_span){.first = UINT64_MAX};
	return v;
}

static void scan_all(struct ws_stats *s, struct pass *p)
{
	for (int i = WS_CUDA_KERNEL; i < WS_CUDA_SOURCES; i++) {
		const struct ws_cuda_columns *c = p->c = &ws_cuda_columns[i];
		struct ws_scan sc = {
			.table = c->table,
			.columns = UINT64_C(1) << c->start | UINT64_C(1) << c->end |
				   UINT64_C(1) << c->process | UINT64_C(1) << c->correlation,
			.time_min = s->time_min,
			.time_max = s->time_max,
		};
		uint64_t damaged = 0;

		ws_scan_run(s->r, &sc, scan, p, &damaged);
		s->damaged += damaged;
	}
	s->unended += p->unended;
	s->backwards += p->backwards;
}

int ws_proj_load(struct ws_stats *s, struct ws_proj *p, struct ws_err *e)
{
	struct pass pass = {0};
	const struct ws_enclose *x;

	memset(p, 0, sizeof(*p));
	pass.l = p->l = ws_launches_open(s, true, e);
	if (!p->l)
		return -1;
	x = &p->l->enclose;
	pass.node = new_spans(x->n);
	scan_all(s, &pass);
	p->span = new_spans(p->l->ranges.n);
	for (uint32_t i = x->n; --i;) {
		merge(&pass.node[x->node[i].parent], &pass.node[i]);
		merge(&p->span[x->node[i].range], &pass.node[i]);
	}
	free(pass.node);
	p->parent = ws_malloc(p->l->ranges.n * sizeof(*p->parent));
	p->level = ws_malloc(p->l->ranges.n * sizeof(*p->level));
	p->children = ws_calloc(p->l->ranges.n, sizeof(*p->children));
	ws_ranges_nest(&p->l->ranges, p->parent, p->level);
	for (uint32_t i = 0; i < p->l->ranges.n; i++)
		if (p->span[i].ops && p->parent[i] != WS_NO_RANGE)
			p->children[p->parent[i]]++;
	return 0;
}

void ws_proj_free(struct ws_proj *p)
{
	ws_launches_close(p->l);
	free(p->span);
	free(p->parent);
	free(p->level);
	free(p->children);
}
