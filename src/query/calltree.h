/*
 * calltree.h - call stacks merged into one tree, root outermost, with what each node costs.
 *
 * A node is a *unit* under a parent node: a function, a module or a source line, as chosen when the
 * tree was made; stacks that differ only in addresses share nodes. Inlined functions are nodes of
 * their own, under the function that they were inlined into. A process or thread above the
 * outermost function is a node too, made by ws_calltree_find_or_add_child.
 *
 * A parent's number is less than its children's, so sums over subtrees are one loop backwards.
 * Stacks that were seen before are found in a memo by (root, stack): a whole profile costs about as
 * much as its distinct stacks.
 */
#ifndef WS_QUERY_CALLTREE_H
#define WS_QUERY_CALLTREE_H

#include "base/map.h"
#include "base/mem.h"
#include "query/stacks.h"

enum ws_unit { WS_UNIT_FUNCTION, WS_UNIT_LINE, WS_UNIT_MODULE };
enum ws_frames { WS_FRAMES_ALL, WS_FRAMES_PYTHON, WS_FRAMES_NATIVE };

struct ws_cost {
	uint64_t count, /* samples, waits, kernels */
		weight, /* what shares are computed from: cycles, nanoseconds, events */
		ns;	/* time, where known; else 0 */
};

struct ws_node {
	uint32_t parent; /* 0: directly below nothing; less than the node's own number */
	uint32_t unit;
	struct ws_cost self;
};

struct ws_unit_info {	   /* the kind of a unit */
	uint32_t function; /* one of its functions */
	uint32_t file, line;
};

struct ws_calltree {
	struct ws_stacks *stacks;
	enum ws_unit kind;
	enum ws_frames frames;
	struct ws_node *nodes; /* numbered from 1; node 0 is above all */
	uint32_t count;	       /* number of nodes, node 0 included */
	struct ws_unit_info *units;
	uint32_t unit_count; /* the unused unit 0 included */
	/* private */
	size_t node_cap, unit_cap, mask;
	uint64_t *slots;
	struct ws_map memo, unit_of;
};

void ws_calltree_init(struct ws_calltree *calltree, struct ws_stacks *stacks, enum ws_unit kind,
		      enum ws_frames frames);
void ws_calltree_free(struct ws_calltree *calltree);

/* The child of `parent` with this unit; new when there is none. */
uint32_t ws_calltree_find_or_add_child(struct ws_calltree *calltree, uint32_t parent,
				       uint32_t unit);
/* The unit of a function made with ws_stacks_add_made_function. */
uint32_t ws_calltree_add_made_unit(struct ws_calltree *calltree, const char *name, size_t len);
/* The node of a stack below `root`: the rows of `stack` from outermost, then `frame` (0 for none).
 * `root` itself when there is no frame to add. */
uint32_t ws_calltree_find_node(struct ws_calltree *calltree, uint32_t root, uint32_t frame,
			       uint32_t stack);

/*
 * Trees of many distinct stacks are larger than the cache. Callers that call these two functions,
 * one after the other, for some stacks in advance let ws_calltree_find_node find what it reads in
 * the cache. `fetched` is what the first returned.
 */
size_t ws_calltree_prefetch_slot(struct ws_calltree *calltree, uint32_t root, uint32_t frame,
				 uint32_t stack);
void ws_calltree_prefetch_node(const struct ws_calltree *calltree, size_t fetched);

static inline void ws_cost_add(struct ws_cost *to, const struct ws_cost *cost)
{
	to->count += cost->count;
	to->weight += cost->weight;
	to->ns += cost->ns;
}

/* Whether a cost is empty. Time without any sample has a count of 0 but is not empty. */
static inline bool ws_cost_is_none(const struct ws_cost *cost)
{
	return !cost->count && !cost->weight && !cost->ns;
}

/* The costs of each node with everything below it. The caller frees it. */
struct ws_cost *ws_calltree_sum_totals(const struct ws_calltree *calltree);
/* The same tree inverted below nodes of depth `roots` (0: from the top): leaves come first, callers
 * below them. `out` is not initialised yet; free it with ws_calltree_free. */
void ws_calltree_invert(const struct ws_calltree *calltree, uint32_t roots,
			struct ws_calltree *out);

/* One row of a table by unit. */
struct ws_flat {
	uint32_t root, unit; /* root: the node of depth `roots` that it is below; 0 without roots */
	struct ws_cost self, total;
};
/*
 * Self and total costs by (root, unit). A unit that is in a stack several times (recursion) counts
 * once in its total. With `roots` > 0, a node of that depth is a row only if it has a cost of its
 * own. The caller frees the result.
 */
struct ws_flat *ws_calltree_make_rows(const struct ws_calltree *calltree, uint32_t roots,
				      size_t *count);

/* Children of each node: first[node], then next[child]...; 0 ends. Both have an entry for each
 * node. The caller frees them. */
void ws_calltree_list_children(const struct ws_calltree *calltree, uint32_t **first,
			       uint32_t **next);

/* Append the text of a unit to `text`: the function's name, with file:line for lines; the module's
 * path for modules. */
void ws_calltree_add_unit_name(const struct ws_calltree *calltree, uint32_t unit,
			       struct ws_text *text);
/* The path of a unit's module, or of its source file for Python; "" when neither is known. */
const char *ws_calltree_get_module(const struct ws_calltree *calltree, uint32_t unit);

#endif
