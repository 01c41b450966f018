/*
 * api_sum.c - what happened in a window: sums by name, the events as a table, searching and
 * stepping. All of these walk the columns of levels between two searched ends; ten million events
 * take about a tenth of a second.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "serve/api.h"

/* A walk over the events of lanes that touch a window. */
struct walk {
	struct ws_lanes *l;
	uint32_t *lanes;
	size_t n;
	int64_t t0, t1;
	uint32_t unread; /* of these lanes, which are being read: what is said is without them */
};

/* Has the lanes read that are not; this answer is without them. */
static int walk_window(struct ws_call *c, enum ws_which_lanes which, bool want, struct walk *w,
		       struct ws_err *e)
{
	w->l = c->l;
	w->unread = 0;
	if (!ws_param_lanes(c, which, &w->lanes, &w->n, e))
		return 400;
	for (size_t i = 0; i < w->n; i++) {
		const struct ws_lane *lane = c->l->lane[w->lanes[i]];

		if (want && lane->kind != WS_LANE_PROJECTED && !ws_lane_descs[lane->kind].counter)
			ws_lanes_want(c->l, w->lanes[i]);
		w->unread += ws_lane_reading(lane);
	}
	return 0;
}

static int walk_open(struct ws_call *c, enum ws_which_lanes which, bool want, struct walk *w,
		     struct ws_err *e)
{
	return ws_param_window(c, &w->t0, &w->t1, e) ? walk_window(c, which, want, w, e) : 400;
}

static bool walkable(const struct ws_lane *lane)
{
	return ws_lane_ready(lane) && !ws_lane_descs[lane->kind].counter;
}

/* How much of an event is in the window. */
static uint64_t clipped(const struct walk *w, const struct ws_level *v, uint32_t i)
{
	int64_t a = (int64_t)v->start[i], b = (int64_t)ws_level_end(v, i);

	a = a < w->t0 ? w->t0 : a;
	b = b > w->t1 ? w->t1 : b;
	return b > a ? (uint64_t)(b - a) : 0;
}

/* ---- sums by name ---- */

struct groups {
	struct ws_sum_group *v;
	size_t n, cap;
	struct ws_map at;
};

static struct ws_sum_group *group_of(struct groups *g, uint8_t kind, uint32_t name)
{
	uint64_t key = (uint64_t)kind << 32 | name;
	bool known;
	size_t i = ws_map_get(&g->at, key, &known);

	if (known)
		return &g->v[i];
	ws_map_set(&g->at, key, g->n);
	ws_grow(g->v, g->cap, g->n + 1);
	g->v[g->n] = (struct ws_sum_group){.name = name, .kind = kind, .min = UINT64_MAX};
	return &g->v[g->n++];
}

static void sum_level(const struct walk *w, struct groups *g, uint32_t lane, uint32_t level)
{
	const struct ws_level *v = &w->l->lane[lane]->level[level];
	uint8_t kind = w->l->lane[lane]->kind;
	struct ws_sum_group *last = NULL;
	uint32_t from, to;

	ws_level_range(v, w->t0, w->t1, &from, &to);
	for (uint32_t i = from; i < to; i++) {
		uint64_t d = i == from || i + 1 == to ? clipped(w, v, i) : ws_level_dur(v, i);

		if (!last || last->name != v->name[i])
			last = group_of(g, kind, v->name[i]);
		last->count++;
		last->total += d;
		last->min = d < last->min ? d : last->min;
		if (d >= last->max) {
			last->max = d;
			last->longest = (struct ws_spot){lane, level, i};
		}
	}
}

/* Ids of one text become one group. */
static void unify(const struct ws_lanes *l, struct groups *g)
{
	struct groups out = {0};

	for (size_t i = 0; i < g->n; i++) {
		const struct ws_sum_group *x = &g->v[i];
		struct ws_sum_group *y = group_of(&out, x->kind, ws_lane_name_key(l, x->name));

		y->count += x->count;
		y->total += x->total;
		y->min = x->min < y->min ? x->min : y->min;
		if (x->max >= y->max) {
			y->max = x->max;
			y->longest = x->longest;
		}
	}
	free(g->v);
	ws_map_free(&g->at);
	*g = out;
}

/* Sums of all events of the walk, by kind and text. */
static void sum_walk(const struct walk *w, struct groups *g)
{
	for (size_t i = 0; i < w->n; i++)
		for (uint32_t k = 0;
		     walkable(w->l->lane[w->lanes[i]]) && k < w->l->lane[w->lanes[i]]->levels; k++)
			sum_level(w, g, w->lanes[i], k);
	unify(w->l, g);
}

int ws_sum_window(struct ws_call *c, int64_t t0, int64_t t1, struct ws_sum_group **v, size_t *n,
		  uint32_t *unread, struct ws_err *e)
{
	struct walk w = {.t0 = t0, .t1 = t1};
	struct groups g = {0};

	if (walk_window(c, WS_LANES_ONCE, true, &w, e))
		return 400;
	sum_walk(&w, &g);
	ws_map_free(&g.at);
	free(w.lanes);
	*v = g.v;
	*n = g.n;
	*unread = w.unread;
	return 0;
}

static int by_total(const void *a, const void *b)
{
	const struct ws_sum_group *x = a, *y = b;

	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	if (x->total != y->total)
		return x->total > y->total ? -1 : 1;
	return x->count > y->count ? -1 : x->count < y->count;
}

static void put_group(struct ws_call *c, const struct ws_sum_group *g)
{
	ws_put_comma(c->out);
	ws_text_puts(c->out, "{");
	ws_put_string(c->out, "kind", ws_lane_descs[g->kind].name);
	ws_put_name(c->out, "name", c->l, g->name);
	ws_put_int(c->out, "count", (int64_t)g->count);
	ws_put_int(c->out, "total", (int64_t)g->total);
	ws_put_int(c->out, "min", (int64_t)g->min);
	ws_put_int(c->out, "max", (int64_t)g->max);
	ws_put_key(c->out, "longest");
	ws_text_printf(c->out, "[%" PRIu32 ",%" PRIu32 ",%" PRIu32 "]", g->longest.lane,
		       g->longest.level, g->longest.event);
	ws_text_puts(c->out, "}");
}

/* How long anything was under way on a level in the window. */
static uint64_t busy_in(const struct walk *w, const struct ws_level *v, uint32_t from, uint32_t to)
{
	uint64_t busy = ws_level_busy(v, from, to);

	busy -= ws_level_dur(v, from) - clipped(w, v, from);
	if (to - 1 != from)
		busy -= ws_level_dur(v, to - 1) - clipped(w, v, to - 1);
	return busy;
}

static void put_lanes(struct ws_call *c, const struct walk *w)
{
	ws_put_key(c->out, "lanes");
	ws_text_puts(c->out, "[");
	for (size_t i = 0; i < w->n; i++) {
		const struct ws_lane *lane = c->l->lane[w->lanes[i]];
		const struct ws_level *v = walkable(lane) ? ws_lane_cover(lane) : NULL;
		uint32_t from, to;

		if (!v)
			continue;
		ws_level_range(v, w->t0, w->t1, &from, &to);
		ws_put_comma(c->out);
		ws_text_printf(c->out, "[%" PRIu32 ",%" PRIu64 ",%" PRIu32 "]", w->lanes[i],
			       from < to ? busy_in(w, v, from, to) : 0, to - from);
	}
	ws_text_puts(c->out, "]");
}

enum { MOST_GROUPS = 200 };

int ws_api_sum(struct ws_call *c, struct ws_err *e)
{
	struct walk w;
	struct groups g = {0};
	size_t in_kind = 0, left_out = 0;
	int64_t names;

	if (!ws_param_int(c, "names", 0, 1, 1, &names, e) ||
	    walk_open(c, names ? WS_LANES_ONCE : WS_LANES_ALL, names, &w, e))
		return 400;
	if (names)
		sum_walk(&w, &g);
	if (g.n)
		qsort(g.v, g.n, sizeof(*g.v), by_total);
	ws_text_puts(c->out, "{\"groups\":[");
	for (size_t i = 0; i < g.n; i++) {
		in_kind = i && g.v[i].kind == g.v[i - 1].kind ? in_kind + 1 : 0;
		if (in_kind < MOST_GROUPS)
			put_group(c, &g.v[i]);
		else
			left_out++;
	}
	ws_text_puts(c->out, "]");
	ws_put_int(c->out, "left_out", (int64_t)left_out);
	ws_put_int(c->out, "unread", names ? w.unread : 0);
	put_lanes(c, &w);
	ws_text_puts(c->out, "}");
	free(g.v);
	ws_map_free(&g.at);
	free(w.lanes);
	return 0;
}

/* ---- the events as a table ---- */

enum sort { BY_START, BY_DURATION, BY_NAME, BY_ROW };
enum { MOST_PAGE = 1000, MOST_SORTED = 100000, RECENT_NAMES = 4096 };
static const char *const sort_words[] = {
	[BY_START] = "start", [BY_DURATION] = "duration", [BY_NAME] = "name", [BY_ROW] = "row"};

struct pick {
	uint64_t key; /* ascending; of names the first eight bytes */
	uint64_t start;
	struct ws_spot spot;
	uint32_t name;
};

struct picks { /* a heap of the first `most`, the last of them on top */
	const struct ws_lanes *l;
	enum sort sort;
	bool down;
	struct pick *v;
	size_t n, most;
	struct {
		uint32_t name; /* + 1 */
		uint64_t key;
	} recent[RECENT_NAMES];
};

/* Which of two texts comes first, byte by byte. */
static int compare_names(const struct ws_lanes *l, uint32_t a, uint32_t b)
{
	size_t m, n;
	const char *s = ws_lane_name(l, a, &m), *t = ws_lane_name(l, b, &n);
	int order = memcmp(s, t, m < n ? m : n);

	return order ? order : m < n ? -1 : m > n;
}

/* What is equal in the column that is sorted by stands in order of time, whichever way that column
 * goes. */
static int compare_picks(const void *x, const void *y, void *ctx)
{
	const struct pick *a = x, *b = y;
	const struct picks *p = ctx;
	int order;

	if (a->key != b->key)
		return a->key < b->key ? -1 : 1;
	if (p->sort == BY_NAME && a->name != b->name &&
	    (order = compare_names(p->l, a->name, b->name)))
		return p->down ? -order : order;
	if (a->start != b->start)
		return a->start < b->start ? -1 : 1;
	if (a->spot.lane != b->spot.lane)
		return a->spot.lane < b->spot.lane ? -1 : 1;
	if (a->spot.level != b->spot.level)
		return a->spot.level < b->spot.level ? -1 : 1;
	return a->spot.event < b->spot.event ? -1 : a->spot.event > b->spot.event;
}

static bool pick_less(struct picks *p, const struct pick *a, const struct pick *b)
{
	return compare_picks(a, b, p) < 0;
}

static void sift_down(struct picks *p, size_t i)
{
	struct pick x = p->v[i];

	for (size_t k; (k = 2 * i + 1) < p->n; i = k) {
		if (k + 1 < p->n && pick_less(p, &p->v[k], &p->v[k + 1]))
			k++;
		if (!pick_less(p, &x, &p->v[k]))
			break;
		p->v[i] = p->v[k];
	}
	p->v[i] = x;
}

static void offer(struct picks *p, const struct pick *x)
{
	if (p->n < p->most) {
		size_t i = p->n++;

		for (; i && pick_less(p, &p->v[(i - 1) / 2], x); i = (i - 1) / 2)
			p->v[i] = p->v[(i - 1) / 2];
		p->v[i] = *x;
	} else if (p->n && pick_less(p, x, &p->v[0])) {
		p->v[0] = *x;
		sift_down(p, 0);
	}
}

/* The first bytes of a name as a number: most names are told apart by it, without a look at their
 * texts. */
static uint64_t name_key(struct picks *p, uint32_t name)
{
	size_t at = (name * 0x9e3779b1u) % RECENT_NAMES, n;
	uint64_t key = 0;
	const char *s;

	if (p->recent[at].name == name + 1)
		return p->recent[at].key;
	s = ws_lane_name(p->l, name, &n);
	for (size_t i = 0; i < 8; i++)
		key = key << 8 | (i < n ? (uint8_t)s[i] : 0);
	p->recent[at].name = name + 1;
	p->recent[at].key = key;
	return key;
}

/* Offer what matches of a level, which is that of the `nth` lane asked for; how many these are. */
static uint64_t pick_level(const struct walk *w, struct ws_matcher *m, struct picks *p,
			   const struct ws_spot *at, size_t nth)
{
	const struct ws_level *v = &w->l->lane[at->lane]->level[at->level];
	uint32_t from, to;
	uint64_t n = 0;

	ws_level_range(v, w->t0, w->t1, &from, &to);
	for (uint32_t i = from; i < to; i++) {
		struct pick x = {.spot = {at->lane, at->level, i},
				 .start = v->start[i],
				 .name = v->name[i],
				 .key = nth};

		if (!ws_matches(m, v->name[i]))
			continue;
		n++;
		if (p->sort != BY_ROW)
			x.key = p->sort == BY_START  ? x.start
				: p->sort == BY_NAME ? name_key(p, x.name)
						     : ws_level_dur(v, i);
		x.key = p->down ? ~x.key : x.key;
		offer(p, &x);
	}
	return n;
}

static void put_picks(struct ws_call *c, struct picks *p, int64_t offset)
{
	if (p->n)
		qsort_r(p->v, p->n, sizeof(*p->v), compare_picks, p);
	ws_text_puts(c->out, "{\"events\":[");
	for (size_t i = (size_t)offset; i < p->n; i++) {
		ws_put_comma(c->out);
		ws_text_puts(c->out, "{");
		ws_put_spot(c->out, c->l, &p->v[i].spot);
		ws_text_puts(c->out, "}");
	}
	ws_text_puts(c->out, "]");
}

static bool param_sort(struct ws_call *c, enum sort *sort, struct ws_err *e)
{
	const char *by = ws_param(c, "sort");

	*sort = BY_START;
	for (size_t i = 0; by && i < WS_COUNT(sort_words); i++)
		if (!strcmp(by, sort_words[i])) {
			*sort = (enum sort)i;
			return true;
		}
	if (by)
		ws_fail(e, "parameter sort must be start, duration, name or row");
	return !by;
}

/* Sorted by row: in the order in which `lanes` names them. */
int ws_api_events(struct ws_call *c, struct ws_err *e)
{
	int64_t offset, limit, down;
	struct ws_matcher *m;
	struct picks *p;
	enum sort sort;
	uint64_t count = 0;
	struct walk w;

	if (!ws_param_int(c, "offset", 0, MOST_SORTED, 0, &offset, e) ||
	    !ws_param_int(c, "limit", 1, MOST_PAGE, 100, &limit, e) ||
	    !ws_param_int(c, "down", 0, 1, 0, &down, e) || !param_sort(c, &sort, e))
		return 400;
	m = ws_matcher_new(c, e);
	if (!m)
		return WS_API_SAY;
	if (walk_open(c, WS_LANES_ORIGINAL, true, &w, e)) {
		ws_matcher_free(m);
		return 400;
	}
	p = ws_calloc(1, sizeof(*p));
	p->l = c->l;
	p->sort = sort;
	p->down = down;
	p->most = (size_t)(offset + limit);
	p->v = ws_malloc(p->most * sizeof(*p->v));
	for (size_t i = 0; i < w.n; i++)
		for (uint32_t k = 0;
		     walkable(c->l->lane[w.lanes[i]]) && k < c->l->lane[w.lanes[i]]->levels; k++)
			count += pick_level(&w, m, p, &(struct ws_spot){w.lanes[i], k, 0}, i);
	put_picks(c, p, offset);
	ws_put_int(c->out, "count", (int64_t)count);
	ws_put_int(c->out, "unread", w.unread);
	ws_text_puts(c->out, "}");
	ws_matcher_free(m);
	free(p->v);
	free(p);
	free(w.lanes);
	return 0;
}

/* ---- searching ---- */

/* How many events match, by name, the most first; and where. */
int ws_api_search(struct ws_call *c, struct ws_err *e)
{
	struct ws_matcher *m = ws_matcher_new(c, e);
	struct groups g = {0};
	uint64_t count = 0;
	struct walk w;
	size_t out = 0;

	if (!m)
		return WS_API_SAY;
	if (walk_open(c, WS_LANES_ORIGINAL, true, &w, e)) {
		ws_matcher_free(m);
		return 400;
	}
	sum_walk(&w, &g);
	if (g.n)
		qsort(g.v, g.n, sizeof(*g.v), by_total);
	ws_text_puts(c->out, "{\"names\":[");
	for (size_t i = 0; i < g.n; i++) {
		if (!ws_matches(m, g.v[i].name))
			continue;
		count += g.v[i].count;
		if (out++ < MOST_GROUPS)
			put_group(c, &g.v[i]);
	}
	ws_text_puts(c->out, "]");
	ws_put_int(c->out, "count", (int64_t)count);
	ws_put_int(c->out, "distinct", (int64_t)out);
	ws_put_int(c->out, "unread", w.unread);
	ws_text_puts(c->out, "}");
	free(g.v);
	ws_map_free(&g.at);
	free(w.lanes);
	ws_matcher_free(m);
	return 0;
}

/* The first match of a level that starts at `t` or later, or with `back` the last that starts
 * before it. */
static bool step_level(const struct ws_level *v, struct ws_matcher *m, uint64_t t, bool back,
		       uint32_t *found)
{
	uint32_t i = ws_level_seek(v, 0, v->n, t);

	if (back) {
		while (i && !ws_matches(m, v->name[i - 1]))
			i--;
		*found = i - 1;
		return i > 0;
	}
	while (i < v->n && !ws_matches(m, v->name[i]))
		i++;
	*found = i;
	return i < v->n;
}

/* Where stepping goes on: events at `t` itself come after (lane, level), or before it, as their
 * lanes and levels do. */
struct step {
	int64_t t, back, lane, level;
};

static bool param_step(struct ws_call *c, struct step *s, struct ws_err *e)
{
	if (!ws_param_int(c, "t", INT64_MIN / 4, INT64_MAX / 4, 0, &s->t, e) ||
	    !ws_param_int(c, "back", 0, 1, 0, &s->back, e) ||
	    !ws_param_int(c, "lane", 0, UINT32_MAX, s->back ? 0 : UINT32_MAX, &s->lane, e) ||
	    !ws_param_int(c, "level", 0, UINT32_MAX, s->back ? 0 : UINT32_MAX, &s->level, e))
		return false;
	s->t += (int64_t)c->l->zero;
	return true;
}

/* The moment from which events of a level are behind the step's place; going back, until which they
 * are before it. */
static uint64_t step_from(const struct step *s, uint32_t lane, uint32_t level)
{
	bool later = lane != s->lane ? lane > s->lane : level > s->level,
	     earlier = lane != s->lane ? lane < s->lane : level < s->level;
	int64_t t = s->back ? s->t + earlier : s->t + !later;

	return t < 0 ? 0 : (uint64_t)t;
}

int ws_api_step(struct ws_call *c, struct ws_err *e)
{
	struct ws_spot best = {0};
	uint64_t best_start = 0;
	struct ws_matcher *m;
	bool any = false;
	struct step s;
	struct walk w;

	if (!param_step(c, &s, e))
		return 400;
	m = ws_matcher_new(c, e);
	if (!m)
		return WS_API_SAY;
	if (walk_open(c, WS_LANES_ORIGINAL, true, &w, e)) {
		ws_matcher_free(m);
		return 400;
	}
	for (size_t i = 0; i < w.n; i++) {
		const struct ws_lane *lane = c->l->lane[w.lanes[i]];

		for (uint32_t k = 0, at; walkable(lane) && k < lane->levels; k++) {
			if (!step_level(&lane->level[k], m, step_from(&s, w.lanes[i], k), s.back,
					&at))
				continue;
			/* Of several at one time the first; going back the last. */
			if (any && (s.back ? lane->level[k].start[at] < best_start
					   : lane->level[k].start[at] >= best_start))
				continue;
			any = true;
			best = (struct ws_spot){w.lanes[i], k, at};
			best_start = lane->level[k].start[at];
		}
	}
	ws_text_puts(c->out, "{");
	if (any)
		ws_put_spot(c->out, c->l, &best);
	ws_put_int(c->out, "unread", w.unread);
	ws_text_puts(c->out, "}");
	ws_matcher_free(m);
	free(w.lanes);
	return 0;
}
