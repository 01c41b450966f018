/*
 * occupancy.c - see occupancy.h. The rules are those of the hardware since compute capability 7:
 * registers are allocated to warps in units of 256 from four partitions; shared memory is allocated
 * in units of 128 bytes (256 before 8.0), including what the system reserves for each block.
 */
#include "gpu/occupancy.h"
#include "base/choose.h"

#include "base/compiler.h"

enum { REGISTER_UNIT = 256, PARTITIONS = 4, WARP_MOST = 1024 };

static uint32_t limit_by_registers(const struct ws_sm *sm, const struct ws_launch_shape *shape,
				   uint32_t warps)
{
	uint32_t per_warp = WS_ALIGN_UP(shape->registers * sm->warp, REGISTER_UNIT), in_partition;

	if (!shape->registers || !sm->registers)
		return UINT32_MAX;
	if (sm->registers_block &&
	    (uint64_t)per_warp * WS_ALIGN_UP(warps, PARTITIONS) > sm->registers_block)
		return 0;
	in_partition = sm->registers / PARTITIONS / per_warp;
	return in_partition * PARTITIONS / warps;
}

static uint32_t limit_by_shared_memory(const struct ws_sm *sm, const struct ws_launch_shape *shape)
{
	uint32_t unit = sm->major >= 8 ? 128 : 256,
		 block = WS_ALIGN_UP(shape->shared + sm->shared_reserved, unit);
	uint32_t there =
		shape->carveout && shape->carveout < sm->shared ? shape->carveout : sm->shared;

	return !there || !block ? UINT32_MAX : there / block;
}

struct ws_occupancy ws_occupancy(const struct ws_sm *sm, const struct ws_launch_shape *shape)
{
	struct ws_occupancy occupancy = {0};
	uint32_t warps, *limits = occupancy.limits;

	if (!sm->warp || sm->warp > WARP_MOST || !sm->warps || !shape->threads ||
	    shape->threads > 4096 || shape->registers > 1024)
		return occupancy;
	warps = (shape->threads + sm->warp - 1) / sm->warp;
	limits[WS_OCCUPANCY_WARPS] = sm->warps / warps;
	limits[WS_OCCUPANCY_REGISTERS] = limit_by_registers(sm, shape, warps);
	limits[WS_OCCUPANCY_SHARED] = limit_by_shared_memory(sm, shape);
	limits[WS_OCCUPANCY_BLOCKS] = ws_or(sm->blocks, UINT32_MAX);
	occupancy.blocks = UINT32_MAX;
	for (uint8_t i = WS_OCCUPANCY_WARPS; i <= WS_OCCUPANCY_BLOCKS; i++)
		if (limits[i] < occupancy.blocks) {
			occupancy.blocks = limits[i];
			occupancy.limit = i;
		}
	occupancy.share = (double)occupancy.blocks * warps / sm->warps;
	return occupancy;
}
