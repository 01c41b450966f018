/*
 * values.c - see values.h. Measured or imported values take precedence over computed ones: another
 * tool may know more of the launch than we do.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "base/compiler.h"
#include "base/mem.h"
#include "kernel/formula.h"
#include "kernel/values.h"

/* ---- the launch ---- */

static uint32_t count_threads(const struct ws_row_kernel_result *row)
{
	return row->block_x * row->block_y * row->block_z;
}

static double count_blocks(const struct ws_row_kernel_result *row)
{
	return (double)row->grid_x * row->grid_y * row->grid_z;
}

struct ws_sm ws_kernel_describe_sm(const struct ws_row_cuda_device *device)
{
	return (struct ws_sm){
		.major = device->major,
		.warp = device->warp,
		.warps = device->warps_sm,
		.blocks = device->blocks_sm,
		.registers = device->regs_sm,
		.registers_block = device->regs_block,
		.shared = device->shared_sm,
		.shared_reserved = device->shared_reserved,
	};
}

static struct ws_launch_shape make_shape(const struct ws_row_kernel_result *row)
{
	return (struct ws_launch_shape){
		.threads = count_threads(row),
		.registers = row->registers,
		.shared = row->static_shared + row->dynamic_shared,
		.carveout = row->executed_shared == WS_NO_U32 ? 0 : row->executed_shared,
	};
}

struct ws_occupancy ws_kernel_occupancy(const struct ws_kernel_result *result)
{
	struct ws_sm sm = ws_kernel_describe_sm(&result->device);
	struct ws_launch_shape shape = make_shape(&result->row);

	return ws_occupancy(&sm, &shape);
}

static double get_limit(const struct ws_kernel_result *result, uint8_t limit)
{
	struct ws_occupancy occupancy = ws_kernel_occupancy(result);

	if (!occupancy.blocks)
		return NAN;
	return ws_min(occupancy.limits[limit], result->device.blocks_sm);
}

static double count_waves(const struct ws_kernel_result *result)
{
	struct ws_occupancy occupancy = ws_kernel_occupancy(result);

	if (!occupancy.blocks || !result->device.sms)
		return NAN;
	return count_blocks(&result->row) / ((double)occupancy.blocks * result->device.sms);
}

static double count_cluster(const struct ws_row_kernel_result *row)
{
	return (double)row->cluster_x * row->cluster_y * row->cluster_z;
}

/* Registers of a thread, rounded up to this unit. A launch gives each thread at least 16, even if
 * the compiler needed fewer; Nsight Compute counts those, too. */
static double find_registers(const struct ws_row_kernel_result *row, uint32_t unit)
{
	enum { LEAST_REGISTERS = 16 };

	if (!row->registers)
		return 0;
	return WS_ALIGN_UP(ws_max(row->registers, (uint32_t)LEAST_REGISTERS), unit);
}

/* Shared memory that the driver set up on a multiprocessor. */
static double find_shared_config(const struct ws_row_kernel_result *row)
{
	if (row->executed_shared == WS_NO_U32)
		return NAN;
	return row->executed_shared;
}

/* What the system reserves of each block's shared memory. */
static double find_driver_shared(const struct ws_kernel_result *result)
{
	if (!result->device.sms)
		return NAN;
	return result->device.shared_reserved;
}

static double sum_shared(const struct ws_kernel_result *result)
{
	return (double)result->row.static_shared + result->row.dynamic_shared +
	       find_driver_shared(result);
}

/* A value of the device; NAN when the device is not known. */
static double get_known(uint64_t value)
{
	return value ? (double)value : NAN;
}

static double count_resident_warps(const struct ws_kernel_result *result)
{
	struct ws_occupancy occupancy = ws_kernel_occupancy(result);

	if (!occupancy.blocks)
		return NAN;
	return occupancy.share * result->device.warps_sm;
}

static double find_occupancy(const struct ws_kernel_result *result)
{
	return 100 * count_resident_warps(result) / result->device.warps_sm;
}

/* The metrics that count one kind of global access. */
struct access {
	const char *sectors, *requests, *bytes;
};

/* One sector of each request may be partly unused without a fault, for example when all threads
 * read one value: excess that this can explain does not count. */
static double count_excessive(const struct ws_kernel_result *result, const struct access *access)
{
	enum { SECTOR_BYTES = 32 };
	double sectors = ws_kernel_get(result, access->sectors),
	       bytes = ws_kernel_get(result, access->bytes),
	       excess = sectors * (1 - bytes / SECTOR_BYTES);

	/* An average of less than a byte per sector is impossible: copies to shared memory count as
	 * sectors but not as bytes. */
	if (sectors > 0 && bytes < 1)
		return NAN;
	if (sectors == 0 || excess <= ws_kernel_get(result, access->requests))
		return 0;
	return fmax(0, excess);
}

/* Sectors that global loads and stores move beyond those that their bytes would fill. */
static double count_excessive_sectors(const struct ws_kernel_result *result)
{
	static const struct access
		loads = {"l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
			 "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
			 "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio"},
		stores = {"l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
			  "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
			  "smsp__sass_average_data_bytes_per_sector_mem_global_op_st.ratio"};

	return count_excessive(result, &loads) + count_excessive(result, &stores);
}

#define WS_COMPUTED(metric, unit, value) #metric,
const char *const ws_kernel_computed_names[] = {
#include "kernel/launch.def"
	NULL};
#undef WS_COMPUTED

#define WS_COMPUTED(metric, unit, value) NUMBER_##metric,
enum computed {
#include "kernel/launch.def"
	COMPUTED_COUNT
};
#undef WS_COMPUTED

static double compute(const struct ws_kernel_result *result, enum computed number)
{
	const struct ws_row_kernel_result *row = &result->row;

	switch (number) {
#define WS_COMPUTED(metric, unit, value) \
	case NUMBER_##metric:            \
		return value;
#include "kernel/launch.def"
#undef WS_COMPUTED
	default:
		return NAN;
	}
}

static enum computed find_computed(const char *metric)
{
	size_t i = 0;

	while (i < COMPUTED_COUNT && strcmp(metric, ws_kernel_computed_names[i]) != 0)
		i++;
	return (enum computed)i;
}

const char *ws_kernel_computed_unit(const char *metric)
{
#define WS_COMPUTED(metric, unit, value) unit,
	static const char *const units[] = {
#include "kernel/launch.def"
		""};
#undef WS_COMPUTED
	const struct ws_kernel_derived *derived =
		ws_kernel_find_derived(metric, strlen(metric), WS_ALL_CHIPS);

	if (derived)
		return derived->unit;
	return units[find_computed(metric)];
}

/* ---- all values ---- */

static double get_by_length(void *context, const char *name, size_t n)
{
	const struct ws_kernel_result *result = context;
	char *metric = ws_strndup(name, n);
	double value = ws_kernel_get(result, metric);

	free(metric);
	return value;
}

static double evaluate(const struct ws_kernel_result *result, const char *formula)
{
	return ws_evaluate_formula(formula, get_by_length, (void *)result);
}

double ws_kernel_get(const struct ws_kernel_result *result, const char *metric)
{
	double value = ws_kernel_value(result, metric);
	const struct ws_kernel_derived *derived;

	if (!isnan(value) || !ws_kernel_is_computed(metric, strlen(metric)))
		return value;
	derived =
		ws_kernel_find_derived(metric, strlen(metric), ws_kernel_chip_family(result->chip));
	if (derived)
		return evaluate(result, derived->formula);
	/* A range has no launch. */
	if (!result->row.block_x)
		return NAN;
	return compute(result, find_computed(metric));
}

double ws_kernel_line_value(const struct ws_kernel_result *result,
			    const struct ws_kernel_line *line)
{
	return evaluate(result, line->value);
}

const char *ws_kernel_get_text(const struct ws_kernel_result *result, const char *metric)
{
	const struct ws_kernel_metric *found = ws_find_kernel_metric(result, metric);

	return found ? found->text : NULL;
}

bool ws_kernel_line_applies(const struct ws_kernel_result *result,
			    const struct ws_kernel_line *line)
{
	uint8_t family = ws_kernel_chip_family(result->chip);

	/* For an unknown chip, everything that was measured is shown. */
	return !family || (line->chips & family);
}
