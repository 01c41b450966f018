/*
 * calltree.c - see calltree.h.
 *
 * Nodes are found by a hash of (parent, unit). A stack's node is made from its caller's. The memo
 * is searched outwards until it has a row, and from there the nodes of the rows on the way are made
 * inwards, so nothing recurses however deep a stack is.
 */
#include "query/calltree.h"

#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "base/mem.h"
#include "base/slots.h"

void ws_calltree_init(struct ws_calltree *calltree, struct ws_stacks *stacks, enum ws_unit kind,
		      enum ws_frames frames)
{
	memset(calltree, 0, sizeof(*calltree));
	calltree->stacks = stacks;
	calltree->kind = kind;
	calltree->frames = frames;
	ws_grow(calltree->nodes, calltree->node_cap, 1);
	memset(calltree->nodes, 0, sizeof(*calltree->nodes));
	calltree->count = 1;
	ws_grow(calltree->units, calltree->unit_cap, 1);
	memset(calltree->units, 0, sizeof(*calltree->units));
	calltree->unit_count = 1;
}

void ws_calltree_free(struct ws_calltree *calltree)
{
	free(calltree->nodes);
	free(calltree->units);
	free(calltree->slots);
	ws_map_free(&calltree->memo);
	ws_map_free(&calltree->unit_of);
	memset(calltree, 0, sizeof(*calltree));
}

/* ---- nodes ---- */

static uint32_t hash_node(uint32_t parent, uint32_t unit)
{
	return (uint32_t)ws_hash_word(0, (uint64_t)parent << 32 | unit);
}

uint32_t ws_calltree_find_or_add_child(struct ws_calltree *calltree, uint32_t parent, uint32_t unit)
{
	uint32_t key_hash = hash_node(parent, unit), node;
	size_t at;

	for (at = ws_begin_slot_search(&calltree->slots, &calltree->mask, calltree->count, 1024,
				       key_hash);
	     (node = ws_next_in_slots(calltree->slots, calltree->mask, key_hash, &at)); at++)
		if (calltree->nodes[node].parent == parent && calltree->nodes[node].unit == unit)
			return node;
	ws_grow(calltree->nodes, calltree->node_cap, calltree->count + (size_t)1);
	calltree->nodes[calltree->count] = (struct ws_node){.parent = parent, .unit = unit};
	calltree->slots[at] = ws_make_slot(key_hash, calltree->count);
	return calltree->count++;
}

/* ---- units ---- */

static uint32_t find_or_add_unit(struct ws_calltree *calltree, uint64_t key,
				 struct ws_unit_info info)
{
	uint32_t unit = (uint32_t)ws_map_get(&calltree->unit_of, key, NULL);

	if (unit)
		return unit;
	ws_grow(calltree->units, calltree->unit_cap, calltree->unit_count + (size_t)1);
	calltree->units[calltree->unit_count] = info;
	ws_map_set(&calltree->unit_of, key, calltree->unit_count);
	return calltree->unit_count++;
}

/* Keys of units differ by kind: bit 63 for functions, 62 for modules, 61 for Python files; a line
 * is (function, line). */
static uint32_t find_unit(struct ws_calltree *calltree, const struct ws_place *place)
{
	const struct ws_function *function =
		ws_stacks_get_function(calltree->stacks, place->function);
	struct ws_unit_info info = {place->function, place->file, 0};

	if (calltree->kind == WS_UNIT_MODULE && function->module)
		return find_or_add_unit(calltree, UINT64_C(1) << 62 | function->module, info);
	if (calltree->kind == WS_UNIT_MODULE && *ws_stacks_get_origin(calltree->stacks, function))
		return find_or_add_unit(calltree, UINT64_C(1) << 61 | function->file, info);
	if (calltree->kind != WS_UNIT_LINE || !place->line)
		return find_or_add_unit(calltree, UINT64_C(1) << 63 | place->function, info);
	info.line = place->line;
	return find_or_add_unit(calltree, (uint64_t)place->line << 31 ^ place->function, info);
}

uint32_t ws_calltree_add_made_unit(struct ws_calltree *calltree, const char *name, size_t len)
{
	uint32_t function = ws_stacks_add_made_function(calltree->stacks, name, len);

	return find_or_add_unit(calltree, UINT64_C(1) << 63 | function,
				(struct ws_unit_info){function, 0, 0});
}

/* ---- stacks ---- */

static bool is_wanted(const struct ws_calltree *calltree, const struct ws_frame_info *frame_info)
{
	return calltree->frames == WS_FRAMES_ALL ||
	       (frame_info->kind == WS_FRAME_PYTHON) == (calltree->frames == WS_FRAMES_PYTHON);
}

/* Adds the functions of a frame below `node`, outermost function first; returns the node of the
 * last one. */
static uint32_t add_frame_nodes(struct ws_calltree *calltree, uint32_t node, uint32_t frame)
{
	const struct ws_frame_info *frame_info = ws_stacks_get_frame(calltree->stacks, frame);
	const struct ws_place *place = ws_stacks_get_places(calltree->stacks, frame_info);

	if (!is_wanted(calltree, frame_info))
		return node;
	for (uint32_t i = frame_info->count; i--;) {
		uint32_t unit = find_unit(calltree, &place[i]);

		if (calltree->kind != WS_UNIT_MODULE || !node || calltree->nodes[node].unit != unit)
			node = ws_calltree_find_or_add_child(calltree, node, unit);
	}
	return node;
}

static uint32_t find_stack_node(struct ws_calltree *calltree, uint32_t root, uint32_t stack)
{
	uint32_t path[WS_STACKS_DEEPEST], length = 0, node = root;

	while (stack && length < WS_STACKS_DEEPEST) {
		bool found;
		uint64_t known = ws_map_get(&calltree->memo, (uint64_t)root << 32 | stack, &found);

		if (found) {
			node = (uint32_t)known;
			break;
		}
		path[length++] = stack;
		ws_stacks_step_out(calltree->stacks, stack, &stack);
	}
	while (length--) {
		uint32_t caller,
			frame = ws_stacks_step_out(calltree->stacks, path[length], &caller);

		if (frame)
			node = add_frame_nodes(calltree, node, frame);
		ws_map_set(&calltree->memo, (uint64_t)root << 32 | path[length], node);
	}
	return node;
}

uint32_t ws_calltree_find_node(struct ws_calltree *calltree, uint32_t root, uint32_t frame,
			       uint32_t stack)
{
	uint32_t node = find_stack_node(calltree, root, stack);

	if (!frame)
		return node;
	return add_frame_nodes(calltree, node, frame);
}

size_t ws_calltree_prefetch_slot(struct ws_calltree *calltree, uint32_t root, uint32_t frame,
				 uint32_t stack)
{
	uint32_t node = find_stack_node(calltree, root, stack);
	const struct ws_frame_info *frame_info = ws_stacks_get_frame(calltree->stacks, frame);
	size_t at;

	if (!frame || !is_wanted(calltree, frame_info) || !calltree->mask)
		return 0;
	at = hash_node(node, find_unit(calltree,
				       &ws_stacks_get_places(calltree->stacks,
							     frame_info)[frame_info->count - 1])) &
	     calltree->mask;
	__builtin_prefetch(&calltree->slots[at]);
	return at;
}

void ws_calltree_prefetch_node(const struct ws_calltree *calltree, size_t fetched)
{
	if (calltree->mask && (uint32_t)calltree->slots[fetched])
		__builtin_prefetch(&calltree->nodes[(uint32_t)calltree->slots[fetched]], 1);
}

/* ---- sums ---- */

struct ws_cost *ws_calltree_sum_totals(const struct ws_calltree *calltree)
{
	struct ws_cost *total = ws_malloc(calltree->count * sizeof(*total));

	for (uint32_t i = 0; i < calltree->count; i++)
		total[i] = calltree->nodes[i].self;
	for (uint32_t i = calltree->count - 1; i > 0; i--)
		ws_cost_add(&total[calltree->nodes[i].parent], &total[i]);
	return total;
}

void ws_calltree_list_children(const struct ws_calltree *calltree, uint32_t **first,
			       uint32_t **next)
{
	*first = ws_calloc(calltree->count, sizeof(**first));
	*next = ws_calloc(calltree->count, sizeof(**next));
	for (uint32_t i = calltree->count - 1; i > 0; i--) {
		(*next)[i] = (*first)[calltree->nodes[i].parent];
		(*first)[calltree->nodes[i].parent] = i;
	}
}

/*
 * The depth of each node: 1 for those directly below node 0. Depths above `most` + 1 count as that.
 */
static uint32_t *find_depths(const struct ws_calltree *calltree, uint32_t most)
{
	uint32_t *depth = ws_calloc(calltree->count, sizeof(*depth));

	for (uint32_t i = 1; i < calltree->count; i++) {
		depth[i] = depth[calltree->nodes[i].parent] + 1;
		depth[i] = ws_min(depth[i], most + 1);
	}
	return depth;
}

static void copy_units(const struct ws_calltree *calltree, struct ws_calltree *out)
{
	ws_grow(out->units, out->unit_cap, calltree->unit_count);
	memcpy(out->units, calltree->units, calltree->unit_count * sizeof(*calltree->units));
	out->unit_count = calltree->unit_count;
}

void ws_calltree_invert(const struct ws_calltree *calltree, uint32_t roots, struct ws_calltree *out)
{
	uint32_t *depth = find_depths(calltree, roots),
		 *root = ws_calloc(calltree->count,
				   sizeof(*root)); /* for each node: its place in `out` */

	ws_calltree_init(out, calltree->stacks, calltree->kind, calltree->frames);
	copy_units(calltree, out);
	for (uint32_t i = 1; i < calltree->count; i++) {
		root[i] = root[calltree->nodes[i].parent];
		if (depth[i] <= roots)
			root[i] = ws_calltree_find_or_add_child(out, root[i],
								calltree->nodes[i].unit);
	}
	for (uint32_t i = 1; i < calltree->count; i++) {
		uint32_t at = root[i];

		if (ws_cost_is_none(&calltree->nodes[i].self))
			continue;
		for (uint32_t up = i; up && depth[up] > roots; up = calltree->nodes[up].parent)
			at = ws_calltree_find_or_add_child(out, at, calltree->nodes[up].unit);
		ws_cost_add(&out->nodes[at].self, &calltree->nodes[i].self);
	}
	free(depth);
	free(root);
}

/* ---- the flat table ---- */

struct flattening {
	const struct ws_calltree *calltree;
	const uint32_t *depth;
	uint32_t roots;
	uint32_t *inside; /* by unit: how many of its nodes the walk is below, within one root */
	uint64_t *row_of; /* by unit: root << 32 | row + 1 of the last root that had it */
	struct ws_flat *rows;
	size_t count, cap;
};

static struct ws_flat *find_or_add_row(struct flattening *flattening, uint32_t root, uint32_t unit)
{
	uint64_t known = flattening->row_of[unit];

	if (known && flattening->rows[(uint32_t)known - 1].root == root)
		return &flattening->rows[(uint32_t)known - 1];
	ws_grow(flattening->rows, flattening->cap, flattening->count + 1);
	flattening->rows[flattening->count] = (struct ws_flat){.root = root, .unit = unit};
	flattening->row_of[unit] = ++flattening->count;
	return &flattening->rows[flattening->count - 1];
}

static void enter_node(struct flattening *flattening, uint32_t node, uint32_t root,
		       const struct ws_cost *total)
{
	const struct ws_node *info = &flattening->calltree->nodes[node];

	if (flattening->depth[node] <= flattening->roots) {
		if (!ws_cost_is_none(&info->self)) {
			struct ws_flat *flat = find_or_add_row(flattening, node, info->unit);

			ws_cost_add(&flat->self, &info->self);
			ws_cost_add(&flat->total, &info->self);
		}
		return;
	}
	ws_cost_add(&find_or_add_row(flattening, root, info->unit)->self, &info->self);
	if (!flattening->inside[info->unit]++)
		ws_cost_add(&find_or_add_row(flattening, root, info->unit)->total, total);
}

static void leave_node(struct flattening *flattening, uint32_t node)
{
	if (flattening->depth[node] > flattening->roots)
		flattening->inside[flattening->calltree->nodes[node].unit]--;
}

/* Leaves `node` and every parent whose last child it was; returns the next node, or 0. */
static uint32_t next_after_subtree(struct flattening *flattening, const uint32_t *next,
				   uint32_t node)
{
	while (node) {
		leave_node(flattening, node);
		if (next[node])
			return next[node];
		node = flattening->calltree->nodes[node].parent;
	}
	return 0;
}

/* For each node, the node of depth `roots` that it is or is below; 0 without roots. */
static uint32_t *find_roots(const struct ws_calltree *calltree, const uint32_t *depth,
			    uint32_t roots)
{
	uint32_t *root = ws_calloc(calltree->count, sizeof(*root));

	for (uint32_t i = 1; roots && i < calltree->count; i++) {
		if (depth[i] <= roots)
			root[i] = i;
		else
			root[i] = root[calltree->nodes[i].parent];
	}
	return root;
}

struct ws_flat *ws_calltree_make_rows(const struct ws_calltree *calltree, uint32_t roots,
				      size_t *count)
{
	uint32_t *first, *next, *depth = find_depths(calltree, roots),
				*root = find_roots(calltree, depth, roots);
	struct ws_cost *total = ws_calltree_sum_totals(calltree);
	struct flattening flattening = {.calltree = calltree, .depth = depth, .roots = roots};

	flattening.inside = ws_calloc(calltree->unit_count, sizeof(*flattening.inside));
	flattening.row_of = ws_calloc(calltree->unit_count, sizeof(*flattening.row_of));
	ws_calltree_list_children(calltree, &first, &next);
	for (uint32_t at = first[0]; at;) { /* depth first, without recursion */
		__builtin_prefetch(
			&calltree->nodes[next[at]]); /* the next node if this one has no children */
		__builtin_prefetch(&total[next[at]]);
		__builtin_prefetch(&first[next[at]]);
		__builtin_prefetch(&next[next[at]]);
		enter_node(&flattening, at, root[at], &total[at]);
		if (first[at]) {
			at = first[at];
			continue;
		}
		at = next_after_subtree(&flattening, next, at);
	}
	free(first);
	free(next);
	free(depth);
	free(root);
	free(total);
	free(flattening.inside);
	free(flattening.row_of);
	*count = flattening.count;
	return flattening.rows;
}

/* ---- names ---- */

void ws_calltree_add_unit_name(const struct ws_calltree *calltree, uint32_t unit,
			       struct ws_text *text)
{
	const struct ws_unit_info *unit_info = &calltree->units[unit];
	const struct ws_function *function =
		ws_stacks_get_function(calltree->stacks, unit_info->function);

	if (calltree->kind == WS_UNIT_MODULE && *ws_stacks_get_origin(calltree->stacks, function))
		ws_text_puts(text, ws_stacks_get_origin(calltree->stacks, function));
	else
		ws_text_add(text, function->name, function->len);
}

const char *ws_calltree_get_module(const struct ws_calltree *calltree, uint32_t unit)
{
	return ws_stacks_get_origin(calltree->stacks,
				    ws_stacks_get_function(calltree->stacks,
							   calltree->units[unit].function));
}
