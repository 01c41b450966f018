/* tile.c - see tile.h. A pixel costs two searches that start from the pixel before, however many
 * events are in it. */
#include "lanes/tile.h"
#include "base/choose.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

struct drawing {
	const struct ws_lanes *lanes;
	const struct ws_level *levels;
	int64_t t0, t1, px;
	int k;
	struct ws_rects *out;
	const struct ws_level *runs; /* of a lane of states: what was on a core */
	uint32_t *near;		     /* where the last search in it ended */
};

/* An event may begin before the tile and end after it; how far is stored up to a limit that keeps
 * the number exact enough to draw. */
static float pixel_of_time(const struct drawing *drawing, uint64_t t)
{
	double x = (double)((int64_t)t - drawing->t0) / (double)drawing->px;

	return (float)(x < -WS_TILE_BEYOND ? -WS_TILE_BEYOND : ws_min(x, WS_TILE_BEYOND));
}

static struct ws_rect *new_rect(struct ws_rects *out)
{
	ws_grow(out->rects, out->cap, out->n + 1);
	return &out->rects[out->n++];
}

/* Numbered ranges ("step 12") have the colour of their kind; names that are shown as one form have
 * the colour of the form. */
static uint8_t hash_name(const struct ws_lanes *lanes, uint32_t name, bool range)
{
	size_t n;
	const char *text = ws_lane_fold_name(lanes, name, &n);

	while (range && n > 1 && text[n - 1] >= '0' && text[n - 1] <= '9')
		n--;
	return (uint8_t)(XXH3_64bits(text, ws_min(n, 256)) >> 17);
}

uint8_t ws_choose_event_color(const struct ws_lanes *lanes, const struct ws_level *level,
			      uint32_t i)
{
	const struct ws_event_kind *kind = &ws_event_kinds[level->src[i] & WS_EVENT_SOURCE];

	if (kind->is_computed)
		return ws_state_class(level->ref[i]);

	return hash_name(lanes, level->name[i], kind->is_numbered);
}

/* Many states: how much of the pixel was on a core. Where the longest state ran, the colour is that
 * of its longer neighbour that did not run. */
static void sum_states(const struct drawing *drawing, uint32_t from, uint32_t to,
		       struct ws_rect *rect)
{
	const struct ws_level *level = drawing->levels;
	uint32_t a = ws_level_seek(drawing->runs, *drawing->near, drawing->runs->n,
				   level->start[from]),
		 b = ws_level_seek(drawing->runs, a, drawing->runs->n, level->start[to - 1] + 1),
		 rest = rect->event;
	uint64_t fill = ws_level_busy(drawing->runs, a, b) * 255 / (uint64_t)drawing->px;

	*drawing->near = b;
	rect->fill = fill > 255 ? 255 : (uint8_t)fill;
	if (!ws_state_runs(level->ref[rest]))
		return;
	for (uint32_t i = rest > from ? rest - 1 : from; i < to && i <= rect->event + 1; i++)
		if (!ws_state_runs(level->ref[i]) &&
		    (rest == rect->event || level->dur[i] > level->dur[rest]))
			rest = i;
	rect->color = ws_choose_event_color(drawing->lanes, level, rest);
}

static void draw_events(const struct drawing *drawing, uint32_t from, uint32_t to)
{
	const struct ws_level *level = drawing->levels;
	uint32_t longest = to == from + 1 ? from : ws_level_longest(level, from, to);
	uint64_t end = ws_level_end(level, to - 1), busy = ws_level_busy(level, from, to);
	struct ws_rect *rect = new_rect(drawing->out);
	uint64_t fill = to == from + 1 ? 255 : busy * 255 / (uint64_t)drawing->px;

	*rect = (struct ws_rect){
		.x0 = pixel_of_time(drawing, level->start[from]),
		.x1 = pixel_of_time(drawing, end),
		.event = longest,
		.count = to - from,
		.name = level->name[longest],
		.color = level->paint[longest],
		.fill = fill > 255 ? 255 : (uint8_t)fill,
		.src = level->src[longest] & WS_EVENT_SOURCE,
	};
	if (to == from + 1 &&
	    (int64_t)(end - level->start[from]) < drawing->px) /* alone in its pixel, and short */
		rect->fill = (uint8_t)(busy * 255 / (uint64_t)drawing->px);
	if (level->src[longest] & WS_EVENT_MOMENT)
		rect->fill = 255;
	rect->flags = (uint8_t)((level->paint[longest] ? WS_RECT_PAINTED : 0) |
				(level->src[longest] & WS_EVENT_OPEN ? WS_RECT_OPEN : 0) |
				(level->src[longest] & WS_EVENT_MOMENT ? WS_RECT_MOMENT : 0) |
				(to > from + 1 ? WS_RECT_GROUP : 0));
	if (!level->paint[longest])
		rect->color = ws_choose_event_color(drawing->lanes, level, longest);
	if (drawing->runs && to > from + 1)
		sum_states(drawing, from, to, rect);
}

static void draw_level(const struct drawing *drawing)
{
	const struct ws_level *level = drawing->levels;
	uint32_t i, end;

	ws_level_range(level, drawing->t0, drawing->t1, &i, &end);
	while (i < end) {
		int64_t x = (int64_t)level->start[i] - drawing->t0;
		uint32_t to = i + 1;

		if (level->dur[i] < (uint64_t)drawing->px) {
			int64_t edge =
				drawing->t0 + (((ws_max(x, 0)) >> drawing->k) + 1) * drawing->px;

			to = ws_level_seek(level, i, end, (uint64_t)(ws_max(edge, 0)));
			if (to > i + 1 && level->dur[to - 1] >= (uint64_t)drawing->px)
				to--;
		}
		draw_events(drawing, i, to);
		i = to;
	}
}

struct few { /* short events of one pixel that are drawn as one */
	uint32_t first, last, longest, count;
	uint64_t busy;
};

static void draw_few(const struct drawing *drawing, struct few *few)
{
	uint64_t fill = few->busy * 255 / (uint64_t)drawing->px;
	struct ws_rect *rect;

	if (!few->count)
		return;
	draw_events(drawing, few->longest, few->longest + 1);
	rect = &drawing->out->rects[drawing->out->n - 1];
	rect->x0 = pixel_of_time(drawing, drawing->levels->start[few->first]);
	rect->x1 = pixel_of_time(drawing, ws_level_end(drawing->levels, few->last));
	rect->count = few->count;
	rect->fill = fill > 255 || drawing->levels->src[few->longest] & WS_EVENT_MOMENT
			     ? 255
			     : (uint8_t)fill;
	rect->flags |= few->count > 1 ? WS_RECT_GROUP : 0;
	few->count = 0;
	few->busy = 0;
}

static bool is_among(const struct ws_lanes *lanes, uint32_t name, const uint64_t *names, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (names[i] == name)
			return true;
		if (names[i] & WS_TILE_FORM &&
		    ws_lane_fold_key(lanes, (uint32_t)names[i]) == ws_lane_fold_key(lanes, name))
			return true;
	}
	return false;
}

void ws_draw_named_tile(const struct ws_lanes *lanes, const struct ws_lane *lane, uint32_t level,
			const struct ws_tile_names *tile, struct ws_rects *out)
{
	int k = tile->k;
	struct drawing drawing = {.lanes = lanes,
				  .levels = &lane->level[level],
				  .t0 = ws_tile_start(lanes, k, tile->index),
				  .px = INT64_C(1) << k,
				  .k = k,
				  .out = out};
	struct few few = {0};
	int64_t at = 0;
	uint32_t i, end;

	drawing.t1 = drawing.t0 + WS_TILE_PIXELS * drawing.px;
	ws_level_range(drawing.levels, drawing.t0, drawing.t1, &i, &end);
	for (; i < end; i++) {
		int64_t x = ((int64_t)drawing.levels->start[i] - drawing.t0) >> k;
		bool is_short = drawing.levels->dur[i] < (uint64_t)drawing.px;

		if (!is_among(lanes, drawing.levels->name[i], tile->names, tile->n))
			continue;
		if (!is_short || x != at)
			draw_few(&drawing, &few);
		if (!is_short) {
			draw_events(&drawing, i, i + 1);
			continue;
		}
		at = x;
		if (!few.count++)
			few.first = few.longest = i;
		few.last = i;
		few.longest =
			drawing.levels->dur[i] > drawing.levels->dur[few.longest] ? i : few.longest;
		few.busy += drawing.levels->dur[i];
	}
	draw_few(&drawing, &few);
}

/* The end of the pixel in which `time` lies, or of the tile's first pixel. */
static int64_t pixel_end(const struct drawing *drawing, uint64_t time)
{
	int64_t x = (int64_t)time - drawing->t0;

	return drawing->t0 + (((ws_max(x, 0)) >> drawing->k) + 1) * drawing->px;
}

/*
 * At most one rectangle for each pixel: from the first value in it to the next after it. A value
 * that is not a number is a gap: the time that it holds for is not covered, and a rectangle ends
 * where it begins.
 */
static void draw_counter(const struct drawing *drawing)
{
	const struct ws_level *level = drawing->levels;
	uint32_t i, end;

	ws_level_range(level, drawing->t0, drawing->t1, &i, &end);
	while (i < end) {
		int64_t edge = pixel_end(drawing, level->start[i]);
		uint32_t to = ws_level_seek(level, i, end, (uint64_t)(ws_max(edge, 0))), first = i,
			 last = to;
		uint64_t until = drawing->lanes->last;
		struct ws_rect *rect;
		double low, high;

		i = to;
		while (first < last && isnan(level->value[first]))
			first++;
		while (last > first && isnan(level->value[last - 1]))
			last--;
		if (first == last)
			continue;
		if (last < level->n)
			until = level->start[last];
		ws_level_extremes(level, first, last, &low, &high);
		rect = new_rect(drawing->out);
		*rect = (struct ws_rect){.x0 = pixel_of_time(drawing, level->start[first]),
					 .x1 = pixel_of_time(drawing, until),
					 .high = (float)high,
					 .low = (float)low,
					 .value = (float)level->value[last - 1],
					 .fill = 255,
					 .flags = WS_RECT_COUNTER};
	}
}

/* ---- several counters stacked ---- */

struct part { /* one of them, while all are walked together */
	const struct ws_level *level;
	uint32_t at, end; /* the next value, and where to stop */
	double value;	  /* the current value; 0 before the first */
};

struct pile {
	const struct drawing *drawing;
	struct part parts[WS_TILE_PARTS];
	size_t count;
	struct ws_rect rect; /* being made, from `from` on, in the pixel that ends at `edge` */
	uint64_t from;
	int64_t edge;
	bool open;
};

static void end_pile_rect(struct pile *pile, uint64_t until)
{
	if (!pile->open)
		return;
	pile->open = false;
	pile->rect.x0 = pixel_of_time(pile->drawing, pile->from);
	pile->rect.x1 = pixel_of_time(pile->drawing, until);
	*new_rect(pile->drawing->out) = pile->rect;
}

/* The sum holds from `time` on. */
static void add_pile_value(struct pile *pile, uint64_t time)
{
	double sum = 0;

	for (size_t i = 0; i < pile->count; i++)
		sum += pile->parts[i].value;
	if (pile->open && (isnan(sum) || (int64_t)time >= pile->edge))
		end_pile_rect(pile, time);
	if (isnan(sum))
		return;
	if (!pile->open) {
		pile->open = true;
		pile->from = time;
		pile->edge = pixel_end(pile->drawing, time);
		pile->rect = (struct ws_rect){.high = (float)sum,
					      .low = (float)sum,
					      .fill = 255,
					      .flags = WS_RECT_COUNTER};
	}
	pile->rect.high = fmaxf(pile->rect.high, (float)sum);
	pile->rect.low = fminf(pile->rect.low, (float)sum);
	pile->rect.value = (float)sum;
}

/* The next time at which a value changes; WS_NO_TIME after the last. */
static uint64_t find_next_change(const struct pile *pile)
{
	uint64_t next = WS_NO_TIME;

	for (size_t i = 0; i < pile->count; i++)
		if (pile->parts[i].at < pile->parts[i].end)
			next = ws_min(next, pile->parts[i].level->start[pile->parts[i].at]);
	return next;
}

static void take_values_at(struct pile *pile, uint64_t time)
{
	for (size_t i = 0; i < pile->count; i++) {
		struct part *part = &pile->parts[i];

		while (part->at < part->end && part->level->start[part->at] <= time)
			part->value = part->level->value[part->at++];
	}
}

/* The values that hold at the beginning of the tile hold together from the start of the latest. */
static void begin_pile(struct pile *pile)
{
	uint64_t since = 0;

	for (size_t i = 0; i < pile->count; i++) {
		struct part *part = &pile->parts[i];

		if (part->at == part->end ||
		    (int64_t)part->level->start[part->at] > pile->drawing->t0)
			continue;
		since = ws_max(since, part->level->start[part->at]);
		part->value = part->level->value[part->at++];
	}
	if (since)
		add_pile_value(pile, since);
}

void ws_draw_pile_tile(const struct ws_lanes *lanes, const struct ws_lane *const *parts,
		       const struct ws_tile_pile *tile, struct ws_rects *out)
{
	struct drawing drawing = {.lanes = lanes,
				  .t0 = ws_tile_start(lanes, tile->k, tile->index),
				  .px = INT64_C(1) << tile->k,
				  .k = tile->k,
				  .out = out};
	struct pile pile = {.drawing = &drawing};
	uint64_t time, until = lanes->last; /* until when the last sum holds */

	drawing.t1 = drawing.t0 + ((int64_t)WS_TILE_PIXELS << tile->k);
	if (drawing.t1 <= 0)
		return;
	for (size_t i = 0; i < tile->parts && i < WS_TILE_PARTS; i++) {
		struct part *part = &pile.parts[pile.count];

		if (!parts[i]->levels || !parts[i]->level[0].n)
			continue;
		part->level = &parts[i]->level[0];
		ws_level_range(part->level, drawing.t0, drawing.t1, &part->at, &part->end);
		if (part->end < part->level->n)
			until = ws_min(until, part->level->start[part->end]);
		pile.count++;
	}
	begin_pile(&pile);
	while ((time = find_next_change(&pile)) != WS_NO_TIME) {
		take_values_at(&pile, time);
		add_pile_value(&pile, time);
	}
	end_pile_rect(&pile, until);
}

/* ---- lanes that are not read: drawn from the report's glimpses of their blocks ---- */

/* Add to each pixel its busy share; a pixel with any event is not 0. Parts of a glimpse may be
 * larger or smaller than a pixel. */
static void shade_rect(const struct drawing *drawing, float *busy, int64_t from, int64_t to,
		       float share)
{
	double x = (double)(from - drawing->t0) / (double)drawing->px,
	       y = (double)(to - drawing->t0) / (double)drawing->px;
	int i, k;

	if (y < 0 || x >= WS_TILE_PIXELS)
		return;
	x = ws_max(x, 0);
	y = ws_min(y, WS_TILE_PIXELS);
	i = (int)x;
	k = (int)y < WS_TILE_PIXELS ? (int)y : WS_TILE_PIXELS - 1;
	for (int p = i; p <= k; p++) {
		double a = ws_max(p, x), b = p + 1 < y ? p + 1 : y;

		busy[p] += (float)(b > a ? b - a : 0) * share + 1e-6f;
	}
}

static void shade_glimpse(const struct drawing *drawing, float *busy,
			  const struct ws_glimpse *glimpse)
{
	double width = (double)(glimpse->last - glimpse->first) / WS_GROUP_BINS;
	double a = ((double)drawing->t0 - (double)glimpse->first) / (width > 0 ? width : 1);
	int from = a > 0 ? (int)(ws_min(a, WS_GROUP_BINS)) : 0;

	if (!glimpse->bins) {
		shade_rect(drawing, busy, (int64_t)glimpse->first, (int64_t)glimpse->last, 0.35f);
		return;
	}
	for (int i = from; i < WS_GROUP_BINS; i++) {
		int64_t start = (int64_t)glimpse->first + (int64_t)(width * i);

		if (start >= drawing->t1)
			return;
		if (glimpse->bins[i])
			shade_rect(drawing, busy, start,
				   (int64_t)glimpse->first + (int64_t)(width * (i + 1)) + 1,
				   (float)glimpse->bins[i] / 255);
	}
}

enum { PREVIEW_STEPS = 16 };

/* Neighbouring pixels that are about equally busy are one rectangle. */
static void draw_shades(const struct drawing *drawing, const float *busy)
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
		*new_rect(drawing->out) =
			(struct ws_rect){.x0 = (float)i,
					 .x1 = (float)to,
					 .fill = (uint8_t)(step * 255 / PREVIEW_STEPS),
					 .flags = WS_RECT_PREVIEW | WS_RECT_GROUP};
	}
}

static void draw_preview(const struct drawing *drawing, const struct ws_lane *lane)
{
	float busy[WS_TILE_PIXELS] = {0};

	for (size_t i = lane->glimpse; i < lane->glimpse + lane->glimpses; i++) {
		const struct ws_glimpse *glimpse = &drawing->lanes->glimpse[i];

		if ((int64_t)glimpse->first < drawing->t1 && (int64_t)glimpse->last >= drawing->t0)
			shade_glimpse(drawing, busy, glimpse);
	}
	draw_shades(drawing, busy);
}

void ws_draw_tile(const struct ws_lanes *lanes, const struct ws_lane *lane, uint32_t level, int k,
		  int64_t index, struct ws_rects *out)
{
	struct drawing drawing = {.lanes = lanes,
				  .t0 = ws_tile_start(lanes, k, index),
				  .px = INT64_C(1) << k,
				  .k = k,
				  .out = out};
	uint32_t near = 0;

	drawing.t1 = drawing.t0 + ((int64_t)WS_TILE_PIXELS << k);
	if (!ws_lane_ready(lane)) {
		if (!level)
			draw_preview(&drawing, lane);
		return;
	}
	if (level >= lane->levels || drawing.t1 <= 0)
		return;
	drawing.levels = &lane->level[level];
	drawing.runs = lane->kind == WS_LANE_STATE ? lane->cover : NULL;
	drawing.near = &near;
	if (ws_lane_descs[lane->kind].counter)
		draw_counter(&drawing);
	else
		draw_level(&drawing);
}
