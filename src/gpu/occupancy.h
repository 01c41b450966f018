/* occupancy.h - how many blocks of a kernel fit on a multiprocessor, computed from its launch and
 * the device, without replaying the kernel. */
#ifndef WS_GPU_OCCUPANCY_H
#define WS_GPU_OCCUPANCY_H

#include <stdint.h>

#include "schema/schema.h"

struct ws_sm { /* a multiprocessor's limits; all 0 when not known */
	uint32_t major, warp, warps, blocks, registers, registers_block, shared, shared_reserved;
};

struct ws_launch_shape {
	uint32_t threads;   /* threads per block */
	uint32_t registers; /* per thread */
	uint32_t shared;    /* static and dynamic, bytes per block */
	uint32_t carveout; /* the size of shared memory that the launch has set up, when the program
			      asked for a share; otherwise 0 */
};

struct ws_occupancy {
	uint32_t blocks; /* blocks on a multiprocessor at once; 0: not known, or none fits */
	double share;	 /* resident warps as a share of the maximum */
	uint8_t limit;	 /* enum ws_occupancy_limit */
	uint32_t limits[WS_OCCUPANCY_BLOCKS + 1]; /* indexed by that: the blocks that each limit
						     would allow; UINT32_MAX: any number */
};

struct ws_occupancy ws_occupancy(const struct ws_sm *sm, const struct ws_launch_shape *shape);

#endif
