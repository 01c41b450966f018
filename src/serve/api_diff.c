/*
 * api_diff.c - two reports, or two windows of one, side by side: how often and how long each
 * kernel, call, range... ran here and there. Names are one when their bytes are, whichever report
 * they are from.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "text/text.h"
#include "serve/api.h"

enum { SIDES = 2, MOST_PAIRS = 2000 };

struct side {
	struct ws_call c;
	struct ws_view_report *rep;
	int64_t t0, t1;
	struct ws_sum_group *v;
	size_t n;
	uint32_t unread;
};

struct pair {
	struct ws_sum_group of[SIDES]; /* count 0: not there */
	uint64_t differs;	       /* by so much in total */
};

struct pairs {
	struct pair *v;
	size_t n;
	uint32_t *slots;
	size_t mask;
};

static const char *text_of(const struct side *s, const struct ws_sum_group *g, size_t *n)
{
	return ws_lane_name(s->c.l, g->name, n);
}

/* The pair of this kind and text, or a new one. */
static struct pair *pair_of(struct pairs *p, const struct side *sides, uint32_t side,
			    const struct ws_sum_group *g)
{
	size_t n, m;
	const char *s = text_of(&sides[side], g, &n), *t;

	for (size_t at = XXH3_64bits_withSeed(s, n, g->kind) & p->mask;; at = (at + 1) & p->mask) {
		struct pair *x = p->slots[at] ? &p->v[p->slots[at] - 1] : NULL;
		uint32_t k = x && x->of[0].count ? 0 : 1;

		if (!x) {
			p->slots[at] = (uint32_t)++p->n;
			return &p->v[p->n - 1];
		}
		t = text_of(&sides[k], &x->of[k], &m);
		if (x->of[k].kind == g->kind && n == m && !memcmp(s, t, n))
			return x;
	}
}

static int by_difference(const void *a, const void *b)
{
	const struct pair *x = a, *y = b;

	return x->differs > y->differs ? -1 : x->differs < y->differs;
}

/* Threads of one name are several groups of a report. */
static void add_to(struct ws_sum_group *x, const struct ws_sum_group *g)
{
	if (!x->count) {
		*x = *g;
		return;
	}
	x->count += g->count;
	x->total += g->total;
	x->min = g->min < x->min ? g->min : x->min;
	x->max = g->max > x->max ? g->max : x->max;
}

static void match(struct pairs *p, const struct side *sides)
{
	size_t all = sides[0].n + sides[1].n;

	for (p->mask = 64; p->mask < all * 2; p->mask *= 2)
		;
	p->slots = ws_calloc(p->mask, sizeof(*p->slots));
	p->mask--;
	p->v = ws_calloc(all + 1, sizeof(*p->v));
	for (uint32_t k = 0; k < SIDES; k++)
		for (size_t i = 0; i < sides[k].n; i++)
			add_to(&pair_of(p, sides, k, &sides[k].v[i])->of[k], &sides[k].v[i]);
	for (size_t i = 0; i < p->n; i++) {
		uint64_t a = p->v[i].of[0].total, b = p->v[i].of[1].total;

		p->v[i].differs = a > b ? a - b : b - a;
	}
	qsort(p->v, p->n, sizeof(*p->v), by_difference);
}

static void put_side(struct ws_text *t, const char *key, const struct ws_sum_group *g)
{
	ws_put_key(t, key);
	ws_text_printf(t, "[%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 "]", g->count, g->total,
		       g->min, g->max);
}

static void put_pairs(struct ws_text *t, const struct pairs *p, const struct side *sides)
{
	ws_text_puts(t, "{\"pairs\":[");
	for (size_t i = 0; i < p->n && i < MOST_PAIRS; i++) {
		const struct pair *x = &p->v[i];
		uint32_t k = x->of[0].count ? 0 : 1;

		ws_put_comma(t);
		ws_text_puts(t, "{");
		ws_put_string(t, "kind", ws_lane_descs[x->of[k].kind].name);
		ws_put_name(t, "name", sides[k].c.l, x->of[k].name);
		put_side(t, "a", &x->of[0]);
		put_side(t, "b", &x->of[1]);
		ws_text_puts(t, "}");
	}
	ws_text_puts(t, "]");
	ws_put_int(t, "left_out", p->n > MOST_PAIRS ? (int64_t)(p->n - MOST_PAIRS) : 0);
	ws_put_int(t, "unread", sides[0].unread + sides[1].unread);
	ws_text_puts(t, "}");
}

static bool read_side(struct side *s, const struct ws_call *c, const char *report, const char *from,
		      const char *to, struct ws_err *e)
{
	int64_t r, most = INT64_MAX / 4;

	s->c = *c;
	if (!ws_param_int(c, report, 0, (int64_t)ws_view_count(c->view) - 1, 0, &r, e) ||
	    !ws_param_int(c, from, -most, most, -most, &s->t0, e) ||
	    !ws_param_int(c, to, -most, most, most, &s->t1, e))
		return false;
	s->rep = &c->view->v[r];
	return true;
}

static void hold(struct side *s)
{
	pthread_rwlock_rdlock(&s->rep->use);
	s->c.rep = s->rep;
	s->c.l = s->rep->lanes;
	ws_lanes_wait_census(s->c.l);
	pthread_rwlock_rdlock(&s->c.l->shown);
}

static void let_go(struct side *s)
{
	pthread_rwlock_unlock(&s->c.l->shown);
	pthread_rwlock_unlock(&s->rep->use);
	free(s->v);
}

int ws_api_diff(struct ws_call *c, struct ws_err *e)
{
	struct side sides[SIDES] = {0};
	struct pairs p = {0};
	int status = 0;

	if (!ws_view_count(c->view)) {
		ws_fail(e, "There is no report yet.");
		return 400;
	}
	if (!read_side(&sides[0], c, "a", "t0", "t1", e) ||
	    !read_side(&sides[1], c, "b", "u0", "u1", e))
		return 400;
	for (int k = 0; k < SIDES; k++)
		hold(&sides[k]);
	for (int k = 0; k < SIDES && !status; k++) {
		struct side *s = &sides[k];
		int64_t zero = (int64_t)s->c.l->zero;

		status = ws_sum_window(&s->c, s->t0 + zero, s->t1 + zero, &s->v, &s->n, &s->unread,
				       e);
	}
	if (!status) {
		match(&p, sides);
		put_pairs(c->out, &p, sides);
	}
	for (int k = 0; k < SIDES; k++)
		let_go(&sides[k]);
	free(p.v);
	free(p.slots);
	return status;
}
