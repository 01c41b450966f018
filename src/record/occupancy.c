/*
 * occupancy.c - see occupancy.h. The rules are those of the hardware since compute capability 7:
 * registers are given out to warps in units of 256 out of four partitions, shared memory in units
 * of 128 bytes (256 before 8.0) after what the system keeps of each block.
 */
#include "record/occupancy.h"

#include "base/compiler.h"
#include "schema/schema.h"

enum { REGISTER_UNIT = 256, PARTITIONS = 4 };

static uint32_t by_registers(const struct ws_sm *sm, const struct ws_launch_shape *l,
			     uint32_t warps)
{
	uint32_t per_warp = WS_ALIGN_UP(l->registers * sm->warp, REGISTER_UNIT), in_partition;

	if (!l->registers || !sm->registers)
		return UINT32_MAX;
	if (sm->registers_block && per_warp * WS_ALIGN_UP(warps, PARTITIONS) > sm->registers_block)
		return 0;
	in_partition = sm->registers / PARTITIONS / per_warp;
	return in_partition * PARTITIONS / warps;
}

static uint32_t by_shared(const struct ws_sm *sm, const struct ws_launch_shape *l)
{
	uint32_t unit = sm->major >= 8 ? 128 : 256,
		 block = WS_ALIGN_UP(l->shared + sm->shared_reserved, unit);
	uint32_t there = l->carveout && l->carveout < sm->shared ? l->carveout : sm->shared;

	return !there || !block ? UINT32_MAX : there / block;
}

struct ws_occupancy ws_occupancy(const struct ws_sm *sm, const struct ws_launch_shape *l)
{
	struct ws_occupancy o = {0};
	uint32_t warps, limits[5];

	if (!sm->warp || !sm->warps || !l->threads || l->threads > 4096 || l->registers > 1024)
		return o;
	warps = (l->threads + sm->warp - 1) / sm->warp;
	limits[WS_OCCUPANCY_WARPS] = sm->warps / warps;
	limits[WS_OCCUPANCY_REGISTERS] = by_registers(sm, l, warps);
	limits[WS_OCCUPANCY_SHARED] = by_shared(sm, l);
	limits[WS_OCCUPANCY_BLOCKS] = sm->blocks ? sm->blocks : UINT32_MAX;
	o.blocks = UINT32_MAX;
	for (uint8_t i = WS_OCCUPANCY_WARPS; i <= WS_OCCUPANCY_BLOCKS; i++)
		if (limits[i] < o.blocks) {
			o.blocks = limits[i];
			o.limit = i;
		}
	o.share = (double)o.blocks * warps / sm->warps;
	return o;
}
