/*
 * projection.h - NVTX ranges projected to the GPU: from the start of the first work that was
 * launched inside the range to the end of the last.
 */
#ifndef WS_STATS_PROJECTION_H
#define WS_STATS_PROJECTION_H

#include "stats/launch.h"

struct ws_projection {
	struct ws_launches *launches;
	struct ws_projected_span {
		uint64_t first, last;
		uint64_t ops;	  /* 0: nothing was launched inside */
		uint64_t helped;  /* how many of these were launched by threads that the range's
				     thread waits for */
	} * span;		  /* by range */
	uint32_t *parent, *level; /* by range: ws_ranges_find_parents */
	uint32_t *children;	  /* by range: how many ranges directly inside it have work */
};

/* Project the ranges to all work of GPUs in the window. Returns 0, or -1 with a message; call
 * ws_free_projection in either case. */
int ws_load_projection(struct ws_stats *stats, struct ws_projection *proj, struct ws_err *err);
void ws_free_projection(struct ws_projection *proj);

static inline const char *ws_get_projected_style(const struct ws_projection *proj, uint32_t range)
{
	return ws_get_range_style_name(ws_range_get(&proj->launches->ranges, range, ws_nvtx_type) ==
				       WS_NVTX_STARTEND);
}

#endif
