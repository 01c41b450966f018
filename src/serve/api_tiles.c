/*
 * api_tiles.c - tiles of many lanes in one answer, in a form that the page hands to the GPU as it
 * is: rectangles of 24 bytes.
 *
 * Little-endian: "WST1", numbers of tiles, names, bytes of names, colours; the palette; each tile's
 * lane, index, pending, levels and rectangles a level; the rectangles; names as (id, length, bytes
 * padded to four). Names go with rectangles wide enough to be labelled.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/choose.h"
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
#define MOST_NAME (WS_TILE_FORM | UINT32_MAX)

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
		/* Of a pile of counters: how many there are, this lane and those from piled[pile]
		 * on; a level for each, the sum of those up to it. 0: none. */
		uint32_t parts;
		size_t pile;
	} * asked;
	uint32_t *lanes; /* of these */
	size_t lane_n, cap, lane_cap;
	uint64_t *only;
	size_t only_n, only_cap;
	uint32_t *piled; /* lanes */
	size_t piled_n, piled_cap;
};

static void put_u32(struct ws_text *text, uint32_t v)
{
	ws_text_add(text, &v, 4);
}

static void add_name(const struct ws_lanes *lanes, struct tiles *tiles, uint32_t name)
{
	struct ws_text text = {0};
	bool known;
	size_t n;
	const char *word;

	ws_map_get(&tiles->named, name, &known);
	if (known)
		return;
	ws_map_set(&tiles->named, name, 1);
	word = ws_lane_name(lanes, name, &n);
	ws_put_valid_utf8(&text, word, ws_min(n, LABEL_BYTES));
	put_u32(&tiles->names, name);
	put_u32(&tiles->names, (uint32_t)text.len);
	ws_text_add(&tiles->names, ws_text_or(text.text, ""), text.len);
	ws_text_add(&tiles->names, "\0\0\0", (4 - text.len % 4) % 4);
	ws_text_free(&text);
	tiles->name_n++;
}

/* The sum of the first k + 1 counters of a pile. */
static void add_pile_level(const struct ws_lanes *lanes, struct tiles *tiles,
			   const struct asked *asked, uint32_t k, int64_t index)
{
	const struct ws_lane *parts[WS_TILE_PARTS] = {lanes->lane[asked->lane]};

	for (uint32_t i = 1; i <= k; i++)
		parts[i] = lanes->lane[tiles->piled[asked->pile + i - 1]];
	ws_draw_pile_tile(lanes, parts, &(struct ws_tile_pile){tiles->k, index, k + 1},
			  &tiles->rects);
}

static bool is_pile_ready(const struct ws_lanes *lanes, const struct tiles *tiles,
			  const struct asked *asked)
{
	bool ready = ws_lane_ready(lanes->lane[asked->lane]);

	for (uint32_t i = 1; i < asked->parts; i++)
		ready &= ws_lane_ready(lanes->lane[tiles->piled[asked->pile + i - 1]]);
	return ready;
}

static void add_level(const struct ws_lanes *lanes, struct tiles *tiles, const struct asked *asked,
		      const struct ws_lane *lane, uint32_t k, int64_t index)
{
	size_t from = tiles->rects.n;

	if (asked->parts)
		add_pile_level(lanes, tiles, asked, k, index);
	else if (asked->only_n)
		ws_draw_named_tile(lanes, lane, k,
				   &(struct ws_tile_names){tiles->k, index,
							   tiles->only + asked->only,
							   asked->only_n},
				   &tiles->rects);
	else
		ws_draw_tile(lanes, lane, k, tiles->k, index, &tiles->rects);
	put_u32(&tiles->heads, (uint32_t)(tiles->rects.n - from));
	for (size_t i = from; i < tiles->rects.n; i++) {
		const struct ws_rect *rect = &tiles->rects.rects[i];

		if (!(rect->flags & (WS_RECT_COUNTER | WS_RECT_PREVIEW)) &&
		    rect->x1 - rect->x0 >= LABEL_PIXELS)
			add_name(lanes, tiles, rect->name);
	}
}

/* `close`: what is in sight of it, where it is not read. Blocks do not tell names. */
static uint32_t shown_levels(const struct asked *asked, const struct ws_lane *lane,
			     const struct ws_lane *close, bool ready)
{
	if (!ready && !close)
		return !asked->only_n;
	if (!ready)
		return ws_min(close->levels, CLOSE_LEVELS);
	return ws_min(asked->levels, lane->levels);
}

static void add_tile(const struct ws_lanes *lanes, struct tiles *tiles, const struct asked *asked,
		     const struct ws_lane *close, int64_t index)
{
	const struct ws_lane *lane = lanes->lane[asked->lane];
	bool ready = is_pile_ready(lanes, tiles, asked);
	uint32_t shown = shown_levels(asked, lane, close, ready);

	if (asked->parts)
		shown = ready ? asked->parts : 0;
	put_u32(&tiles->heads, asked->lane);
	put_u32(&tiles->heads, (uint32_t)(int32_t)index);
	put_u32(&tiles->heads, ready ? 0 : ws_lane_reading(lane) || asked->parts ? 1 : 2);
	put_u32(&tiles->heads, shown);
	for (uint32_t k = 0; k < shown; k++)
		add_level(lanes, tiles, asked, ready || !close ? lane : close, k, index);
	tiles->tile_n++;
}

/* "~name~name": what is left of `s` after them. */
static const char *read_names(struct tiles *tiles, struct asked *asked, const char *text)
{
	char *end;

	for (asked->only = tiles->only_n; *text == '~' && asked->only_n < MOST_NAMES; text = end) {
		ws_grow(tiles->only, tiles->only_cap, tiles->only_n + 1);
		tiles->only[tiles->only_n++] = strtoull(text + 1, &end, 10) & MOST_NAME;
		asked->only_n++;
	}
	return text;
}

/* "+lane+lane", counters that are piled on the one before: what is left of `text` after them. NULL
 * when one is no counter. */
static const char *read_pile(const struct ws_api_call *call, struct tiles *tiles,
			     struct asked *asked, unsigned long lane, const char *text)
{
	char *end;

	asked->pile = tiles->piled_n;
	for (asked->parts = *text == '+'; *text == '+'; text = end) {
		unsigned long part = strtoul(text + 1, &end, 10);

		if (part >= call->lanes->n || lane >= call->lanes->n ||
		    !ws_lane_descs[call->lanes->lane[part]->kind].counter ||
		    !ws_lane_descs[call->lanes->lane[lane]->kind].counter ||
		    ++asked->parts > WS_TILE_PARTS)
			return NULL;
		ws_grow(tiles->piled, tiles->piled_cap, tiles->piled_n + 1);
		tiles->piled[tiles->piled_n++] = (uint32_t)part;
		ws_lanes_want_at(call->lanes, (uint32_t)part, 0);
	}
	return text;
}

/* "lane.levels,lane.levels~name~name,lane.levels+lane" */
static int parse_lanes(const struct ws_api_call *call, struct tiles *tiles, struct ws_err *err)
{
	const char *text = ws_param(call, "lanes");

	while (text && *text) {
		char *number;
		unsigned long lane = strtoul(text, &number, 10),
			      levels = *number == '.' ? strtoul(number + 1, &number, 10) : 1;
		struct asked asked = {.levels =
					      levels < UINT32_MAX ? (uint32_t)levels : UINT32_MAX};
		const char *end =
			read_pile(call, tiles, &asked, lane, read_names(tiles, &asked, number));

		if (!end || end == text || lane >= call->lanes->n || (*end && *end != ',') ||
		    (asked.only_n && ws_lane_descs[call->lanes->lane[lane]->kind].counter)) {
			ws_fail(err, "parameter lanes must be numbers of rows with levels, such as "
				     "1.3,2.1");
			return 400;
		}
		text = end + (*end == ',');
		if (tiles->lane_n * (uint64_t)tiles->n >= MOST_TILES) {
			ws_fail(err, "so many tiles at once are too much");
			return 400;
		}
		asked.lane = (uint32_t)lane;
		ws_grow(tiles->asked, tiles->cap, tiles->lane_n + 1);
		ws_grow(tiles->lanes, tiles->lane_cap, tiles->lane_n + 1);
		tiles->asked[tiles->lane_n] = asked;
		tiles->lanes[tiles->lane_n++] = asked.lane;
		ws_lanes_want_at(call->lanes, asked.lane,
				 asked.only_n || asked.parts ? 0 : UINT64_C(1) << tiles->k);
	}
	return 0;
}

static int add_lanes(const struct ws_api_call *call, struct tiles *tiles, struct ws_err *err)
{
	int status = parse_lanes(call, tiles, err);

	for (int64_t i = 0; !status && i < tiles->n; i++) {
		int64_t t0 = ws_tile_start(call->lanes, tiles->k, tiles->index + i);
		struct ws_lane **close =
			ws_make_closeup(call->lanes, tiles->lanes, tiles->lane_n, t0,
					t0 + ((int64_t)WS_TILE_PIXELS << tiles->k));

		for (size_t k = 0; k < tiles->lane_n && !status; k++) {
			if (tiles->rects.n > MOST_RECTS) {
				ws_fail(err, "so many tiles at once are too much");
				status = 400;
			} else {
				add_tile(call->lanes, tiles, &tiles->asked[k],
					 close[tiles->lanes[k]], tiles->index + i);
			}
		}
		ws_free_closeup(call->lanes, close);
	}
	return status;
}

static void write_answer(const struct ws_api_call *call, const struct tiles *tiles)
{
	uint32_t colours = __atomic_load_n(&call->lanes->palette_n, __ATOMIC_ACQUIRE);

	put_u32(call->out, WS_TILE_MAGIC);
	put_u32(call->out, tiles->tile_n);
	put_u32(call->out, tiles->name_n);
	put_u32(call->out, (uint32_t)tiles->names.len);
	put_u32(call->out, colours);
	ws_text_add(call->out, call->lanes->palette, (size_t)colours * 4);
	ws_text_add(call->out, ws_text_or(tiles->heads.text, ""), tiles->heads.len);
	ws_text_add(call->out, tiles->rects.rects ? (const void *)tiles->rects.rects : "",
		    tiles->rects.n * sizeof(*tiles->rects.rects));
	ws_text_add(call->out, ws_text_or(tiles->names.text, ""), tiles->names.len);
}

int ws_api_tiles(struct ws_api_call *call, struct ws_err *err)
{
	struct tiles tiles = {0};
	int64_t k, most = INT32_MAX;
	int status;

	if (!ws_param_int(call, "k", ws_make_range(0, WS_TILE_SCALES - 1, 0), &k, err) ||
	    !ws_param_int(call, "i", ws_make_range(-most, most, 0), &tiles.index, err) ||
	    !ws_param_int(call, "n", ws_make_range(1, 64, 1), &tiles.n, err))
		return 400;
	if (tiles.index + tiles.n > (INT64_MAX >> 12) >> k ||
	    tiles.index < -((INT64_MAX >> 12) >> k)) {
		ws_fail(err, "parameter i is beyond all time");
		return 400;
	}
	tiles.k = (int)k;
	status = add_lanes(call, &tiles, err);
	if (!status)
		write_answer(call, &tiles);
	ws_text_free(&tiles.heads);
	ws_text_free(&tiles.names);
	ws_map_free(&tiles.named);
	free(tiles.lanes);
	free(tiles.asked);
	free(tiles.only);
	free(tiles.piled);
	free(tiles.rects.rects);
	return status;
}

/* ---- the events under some pixels ---- */

enum { MOST_AT = 1000 };

static void put_spots(const struct ws_api_call *call, struct ws_spot spot, uint32_t to)
{
	for (; spot.event < to; spot.event++) {
		ws_put_json_comma(call->out);
		ws_text_puts(call->out, "{");
		ws_put_spot(call->out, call->lanes, &spot);
		ws_text_puts(call->out, "}");
	}
}

/* Answers for a row that is not read, or a level that it does not have. `unread`: it is being read,
 * so ask again.
 */
static void put_no_spots(const struct ws_api_call *call, const struct ws_lane *lane)
{
	ws_text_puts(call->out, "{\"events\":[],\"count\":0,\"busy\":0");
	if (lane && !ws_lane_ready(lane) && ws_lane_reading(lane))
		ws_put_json_int(call->out, "unread", 1);
	ws_text_puts(call->out, "}");
}

int ws_api_at(struct ws_api_call *call, struct ws_err *err)
{
	int64_t number, level_number, event, t0, t1, limit;
	const struct ws_lane *lane;
	const struct ws_level *level;
	uint32_t from, to, last;

	if (!ws_param_int(call, "lane", ws_make_range(0, (int64_t)call->lanes->n - 1, 0), &number,
			  err) ||
	    !ws_param_int(call, "level", ws_make_range(0, UINT32_MAX, 0), &level_number, err) ||
	    !ws_param_int(call, "event", ws_make_range(-1, UINT32_MAX, -1), &event, err) ||
	    !ws_param_int(call, "limit", ws_make_range(1, MOST_AT, 20), &limit, err) ||
	    !ws_param_window(call, &t0, &t1, err))
		return 400;
	lane = call->lanes->n ? call->lanes->lane[number] : NULL;
	if (lane)
		ws_lanes_want(call->lanes, (uint32_t)number);
	if (!lane || !ws_lane_ready(lane) || level_number >= lane->levels) {
		put_no_spots(call, lane);
		return 0;
	}
	level = &lane->level[level_number];
	ws_level_range(level, t0, t1, &from, &to);
	if (event >= 0) {
		from = (uint32_t)ws_min(event, level->n);
		to = (uint32_t)ws_min(event + 1, level->n);
	}
	last = to - from > limit ? from + (uint32_t)limit : to;
	ws_text_puts(call->out, "{\"events\":[");
	put_spots(call, (struct ws_spot){(uint32_t)number, (uint32_t)level_number, from}, last);
	ws_text_puts(call->out, "]");
	ws_put_json_int(call->out, "count", to - from);
	ws_put_json_int(call->out, "busy",
			level->value ? 0 : (int64_t)ws_level_busy(level, from, to));
	ws_text_puts(call->out, "}");
	return 0;
}
