/* lane_json.c - see lane_json.h. */
#include "lanes/lane_json.h"
#include "base/choose.h"

#include <string.h>

void ws_put_time(struct ws_text *text, const char *key, const struct ws_lanes *lanes, uint64_t time)
{
	ws_put_json_int(text, key, (int64_t)(time - lanes->zero));
}

enum { MOST_NAME = 16384 };

void ws_put_name(struct ws_text *text, const char *key, const struct ws_lanes *lanes, uint32_t name)
{
	size_t n;
	const char *word = ws_lane_name(lanes, name, &n);

	ws_put_json_text(text, key, word, ws_min(n, MOST_NAME));
}

/* ---- finding events ---- */

uint32_t ws_find_lane(const struct ws_lanes *lanes, uint8_t kind, const uint32_t key[4])
{
	for (uint32_t i = 0; i < lanes->n; i++)
		if (lanes->lane[i]->kind == kind && !memcmp(lanes->lane[i]->key, key, 16))
			return i;
	return UINT32_MAX;
}

bool ws_find_event(const struct ws_lanes *lanes, uint32_t lane, uint8_t source, uint32_t row,
		   uint64_t start, struct ws_spot *spot)
{
	const struct ws_lane *lane_n = lane < lanes->n ? lanes->lane[lane] : NULL;

	if (!lane_n || !ws_lane_ready(lane_n) || ws_lane_descs[lane_n->kind].counter)
		return false;
	for (uint32_t k = 0; k < lane_n->levels; k++) {
		const struct ws_level *level = &lane_n->level[k];

		for (uint32_t i = ws_level_seek(level, 0, level->n, start);
		     i < level->n && level->start[i] == start; i++)
			if (level->ref[i] == row && (level->src[i] & WS_EVENT_SOURCE) == source) {
				*spot = (struct ws_spot){lane, k, i};
				return true;
			}
	}
	return false;
}

/* A counter's value holds until the next one, the last until the end. */
static void put_value_spot(struct ws_text *text, const struct ws_lanes *lanes,
			   const struct ws_level *level, uint32_t at)
{
	double value = level->value[at];

	ws_put_time(text, "end", lanes, at + 1 < level->n ? level->start[at + 1] : lanes->last);
	ws_put_json_int(text, "flags", 0);
	ws_put_json_string(text, "name", "");
	ws_put_json_key(text, "value");
	ws_text_printf(text, value == value && value < 1e300 && value > -1e300 ? "%.17g" : "null",
		       value);
}

void ws_put_spot(struct ws_text *text, const struct ws_lanes *lanes, const struct ws_spot *spot)
{
	const struct ws_lane *lane = lanes->lane[spot->lane];
	const struct ws_level *level = &lane->level[spot->level];

	ws_put_json_int(text, "lane", spot->lane);
	ws_put_json_int(text, "level", spot->level);
	ws_put_json_int(text, "event", spot->event);
	ws_put_time(text, "start", lanes, level->start[spot->event]);
	if (ws_lane_descs[lane->kind].counter) {
		put_value_spot(text, lanes, level, spot->event);
		return;
	}
	ws_put_time(text, "end", lanes, ws_level_end(level, spot->event));
	ws_put_json_int(text, "flags", level->src[spot->event] & ~WS_EVENT_SOURCE);
	ws_put_name(text, "name", lanes, level->name[spot->event]);
}
