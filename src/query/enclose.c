/*
 * enclose.c - see enclose.h.
 *
 * Ranges and calls of a thread are walked together in order of start, with the ranges that have
 * begun and not ended ("open"). Each open range knows the earliest end up to it, so that a call
 * that ends before all of them, the usual case, is done at once.
 */
#include "query/enclose.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* ---- ranges ---- */

static bool is_range(const struct ws_rows *rows, size_t i)
{
	uint64_t type = rows->col[ws_nvtx_type][i], other = rows->col[ws_nvtx_end_thread][i];

	return type == WS_NVTX_PUSHPOP ||
	       (type == WS_NVTX_STARTEND && (!other || other == rows->col[ws_nvtx_thread][i]));
}

static void choose_ranges(struct ws_ranges *g)
{
	g->row = ws_malloc(g->rows.rows * sizeof(*g->row));
	for (size_t i = 0; i < g->rows.rows; i++) {
		if (!is_range(&g->rows, i))
			continue;
		if (g->rows.col[ws_nvtx_end][i] < g->rows.col[ws_nvtx_start][i])
			g->backwards++;
		else
			g->row[g->n++] = (uint32_t)i;
	}
}

int ws_ranges_load(const struct ws_report *r, struct ws_ranges *g, struct ws_err *e)
{
	struct ws_scan sc = {
		.table = WS_TABLE_nvtx,
		.columns = WS_COL(nvtx, start) | WS_COL(nvtx, end) | WS_COL(nvtx, thread) |
			   WS_COL(nvtx, end_thread) | WS_COL(nvtx, text) | WS_COL(nvtx, domain) |
			   WS_COL(nvtx, type),
		.time_max = UINT64_MAX,
	};

	memset(g, 0, sizeof(*g));
	if (ws_report_rows(r, WS_TABLE_nvtx) >= WS_NO_RANGE)
		return ws_fail(e, "%s has more NVTX ranges than can be joined to CUDA calls",
			       ws_report_path(r));
	if (ws_rows_load(r, &sc, &g->rows, e) < 0)
		return -1;
	choose_ranges(g);
	return 0;
}

int ws_ranges_load_annotations(const struct ws_report *r, struct ws_ranges *g, struct ws_err *e)
{
	struct ws_scan sc = {
		.table = WS_TABLE_op,
		.columns = WS_COL(op, start) | WS_COL(op, end) | WS_COL(op, thread) |
			   WS_COL(op, kind) | WS_COL(op, name),
		.time_max = UINT64_MAX,
	};
	static const int columns[] = {ws_nvtx_start,	  ws_nvtx_end,	ws_nvtx_thread,
				      ws_nvtx_end_thread, ws_nvtx_text, ws_nvtx_domain,
				      ws_nvtx_type};
	struct ws_rows from;

	memset(g, 0, sizeof(*g));
	if (ws_report_rows(r, WS_TABLE_op) >= WS_NO_RANGE)
		return ws_fail(e, "%s has more operators than can be joined to CUDA calls",
			       ws_report_path(r));
	if (ws_rows_load(r, &sc, &from, e) < 0)
		return -1;
	for (size_t c = 0; c < WS_COUNT(columns); c++)
		g->rows.col[columns[c]] = ws_calloc(from.rows + 1, sizeof(uint64_t));
	g->rows.damaged = from.damaged;
	for (size_t i = 0; i < from.rows; i++) {
		size_t n = g->rows.rows;

		if (from.col[ws_op_kind][i] != WS_OP_ANNOTATION)
			continue;
		g->rows.col[ws_nvtx_start][n] = from.col[ws_op_start][i];
		g->rows.col[ws_nvtx_end][n] = from.col[ws_op_end][i];
		g->rows.col[ws_nvtx_thread][n] = from.col[ws_op_thread][i];
		g->rows.col[ws_nvtx_text][n] = from.col[ws_op_name][i];
		g->rows.col[ws_nvtx_type][n] = WS_NVTX_PUSHPOP;
		g->rows.rows++;
	}
	ws_rows_free(&from);
	choose_ranges(g);
	return 0;
}

void ws_ranges_free(struct ws_ranges *g)
{
	ws_rows_free(&g->rows);
	free(g->row);
	memset(g, 0, sizeof(*g));
}

/*
 * By walking each thread's ranges in order of start with the stack of those still open. Ranges of
 * two domains may overlap without nesting: one that ends before a range that started inside of it
 * leaves the stack then, since whatever starts later and lies within it lies within the other too,
 * which is nearer.
 */
void ws_ranges_nest(const struct ws_ranges *g, uint32_t *parent, uint32_t *level)
{
	uint32_t *stack = NULL;
	size_t depth = 0, cap = 0;
	uint64_t of = UINT64_MAX;

	for (uint32_t i = 0; i < g->n; i++) {
		uint64_t start = ws_range_get(g, i, ws_nvtx_start),
			 end = ws_range_get(g, i, ws_nvtx_end);

		parent[i] = WS_NO_RANGE;
		if (level)
			level[i] = 0;
		if (ws_range_get(g, i, ws_nvtx_type) != WS_NVTX_PUSHPOP)
			continue;
		if (ws_range_get(g, i, ws_nvtx_thread) != of) {
			of = ws_range_get(g, i, ws_nvtx_thread);
			depth = 0;
		}
		while (depth && (ws_range_get(g, stack[depth - 1], ws_nvtx_end) <= start ||
				 ws_range_get(g, stack[depth - 1], ws_nvtx_end) < end))
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

struct open {
	uint64_t end, least; /* `least`: the earliest end of this and those before it */
	uint32_t range, node;
};

struct walk {
	const struct ws_ranges *g;
	struct ws_enclose *x;
	size_t node_cap;
	struct open *open;
	size_t depth, cap, crowded;
	size_t noded; /* so many of the open have their node */
	bool full;    /* there are more nodes than numbers for them */
};

static uint32_t new_node(struct walk *w, uint32_t parent, uint32_t range)
{
	if (w->x->n == UINT32_MAX) {
		w->full = true;
		return 0;
	}
	ws_grow(w->x->node, w->node_cap, (size_t)w->x->n + 1);
	w->x->node[w->x->n] = (struct ws_enclose_node){parent, range};
	return w->x->n++;
}

static void put_least(struct walk *w, size_t i)
{
	struct open *o = &w->open[i];

	o->least = i && o[-1].least < o->end ? o[-1].least : o->end;
}

/* Forget the ranges that ended before `now`. */
static void close_ended(struct walk *w, uint64_t now)
{
	size_t kept = 0;

	for (size_t i = 0; i < w->depth; i++) {
		if (w->open[i].end < now) {
			if (w->noded > kept)
				w->noded = kept; /* those after it are on other paths now */
			continue;
		}
		w->open[kept] = w->open[i];
		put_least(w, kept++);
	}
	w->depth = kept;
}

static void open_range(struct walk *w, uint32_t range)
{
	uint64_t start = ws_range_get(w->g, range, ws_nvtx_start);

	while (w->depth && w->open[w->depth - 1].end < start)
		w->depth--;
	if (w->depth >=
	    w->crowded) { /* perhaps with ranges that have long ended, below one that has not */
		close_ended(w, start);
		w->crowded = w->depth < 32 ? 64 : w->depth * 2;
	}
	if (w->noded > w->depth)
		w->noded = w->depth;
	ws_grow(w->open, w->cap, w->depth + 1);
	w->open[w->depth] =
		(struct open){.end = ws_range_get(w->g, range, ws_nvtx_end), .range = range};
	put_least(w, w->depth++);
}

/* Where some open ranges end during the call: the path of the others. */
static uint32_t partial(struct walk *w, uint64_t end)
{
	uint32_t node = 0;
	bool same = true;

	for (size_t i = 0; i < w->depth; i++) {
		if (w->open[i].end < end) {
			same = false;
			continue;
		}
		node = same && i < w->noded ? w->open[i].node : new_node(w, node, w->open[i].range);
		if (same && i == w->noded) {
			w->open[i].node = node;
			w->noded++;
		}
	}
	return node;
}

static uint32_t around(struct walk *w, uint64_t start, uint64_t end)
{
	while (w->depth && w->open[w->depth - 1].end < start)
		w->depth--;
	if (w->noded > w->depth)
		w->noded = w->depth;
	if (w->depth && w->open[w->depth - 1].least < end) {
		close_ended(w, start);
		if (w->depth && w->open[w->depth - 1].least < end)
			return partial(w, end);
	}
	for (; w->noded < w->depth; w->noded++)
		w->open[w->noded].node = new_node(w, w->noded ? w->open[w->noded - 1].node : 0,
						  w->open[w->noded].range);
	return w->depth ? w->open[w->depth - 1].node : 0;
}

int ws_enclose_calls(const struct ws_ranges *g, const struct ws_calls *c, struct ws_enclose *out,
		     struct ws_err *e)
{
	const uint64_t *thread = c->rows.col[ws_cuda_api_thread],
		       *start = c->rows.col[ws_cuda_api_start];
	const uint64_t *end = c->rows.col[ws_cuda_api_end];
	struct walk w = {.g = g, .x = out, .crowded = 64};
	uint64_t of = UINT64_MAX;
	uint32_t next = 0;

	*out = (struct ws_enclose){.of = ws_calloc(c->rows.rows, sizeof(*out->of)), .n = 1};
	ws_grow(out->node, w.node_cap, 1);
	out->node[0] = (struct ws_enclose_node){0, WS_NO_RANGE};
	for (size_t i = 0; i < c->rows.rows && !w.full; i++) {
		if (thread[i] != of) {
			of = thread[i];
			w.depth = w.noded = 0;
			while (next < g->n && ws_range_get(g, next, ws_nvtx_thread) < of)
				next++;
		}
		while (next < g->n && ws_range_get(g, next, ws_nvtx_thread) == of &&
		       ws_range_get(g, next, ws_nvtx_start) <= start[i])
			open_range(&w, next++);
		out->of[i] = around(&w, start[i],
				    end[i] == WS_NO_TIME || end[i] < start[i] ? start[i] : end[i]);
	}
	free(w.open);
	return w.full ? ws_fail(e, "the NVTX ranges overlap too much to be joined to CUDA calls")
		      : 0;
}

void ws_enclose_free(struct ws_enclose *x)
{
	free(x->of);
	free(x->node);
	memset(x, 0, sizeof(*x));
}
