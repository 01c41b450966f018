/*
 * api_flame.c - CPU samples of a window as a tree of functions (top-down, or bottom-up from the innermost) and as a flat list.
 *
 * Samples with the same frame and callers are added up first; there are far fewer of those than samples. Recursion counts once in
 * a function's total. Subtrees below a thousandth of all are added up as "...": a page shows no more.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "export/text.h"
#include "serve/api.h"
#include "serve/frames.h"

enum { MOST_DEPTH = 512, MOST_FLAT = 500, MOST_NODES = 20000 };

struct node {
	uint32_t name, child, next; /* first child, next sibling; 0 for none */
	uint64_t self, total, samples;
};

struct flat {
	uint32_t name, frame, seen; /* seen: number of the stack that counted it last */
	uint64_t self, total;
};

struct flame {
	struct ws_call *c;
	struct ws_frames *f;
	struct ws_map stacks; /* frame << 32 | callers: weight */
	struct ws_map thread; /* those wanted; empty: all */
	uint64_t samples;
	struct node *node;
	size_t n, cap;
	struct flat *flat;
	size_t flat_n, flat_cap;
	struct ws_map flat_at;
	bool up;
	uint64_t least;
	size_t put;
};

static int take_samples(void *ctx, const struct ws_batch *b)
{
	struct flame *x = ctx;

	for (size_t i = 0; i < b->rows; i++) {
		uint64_t key = b->col[ws_sample_frame][i] << 32 | (uint32_t)b->col[ws_sample_callers][i];
		bool wanted = !x->thread.n;

		if (!wanted)
			ws_map_get(&x->thread, b->col[ws_sample_thread][i], &wanted);
		if (!wanted)
			continue;
		x->samples++;
		ws_map_set(&x->stacks, key,
			   ws_map_get(&x->stacks, key, NULL) + (b->col[ws_sample_weight][i] ? b->col[ws_sample_weight][i] : 1));
	}
	return 0;
}

static uint32_t child(struct flame *x, uint32_t parent, uint32_t name)
{
	for (uint32_t i = x->node[parent].child; i; i = x->node[i].next)
		if (x->node[i].name == name)
			return i;
	ws_grow(x->node, x->cap, x->n + 1);
	x->node[x->n] = (struct node){.name = name, .next = x->node[parent].child};
	x->node[parent].child = (uint32_t)x->n;
	return (uint32_t)x->n++;
}

static void count_flat(struct flame *x, uint32_t frame, uint64_t weight, bool self, uint32_t stack)
{
	uint32_t key = ws_code_key(x->f, frame);
	bool known;
	size_t i = ws_map_get(&x->flat_at, key, &known);

	if (!known) {
		i = x->flat_n;
		ws_map_set(&x->flat_at, key, i);
		ws_grow(x->flat, x->flat_cap, x->flat_n + 1);
		x->flat[x->flat_n++] = (struct flat){.name = key, .frame = frame};
	}
	if (self)
		x->flat[i].self += weight;
	if (x->flat[i].seen != stack)
		x->flat[i].total += weight;
	x->flat[i].seen = stack;
}

static void add_stack(struct flame *x, uint32_t frame, uint32_t callers, uint64_t weight, uint32_t number)
{
	uint32_t path[MOST_DEPTH], n = 0, at = 0;

	path[n++] = frame;
	for (; callers && n < MOST_DEPTH; callers = ws_code_stack_parent(x->f, callers))
		path[n++] = ws_code_stack_frame(x->f, callers);
	for (uint32_t i = 0; i < n; i++)
		count_flat(x, path[i], weight, !i, number);
	x->node[0].total += weight;
	for (uint32_t i = 0; i < n; i++) {
		at = child(x, at, ws_code_key(x->f, path[x->up ? i : n - 1 - i]));
		x->node[at].total += weight;
	}
	x->node[at].self += weight;
}

static int by_size(const void *a, const void *b, void *ctx)
{
	const struct flame *x = ctx;
	uint64_t m = x->node[*(const uint32_t *)a].total, n = x->node[*(const uint32_t *)b].total;

	return m > n ? -1 : m < n;
}

static void put_node(struct flame *x, uint32_t at, uint32_t depth)
{
	struct ws_text *t = x->c->out;
	uint32_t *kids = NULL;
	size_t n = 0, cap = 0;

	ws_json_comma(t);
	ws_text_puts(t, "{");
	if (at)
		ws_json_name(t, "name", x->c->l, x->node[at].name);
	ws_json_int(t, "total", (int64_t)x->node[at].total);
	ws_json_int(t, "self", (int64_t)x->node[at].self);
	ws_json_key(t, "children");
	ws_text_puts(t, "[");
	for (uint32_t i = x->node[at].child; i; i = x->node[i].next) {
		if (x->node[i].total < x->least)
			continue;
		ws_grow(kids, cap, n + 1);
		kids[n++] = i;
	}
	if (n)
		qsort_r(kids, n, sizeof(*kids), by_size, x);
	for (size_t i = 0; i < n && x->put < MOST_NODES && depth < MOST_DEPTH; i++) {
		x->put++;
		put_node(x, kids[i], depth + 1);
	}
	free(kids);
	ws_text_puts(t, "]}");
}

static int by_self(const void *a, const void *b)
{
	const struct flat *x = a, *y = b;

	if (x->self != y->self)
		return x->self > y->self ? -1 : 1;
	return x->total > y->total ? -1 : x->total < y->total;
}

static void put_flat(struct flame *x)
{
	struct ws_text *t = x->c->out;

	if (x->flat_n)
		qsort(x->flat, x->flat_n, sizeof(*x->flat), by_self);
	ws_json_key(t, "flat");
	ws_text_puts(t, "[");
	for (size_t i = 0; i < x->flat_n && i < MOST_FLAT; i++) {
		uint32_t module = ws_code_module(x->f, x->flat[i].frame);
		size_t n;
		const char *s = ws_report_string(x->c->rep->r, module, &n);

		ws_json_comma(t);
		ws_text_puts(t, "{");
		ws_json_name(t, "name", x->c->l, x->flat[i].name);
		ws_json_text(t, "module", s, n < 4096 ? n : 4096);
		ws_json_int(t, "self", (int64_t)x->flat[i].self);
		ws_json_int(t, "total", (int64_t)x->flat[i].total);
		ws_text_puts(t, "}");
	}
	ws_text_puts(t, "]");
}

static bool wanted_threads(struct flame *x, struct ws_err *e)
{
	uint32_t *lanes;
	size_t n;

	if (!ws_param(x->c, "lanes"))
		return true;
	if (!ws_param_lanes(x->c, WS_LANES_ALL, &lanes, &n, e))
		return false;
	for (size_t i = 0; i < n; i++)
		if (x->c->l->lane[lanes[i]]->kind <= WS_LANE_PYTHON)
			ws_map_set(&x->thread, x->c->l->lane[lanes[i]]->key[0], 1);
	free(lanes);
	return true;
}

int ws_api_flame(struct ws_call *c, struct ws_err *e)
{
	struct ws_scan s = {.table = WS_TABLE_sample,
			    .columns = WS_COL(sample, start) | WS_COL(sample, thread) | WS_COL(sample, weight) |
				       WS_COL(sample, frame) | WS_COL(sample, callers),
			    .workers = 1};
	struct flame x = {.c = c};
	int64_t t0, t1, up;

	if (!ws_param_window(c, &t0, &t1, e) || !ws_param_int(c, "up", 0, 1, 0, &up, e) || !wanted_threads(&x, e))
		return 400;
	ws_lanes_wait_frames(c->l);
	x.f = c->l->frames;
	x.up = up;
	s.time_min = t0 < 0 ? 0 : (uint64_t)t0;
	s.time_max = t1 < 0 ? 0 : (uint64_t)t1;
	ws_scan_run(c->rep->r, &s, take_samples, &x, NULL);
	ws_grow(x.node, x.cap, 1);
	x.node[0] = (struct node){0};
	x.n = 1;
	for (size_t i = 0; i < x.stacks.size; i++)
		if (x.stacks.used[i])
			add_stack(&x, (uint32_t)(x.stacks.slots[i].key >> 32), (uint32_t)x.stacks.slots[i].key,
				  x.stacks.slots[i].value, (uint32_t)i + 1);
	x.least = x.node[0].total / 2000;
	ws_text_puts(c->out, "{");
	ws_json_int(c->out, "samples", (int64_t)x.samples);
	ws_json_key(c->out, "root");
	put_node(&x, 0, 0);
	put_flat(&x);
	ws_text_puts(c->out, "}");
	ws_map_free(&x.stacks);
	ws_map_free(&x.thread);
	ws_map_free(&x.flat_at);
	free(x.node);
	free(x.flat);
	return 0;
}
