/*
 * enclose.c - see enclose.h.
 *
 * Ranges and calls of a thread are walked together in order of start, with the ranges that have
 * begun and not ended ("open"). Each open range knows the earliest end of those up to it, so that a
 * call that ends before all of them, the usual case, is done at once.
 */
#include "query/enclose.h"

#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "base/map.h"
#include "base/mem.h"

/* ---- ranges ---- */

static bool is_range(const struct ws_rows *rows, size_t i)
{
	uint64_t type = rows->col[ws_nvtx_type][i], other = rows->col[ws_nvtx_end_thread][i];

	return type == WS_NVTX_PUSHPOP ||
	       (type == WS_NVTX_STARTEND && (!other || other == rows->col[ws_nvtx_thread][i]));
}

static void choose_ranges(struct ws_ranges *ranges)
{
	ranges->row = ws_malloc(ranges->rows.rows * sizeof(*ranges->row));
	for (size_t i = 0; i < ranges->rows.rows; i++) {
		if (!is_range(&ranges->rows, i))
			continue;
		if (ranges->rows.col[ws_nvtx_end][i] < ranges->rows.col[ws_nvtx_start][i])
			ranges->backwards++;
		else
			ranges->row[ranges->count++] = (uint32_t)i;
	}
}

int ws_ranges_load(const struct ws_report *report, struct ws_ranges *ranges, struct ws_err *err)
{
	struct ws_scan sc = {
		.table = WS_TABLE_nvtx,
		.columns = WS_COLUMN_BIT(nvtx, start) | WS_COLUMN_BIT(nvtx, end) |
			   WS_COLUMN_BIT(nvtx, thread) | WS_COLUMN_BIT(nvtx, end_thread) |
			   WS_COLUMN_BIT(nvtx, text) | WS_COLUMN_BIT(nvtx, domain) |
			   WS_COLUMN_BIT(nvtx, type),
		.time_max = UINT64_MAX,
	};

	memset(ranges, 0, sizeof(*ranges));
	if (ws_report_count_rows(report, WS_TABLE_nvtx) >= WS_NO_RANGE)
		return ws_fail(err, "%s has more NVTX ranges than can be joined to CUDA calls",
			       ws_report_path(report));
	if (ws_rows_load(report, &sc, &ranges->rows, err) < 0)
		return -1;
	choose_ranges(ranges);
	return 0;
}

int ws_ranges_load_annotations(const struct ws_report *report, struct ws_ranges *ranges,
			       struct ws_err *err)
{
	struct ws_scan sc = {
		.table = WS_TABLE_op,
		.columns = WS_COLUMN_BIT(op, start) | WS_COLUMN_BIT(op, end) |
			   WS_COLUMN_BIT(op, thread) | WS_COLUMN_BIT(op, kind) |
			   WS_COLUMN_BIT(op, name),
		.time_max = UINT64_MAX,
	};
	static const int columns[] = {ws_nvtx_start,	  ws_nvtx_end,	ws_nvtx_thread,
				      ws_nvtx_end_thread, ws_nvtx_text, ws_nvtx_domain,
				      ws_nvtx_type};
	struct ws_rows from;

	memset(ranges, 0, sizeof(*ranges));
	if (ws_report_count_rows(report, WS_TABLE_op) >= WS_NO_RANGE)
		return ws_fail(err, "%s has more operators than can be joined to CUDA calls",
			       ws_report_path(report));
	if (ws_rows_load(report, &sc, &from, err) < 0)
		return -1;
	for (size_t number = 0; number < WS_COUNT(columns); number++)
		ranges->rows.col[columns[number]] = ws_calloc(from.rows + 1, sizeof(uint64_t));
	ranges->rows.damaged = from.damaged;
	for (size_t i = 0; i < from.rows; i++) {
		size_t count = ranges->rows.rows;

		if (from.col[ws_op_kind][i] != WS_OP_ANNOTATION)
			continue;
		ranges->rows.col[ws_nvtx_start][count] = from.col[ws_op_start][i];
		ranges->rows.col[ws_nvtx_end][count] = from.col[ws_op_end][i];
		ranges->rows.col[ws_nvtx_thread][count] = from.col[ws_op_thread][i];
		ranges->rows.col[ws_nvtx_text][count] = from.col[ws_op_name][i];
		ranges->rows.col[ws_nvtx_type][count] = WS_NVTX_PUSHPOP;
		ranges->rows.rows++;
	}
	ws_rows_free(&from);
	choose_ranges(ranges);
	return 0;
}

void ws_ranges_free(struct ws_ranges *ranges)
{
	ws_rows_free(&ranges->rows);
	free(ranges->row);
	memset(ranges, 0, sizeof(*ranges));
}

/*
 * Walks each thread's ranges in order of start with the stack of those still open. Ranges of two
 * domains may overlap without nesting. A range that ends before one that started inside it leaves
 * the stack at its end: whatever starts later and lies within the outer range also lies within the
 * inner one, which is nearer.
 */
void ws_ranges_find_parents(const struct ws_ranges *ranges, uint32_t *parent, uint32_t *level)
{
	uint32_t *stack = NULL;
	size_t depth = 0, cap = 0;
	uint64_t thread = UINT64_MAX;

	for (uint32_t i = 0; i < ranges->count; i++) {
		uint64_t start = ws_range_get(ranges, i, ws_nvtx_start),
			 end = ws_range_get(ranges, i, ws_nvtx_end);

		parent[i] = WS_NO_RANGE;
		if (level)
			level[i] = 0;
		if (ws_range_get(ranges, i, ws_nvtx_type) != WS_NVTX_PUSHPOP)
			continue;
		if (ws_range_get(ranges, i, ws_nvtx_thread) != thread) {
			thread = ws_range_get(ranges, i, ws_nvtx_thread);
			depth = 0;
		}
		while (depth && (ws_range_get(ranges, stack[depth - 1], ws_nvtx_end) <= start ||
				 ws_range_get(ranges, stack[depth - 1], ws_nvtx_end) < end))
			depth--;
		if (depth)
			parent[i] = stack[depth - 1];
		if (level && depth)
			level[i] = level[stack[depth - 1]] + 1;
		ws_grow(stack, cap, depth + 1);
		stack[depth++] = i;
	}
	free(stack);
}

/* ---- the ranges around each call ---- */

struct open_range {
	uint64_t end, earliest; /* `least`: the earliest end of this and those before it */
	uint32_t range, node;
};

struct call_walk {
	const struct ws_ranges *ranges;
	struct ws_enclose *enclose;
	size_t node_cap;
	struct open_range *open;
	size_t depth, cap, crowded;
	size_t with_node; /* how many of the open ranges have their node */
	bool full;	  /* there are more nodes than numbers */
};

static uint32_t add_node(struct call_walk *walk, uint32_t parent, uint32_t range)
{
	if (walk->enclose->count == UINT32_MAX) {
		walk->full = true;
		return 0;
	}
	ws_grow(walk->enclose->node, walk->node_cap, (size_t)walk->enclose->count + 1);
	walk->enclose->node[walk->enclose->count] = (struct ws_enclose_node){parent, range};
	return walk->enclose->count++;
}

static void set_earliest_end(struct call_walk *walk, size_t i)
{
	struct open_range *open = &walk->open[i];

	open->earliest = open->end;
	if (i)
		open->earliest = ws_min(open[-1].earliest, open->end);
}

/* Forget the ranges that ended before `now`. */
static void close_ended(struct call_walk *walk, uint64_t now)
{
	size_t kept = 0;

	for (size_t i = 0; i < walk->depth; i++) {
		if (walk->open[i].end < now) {
			if (walk->with_node > kept)
				walk->with_node = kept; /* the later ones are on other paths now */
			continue;
		}
		walk->open[kept] = walk->open[i];
		set_earliest_end(walk, kept++);
	}
	walk->depth = kept;
}

static void open_range(struct call_walk *walk, uint32_t range)
{
	uint64_t start = ws_range_get(walk->ranges, range, ws_nvtx_start);

	while (walk->depth && walk->open[walk->depth - 1].end < start)
		walk->depth--;
	if (walk->depth >=
	    walk->crowded) { /* some may have ended long ago, below one that has not */
		close_ended(walk, start);
		walk->crowded = ws_max(walk->depth * 2, (size_t)64);
	}
	if (walk->with_node > walk->depth)
		walk->with_node = walk->depth;
	ws_grow(walk->open, walk->cap, walk->depth + 1);
	walk->open[walk->depth] = (struct open_range){
		.end = ws_range_get(walk->ranges, range, ws_nvtx_end), .range = range};
	set_earliest_end(walk, walk->depth++);
}

/* The path of the open ranges that last until the call's end, where some do not. */
static uint32_t find_partial_path(struct call_walk *walk, uint64_t end)
{
	uint32_t node = 0;
	bool same = true;

	for (size_t i = 0; i < walk->depth; i++) {
		if (walk->open[i].end < end) {
			same = false;
			continue;
		}
		if (same && i < walk->with_node)
			node = walk->open[i].node;
		else
			node = add_node(walk, node, walk->open[i].range);
		if (same && i == walk->with_node) {
			walk->open[i].node = node;
			walk->with_node++;
		}
	}
	return node;
}

/* The node of the innermost range around a call; 0 for none. */
static uint32_t find_enclosing(struct call_walk *walk, uint64_t start, uint64_t end)
{
	uint32_t parent = 0;

	while (walk->depth && walk->open[walk->depth - 1].end < start)
		walk->depth--;
	if (walk->with_node > walk->depth)
		walk->with_node = walk->depth;
	if (walk->depth && walk->open[walk->depth - 1].earliest < end) {
		close_ended(walk, start);
		if (walk->depth && walk->open[walk->depth - 1].earliest < end)
			return find_partial_path(walk, end);
	}
	if (!walk->depth)
		return 0;
	if (walk->with_node)
		parent = walk->open[walk->with_node - 1].node;
	for (; walk->with_node < walk->depth; walk->with_node++) {
		parent = add_node(walk, parent, walk->open[walk->with_node].range);
		walk->open[walk->with_node].node = parent;
	}
	return parent;
}

/* Calls by thread and start, and the array for their nodes. */
struct call_list {
	const uint64_t *thread, *start, *end;
	uint32_t *node;
	size_t count;
};

static int walk_calls(struct call_walk *walk, const struct call_list *calls, struct ws_err *err)
{
	const struct ws_ranges *ranges = walk->ranges;
	uint64_t last_thread = UINT64_MAX;
	uint32_t next = 0;

	for (size_t i = 0; i < calls->count && !walk->full; i++) {
		uint64_t start = calls->start[i], end = calls->end[i];

		if (end == WS_NO_TIME || end < start)
			end = start;
		if (calls->thread[i] != last_thread) {
			last_thread = calls->thread[i];
			walk->depth = walk->with_node = 0;
			while (next < ranges->count &&
			       ws_range_get(ranges, next, ws_nvtx_thread) < last_thread)
				next++;
		}
		while (next < ranges->count &&
		       ws_range_get(ranges, next, ws_nvtx_thread) == last_thread &&
		       ws_range_get(ranges, next, ws_nvtx_start) <= start)
			open_range(walk, next++);
		calls->node[i] = find_enclosing(walk, start, end);
	}
	if (walk->full)
		return ws_fail(err, "the NVTX ranges overlap too much to be joined to CUDA calls");
	return 0;
}

int ws_enclose_calls(const struct ws_ranges *ranges, const struct ws_calls *calls,
		     struct ws_enclose *out, struct ws_err *err)
{
	struct call_walk walk = {.ranges = ranges, .enclose = out, .crowded = 64};
	struct call_list list = {.thread = calls->rows.col[ws_cuda_api_thread],
				 .start = calls->rows.col[ws_cuda_api_start],
				 .end = calls->rows.col[ws_cuda_api_end],
				 .count = calls->rows.rows};
	int status;

	*out = (struct ws_enclose){.node_of_call =
					   ws_calloc(calls->rows.rows, sizeof(*out->node_of_call)),
				   .count = 1};
	ws_grow(out->node, walk.node_cap, 1);
	out->node[0] = (struct ws_enclose_node){0, WS_NO_RANGE};
	list.node = out->node_of_call;
	status = walk_calls(&walk, &list, err);
	free(walk.open);
	return status;
}

/* ---- helpers ---- */

static bool has_range(void *context, uint32_t thread, uint64_t start, uint64_t end)
{
	enum { MOST_LOOKED_AT = 64 };
	const struct ws_ranges *ranges = context;
	uint32_t low = 0, high = ranges->count;

	/* The first range of a later thread or start. */
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		uint64_t on = ws_range_get(ranges, middle, ws_nvtx_thread);

		if (on < thread ||
		    (on == thread && ws_range_get(ranges, middle, ws_nvtx_start) <= start))
			low = middle + 1;
		else
			high = middle;
	}
	for (int i = 0; i < MOST_LOOKED_AT && low; i++) {
		if (ws_range_get(ranges, --low, ws_nvtx_thread) != thread)
			return false;
		if (ws_range_get(ranges, low, ws_nvtx_end) >= end)
			return true;
	}
	return false;
}

struct ws_helpers *ws_find_range_helpers(const struct ws_report *report,
					 const struct ws_names_by_id *who, struct ws_ranges *ranges,
					 struct ws_err *err)
{
	struct ws_helper_ranges of = {.has_range = has_range, .context = ranges};
	struct ws_helpers *helpers;
	uint32_t *threads = NULL;
	size_t cap = 0;

	for (uint32_t i = 0; i < ranges->count; i++) {
		uint32_t thread = (uint32_t)ws_range_get(ranges, i, ws_nvtx_thread);

		if (of.count && threads[of.count - 1] == thread)
			continue;
		ws_grow(threads, cap, of.count + 1);
		threads[of.count++] = thread;
	}
	of.threads = threads;
	helpers = ws_helpers_open(report, who, &of, err);
	free(threads);
	return helpers;
}

/* A call of a helper, as if the thread that it works for had made the call. */
struct helped_call {
	uint64_t thread, start, end;
	uint32_t call;
	uint8_t rule;
};

static int compare_helped_calls(const void *first, const void *second)
{
	const struct helped_call *left = first, *right = second;

	if (left->thread != right->thread)
		return ws_compare(left->thread, right->thread);
	if (left->start != right->start)
		return ws_compare(left->start, right->start);
	return ws_compare(left->call, right->call);
}

static struct helped_call *find_helped_calls(const struct ws_calls *calls,
					     const struct ws_helpers *helpers,
					     const struct ws_enclose *enclose, size_t *count)
{
	struct helped_call *helped = NULL;
	size_t cap = 0;

	*count = 0;
	for (size_t i = 0; i < calls->rows.rows; i++) {
		uint64_t start = calls->rows.col[ws_cuda_api_start][i],
			 end = calls->rows.col[ws_cuda_api_end][i];
		enum ws_helper_rule rule;
		uint32_t thread;

		if (end == WS_NO_TIME || end < start)
			end = start;
		thread = ws_find_helped_thread(helpers,
					       (uint32_t)calls->rows.col[ws_cuda_api_thread][i],
					       start, end, &rule);
		if (!thread || (rule == WS_HELPS_BY_WAIT && enclose->node_of_call[i]))
			continue;
		ws_grow(helped, cap, *count + 1);
		helped[(*count)++] =
			(struct helped_call){thread, start, end, (uint32_t)i, (uint8_t)rule};
	}
	if (*count)
		qsort(helped, *count, sizeof(*helped), compare_helped_calls);
	return helped;
}

/* The node of a helper's own ranges, up to `own`, inside the ranges of another thread, `outer`.
 * Paths that already exist are in `made`, by both nodes. */
static uint32_t put_inside(struct call_walk *walk, struct ws_map *made, uint32_t outer,
			   uint32_t own)
{
	uint32_t *path = NULL, node = outer;
	size_t depth = 0, cap = 0;

	for (uint32_t at = own; at; at = walk->enclose->node[at].parent) {
		uint32_t known = (uint32_t)ws_map_get(made, (uint64_t)outer << 32 | at, NULL);

		if (known) {
			node = known;
			break;
		}
		ws_grow(path, cap, depth + 1);
		path[depth++] = at;
	}
	while (depth--) {
		node = add_node(walk, node, walk->enclose->node[path[depth]].range);
		ws_map_set(made, (uint64_t)outer << 32 | path[depth], node);
	}
	free(path);
	return node;
}

/* Set the nodes of a helper's calls; `node` has their nodes in the ranges of other threads. */
static void join_helped_calls(struct call_walk *walk, const struct helped_call *helped,
			      size_t count, const uint32_t *node)
{
	struct ws_enclose *enclose = walk->enclose;
	struct ws_map made = {0};

	enclose->own = enclose->count;
	for (size_t i = 0; i < count && !walk->full; i++) {
		uint32_t *own = &enclose->node_of_call[helped[i].call];

		if (!node[i])
			continue;
		enclose->helped[helped[i].call] = helped[i].rule;
		if (*own)
			*own = put_inside(walk, &made, node[i], *own);
		else
			*own = node[i];
	}
	ws_map_free(&made);
}

int ws_enclose_helpers(const struct ws_ranges *ranges, const struct ws_calls *calls,
		       const struct ws_helpers *helpers, struct ws_enclose *enclose,
		       struct ws_err *err)
{
	struct call_walk walk = {
		.ranges = ranges, .enclose = enclose, .crowded = 64, .node_cap = enclose->count};
	size_t count;
	struct helped_call *helped = find_helped_calls(calls, helpers, enclose, &count);
	uint64_t *columns = ws_malloc(3 * (count + 1) * sizeof(*columns));
	uint32_t *node = ws_calloc(count + 1, sizeof(*node));
	struct call_list list = {.thread = columns,
				 .start = columns + count,
				 .end = columns + 2 * count,
				 .node = node,
				 .count = count};
	int status;

	for (size_t i = 0; i < count; i++) {
		columns[i] = helped[i].thread;
		columns[count + i] = helped[i].start;
		columns[2 * count + i] = helped[i].end;
	}
	enclose->helped = ws_calloc(calls->rows.rows + 1, sizeof(*enclose->helped));
	status = walk_calls(&walk, &list, err);
	if (!status)
		join_helped_calls(&walk, helped, count, node);
	if (!status && walk.full)
		status =
			ws_fail(err, "the NVTX ranges overlap too much to be joined to CUDA calls");
	free(walk.open);
	free(helped);
	free(columns);
	free(node);
	return status;
}

void ws_enclose_free(struct ws_enclose *enclose)
{
	free(enclose->node_of_call);
	free(enclose->helped);
	free(enclose->node);
	memset(enclose, 0, sizeof(*enclose));
}
