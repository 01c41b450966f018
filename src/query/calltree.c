/*
 * calltree.c - see calltree.h.
 *
 * Nodes are found by a hash of (parent, unit). A stack's node is made from its caller's: the memo
 * is looked up outwards until a row is known, and the rows passed on the way are made from there
 * inwards, so that nothing recurses however deep a stack is.
 */
#include "query/calltree.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/slots.h"

void ws_calltree_init(struct ws_calltree *t, struct ws_stacks *stacks, enum ws_unit kind,
		      enum ws_frames frames)
{
	memset(t, 0, sizeof(*t));
	t->stacks = stacks;
	t->kind = kind;
	t->frames = frames;
	ws_grow(t->nodes, t->node_cap, 1);
	memset(t->nodes, 0, sizeof(*t->nodes));
	t->n = 1;
	ws_grow(t->units, t->unit_cap, 1);
	memset(t->units, 0, sizeof(*t->units));
	t->unit_count = 1;
}

void ws_calltree_free(struct ws_calltree *t)
{
	free(t->nodes);
	free(t->units);
	free(t->slots);
	ws_map_free(&t->memo);
	ws_map_free(&t->unit_of);
	memset(t, 0, sizeof(*t));
}

/* ---- nodes ---- */

static uint32_t hash(uint32_t parent, uint32_t unit)
{
	return (uint32_t)ws_hash_word(0, (uint64_t)parent << 32 | unit);
}

uint32_t ws_calltree_child(struct ws_calltree *t, uint32_t parent, uint32_t unit)
{
	uint32_t h = hash(parent, unit), node;
	size_t at;

	for (at = ws_slots_begin(&t->slots, &t->mask, t->n, 1024, h);
	     (node = ws_slots_next(t->slots, t->mask, h, &at)); at++)
		if (t->nodes[node].parent == parent && t->nodes[node].unit == unit)
			return node;
	ws_grow(t->nodes, t->node_cap, t->n + (size_t)1);
	t->nodes[t->n] = (struct ws_node){.parent = parent, .unit = unit};
	t->slots[at] = ws_slot(h, t->n);
	return t->n++;
}

/* ---- units ---- */

static uint32_t unit_for(struct ws_calltree *t, uint64_t key, struct ws_unit_info info)
{
	uint32_t unit = (uint32_t)ws_map_get(&t->unit_of, key, NULL);

	if (unit)
		return unit;
	ws_grow(t->units, t->unit_cap, t->unit_count + (size_t)1);
	t->units[t->unit_count] = info;
	ws_map_set(&t->unit_of, key, t->unit_count);
	return t->unit_count++;
}

/* Keys of units are apart by kind: bit 63 for functions, 62 for modules, 61 for files of Python; a
 * line is (function, line). */
static uint32_t unit_of(struct ws_calltree *t, const struct ws_place *p)
{
	const struct ws_function *f = ws_stacks_function(t->stacks, p->function);
	struct ws_unit_info info = {p->function, p->file, 0};

	if (t->kind == WS_UNIT_MODULE && f->module)
		return unit_for(t, UINT64_C(1) << 62 | f->module, info);
	if (t->kind == WS_UNIT_MODULE && *ws_stacks_origin(t->stacks, f))
		return unit_for(t, UINT64_C(1) << 61 | f->file, info);
	if (t->kind != WS_UNIT_LINE || !p->line)
		return unit_for(t, UINT64_C(1) << 63 | p->function, info);
	info.line = p->line;
	return unit_for(t, (uint64_t)p->line << 31 ^ p->function, info);
}

uint32_t ws_calltree_made(struct ws_calltree *t, const char *name, size_t len)
{
	uint32_t f = ws_stacks_made(t->stacks, name, len);

	return unit_for(t, UINT64_C(1) << 63 | f, (struct ws_unit_info){f, 0, 0});
}

/* ---- stacks ---- */

static bool wanted(const struct ws_calltree *t, const struct ws_frame_info *f)
{
	return t->frames == WS_FRAMES_ALL ||
	       (f->kind == WS_FRAME_PYTHON) == (t->frames == WS_FRAMES_PYTHON);
}

/* The functions of a frame below `node`, the one that others were inlined into first. */
static uint32_t descend(struct ws_calltree *t, uint32_t node, uint32_t frame)
{
	const struct ws_frame_info *f = ws_stacks_frame(t->stacks, frame);
	const struct ws_place *p = ws_stacks_places(t->stacks, f);

	if (!wanted(t, f))
		return node;
	for (uint32_t i = f->count; i--;) {
		uint32_t unit = unit_of(t, &p[i]);

		if (t->kind != WS_UNIT_MODULE || !node || t->nodes[node].unit != unit)
			node = ws_calltree_child(t, node, unit);
	}
	return node;
}

static uint32_t stack_node(struct ws_calltree *t, uint32_t root, uint32_t stack)
{
	uint32_t path[WS_STACKS_DEEPEST], n = 0, node = root;

	while (stack && n < WS_STACKS_DEEPEST) {
		bool found;
		uint64_t known = ws_map_get(&t->memo, (uint64_t)root << 32 | stack, &found);

		if (found) {
			node = (uint32_t)known;
			break;
		}
		path[n++] = stack;
		ws_stacks_step(t->stacks, stack, &stack);
	}
	while (n--) {
		uint32_t caller, frame = ws_stacks_step(t->stacks, path[n], &caller);

		if (frame)
			node = descend(t, node, frame);
		ws_map_set(&t->memo, (uint64_t)root << 32 | path[n], node);
	}
	return node;
}

uint32_t ws_calltree_node(struct ws_calltree *t, uint32_t root, uint32_t frame, uint32_t stack)
{
	uint32_t node = stack_node(t, root, stack);

	return frame ? descend(t, node, frame) : node;
}

size_t ws_calltree_fetch(struct ws_calltree *t, uint32_t root, uint32_t frame, uint32_t stack)
{
	uint32_t node = stack_node(t, root, stack);
	const struct ws_frame_info *f = ws_stacks_frame(t->stacks, frame);
	size_t at;

	if (!frame || !wanted(t, f) || !t->mask)
		return 0;
	at = hash(node, unit_of(t, &ws_stacks_places(t->stacks, f)[f->count - 1])) & t->mask;
	__builtin_prefetch(&t->slots[at]);
	return at;
}

void ws_calltree_fetch_more(const struct ws_calltree *t, size_t fetched)
{
	if (t->mask && (uint32_t)t->slots[fetched])
		__builtin_prefetch(&t->nodes[(uint32_t)t->slots[fetched]], 1);
}

/* ---- sums ---- */

struct ws_cost *ws_calltree_totals(const struct ws_calltree *t)
{
	struct ws_cost *total = ws_malloc(t->n * sizeof(*total));

	for (uint32_t i = 0; i < t->n; i++)
		total[i] = t->nodes[i].self;
	for (uint32_t i = t->n - 1; i > 0; i--)
		ws_cost_add(&total[t->nodes[i].parent], &total[i]);
	return total;
}

void ws_calltree_children(const struct ws_calltree *t, uint32_t **first, uint32_t **next)
{
	*first = ws_calloc(t->n, sizeof(**first));
	*next = ws_calloc(t->n, sizeof(**next));
	for (uint32_t i = t->n - 1; i > 0; i--) {
		(*next)[i] = (*first)[t->nodes[i].parent];
		(*first)[t->nodes[i].parent] = i;
	}
}

/* Depth of each node, 1 for those below nothing, no further than `most` + 1. */
static uint32_t *depths(const struct ws_calltree *t, uint32_t most)
{
	uint32_t *d = ws_calloc(t->n, sizeof(*d));

	for (uint32_t i = 1; i < t->n; i++) {
		d[i] = d[t->nodes[i].parent] + 1;
		d[i] = d[i] > most + 1 ? most + 1 : d[i];
	}
	return d;
}

static void copy_units(const struct ws_calltree *t, struct ws_calltree *out)
{
	ws_grow(out->units, out->unit_cap, t->unit_count);
	memcpy(out->units, t->units, t->unit_count * sizeof(*t->units));
	out->unit_count = t->unit_count;
}

void ws_calltree_invert(const struct ws_calltree *t, uint32_t roots, struct ws_calltree *out)
{
	uint32_t *depth = depths(t, roots),
		 *root = ws_calloc(t->n, sizeof(*root)); /* of each: its place in `out` */

	ws_calltree_init(out, t->stacks, t->kind, t->frames);
	copy_units(t, out);
	for (uint32_t i = 1; i < t->n; i++)
		root[i] = depth[i] <= roots ? ws_calltree_child(out, root[t->nodes[i].parent],
								t->nodes[i].unit)
					    : root[t->nodes[i].parent];
	for (uint32_t i = 1; i < t->n; i++) {
		uint32_t at = root[i];

		if (!t->nodes[i].self.count)
			continue;
		for (uint32_t up = i; up && depth[up] > roots; up = t->nodes[up].parent)
			at = ws_calltree_child(out, at, t->nodes[up].unit);
		ws_cost_add(&out->nodes[at].self, &t->nodes[i].self);
	}
	free(depth);
	free(root);
}

/* ---- the flat table ---- */

struct flattening {
	const struct ws_calltree *t;
	const uint32_t *depth;
	uint32_t roots;
	uint32_t *inside; /* by unit: nodes of it that the walk is below, within one root */
	uint64_t *row_of; /* by unit: root << 32 | row + 1 of the last root that had it */
	struct ws_flat *rows;
	size_t n, cap;
};

static struct ws_flat *row(struct flattening *f, uint32_t root, uint32_t unit)
{
	uint64_t known = f->row_of[unit];

	if (known && f->rows[(uint32_t)known - 1].root == root)
		return &f->rows[(uint32_t)known - 1];
	ws_grow(f->rows, f->cap, f->n + 1);
	f->rows[f->n] = (struct ws_flat){.root = root, .unit = unit};
	f->row_of[unit] = ++f->n;
	return &f->rows[f->n - 1];
}

static void enter(struct flattening *f, uint32_t node, uint32_t root, const struct ws_cost *total)
{
	const struct ws_node *n = &f->t->nodes[node];

	if (f->depth[node] <= f->roots) {
		if (n->self.count) {
			struct ws_flat *r = row(f, node, n->unit);

			ws_cost_add(&r->self, &n->self);
			ws_cost_add(&r->total, &n->self);
		}
		return;
	}
	ws_cost_add(&row(f, root, n->unit)->self, &n->self);
	if (!f->inside[n->unit]++)
		ws_cost_add(&row(f, root, n->unit)->total, total);
}

static void leave(struct flattening *f, uint32_t node)
{
	if (f->depth[node] > f->roots)
		f->inside[f->t->nodes[node].unit]--;
}

/* The node of depth `roots` that a node is, or is below. */
static uint32_t *roots_of(const struct ws_calltree *t, const uint32_t *depth, uint32_t roots)
{
	uint32_t *root = ws_calloc(t->n, sizeof(*root));

	for (uint32_t i = 1; i < t->n; i++)
		root[i] = !roots ? 0 : depth[i] <= roots ? i : root[t->nodes[i].parent];
	return root;
}

struct ws_flat *ws_calltree_flat(const struct ws_calltree *t, uint32_t roots, size_t *count)
{
	uint32_t *first, *next, *depth = depths(t, roots), *root = roots_of(t, depth, roots);
	struct ws_cost *total = ws_calltree_totals(t);
	struct flattening f = {.t = t, .depth = depth, .roots = roots};

	f.inside = ws_calloc(t->unit_count, sizeof(*f.inside));
	f.row_of = ws_calloc(t->unit_count, sizeof(*f.row_of));
	ws_calltree_children(t, &first, &next);
	for (uint32_t at = first[0]; at;) { /* depth first, without recursion */
		__builtin_prefetch(
			&t->nodes[next[at]]); /* what comes next, if this has no children */
		__builtin_prefetch(&total[next[at]]);
		__builtin_prefetch(&first[next[at]]);
		__builtin_prefetch(&next[next[at]]);
		enter(&f, at, root[at], &total[at]);
		if (first[at]) {
			at = first[at];
			continue;
		}
		for (; at && (leave(&f, at), !next[at]); at = t->nodes[at].parent)
			;
		at = at ? next[at] : 0;
	}
	free(first);
	free(next);
	free(depth);
	free(root);
	free(total);
	free(f.inside);
	free(f.row_of);
	*count = f.n;
	return f.rows;
}

/* ---- names ---- */

void ws_calltree_name(const struct ws_calltree *t, uint32_t unit, struct ws_text *text)
{
	const struct ws_unit_info *u = &t->units[unit];
	const struct ws_function *f = ws_stacks_function(t->stacks, u->function);

	if (t->kind == WS_UNIT_MODULE && *ws_stacks_origin(t->stacks, f))
		ws_text_puts(text, ws_stacks_origin(t->stacks, f));
	else
		ws_text_add(text, f->name, f->len);
}

const char *ws_calltree_module(const struct ws_calltree *t, uint32_t unit)
{
	return ws_stacks_origin(t->stacks, ws_stacks_function(t->stacks, t->units[unit].function));
}
