/* curves.c - see curves.h. */
#include "kernel/curves.h"

#include "base/choose.h"
#include <stddef.h>

#include "base/compiler.h"
#include "kernel/values.h"
#include "text/json_write.h"

struct curve {
	const char *label;
	uint32_t first, last, step;
	size_t field; /* offset in struct ws_launch_shape of what varies */
};

static struct ws_launch_shape describe_shape(const struct ws_row_kernel_result *row)
{
	struct ws_launch_shape shape = {
		.threads = row->block_x * row->block_y * row->block_z,
		.registers = row->registers,
		.shared = row->static_shared + row->dynamic_shared,
	};

	if (row->shared_percent != WS_NO_U32 && row->executed_shared != WS_NO_U32)
		shape.carveout = row->executed_shared;
	return shape;
}

bool ws_has_occupancy_curves(const struct ws_kernel_result *result)
{
	struct ws_sm sm = ws_kernel_describe_sm(&result->device);
	struct ws_launch_shape shape = describe_shape(&result->row);

	return ws_occupancy(&sm, &shape).blocks > 0;
}

static uint32_t count_warps(const struct ws_sm *sm, const struct ws_launch_shape *shape)
{
	return (uint32_t)(ws_occupancy(sm, shape).share * sm->warps + 0.5);
}

static void put_points(struct ws_text *out, const struct ws_sm *sm, struct ws_launch_shape shape,
		       const struct curve *curve)
{
	uint32_t *varied = (uint32_t *)((char *)&shape + curve->field), last = UINT32_MAX;

	for (uint32_t at = curve->first; at <= curve->last; at += curve->step) {
		uint32_t warps;

		*varied = at;
		warps = count_warps(sm, &shape);
		/* the last point is always written: it says how far the curve goes */
		if (warps == last && at + curve->step <= curve->last)
			continue;
		last = warps;
		ws_put_json_comma(out);
		ws_text_printf(out, "[%u,%u]", at, warps);
	}
}

static void put_curve(struct ws_text *out, const struct ws_sm *sm,
		      const struct ws_launch_shape *shape, const struct curve *curve)
{
	ws_put_json_comma(out);
	ws_text_puts(out, "{");
	ws_put_json_string(out, "label", curve->label);
	ws_put_json_int(out, "at", *(const uint32_t *)((const char *)shape + curve->field));
	ws_put_json_key(out, "points");
	ws_text_puts(out, "[");
	put_points(out, sm, *shape, curve);
	ws_text_puts(out, "]}");
}

void ws_put_occupancy_curves(struct ws_text *out, const struct ws_kernel_result *result)
{
	const struct ws_row_cuda_device *device = &result->device;
	struct ws_sm sm = ws_kernel_describe_sm(device);
	struct ws_launch_shape shape = describe_shape(&result->row);
	uint32_t shared = ws_max(device->shared_block_optin, device->shared_block),
		 threads = ws_max(device->threads_block, sm.warp);
	const struct curve curves[] = {
		{"Registers per thread", 1, 255, 1, offsetof(struct ws_launch_shape, registers)},
		{"Shared memory per block, bytes", 0, shared, 128,
		 offsetof(struct ws_launch_shape, shared)},
		{"Threads per block", sm.warp, threads, sm.warp,
		 offsetof(struct ws_launch_shape, threads)},
	};

	ws_put_json_int(out, "most", sm.warps);
	ws_put_json_key(out, "curves");
	ws_text_puts(out, "[");
	for (size_t i = 0; i < WS_COUNT(curves); i++)
		put_curve(out, &sm, &shape, &curves[i]);
	ws_text_puts(out, "]");
}
