/*
 * flame_gpu.c - the time of GPUs by what launched the work: the operators and ranges around the
 * launch, or its call stack.
 *
 * query/profile.h knows NVTX ranges. Frameworks' traces have operators instead, and calls of Python
 * as a stack; recordings with
 * --cudabacktrace have the stacks of calls themselves. The lanes of a thread hold the first two by
 * depth: on each level at most one event spans a call, so that a path is as many searches as there
 * are levels, once for each innermost event.
 */
#include <stdlib.h>
#include <string.h>

#include "query/correlate.h"
#include "query/gpu.h"
#include "serve/flame.h"

struct making {
	struct ws_call *c;
	struct ws_profile *p;
	bool by_stack;
	struct ws_calls calls;
	struct ws_map chains;	 /* process << 32 | correlation: stack of the call */
	struct ws_map units;	 /* name: unit */
	struct ws_map ops;	 /* source << 32 | name: unit */
	struct ws_map lane_from; /* thread: its first in `lanes` */
	struct path_lane {
		uint32_t thread, lane;
	} * lanes; /* by thread; outermost first */
	size_t lane_n, lane_cap;
	const struct ws_cuda_columns *columns;
	enum ws_cuda_source source;
	uint32_t unread;
};

/* ---- where launches were made ---- */

/* Python calls enclose operators; without stacks, ranges and operators it is. */
static int rank_of(const struct making *m, const struct ws_lane *n)
{
	if (n->kind == WS_LANE_OP && n->key[1])
		return m->by_stack ? 1 : -1;
	if (n->kind == WS_LANE_OP)
		return 3;
	return n->kind == WS_LANE_NVTX && !n->key[2] && !m->by_stack ? 2 : -1;
}

static int by_thread(const void *a, const void *b, void *ctx)
{
	const struct making *m = ctx;
	const struct path_lane *x = a, *y = b;

	if (x->thread != y->thread)
		return x->thread < y->thread ? -1 : 1;
	return rank_of(m, m->c->l->lane[x->lane]) - rank_of(m, m->c->l->lane[y->lane]);
}

static void find_lanes(struct making *m)
{
	for (uint32_t i = 0; i < m->c->l->n; i++) {
		const struct ws_lane *n = m->c->l->lane[i];

		if (rank_of(m, n) < 0)
			continue;
		if (!ws_lane_ready(n)) {
			ws_lanes_want(m->c->l, i);
			m->unread += ws_lane_reading(n);
			continue;
		}
		ws_grow(m->lanes, m->lane_cap, m->lane_n + 1);
		m->lanes[m->lane_n++] = (struct path_lane){n->key[0], i};
	}
	if (m->lane_n)
		qsort_r(m->lanes, m->lane_n, sizeof(*m->lanes), by_thread, m);
	for (size_t i = m->lane_n; i--;)
		ws_map_set(&m->lane_from, m->lanes[i].thread, i);
}

static uint32_t unit_of_name(struct making *m, uint32_t name)
{
	uint32_t key = ws_lane_name_key(m->c->l, name);
	bool known;
	uint64_t unit = ws_map_get(&m->units, key, &known);
	size_t len;
	const char *s;

	if (known)
		return (uint32_t)unit;
	s = ws_lane_name(m->c->l, name, &len);
	unit = ws_calltree_made(&m->p->tree, s, len);
	ws_map_set(&m->units, key, unit);
	return (uint32_t)unit;
}

/* The node of what was under way around a call, from the outside in. */
static uint32_t path_node(struct making *m, uint32_t thread, uint64_t start, uint64_t end)
{
	uint32_t node = 0;
	bool known;

	for (size_t i = ws_map_get(&m->lane_from, thread, &known);
	     known && i < m->lane_n && m->lanes[i].thread == thread; i++) {
		const struct ws_lane *n = m->c->l->lane[m->lanes[i].lane];

		for (uint32_t k = 0; k < n->levels; k++) {
			const struct ws_level *v = &n->level[k];
			uint32_t at = ws_level_seek(v, 0, v->n, start + 1);

			if (at-- && ws_level_end(v, at) >= end && !(v->src[at] & WS_EVENT_MOMENT))
				node = ws_calltree_child(&m->p->tree, node,
							 unit_of_name(m, v->name[at]));
		}
	}
	return node;
}

static int take_chain(void *ctx, const struct ws_batch *b)
{
	struct making *m = ctx;

	for (size_t i = 0; i < b->rows; i++) {
		uint64_t chain = b->col[ws_cuda_api_callchain][i],
			 id = b->col[ws_cuda_api_correlation][i];

		if (chain != WS_NO_U32 && chain && id != WS_NO_U32)
			ws_map_set(&m->chains,
				   (uint64_t)ws_who_thread(m->c->l->who,
							   (uint32_t)b->col[ws_cuda_api_thread][i])
							   ->process
						   << 32 |
					   (uint32_t)id,
				   chain);
	}
	return 0;
}

static void load_chains(struct making *m)
{
	struct ws_scan s = {.table = WS_TABLE_cuda_api,
			    .columns = WS_COL(cuda_api, thread) | WS_COL(cuda_api, correlation) |
				       WS_COL(cuda_api, callchain),
			    .time_max = UINT64_MAX,
			    .workers = 1};

	ws_scan_run(m->c->rep->r, &s, take_chain, m, NULL);
}

static uint32_t launch_node(struct making *m, uint64_t process, uint64_t correlation)
{
	uint32_t call = ws_calls_find(&m->calls, process, correlation), node = 0;
	bool known;
	uint64_t chain = ws_map_get(&m->chains, process << 32 | (uint32_t)correlation, &known);

	if (known)
		return ws_calltree_node(&m->p->tree, 0, 0, (uint32_t)chain);
	if (call != WS_NO_CALL)
		node = path_node(m, (uint32_t)m->calls.rows.col[ws_cuda_api_thread][call],
				 m->calls.rows.col[ws_cuda_api_start][call],
				 m->calls.rows.col[ws_cuda_api_end][call]);
	if (!node && m->by_stack)
		node = ws_calltree_child(&m->p->tree, 0,
					 ws_calltree_made(&m->p->tree, "[no stack]", 10));
	return node;
}

/* ---- the work ---- */

static uint32_t unit_of_work(struct making *m, uint64_t name)
{
	uint64_t key = (uint64_t)m->source << 32 | (uint32_t)name;
	bool known;
	uint64_t unit = ws_map_get(&m->ops, key, &known);
	char buf[64];
	const char *s = buf;
	size_t len;

	if (known)
		return (uint32_t)unit;
	if (m->source == WS_CUDA_KERNEL)
		s = ws_report_string(m->c->rep->r, (uint32_t)name, &len);
	else
		len = strlen(s = ws_cuda_op_name(m->source, name, buf, sizeof(buf)));
	unit = ws_calltree_made(&m->p->tree, s, len);
	ws_map_set(&m->ops, key, unit);
	return (uint32_t)unit;
}

static int take_work(void *ctx, const struct ws_batch *b)
{
	struct making *m = ctx;
	const struct ws_cuda_columns *c = m->columns;

	for (size_t i = 0; i < b->rows; i++) {
		uint64_t start = b->col[c->start][i], end = b->col[c->end][i];
		struct ws_cost cost = {1, end - start, end - start};
		uint32_t node;

		if (end == WS_NO_TIME || end < start)
			continue;
		node = launch_node(m, b->col[c->process][i], b->col[c->correlation][i]);
		node = ws_calltree_child(&m->p->tree, node,
					 unit_of_work(m, c->name < 0 ? 0 : b->col[c->name][i]));
		ws_cost_add(&m->p->tree.nodes[node].self, &cost);
		ws_cost_add(&m->p->total, &cost);
	}
	return 0;
}

int ws_flame_gpu(struct ws_call *c, int64_t t0, int64_t t1, bool by_stack, struct ws_profile *p,
		 uint32_t *unread, struct ws_err *e)
{
	struct making m = {.c = c, .p = p, .by_stack = by_stack};
	int rc;

	memset(p, 0, sizeof(*p));
	p->weight = "nanoseconds";
	p->timed = true;
	p->stacks = ws_stacks_open(c->rep->r, &p->damaged);
	ws_calltree_init(&p->tree, p->stacks, WS_UNIT_FUNCTION, WS_FRAMES_ALL);
	rc = ws_calls_load(c->rep->r, c->l->who, &m.calls, e) < 0;
	if (!rc && by_stack)
		load_chains(&m);
	find_lanes(&m);
	*unread = m.unread;
	for (m.source = WS_CUDA_KERNEL; !rc && m.source < WS_CUDA_SOURCES; m.source++) {
		const struct ws_cuda_columns *x = m.columns = &ws_cuda_columns[m.source];
		struct ws_scan s = {.table = x->table,
				    .columns = UINT64_C(1) << x->start | UINT64_C(1) << x->end |
					       UINT64_C(1) << x->process |
					       UINT64_C(1) << x->correlation |
					       (x->name < 0 ? 0 : UINT64_C(1) << x->name),
				    .time_min = t0 < 0 ? 0 : (uint64_t)t0,
				    .time_max = t1 < 0 ? 0 : (uint64_t)t1,
				    .workers = 1};

		ws_scan_run(c->rep->r, &s, take_work, &m, &p->damaged);
	}
	ws_calls_free(&m.calls);
	ws_map_free(&m.chains);
	ws_map_free(&m.units);
	ws_map_free(&m.ops);
	ws_map_free(&m.lane_from);
	free(m.lanes);
	return rc;
}
