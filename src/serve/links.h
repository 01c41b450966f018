/* links.h - what the details of an event lead to, besides what api_event.c finds itself. */
#ifndef WS_SERVE_LINKS_H
#define WS_SERVE_LINKS_H

#include "lanes/lane.h"
#include "serve/api.h"

/* Whether arrows begin and end in a kind of lane. */
static inline bool ws_takes_arrows(uint8_t kind)
{
	return ws_lane_descs[kind].flags & WS_LANE_IS_TAKES_ARROWS;
}

/* The innermost span of a thread, or of a track, at a moment: an arrow's end is a moment, and
 * belongs to the span around it. */
bool ws_find_span_at(const struct ws_lanes *lanes, uint64_t thread, uint64_t track, uint64_t t,
		     struct ws_spot *spot);
/* Append links from a call of MPI, whose row of `slice` has these values, to the other ends of its
 * message. */
void ws_put_message_links(struct ws_api_call *call, const uint64_t *values);

#endif
