/* lane_json.c - see lane_json.h. */
#include "lanes/lane_json.h"

#include <string.h>

void ws_put_time(struct ws_text *t, const char *key, const struct ws_lanes *l, uint64_t time)
{
	ws_put_int(t, key, (int64_t)(time - l->zero));
}

enum { MOST_NAME = 16384 };

void ws_put_name(struct ws_text *t, const char *key, const struct ws_lanes *l, uint32_t name)
{
	size_t n;
	const char *s = ws_lane_name(l, name, &n);

	ws_put_text(t, key, s, n < MOST_NAME ? n : MOST_NAME);
}

/* ---- finding events ---- */

uint32_t ws_find_lane(const struct ws_lanes *l, uint8_t kind, const uint32_t key[4])
{
	for (uint32_t i = 0; i < l->n; i++)
		if (l->lane[i]->kind == kind && !memcmp(l->lane[i]->key, key, 16))
			return i;
	return UINT32_MAX;
}

bool ws_find_event(const struct ws_lanes *l, uint32_t lane, uint8_t source, uint32_t row,
		   uint64_t start, struct ws_spot *s)
{
	const struct ws_lane *n = lane < l->n ? l->lane[lane] : NULL;

	if (!n || !ws_lane_ready(n) || ws_lane_descs[n->kind].counter)
		return false;
	for (uint32_t k = 0; k < n->levels; k++) {
		const struct ws_level *v = &n->level[k];

		for (uint32_t i = ws_level_seek(v, 0, v->n, start);
		     i < v->n && v->start[i] == start; i++)
			if (v->ref[i] == row && (v->src[i] & WS_EVENT_SOURCE) == source) {
				*s = (struct ws_spot){lane, k, i};
				return true;
			}
	}
	return false;
}

void ws_put_spot(struct ws_text *t, const struct ws_lanes *l, const struct ws_spot *s)
{
	const struct ws_level *v = &l->lane[s->lane]->level[s->level];

	ws_put_int(t, "lane", s->lane);
	ws_put_int(t, "level", s->level);
	ws_put_int(t, "event", s->event);
	ws_put_time(t, "start", l, v->start[s->event]);
	ws_put_time(t, "end", l, ws_level_end(v, s->event));
	ws_put_int(t, "flags", v->src[s->event] & ~WS_EVENT_SOURCE);
	ws_put_name(t, "name", l, v->name[s->event]);
}
