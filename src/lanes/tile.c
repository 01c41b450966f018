/* tile.c - see tile.h. A pixel costs two searches that start from the pixel before, whatever is in
 * it. */
#include "lanes/tile.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

struct drawing {
	const struct ws_lanes *l;
	const struct ws_level *v;
	int64_t t0, t1, px;
	int k;
	struct ws_rects *out;
	const struct ws_level *runs; /* of a lane of states: what was on a core */
	uint32_t *near;		     /* where in it the last question ended */
};

/* An event may begin before the tile and end after it; how far is told up to a limit that keeps the
 * number exact enough to draw. */
static float pixel(const struct drawing *d, uint64_t t)
{
	double x = (double)((int64_t)t - d->t0) / (double)d->px;

	return (float)(x < -WS_TILE_BEYOND  ? -WS_TILE_BEYOND
		       : x > WS_TILE_BEYOND ? WS_TILE_BEYOND
					    : x);
}

static struct ws_rect *new_rect(struct ws_rects *out)
{
	ws_grow(out->v, out->cap, out->n + 1);
	return &out->v[out->n++];
}

/* Ranges that are numbered ("step 12") have the colour of their kind. */
static uint8_t hash_name(const struct ws_lanes *l, uint32_t name, bool range)
{
	size_t n;
	const char *s = ws_lane_name(l, name, &n);

	while (range && n > 1 && s[n - 1] >= '0' && s[n - 1] <= '9')
		n--;
	return (uint8_t)(XXH3_64bits(s, n < 256 ? n : 256) >> 17);
}

uint8_t ws_tile_color(const struct ws_lanes *l, const struct ws_level *v, uint32_t i)
{
	const struct ws_source *source = &ws_sources[v->src[i] & WS_EVENT_SOURCE];
	enum ws_table table = source->table;

	if (!source->feeds)
		return ws_state_class(v->ref[i]);

	return hash_name(l, v->name[i],
			 table == WS_TABLE_nvtx || table == WS_TABLE_op || table == WS_TABLE_slice);
}

/* Many states: how much of the pixel was on a core, and what was most of the rest: the longest, or
 * what is beside that. */
static void sum_states(const struct drawing *d, uint32_t from, uint32_t to, struct ws_rect *r)
{
	const struct ws_level *v = d->v;
	uint32_t a = ws_level_seek(d->runs, *d->near, d->runs->n, v->start[from]),
		 b = ws_level_seek(d->runs, a, d->runs->n, v->start[to - 1] + 1), rest = r->event;
	uint64_t fill = ws_level_busy(d->runs, a, b) * 255 / (uint64_t)d->px;

	*d->near = b;
	r->fill = fill > 255 ? 255 : (uint8_t)fill;
	if (!ws_state_runs(v->ref[rest]))
		return;
	for (uint32_t i = rest > from ? rest - 1 : from; i < to && i <= r->event + 1; i++)
		if (!ws_state_runs(v->ref[i]) && (rest == r->event || v->dur[i] > v->dur[rest]))
			rest = i;
	r->color = ws_tile_color(d->l, v, rest);
}

static void draw_events(const struct drawing *d, uint32_t from, uint32_t to)
{
	const struct ws_level *v = d->v;
	uint32_t longest = to == from + 1 ? from : ws_level_longest(v, from, to);
	uint64_t end = ws_level_end(v, to - 1), busy = ws_level_busy(v, from, to);
	struct ws_rect *r = new_rect(d->out);
	uint64_t fill = to == from + 1 ? 255 : busy * 255 / (uint64_t)d->px;

	*r = (struct ws_rect){
		.x0 = pixel(d, v->start[from]),
		.x1 = pixel(d, end),
		.event = longest,
		.count = to - from,
		.name = v->name[longest],
		.color = v->paint[longest],
		.fill = fill > 255 ? 255 : (uint8_t)fill,
		.src = v->src[longest] & WS_EVENT_SOURCE,
	};
	if (to == from + 1 &&
	    (int64_t)(end - v->start[from]) < d->px) /* alone in its pixel, and short */
		r->fill = (uint8_t)(busy * 255 / (uint64_t)d->px);
	if (v->src[longest] & WS_EVENT_MOMENT)
		r->fill = 255;
	r->flags = (uint8_t)((v->paint[longest] ? WS_RECT_PAINTED : 0) |
			     (v->src[longest] & WS_EVENT_OPEN ? WS_RECT_OPEN : 0) |
			     (v->src[longest] & WS_EVENT_MOMENT ? WS_RECT_MOMENT : 0) |
			     (to > from + 1 ? WS_RECT_GROUP : 0));
	if (!v->paint[longest])
		r->color = ws_tile_color(d->l, v, longest);
	if (d->runs && to > from + 1)
		sum_states(d, from, to, r);
}

static void draw_level(const struct drawing *d)
{
	const struct ws_level *v = d->v;
	uint32_t i, end;

	ws_level_range(v, d->t0, d->t1, &i, &end);
	while (i < end) {
		int64_t x = (int64_t)v->start[i] - d->t0;
		uint32_t to = i + 1;

		if (v->dur[i] < (uint64_t)d->px) {
			int64_t edge = d->t0 + (((x < 0 ? 0 : x) >> d->k) + 1) * d->px;

			to = ws_level_seek(v, i, end, (uint64_t)(edge < 0 ? 0 : edge));
			if (to > i + 1 && v->dur[to - 1] >= (uint64_t)d->px)
				to--;
		}
		draw_events(d, i, to);
		i = to;
	}
}

struct few { /* short events of one pixel that are drawn as one */
	uint32_t first, last, longest, count;
	uint64_t busy;
};

static void draw_few(const struct drawing *d, struct few *f)
{
	uint64_t fill = f->busy * 255 / (uint64_t)d->px;
	struct ws_rect *r;

	if (!f->count)
		return;
	draw_events(d, f->longest, f->longest + 1);
	r = &d->out->v[d->out->n - 1];
	r->x0 = pixel(d, d->v->start[f->first]);
	r->x1 = pixel(d, ws_level_end(d->v, f->last));
	r->count = f->count;
	r->fill = fill > 255 || d->v->src[f->longest] & WS_EVENT_MOMENT ? 255 : (uint8_t)fill;
	r->flags |= f->count > 1 ? WS_RECT_GROUP : 0;
	f->count = 0;
	f->busy = 0;
}

static bool is_among(uint32_t name, const uint32_t *names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (names[i] == name)
			return true;
	return false;
}

void ws_tile_draw_named(const struct ws_lanes *l, const struct ws_lane *lane, uint32_t level, int k,
			int64_t index, const uint32_t *names, size_t n, struct ws_rects *out)
{
	struct drawing d = {.l = l,
			    .v = &lane->level[level],
			    .t0 = ws_tile_start(l, k, index),
			    .px = INT64_C(1) << k,
			    .k = k,
			    .out = out};
	struct few few = {0};
	int64_t at = 0;
	uint32_t i, end;

	d.t1 = d.t0 + WS_TILE_PIXELS * d.px;
	ws_level_range(d.v, d.t0, d.t1, &i, &end);
	for (; i < end; i++) {
		int64_t x = ((int64_t)d.v->start[i] - d.t0) >> k;
		bool is_short = d.v->dur[i] < (uint64_t)d.px;

		if (!is_among(d.v->name[i], names, n))
			continue;
		if (!is_short || x != at)
			draw_few(&d, &few);
		if (!is_short) {
			draw_events(&d, i, i + 1);
			continue;
		}
		at = x;
		if (!few.count++)
			few.first = few.longest = i;
		few.last = i;
		few.longest = d.v->dur[i] > d.v->dur[few.longest] ? i : few.longest;
		few.busy += d.v->dur[i];
	}
	draw_few(&d, &few);
}

/* A rectangle a pixel at most: from the first value in it to the next after it. */
static void draw_counter(const struct drawing *d)
{
	const struct ws_level *v = d->v;
	uint32_t i, end;

	ws_level_range(v, d->t0, d->t1, &i, &end);
	while (i < end) {
		int64_t x = (int64_t)v->start[i] - d->t0;
		int64_t edge = d->t0 + (((x < 0 ? 0 : x) >> d->k) + 1) * d->px;
		uint32_t to = ws_level_seek(v, i, end, (uint64_t)(edge < 0 ? 0 : edge));
		struct ws_rect *r = new_rect(d->out);
		double low, high;

		ws_level_extremes(v, i, to, &low, &high);
		*r = (struct ws_rect){.x0 = pixel(d, v->start[i]),
				      .x1 = pixel(d, to < v->n ? v->start[to] : d->l->last),
				      .high = (float)high,
				      .low = (float)low,
				      .value = (float)v->value[to - 1],
				      .fill = 255,
				      .flags = WS_RECT_COUNTER};
		i = to;
	}
}

/* ---- lanes that are not read: what the report says of their blocks ---- */

/* Add to each pixel how much of it is busy; a pixel with anything is not 0. Parts of a glimpse may
 * be larger than a pixel, or smaller. */
static void shade(const struct drawing *d, float *busy, int64_t from, int64_t to, float share)
{
	double x = (double)(from - d->t0) / (double)d->px, y = (double)(to - d->t0) / (double)d->px;
	int i, k;

	if (y < 0 || x >= WS_TILE_PIXELS)
		return;
	x = x < 0 ? 0 : x;
	y = y > WS_TILE_PIXELS ? WS_TILE_PIXELS : y;
	i = (int)x;
	k = (int)y < WS_TILE_PIXELS ? (int)y : WS_TILE_PIXELS - 1;
	for (int p = i; p <= k; p++) {
		double a = p > x ? p : x, b = p + 1 < y ? p + 1 : y;

		busy[p] += (float)(b > a ? b - a : 0) * share + 1e-6f;
	}
}

static void shade_glimpse(const struct drawing *d, float *busy, const struct ws_glimpse *g)
{
	double width = (double)(g->last - g->first) / WS_GROUP_BINS;
	double a = ((double)d->t0 - (double)g->first) / (width > 0 ? width : 1);
	int from = a > 0 ? (int)(a < WS_GROUP_BINS ? a : WS_GROUP_BINS) : 0;

	if (!g->bins) {
		shade(d, busy, (int64_t)g->first, (int64_t)g->last, 0.35f);
		return;
	}
	for (int i = from; i < WS_GROUP_BINS; i++) {
		int64_t start = (int64_t)g->first + (int64_t)(width * i);

		if (start >= d->t1)
			return;
		if (g->bins[i])
			shade(d, busy, start, (int64_t)g->first + (int64_t)(width * (i + 1)) + 1,
			      (float)g->bins[i] / 255);
	}
}

enum { PREVIEW_STEPS = 16 };

/* Pixels beside one another that are about as busy are one rectangle. */
static void draw_shades(const struct drawing *d, const float *busy)
{
	for (int i = 0, to; i < WS_TILE_PIXELS; i = to) {
		int step = busy[i] >= 1 ? PREVIEW_STEPS : (int)(busy[i] * PREVIEW_STEPS) + 1;

		to = i + 1;
		if (busy[i] <= 0)
			continue;
		while (to < WS_TILE_PIXELS && busy[to] > 0 &&
		       (busy[to] >= 1 ? PREVIEW_STEPS : (int)(busy[to] * PREVIEW_STEPS) + 1) ==
			       step)
			to++;
		*new_rect(d->out) = (struct ws_rect){.x0 = (float)i,
						     .x1 = (float)to,
						     .fill = (uint8_t)(step * 255 / PREVIEW_STEPS),
						     .flags = WS_RECT_PREVIEW | WS_RECT_GROUP};
	}
}

static void draw_preview(const struct drawing *d, const struct ws_lane *lane)
{
	float busy[WS_TILE_PIXELS] = {0};

	for (size_t i = lane->glimpse; i < lane->glimpse + lane->glimpses; i++) {
		const struct ws_glimpse *g = &d->l->glimpse[i];

		if ((int64_t)g->first < d->t1 && (int64_t)g->last >= d->t0)
			shade_glimpse(d, busy, g);
	}
	draw_shades(d, busy);
}

void ws_tile_draw(const struct ws_lanes *l, const struct ws_lane *lane, uint32_t level, int k,
		  int64_t index, struct ws_rects *out)
{
	struct drawing d = {.l = l,
			    .t0 = ws_tile_start(l, k, index),
			    .px = INT64_C(1) << k,
			    .k = k,
			    .out = out};
	uint32_t near = 0;

	d.t1 = d.t0 + ((int64_t)WS_TILE_PIXELS << k);
	if (!ws_lane_ready(lane)) {
		if (!level)
			draw_preview(&d, lane);
		return;
	}
	if (level >= lane->levels || d.t1 <= 0)
		return;
	d.v = &lane->level[level];
	d.runs = lane->kind == WS_LANE_STATE ? lane->cover : NULL;
	d.near = &near;
	if (ws_lane_descs[lane->kind].counter)
		draw_counter(&d);
	else
		draw_level(&d);
}
