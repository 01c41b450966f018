/*
 * lane_json.h - lanes, their events and their names as JSON, and finding an event again, for both
 * the page's server and the exported page.
 */
#ifndef WS_LANES_LANE_JSON_H
#define WS_LANES_LANE_JSON_H

#include "lanes/lane.h"
#include "text/json_write.h"

void ws_put_name(struct ws_text *text, const char *key, const struct ws_lanes *lanes,
		 uint32_t name);
/* A time of the session, as ns from time zero. */
void ws_put_time(struct ws_text *text, const char *key, const struct ws_lanes *lanes,
		 uint64_t time);

/* Where an event is shown. */
struct ws_spot {
	uint32_t lane, level, event;
};

/* Find the event that row `row` of a source became in a lane; false when it is not there. */
bool ws_find_event(const struct ws_lanes *lanes, uint32_t lane, uint8_t source, uint32_t row,
		   uint64_t start, struct ws_spot *spot);
/* Number of the lane with this kind and key, or UINT32_MAX. */
uint32_t ws_find_lane(const struct ws_lanes *lanes, uint8_t kind, const uint32_t key[4]);
/* {"lane":..,"level":..,"event":..,"start":..,"end":..,"name":..} without the braces. */
void ws_put_spot(struct ws_text *text, const struct ws_lanes *lanes, const struct ws_spot *spot);

#endif
