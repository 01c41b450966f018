/*
 * api_flame.c - where the time of a window went, by call stack: as a tree (top-down, or bottom-up
 * from the innermost) and as a flat list. What there is to count, and how, is query/profile.h's:
 * CPU samples, waits, Python samples, work on GPUs by range; of work by operator or call stack,
 * flame_gpu.c's.
 *
 * Subtrees below a two-thousandth of all are left out: a page shows no more; and smaller ones
 * before larger where there are too many.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "text/text.h"
#include "query/profile.h"
#include "serve/flame.h"

enum { MOST_FLAT = 500, MOST_NODES = 20000, MOST_DEPTH = 600 };

struct flame {
	struct ws_call *c;
	const struct ws_profile *p;
	const struct ws_calltree *tree;
	struct ws_cost *total;
	uint32_t *first, *next;
	uint64_t least; /* what takes no more is left out */
};

/* Shares are computed from time where that is known for all. */
static uint64_t value(const struct flame *x, const struct ws_cost *c)
{
	return x->p->timed ? c->ns : c->weight;
}

static int by_size(const void *a, const void *b, void *ctx)
{
	const struct flame *x = ctx;
	uint64_t m = value(x, &x->total[*(const uint32_t *)a]),
		 n = value(x, &x->total[*(const uint32_t *)b]);

	return m > n ? -1 : m < n;
}

static void put_unit(const struct flame *x, uint32_t unit)
{
	struct ws_text name = {0};

	ws_text_puts(&name, "");
	ws_calltree_name(x->tree, unit, &name);
	ws_put_text(x->c->out, "name", name.s, name.len < 16384 ? name.len : 16384);
	ws_text_free(&name);
}

static void put_node(struct flame *x, uint32_t at, uint32_t depth)
{
	struct ws_text *t = x->c->out;
	uint32_t *kids = NULL;
	size_t n = 0, cap = 0;

	ws_put_comma(t);
	ws_text_puts(t, "{");
	if (at)
		put_unit(x, x->tree->nodes[at].unit);
	ws_put_int(t, "total", (int64_t)value(x, &x->total[at]));
	ws_put_int(t, "self", (int64_t)value(x, &x->tree->nodes[at].self));
	ws_put_key(t, "children");
	ws_text_puts(t, "[");
	for (uint32_t i = x->first[at]; i && depth < MOST_DEPTH; i = x->next[i]) {
		if (value(x, &x->total[i]) <= x->least)
			continue;
		ws_grow(kids, cap, n + 1);
		kids[n++] = i;
	}
	if (n)
		qsort_r(kids, n, sizeof(*kids), by_size, x);
	for (size_t i = 0; i < n; i++)
		put_node(x, kids[i], depth + 1);
	free(kids);
	ws_text_puts(t, "]}");
}

/* No node takes more than the one it is below: those that take more than this are a tree, of
 * MOST_NODES at most. */
static uint64_t least_shown(const struct flame *x)
{
	uint64_t least = value(x, &x->total[0]) / 2000;

	for (;; least += least / 4 + 1) {
		size_t n = 0;

		for (uint32_t i = 1; i < x->tree->n; i++)
			n += value(x, &x->total[i]) > least;
		if (n <= MOST_NODES)
			return least;
	}
}

static int by_self(const void *a, const void *b, void *ctx)
{
	const struct flame *x = ctx;
	const struct ws_flat *p = a, *q = b;
	uint64_t m = value(x, &p->self), n = value(x, &q->self);

	if (m == n) {
		m = value(x, &p->total);
		n = value(x, &q->total);
	}
	return m > n ? -1 : m < n;
}

static int by_all(const void *a, const void *b, void *ctx)
{
	const struct flame *x = ctx;
	const struct ws_flat *p = a, *q = b;
	uint64_t m = value(x, &p->total), n = value(x, &q->total);

	return m > n ? -1 : m < n;
}

/* Of very many the first by what they did themselves, and then, of the others, by all that they
 * took. */
static void put_flat(struct flame *x)
{
	struct ws_text *t = x->c->out;
	size_t n;
	struct ws_flat *v = ws_calltree_flat(x->tree, 0, &n);

	if (n)
		qsort_r(v, n, sizeof(*v), by_self, x);
	ws_put_key(t, "flat");
	ws_text_puts(t, "[");
	if (n > MOST_FLAT)
		qsort_r(v + MOST_FLAT, n - MOST_FLAT, sizeof(*v), by_all, x);
	for (size_t i = 0; i < n && i < 2 * MOST_FLAT; i++) {
		const char *module = ws_calltree_module(x->tree, v[i].unit);

		ws_put_comma(t);
		ws_text_puts(t, "{");
		put_unit(x, v[i].unit);
		ws_put_text(t, "module", module, strnlen(module, 4096));
		ws_put_int(t, "self", (int64_t)value(x, &v[i].self));
		ws_put_int(t, "total", (int64_t)value(x, &v[i].total));
		ws_text_puts(t, "}");
	}
	ws_text_puts(t, "]");
	free(v);
}

static void put_profile(struct ws_call *c, const struct ws_profile *p, bool up, uint32_t unread)
{
	struct flame x = {.c = c, .p = p, .tree = &p->tree};
	struct ws_calltree turned;

	ws_text_puts(c->out, "{");
	ws_put_int(c->out, "samples", (int64_t)p->total.count);
	ws_put_int(c->out, "unread", unread);
	ws_put_string(c->out, "unit", p->timed ? "ns" : p->weight);
	put_flat(&x);
	if (up) {
		ws_calltree_invert(&p->tree, 0, &turned);
		x.tree = &turned;
	}
	x.total = ws_calltree_totals(x.tree);
	ws_calltree_children(x.tree, &x.first, &x.next);
	x.least = least_shown(&x);
	ws_put_key(c->out, "root");
	put_node(&x, 0, 0);
	ws_text_puts(c->out, "}");
	free(x.total);
	free(x.first);
	free(x.next);
	if (up)
		ws_calltree_free(&turned);
}

/* Kinds beyond those of query/profile.h. */
enum { BY_LAUNCH_STACK = WS_PROFILE_GPU + 1 };

int ws_api_flame(struct ws_call *c, struct ws_err *e)
{
	struct ws_profile_request q = {0};
	struct ws_profile p;
	int64_t t0, t1, up, kind;
	uint32_t unread = 0;
	int rc;

	if (!ws_param_window(c, &t0, &t1, e) || !ws_param_int(c, "up", 0, 1, 0, &up, e) ||
	    !ws_param_int(c, "kind", WS_PROFILE_ON_CPU, BY_LAUNCH_STACK, WS_PROFILE_ON_CPU, &kind,
			  e))
		return 400;
	q.kind = (enum ws_profile_kind)kind;
	q.time_min = t0 < 0 ? 0 : (uint64_t)t0;
	q.time_max = t1 < 0 ? 0 : (uint64_t)t1;
	if (kind == BY_LAUNCH_STACK ||
	    (kind == WS_PROFILE_GPU && ws_report_rows(c->rep->r, WS_TABLE_op)))
		rc = ws_flame_gpu(c, t0, t1, kind == BY_LAUNCH_STACK, &p, &unread, e);
	else
		rc = ws_profile_make(c->rep->r, c->l->who, &q, &p, e);
	if (!rc)
		put_profile(c, &p, up, unread);
	ws_profile_free(&p);
	return rc ? WS_API_SAY : 0;
}
