/*
 * tables_cuda.c - the exported tables of CUDA that are not plain copies of the schema's: devices,
 * which every process numbers for itself; contexts and streams, which people join by process id.
 */
#include <stdlib.h>
#include <string.h>

#include "views/tables.h"

#define TABLE(var, name, doc, ...)                                          \
	static const struct ws_view_column var##_columns[] = {__VA_ARGS__}; \
	static const struct ws_view_table var = {name, doc, var##_columns, WS_COUNT(var##_columns)}
#define INT(name, doc)                             \
	{                                          \
		name, "INTEGER", false, false, doc \
	}
#define MUST(name, doc)                           \
	{                                         \
		name, "INTEGER", true, false, doc \
	}
#define TEXT(name, doc)                         \
	{                                       \
		name, "TEXT", false, false, doc \
	}

/* ---- devices ---- */

TABLE(gpus, "TARGET_INFO_GPU", "The GPUs that programs used, each once",
      MUST("vmId", "0: this machine"), MUST("id", "Number of the GPU in this table"),
      TEXT("name", "Product name"), TEXT("busLocation", "PCI domain:bus:device.function"),
      INT("isDiscrete", "0 when it shares the CPU's memory"),
      INT("l2CacheSize", "Level-2 cache, bytes"), INT("totalMemory", "Memory, bytes"),
      INT("memoryBandwidth", "Peak, bytes per second"), INT("clockRate", "Highest clock, Hz"),
      INT("smCount", "Multiprocessors"), INT("pwGpuId", "Not used"), TEXT("uuid", "UUID"),
      INT("luid", "Not used"), TEXT("chipName", "Chip"),
      INT("cuDevice", "CUDA device number in the first process that saw it"),
      TEXT("ctxswDevPath", "Not used"), TEXT("ctrlDevPath", "Not used"),
      INT("revision", "Not used"), INT("nodeMask", "Not used"), INT("constantMemory", "Bytes"),
      INT("maxIPC", "Most instructions a cycle and multiprocessor"),
      INT("maxRegistersPerBlock", "Most registers of a block"),
      INT("maxShmemPerBlock", "Most shared memory of a block, bytes"),
      INT("maxShmemPerBlockOptin", "Most when the program opts in, bytes"),
      INT("maxShmemPerSm", "Shared memory of a multiprocessor, bytes"),
      INT("maxRegistersPerSm", "Registers of a multiprocessor"),
      INT("threadsPerWarp", "Threads of a warp"), INT("asyncEngines", "Copy engines"),
      INT("maxWarpsPerSm", "Most warps on a multiprocessor"),
      INT("maxBlocksPerSm", "Most blocks on a multiprocessor"),
      INT("maxThreadsPerBlock", "Most threads of a block"), INT("maxBlockDimX", "In x"),
      INT("maxBlockDimY", "In y"), INT("maxBlockDimZ", "In z"),
      INT("maxGridDimX", "Most blocks in x"), INT("maxGridDimY", "In y"),
      INT("maxGridDimZ", "In z"), INT("computeMajor", "Compute capability, before the dot"),
      INT("computeMinor", "After the dot"), INT("smMajor", "The same"), INT("smMinor", "The same"));

/* Schema columns of the table above, by position; others are filled below or null. Column 0 of the
 * schema counts as none here. */
static const int8_t gpu_sources[WS_COUNT(gpus_columns)] = {
	[5] = ws_cuda_device_l2_bytes,
	[6] = ws_cuda_device_memory_bytes,
	[7] = ws_cuda_device_memory_bandwidth,
	[8] = ws_cuda_device_clock_rate,
	[9] = ws_cuda_device_sms,
	[14] = ws_cuda_device_id,
	[19] = ws_cuda_device_constant_bytes,
	[20] = ws_cuda_device_max_ipc,
	[21] = ws_cuda_device_regs_block,
	[22] = ws_cuda_device_shared_block,
	[23] = ws_cuda_device_shared_block_optin,
	[24] = ws_cuda_device_shared_sm,
	[25] = ws_cuda_device_regs_sm,
	[26] = ws_cuda_device_warp,
	[27] = ws_cuda_device_async_engines,
	[28] = ws_cuda_device_warps_sm,
	[29] = ws_cuda_device_blocks_sm,
	[30] = ws_cuda_device_threads_block,
	[31] = ws_cuda_device_block_x,
	[32] = ws_cuda_device_block_y,
	[33] = ws_cuda_device_block_z,
	[34] = ws_cuda_device_grid_x,
	[35] = ws_cuda_device_grid_y,
	[36] = ws_cuda_device_grid_z,
	[37] = ws_cuda_device_major,
	[38] = ws_cuda_device_minor,
	[39] = ws_cuda_device_major,
	[40] = ws_cuda_device_minor,
};

static int put_gpu_row(struct ws_cell_context *export, const uint64_t *values, int64_t number,
		       struct ws_err *err)
{
	struct ws_view_cell cells[WS_COUNT(gpus_columns)];

	for (size_t i = 0; i < WS_COUNT(cells); i++)
		if (gpu_sources[i])
			cells[i] = ws_make_uint_cell(values[gpu_sources[i]]);
		else
			cells[i] = ws_make_null_cell();
	cells[0] = ws_make_int_cell(0);
	cells[1] = ws_make_int_cell(number);
	cells[2] = ws_make_text_cell(export, (uint32_t)values[ws_cuda_device_name]);
	cells[3] = ws_make_text_cell(export, (uint32_t)values[ws_cuda_device_bus]);
	cells[4] = ws_make_int_cell(!values[ws_cuda_device_integrated]);
	cells[11] = ws_make_text_cell(export, (uint32_t)values[ws_cuda_device_uuid]);
	cells[13] = ws_make_text_cell(export, (uint32_t)values[ws_cuda_device_chip]);
	cells[14] = ws_make_int_cell((int64_t)values[ws_cuda_device_id]);
	return ws_add_table_row(export, cells, err);
}

/* The number of each GPU in each process. */
TABLE(gpu_numbers, "TARGET_INFO_CUDA_DEVICE", "The GPUs as each process numbers them",
      MUST("gpuId", "TARGET_INFO_GPU(id)"), MUST("cudaId", "CUDA device number in the process"),
      MUST("pid", "Process id"), TEXT("uuid", "UUID"),
      INT("numMultiprocessors", "Multiprocessors"));

/* Index of a GPU's key among those seen so far; `count` when it is new. */
static size_t find_gpu_index(const uint32_t *seen, size_t count, uint32_t key)
{
	size_t i;

	for (i = 0; i < count && seen[i] != key; i++)
		;
	return i;
}

static int put_gpu_number(struct ws_cell_context *export, const uint64_t *values, size_t gpu,
			  struct ws_err *err)
{
	const struct ws_process_info *info =
		ws_find_process(export->who, (uint32_t)values[ws_cuda_device_process]);

	return ws_add_table_row(
		export,
		(struct ws_view_cell[]){ws_make_int_cell((int64_t)gpu),
					ws_make_int_cell((int64_t)values[ws_cuda_device_id]),
					ws_make_int_cell(info->pid),
					ws_make_text_cell(export,
							  (uint32_t)values[ws_cuda_device_uuid]),
					ws_make_int_cell((int64_t)values[ws_cuda_device_sms])},
		err);
}

/* What tells devices apart. An imported trace may lack UUIDs; then the device's number does. */
static uint32_t find_device_key(const struct ws_cell_context *export, const uint64_t *values)
{
	uint64_t uuid = values[ws_cuda_device_uuid];

	if (uuid)
		return ws_report_string_key(export->report, (uint32_t)uuid);
	return UINT32_MAX - (uint32_t)values[ws_cuda_device_id];
}

/* Write the second table if `numbering`, else the first. Both number GPUs in order of appearance.
 * */
static int export_devices(struct ws_cell_context *export, const struct ws_view_table *table,
			  bool numbering, struct ws_err *err)
{
	struct ws_cursor *cursor =
		ws_cursor_open(export->report, WS_TABLE_cuda_device, 0, UINT64_MAX);
	uint32_t *seen = NULL;
	size_t count = 0, capacity = 0;
	const uint64_t *values;
	int rc = ws_begin_table(export, table, err);

	while (!rc && ws_cursor_next(cursor, &values)) {
		uint32_t key = find_device_key(export, values);
		size_t gpu = find_gpu_index(seen, count, key);

		if (gpu == count) {
			ws_grow(seen, capacity, count + 1);
			seen[count++] = key;
			if (!numbering)
				rc = put_gpu_row(export, values, (int64_t)gpu, err);
		}
		if (numbering)
			rc = put_gpu_number(export, values, gpu, err);
	}
	ws_cursor_close(cursor);
	free(seen);
	return rc;
}

int64_t ws_find_exported_gpu(const struct ws_cell_context *export, uint32_t uuid)
{
	struct ws_cursor *cursor =
		ws_cursor_open(export->report, WS_TABLE_cuda_device, 0, UINT64_MAX);
	uint32_t *seen = NULL;
	size_t count = 0, capacity = 0, index;
	const uint64_t *values;

	while (ws_cursor_next(cursor, &values)) {
		uint32_t key = find_device_key(export, values);

		if (find_gpu_index(seen, count, key) < count)
			continue;
		ws_grow(seen, capacity, count + 1);
		seen[count++] = key;
	}
	ws_cursor_close(cursor);
	index = find_gpu_index(seen, count, uuid);
	free(seen);
	if (!uuid || index == count)
		return -1;
	return (int64_t)index;
}

int ws_write_gpu_tables(struct ws_cell_context *export, struct ws_err *err)
{
	if (export_devices(export, &gpus, false, err) < 0)
		return -1;
	return export_devices(export, &gpu_numbers, true, err);
}

#define AT(t, c) ws_##t##_##c

static struct ws_view_cell make_pid_cell(struct ws_cell_context *export, uint64_t process)
{
	if (!process || process > ws_highest_process_id(export->who))
		return ws_make_int_cell(0);
	return ws_make_int_cell((int64_t)ws_find_process(export->who, (uint32_t)process)->pid);
}

static struct ws_view_cell make_context_pid_cell(struct ws_cell_context *export,
						 const uint64_t *values)
{
	return make_pid_cell(export, values[ws_cuda_context_process]);
}

static struct ws_view_cell make_stream_pid_cell(struct ws_cell_context *export,
						const uint64_t *values)
{
	return make_pid_cell(export, values[ws_cuda_stream_process]);
}

static const struct ws_view_column context_columns[] = {
	{"nullStreamId", "INTEGER", true, false, "Number of its default stream", WS_FROM_INT,
	 AT(cuda_context, null_stream)},
	{"hwId", "INTEGER", true, false, "0", WS_FROM_CONST},
	{"vmId", "INTEGER", true, false, "0: this machine", WS_FROM_CONST},
	{"processId", "INTEGER", true, false, "Process id", .from = WS_FROM_FUNCTION,
	 .cell = make_context_pid_cell, .needs = WS_COLUMN_BIT(cuda_context, process)},
	{"deviceId", "INTEGER", true, false, "CUDA device number in the process", WS_FROM_INT,
	 AT(cuda_context, device)},
	{"contextId", "INTEGER", true, false, "Context number in the process", WS_FROM_INT,
	 AT(cuda_context, id)},
	{"parentContextId", "INTEGER", false, false, "Context that a green one belongs to",
	 WS_FROM_UINT_UNLESS, AT(cuda_context, parent), WS_NO_U32},
	{"isGreenContext", "INTEGER", false, false, "1 for a green context", WS_FROM_INT,
	 AT(cuda_context, green)},
};
const struct ws_table_view ws_contexts_view = {
	.table = {"TARGET_INFO_CUDA_CONTEXT_INFO", "CUDA contexts, green ones too", context_columns,
		  WS_COUNT(context_columns)},
	.source = WS_TABLE_cuda_context};

static const struct ws_view_column stream_columns[] = {
	{"streamId", "INTEGER", true, false, "Stream number in the context", WS_FROM_INT,
	 AT(cuda_stream, id)},
	{"hwId", "INTEGER", true, false, "0", WS_FROM_CONST},
	{"vmId", "INTEGER", true, false, "0: this machine", WS_FROM_CONST},
	{"processId", "INTEGER", true, false, "Process id", .from = WS_FROM_FUNCTION,
	 .cell = make_stream_pid_cell, .needs = WS_COLUMN_BIT(cuda_stream, process)},
	{"contextId", "INTEGER", true, false, "Context number in the process", WS_FROM_INT,
	 AT(cuda_stream, context)},
	{"priority", "INTEGER", true, false, "Lower numbers go first", WS_FROM_INT,
	 AT(cuda_stream, priority)},
	{"flag", "INTEGER", true, false, "ENUM_CUPTI_STREAM_TYPE(id)", WS_FROM_INT,
	 AT(cuda_stream, flag)},
};
const struct ws_table_view ws_streams_view = {.table = {"TARGET_INFO_CUDA_STREAM", "CUDA streams",
							stream_columns, WS_COUNT(stream_columns)},
					      .source = WS_TABLE_cuda_stream};
