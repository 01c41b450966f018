/*
 * project.c - NVTX ranges as the GPU saw them: from the start of the first piece of work launched
 * inside of a range to the end of the last.
 *
 * A range encloses a call when it is the calling thread's and spans the whole call (query/enclose.h
 * says the same). Here this is asked of levels: on each level of the thread's ranges at most one
 * can, and as work comes about in the order of its calls, it is found near where the last was.
 * Calls are looked up in a hash by correlation id, in mapped memory like the events (space.c): a
 * report of any size stays within the server's means.
 */
#include <stdlib.h>
#include <string.h>

#include "lanes/lane.h"
#include "query/gpu.h"

struct call {
	uint64_t start;
	uint32_t dur, thread;
	uint32_t process, correlation; /* process 0: no call */
};

struct span {
	uint64_t first, last; /* last 0: no work */
};

/* One lane of NVTX and the lanes of each device that it may show on. */
struct target {
	uint32_t nvtx, projected; /* lanes */
	uint32_t thread, device;
	struct span **span; /* by level and event */
	uint32_t *near;	    /* by level: where the last was found */
};

struct project {
	struct ws_lanes *l;
	struct call *calls;
	size_t mask, bytes;
	struct target *target; /* by thread */
	size_t n, cap;
	struct ws_map first; /* thread: its first target */
	const struct ws_cuda_columns *c;
};

/* ---- which lanes there may be ---- */

void ws_project_lanes(struct ws_lanes *l)
{
	size_t n = l->n;

	for (size_t i = 0; i < n; i++) {
		const struct ws_lane *x = l->lane[i];
		uint32_t process, api[4] = {x->key[0]};
		bool calls = false;

		if (x->kind != WS_LANE_NVTX || x->key[2])
			continue;
		process = ws_who_thread(l->who, x->key[0])->process;
		for (size_t k = 0; k < n && !calls; k++)
			calls = l->lane[k]->kind == WS_LANE_CUDA_API &&
				!memcmp(l->lane[k]->key, api, sizeof(api));
		for (size_t k = 0; k < n && calls; k++) {
			uint32_t key[4] = {process, l->lane[k]->key[1], x->key[0], x->key[1]};

			if (l->lane[k]->kind == WS_LANE_KERNELS && l->lane[k]->key[0] == process)
				ws_lane_make(l, WS_LANE_PROJECTED, key);
		}
	}
}

/* ---- calls by correlation ---- */

static size_t slot(const struct project *p, uint32_t process, uint32_t correlation)
{
	uint64_t key = ((uint64_t)process << 32 | correlation) * UINT64_C(0x9e3779b97f4a7c15);
	size_t at = (key ^ key >> 29) & p->mask;

	while (p->calls[at].process &&
	       (p->calls[at].process != process || p->calls[at].correlation != correlation))
		at = (at + 1) & p->mask;
	return at;
}

static int take_calls(void *ctx, const struct ws_batch *b)
{
	struct project *p = ctx;

	for (size_t i = 0; i < b->rows; i++) {
		uint64_t start = b->col[ws_cuda_api_start][i], end = b->col[ws_cuda_api_end][i],
			 id = b->col[ws_cuda_api_correlation][i];
		uint32_t thread = (uint32_t)b->col[ws_cuda_api_thread][i],
			 process = ws_who_thread(p->l->who, thread)->process;
		struct call *c;
		bool wanted;

		ws_map_get(&p->first, thread, &wanted);
		if (!wanted || id == WS_NO_U32 || !process || end < start || end == WS_NO_TIME)
			continue;
		c = &p->calls[slot(p, process, (uint32_t)id)];
		if (c->process && c->start <= start) /* a driver call inside of it */
			continue;
		*c = (struct call){start,
				   end - start < UINT32_MAX ? (uint32_t)(end - start) : UINT32_MAX,
				   thread, process, (uint32_t)id};
	}
	return __atomic_load_n(&p->l->stop, __ATOMIC_RELAXED);
}

static void load_calls(struct project *p)
{
	uint64_t rows = ws_report_rows(p->l->r, WS_TABLE_cuda_api);
	struct ws_scan s = {.table = WS_TABLE_cuda_api,
			    .columns = WS_COL(cuda_api, start) | WS_COL(cuda_api, end) |
				       WS_COL(cuda_api, thread) | WS_COL(cuda_api, correlation),
			    .time_max = UINT64_MAX,
			    .workers = 1};

	for (p->mask = 1024; p->mask < rows * 3 / 2; p->mask *= 2)
		;
	p->bytes = p->mask * sizeof(*p->calls);
	p->calls = ws_space_new(p->bytes);
	p->mask--;
	ws_scan_run(p->l->r, &s, take_calls, p, NULL);
}

/* ---- work to ranges ---- */

/* The event of a level that spans the whole call, or UINT32_MAX. */
static uint32_t around(const struct ws_level *v, uint32_t *near, const struct call *c)
{
	uint32_t from = *near < v->n && v->start[*near] <= c->start ? *near : 0,
		 i = ws_level_seek(v, from, v->n, c->start + 1);

	if (!i)
		return UINT32_MAX;
	*near = --i;
	return ws_level_end(v, i) >= c->start + c->dur && !(v->src[i] & WS_EVENT_MOMENT)
		       ? i
		       : UINT32_MAX;
}

static void widen(struct project *p, struct target *t, const struct call *c, uint64_t start,
		  uint64_t end)
{
	const struct ws_lane *lane = p->l->lane[t->nvtx];

	for (uint32_t k = 0; k < lane->levels; k++) {
		uint32_t i = around(&lane->level[k], &t->near[k], c);
		struct span *s = i == UINT32_MAX ? NULL : &t->span[k][i];

		if (!s)
			continue;
		s->first = !s->last || start < s->first ? start : s->first;
		s->last = end > s->last ? end : s->last;
	}
}

static int take_work(void *ctx, const struct ws_batch *b)
{
	struct project *p = ctx;

	for (size_t i = 0; i < b->rows; i++) {
		uint64_t start = b->col[p->c->start][i], end = b->col[p->c->end][i],
			 device = b->col[p->c->device][i];
		const struct call *c;
		bool known;

		if (end == WS_NO_TIME || end < start || !end ||
		    b->col[p->c->correlation][i] == WS_NO_U32 || !b->col[p->c->process][i])
			continue;
		c = &p->calls[slot(p, (uint32_t)b->col[p->c->process][i],
				   (uint32_t)b->col[p->c->correlation][i])];
		if (!c->process)
			continue;
		for (size_t k = ws_map_get(&p->first, c->thread, &known);
		     known && k < p->n && p->target[k].thread == c->thread; k++)
			if (p->target[k].device == device)
				widen(p, &p->target[k], c, start, end);
	}
	return __atomic_load_n(&p->l->stop, __ATOMIC_RELAXED);
}

static void scan_work(struct project *p)
{
	for (int i = WS_CUDA_KERNEL; i < WS_CUDA_SOURCES; i++) {
		const struct ws_cuda_columns *c = p->c = &ws_cuda_columns[i];
		struct ws_scan s = {.table = c->table,
				    .columns = UINT64_C(1) << c->start | UINT64_C(1) << c->end |
					       UINT64_C(1) << c->process |
					       UINT64_C(1) << c->correlation |
					       UINT64_C(1) << c->device,
				    .time_max = UINT64_MAX,
				    .workers = 1};

		ws_scan_run(p->l->r, &s, take_work, p, NULL);
	}
}

/* ---- lanes ---- */

static int by_thread(const void *a, const void *b)
{
	const struct target *x = a, *y = b;

	return x->thread != y->thread	     ? (x->thread < y->thread ? -1 : 1)
	       : x->projected < y->projected ? -1
					     : x->projected > y->projected;
}

static void find_targets(struct project *p)
{
	for (uint32_t i = 0; i < p->l->n; i++) {
		const struct ws_lane *x = p->l->lane[i];
		uint32_t key[4] = {x->key[2], x->key[3]};
		struct target t = {.projected = i, .thread = x->key[2], .device = x->key[1]};

		if (x->kind != WS_LANE_PROJECTED)
			continue;
		for (t.nvtx = 0; t.nvtx < p->l->n; t.nvtx++)
			if (p->l->lane[t.nvtx]->kind == WS_LANE_NVTX &&
			    !memcmp(p->l->lane[t.nvtx]->key, key, sizeof(key)))
				break;
		if (t.nvtx == p->l->n || !ws_lane_ready(p->l->lane[t.nvtx]))
			continue;
		ws_grow(p->target, p->cap, p->n + 1);
		p->target[p->n++] = t;
	}
	if (p->n)
		qsort(p->target, p->n, sizeof(*p->target), by_thread);
	for (size_t i = p->n; i--;) {
		struct target *t = &p->target[i];
		const struct ws_lane *lane = p->l->lane[t->nvtx];

		ws_map_set(&p->first, t->thread, i);
		t->span = ws_calloc(lane->levels + 1, sizeof(*t->span));
		t->near = ws_calloc(lane->levels + 1, sizeof(*t->near));
		for (uint32_t k = 0; k < lane->levels; k++)
			t->span[k] = ws_space_new(lane->level[k].n * sizeof(struct span));
	}
}

/* The ranges that had work become the events of the projected lane. */
static void finish_target(struct project *p, struct target *t)
{
	const struct ws_lane *from = p->l->lane[t->nvtx];
	struct ws_lane *to = p->l->lane[t->projected];
	uint64_t n = 0;

	for (uint32_t k = 0; k < from->levels; k++)
		for (uint32_t i = 0; i < from->level[k].n; i++)
			n += t->span[k][i].last != 0;
	if (n) {
		to->raw = ws_space_new(n * sizeof(*to->raw));
		to->count = n;
	}
	for (uint32_t k = 0; n && k < from->levels; k++)
		for (uint32_t i = 0; i < from->level[k].n; i++)
			if (t->span[k][i].last)
				to->raw[to->filled++] =
					(struct ws_raw){t->span[k][i].first,
							t->span[k][i].last,
							from->level[k].name[i],
							from->level[k].ref[i],
							from->level[k].src[i] & WS_EVENT_SOURCE,
							from->level[k].paint[i],
							(uint8_t)k};
	for (uint32_t k = 0; k < from->levels; k++)
		ws_space_free(t->span[k], from->level[k].n * sizeof(struct span));
	free(t->span);
	free(t->near);
	to->placed = to->filled;
	if (n)
		ws_lane_finish(p->l, to);
}

void ws_project(struct ws_lanes *l)
{
	struct project p = {.l = l};

	find_targets(&p);
	if (p.n) {
		load_calls(&p);
		scan_work(&p);
		ws_space_free(p.calls, p.bytes);
	}
	for (size_t i = 0; i < p.n; i++)
		finish_target(&p, &p.target[i]);
	free(p.target);
	ws_map_free(&p.first);
}
