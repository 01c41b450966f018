/*
 * api_tiles.c - tiles of many lanes in one answer, in a form that the page hands to the GPU as it
 * is: rectangles of 24 bytes.
 *
 * Little-endian: "WST1", numbers of tiles, names, bytes of names, colours; the palette; each tile's
 * lane, index, pending, levels and rectangles a level; the rectangles; names as (id, length, bytes
 * padded to four). Names are told of rectangles wide enough to be labelled.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "text/text.h"
#include "serve/api.h"
#include "lanes/tile.h"

enum {
	MOST_TILES = 4096,
	MOST_RECTS = 4 << 20,
	LABEL_PIXELS = 20,
	LABEL_BYTES = 200,
	CLOSE_LEVELS = 10,
	MOST_NAMES = 64
};

struct tiles {
	struct ws_text heads, names;
	struct ws_rects rects;
	struct ws_map named;
	uint32_t tile_n, name_n;
	int k;
	int64_t index, n;
	struct asked {
		uint32_t lane, levels;
		uint32_t only_n; /* with events of these names alone, from only[only] on; 0: all */
		size_t only;
	} * asked;
	uint32_t *lanes; /* of these */
	size_t lane_n, cap, lane_cap;
	uint32_t *only;
	size_t only_n, only_cap;
};

static void put_u32(struct ws_text *t, uint32_t v)
{
	ws_text_add(t, &v, 4);
}

static void add_name(const struct ws_lanes *l, struct tiles *x, uint32_t name)
{
	struct ws_text text = {0};
	bool known;
	size_t n;
	const char *s;

	ws_map_get(&x->named, name, &known);
	if (known)
		return;
	ws_map_set(&x->named, name, 1);
	s = ws_lane_name(l, name, &n);
	ws_text_utf8(&text, s, n < LABEL_BYTES ? n : LABEL_BYTES);
	put_u32(&x->names, name);
	put_u32(&x->names, (uint32_t)text.len);
	ws_text_add(&x->names, text.s ? text.s : "", text.len);
	ws_text_add(&x->names, "\0\0\0", (4 - text.len % 4) % 4);
	ws_text_free(&text);
	x->name_n++;
}

static void add_level(const struct ws_lanes *l, struct tiles *x, const struct asked *q,
		      const struct ws_lane *n, uint32_t k, int64_t index)
{
	size_t from = x->rects.n;

	if (q->only_n)
		ws_tile_draw_named(l, n, k, x->k, index, x->only + q->only, q->only_n, &x->rects);
	else
		ws_tile_draw(l, n, k, x->k, index, &x->rects);
	put_u32(&x->heads, (uint32_t)(x->rects.n - from));
	for (size_t i = from; i < x->rects.n; i++) {
		const struct ws_rect *r = &x->rects.v[i];

		if (!(r->flags & (WS_RECT_COUNTER | WS_RECT_PREVIEW)) &&
		    r->x1 - r->x0 >= LABEL_PIXELS)
			add_name(l, x, r->name);
	}
}

/* `close`: what is in sight of it, where it is not read. Blocks do not tell names. */
static uint32_t shown_levels(const struct asked *q, const struct ws_lane *n,
			     const struct ws_lane *close, bool ready)
{
	if (!ready && !close)
		return !q->only_n;
	if (!ready)
		return close->levels < CLOSE_LEVELS ? close->levels : CLOSE_LEVELS;
	return q->levels < n->levels ? q->levels : n->levels;
}

static void add_tile(const struct ws_lanes *l, struct tiles *x, const struct asked *q,
		     const struct ws_lane *close, int64_t index)
{
	const struct ws_lane *n = l->lane[q->lane];
	bool ready = ws_lane_ready(n);
	uint32_t shown = shown_levels(q, n, close, ready);

	put_u32(&x->heads, q->lane);
	put_u32(&x->heads, (uint32_t)(int32_t)index);
	put_u32(&x->heads, ready ? 0 : ws_lane_reading(n) ? 1 : 2);
	put_u32(&x->heads, shown);
	for (uint32_t k = 0; k < shown; k++)
		add_level(l, x, q, ready || !close ? n : close, k, index);
	x->tile_n++;
}

/* "~name~name": what is left of `s` after them. */
static const char *take_names(struct tiles *x, struct asked *q, const char *s)
{
	char *end;

	for (q->only = x->only_n; *s == '~' && q->only_n < MOST_NAMES; s = end) {
		ws_grow(x->only, x->only_cap, x->only_n + 1);
		x->only[x->only_n++] = (uint32_t)strtoul(s + 1, &end, 10);
		q->only_n++;
	}
	return s;
}

/* "lane.levels,lane.levels~name~name" */
static int parse_lanes(const struct ws_call *c, struct tiles *x, struct ws_err *e)
{
	const char *s = ws_param(c, "lanes");

	while (s && *s) {
		char *number;
		unsigned long lane = strtoul(s, &number, 10),
			      levels = *number == '.' ? strtoul(number + 1, &number, 10) : 1;
		struct asked q = {.levels = levels < UINT32_MAX ? (uint32_t)levels : UINT32_MAX};
		const char *end = take_names(x, &q, number);

		if (end == s || lane >= c->l->n || (*end && *end != ',') ||
		    (q.only_n && ws_lane_descs[c->l->lane[lane]->kind].counter)) {
			ws_fail(e, "parameter lanes must be numbers of rows with levels, such as "
				   "1.3,2.1");
			return 400;
		}
		s = end + (*end == ',');
		if (x->lane_n * (uint64_t)x->n >= MOST_TILES) {
			ws_fail(e, "so many tiles at once are too much");
			return 400;
		}
		q.lane = (uint32_t)lane;
		ws_grow(x->asked, x->cap, x->lane_n + 1);
		ws_grow(x->lanes, x->lane_cap, x->lane_n + 1);
		x->asked[x->lane_n] = q;
		x->lanes[x->lane_n++] = q.lane;
		ws_lanes_want_at(c->l, q.lane, q.only_n ? 0 : UINT64_C(1) << x->k);
	}
	return 0;
}

static int add_lanes(const struct ws_call *c, struct tiles *x, struct ws_err *e)
{
	int status = parse_lanes(c, x, e);

	for (int64_t i = 0; !status && i < x->n; i++) {
		int64_t t0 = ws_tile_start(c->l, x->k, x->index + i);
		struct ws_lane **close = ws_closeup_new(c->l, x->lanes, x->lane_n, t0,
							t0 + ((int64_t)WS_TILE_PIXELS << x->k));

		for (size_t k = 0; k < x->lane_n && !status; k++) {
			if (x->rects.n > MOST_RECTS) {
				ws_fail(e, "so many tiles at once are too much");
				status = 400;
			} else {
				add_tile(c->l, x, &x->asked[k], close[x->lanes[k]], x->index + i);
			}
		}
		ws_closeup_free(c->l, close);
	}
	return status;
}

static void write_answer(const struct ws_call *c, const struct tiles *x)
{
	uint32_t colours = __atomic_load_n(&c->l->palette_n, __ATOMIC_ACQUIRE);

	ws_text_puts(c->out, "WST1");
	put_u32(c->out, x->tile_n);
	put_u32(c->out, x->name_n);
	put_u32(c->out, (uint32_t)x->names.len);
	put_u32(c->out, colours);
	ws_text_add(c->out, c->l->palette, (size_t)colours * 4);
	ws_text_add(c->out, x->heads.s ? x->heads.s : "", x->heads.len);
	ws_text_add(c->out, x->rects.v ? (const void *)x->rects.v : "",
		    x->rects.n * sizeof(*x->rects.v));
	ws_text_add(c->out, x->names.s ? x->names.s : "", x->names.len);
}

int ws_api_tiles(struct ws_call *c, struct ws_err *e)
{
	struct tiles x = {0};
	int64_t k, most = INT32_MAX;
	int status;

	if (!ws_param_int(c, "k", 0, WS_TILE_SCALES - 1, 0, &k, e) ||
	    !ws_param_int(c, "i", -most, most, 0, &x.index, e) ||
	    !ws_param_int(c, "n", 1, 64, 1, &x.n, e))
		return 400;
	if (x.index + x.n > (INT64_MAX >> 12) >> k || x.index < -((INT64_MAX >> 12) >> k)) {
		ws_fail(e, "parameter i is beyond all time");
		return 400;
	}
	x.k = (int)k;
	status = add_lanes(c, &x, e);
	if (!status)
		write_answer(c, &x);
	ws_text_free(&x.heads);
	ws_text_free(&x.names);
	ws_map_free(&x.named);
	free(x.lanes);
	free(x.asked);
	free(x.only);
	free(x.rects.v);
	return status;
}

/* ---- the events under some pixels ---- */

enum { MOST_AT = 1000 };

int ws_api_at(struct ws_call *c, struct ws_err *e)
{
	int64_t lane, level, t0, t1, limit;
	const struct ws_level *v;
	uint32_t from, to;

	if (!ws_param_int(c, "lane", 0, (int64_t)c->l->n - 1, 0, &lane, e) ||
	    !ws_param_int(c, "level", 0, UINT32_MAX, 0, &level, e) ||
	    !ws_param_int(c, "limit", 1, MOST_AT, 20, &limit, e) ||
	    !ws_param_window(c, &t0, &t1, e))
		return 400;
	ws_text_puts(c->out, "{\"events\":[");
	if (c->l->n)
		ws_lanes_want(c->l, (uint32_t)lane);
	if (!c->l->n || !ws_lane_ready(c->l->lane[lane]) || level >= c->l->lane[lane]->levels ||
	    ws_lane_descs[c->l->lane[lane]->kind].counter) {
		ws_text_puts(c->out, "],\"count\":0,\"busy\":0}");
		return 0;
	}
	v = &c->l->lane[lane]->level[level];
	ws_level_range(v, t0, t1, &from, &to);
	for (uint32_t i = from; i < to && i - from < limit; i++) {
		struct ws_spot s = {(uint32_t)lane, (uint32_t)level, i};

		ws_put_comma(c->out);
		ws_text_puts(c->out, "{");
		ws_put_spot(c->out, c->l, &s);
		ws_text_puts(c->out, "}");
	}
	ws_text_puts(c->out, "]");
	ws_put_int(c->out, "count", to - from);
	ws_put_int(c->out, "busy", (int64_t)ws_level_busy(v, from, to));
	ws_text_puts(c->out, "}");
	return 0;
}
