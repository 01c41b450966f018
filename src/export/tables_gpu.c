/*
 * tables_gpu.c - TARGET_INFO_GPU: one row for each GPU under each number that CUDA gave it.
 *
 * Every process that uses CUDA describes the GPUs as it sees them. Processes that see the same show one row; where one of them sees
 * others, or in another order, the rows differ in cuDevice. `id` numbers the GPUs by UUID.
 */
#include <stdlib.h>
#include <string.h>

#include "export/tables.h"

/* A column from the table, or one that is made here. */
enum made { STORED, ZERO, ID, DISCRETE, NOTHING };

static const struct {
	struct ws_xcolumn c;
	enum made made;
	int column;
} gpu[] = {
#define FROM(column) STORED, ws_cuda_device_##column
    {{"vmId", "INTEGER", true, false, "0: this machine"}, ZERO, 0},
    {{"id", "INTEGER", true, false, "Number of the GPU in this export"}, ID, 0},
    {{"name", "TEXT", false, false, "Product name"}, FROM(name)},
    {{"busLocation", "TEXT", false, false, "PCI domain:bus:device.function"}, FROM(bus)},
    {{"isDiscrete", "INTEGER", false, false, "0 when it shares the CPU's memory"}, DISCRETE, 0},
    {{"l2CacheSize", "INTEGER", false, false, "Level-2 cache (B)"}, FROM(l2_bytes)},
    {{"totalMemory", "INTEGER", false, false, "Memory (B)"}, FROM(memory_bytes)},
    {{"memoryBandwidth", "INTEGER", false, false, "Peak bandwidth of its memory (B/s)"}, FROM(memory_bandwidth)},
    {{"clockRate", "INTEGER", false, false, "Highest clock (Hz)"}, FROM(clock_rate)},
    {{"smCount", "INTEGER", false, false, "Multiprocessors"}, FROM(sms)},
    {{"pwGpuId", "INTEGER", false, false, "Not used"}, NOTHING, 0},
    {{"uuid", "TEXT", false, false, "UUID, the same in every process"}, FROM(uuid)},
    {{"luid", "INTEGER", false, false, "Not used"}, NOTHING, 0},
    {{"chipName", "TEXT", false, false, "Chip"}, FROM(chip)},
    {{"cuDevice", "INTEGER", false, false, "CUDA device number, as in deviceId"}, FROM(id)},
    {{"ctxswDevPath", "TEXT", false, false, "Not used"}, NOTHING, 0},
    {{"ctrlDevPath", "TEXT", false, false, "Not used"}, NOTHING, 0},
    {{"revision", "INTEGER", false, false, "Not used"}, NOTHING, 0},
    {{"nodeMask", "INTEGER", false, false, "Not used"}, NOTHING, 0},
    {{"constantMemory", "INTEGER", false, false, "Constant memory (B)"}, FROM(constant_bytes)},
    {{"maxIPC", "INTEGER", false, false, "Most instructions a cycle and multiprocessor"}, FROM(max_ipc)},
    {{"maxRegistersPerBlock", "INTEGER", false, false, "Most registers of a block"}, FROM(regs_block)},
    {{"maxShmemPerBlock", "INTEGER", false, false, "Most shared memory of a block (B)"}, FROM(shared_block)},
    {{"maxShmemPerBlockOptin", "INTEGER", false, false, "Most when the program opts in (B)"}, FROM(shared_block_optin)},
    {{"maxShmemPerSm", "INTEGER", false, false, "Shared memory of a multiprocessor (B)"}, FROM(shared_sm)},
    {{"maxRegistersPerSm", "INTEGER", false, false, "Registers of a multiprocessor"}, FROM(regs_sm)},
    {{"threadsPerWarp", "INTEGER", false, false, "Threads of a warp"}, FROM(warp)},
    {{"asyncEngines", "INTEGER", false, false, "Copy engines"}, FROM(async_engines)},
    {{"maxWarpsPerSm", "INTEGER", false, false, "Most warps on a multiprocessor"}, FROM(warps_sm)},
    {{"maxBlocksPerSm", "INTEGER", false, false, "Most blocks on a multiprocessor"}, FROM(blocks_sm)},
    {{"maxThreadsPerBlock", "INTEGER", false, false, "Most threads of a block"}, FROM(threads_block)},
    {{"maxBlockDimX", "INTEGER", false, false, "Most threads of a block in x"}, FROM(block_x)},
    {{"maxBlockDimY", "INTEGER", false, false, "Most threads of a block in y"}, FROM(block_y)},
    {{"maxBlockDimZ", "INTEGER", false, false, "Most threads of a block in z"}, FROM(block_z)},
    {{"maxGridDimX", "INTEGER", false, false, "Most blocks in x"}, FROM(grid_x)},
    {{"maxGridDimY", "INTEGER", false, false, "Most blocks in y"}, FROM(grid_y)},
    {{"maxGridDimZ", "INTEGER", false, false, "Most blocks in z"}, FROM(grid_z)},
    {{"computeMajor", "INTEGER", false, false, "Compute capability, before the dot"}, FROM(major)},
    {{"computeMinor", "INTEGER", false, false, "Compute capability, after the dot"}, FROM(minor)},
    {{"smMajor", "INTEGER", false, false, "The same"}, FROM(major)},
    {{"smMinor", "INTEGER", false, false, "The same"}, FROM(minor)},
#undef FROM
};

struct seen {
	uint32_t uuid; /* key of the text */
	uint64_t device;
	int64_t id;
};

struct gpus {
	struct seen *v;
	size_t n, cap;
	int64_t ids;
};

/* Number of the GPU; -1 when it has its row under this device number already. */
static int64_t number(struct gpus *g, uint32_t uuid, uint64_t device)
{
	int64_t id = -1;

	for (size_t i = 0; i < g->n; i++) {
		if (g->v[i].uuid != uuid)
			continue;
		if (g->v[i].device == device)
			return -1;
		id = g->v[i].id;
	}
	if (id < 0)
		id = g->ids++;
	ws_grow(g->v, g->cap, g->n + 1);
	g->v[g->n++] = (struct seen){uuid, device, id};
	return id;
}

static struct ws_xcell cell(struct ws_export *x, size_t i, const uint64_t *v, int64_t id)
{
	switch (gpu[i].made) {
	case STORED:
		if (ws_tables[WS_TABLE_cuda_device].columns[gpu[i].column].type == WS_T_STR)
			return ws_x_text(x, (uint32_t)v[gpu[i].column]);
		return ws_x_int((int64_t)v[gpu[i].column]);
	case ZERO:
		return ws_x_int(0);
	case ID:
		return ws_x_int(id);
	case DISCRETE:
		return ws_x_int(!v[ws_cuda_device_integrated]);
	case NOTHING:
		break;
	}
	return ws_x_null();
}

int ws_export_gpus(struct ws_export *x, struct ws_err *e)
{
	struct ws_xcolumn columns[WS_COUNT(gpu)];
	struct ws_xtable t = {"TARGET_INFO_GPU", "The GPUs under the numbers that CUDA gave them", columns, WS_COUNT(gpu)};
	struct ws_cursor *c = ws_cursor_open(x->r, WS_TABLE_cuda_device, 0, UINT64_MAX);
	struct gpus g = {0};
	const uint64_t *v;
	int rc;

	for (size_t i = 0; i < WS_COUNT(gpu); i++)
		columns[i] = gpu[i].c;
	rc = ws_export_table(x, &t, e);
	while (!rc && ws_cursor_next(c, &v)) {
		struct ws_xcell cells[WS_COUNT(gpu)];
		int64_t id = number(&g, ws_report_string_key(x->r, (uint32_t)v[ws_cuda_device_uuid]), v[ws_cuda_device_id]);

		if (id < 0)
			continue;
		for (size_t i = 0; i < WS_COUNT(gpu); i++)
			cells[i] = cell(x, i, v, id);
		rc = ws_export_row(x, cells, e);
	}
	ws_cursor_close(c);
	free(g.v);
	return rc;
}
