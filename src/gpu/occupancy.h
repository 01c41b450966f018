/* occupancy.h - how many blocks of a kernel fit on a multiprocessor, from its launch and the
 * device: no replay. */
#ifndef WS_GPU_OCCUPANCY_H
#define WS_GPU_OCCUPANCY_H

#include <stdint.h>

#include "schema/schema.h"

struct ws_sm { /* a multiprocessor's limits; all 0 when not known */
	uint32_t major, warp, warps, blocks, registers, registers_block, shared, shared_reserved;
};

struct ws_launch_shape {
	uint32_t threads;   /* of a block */
	uint32_t registers; /* of a thread */
	uint32_t shared;    /* static and dynamic, of a block, bytes */
	uint32_t carveout; /* shared memory that the launch has set up, when the program asked for a
			      share; else 0 */
};

struct ws_occupancy {
	uint32_t blocks; /* on a multiprocessor at once; 0: not known, or it does not fit */
	double share;	 /* resident warps over the most there can be */
	uint8_t limit;	 /* enum ws_occupancy_limit */
	uint32_t limits[WS_OCCUPANCY_BLOCKS + 1]; /* by that: the blocks that it would allow;
						     UINT32_MAX for any number */
};

struct ws_occupancy ws_occupancy(const struct ws_sm *sm, const struct ws_launch_shape *shape);

#endif
