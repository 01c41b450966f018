/*
 * tables_cuda.c - the exported tables of CUDA that are not plain copies of the schema's: devices, of which every process saw its
 * own, contexts and streams, which people join by process id, and the enumerations.
 */
#include <stdlib.h>
#include <string.h>

#include "export/tables.h"

#define TABLE(var, name, doc, ...)                                      \
	static const struct ws_xcolumn var##_columns[] = {__VA_ARGS__}; \
	static const struct ws_xtable var = {name, doc, var##_columns, WS_COUNT(var##_columns)}
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

TABLE(gpus, "TARGET_INFO_GPU", "The GPUs that programs used, each once", MUST("vmId", "0: this machine"),
      MUST("id", "Number of the GPU in this table"), TEXT("name", "Product name"),
      TEXT("busLocation", "PCI domain:bus:device.function"), INT("isDiscrete", "0 when it shares the CPU's memory"),
      INT("l2CacheSize", "Level-2 cache, bytes"), INT("totalMemory", "Memory, bytes"),
      INT("memoryBandwidth", "Peak, bytes per second"), INT("clockRate", "Highest clock, Hz"), INT("smCount", "Multiprocessors"),
      INT("pwGpuId", "Not used"), TEXT("uuid", "UUID"), INT("luid", "Not used"), TEXT("chipName", "Chip"),
      INT("cuDevice", "CUDA device number in the first process that saw it"), TEXT("ctxswDevPath", "Not used"),
      TEXT("ctrlDevPath", "Not used"), INT("revision", "Not used"), INT("nodeMask", "Not used"), INT("constantMemory", "Bytes"),
      INT("maxIPC", "Most instructions a cycle and multiprocessor"), INT("maxRegistersPerBlock", "Most registers of a block"),
      INT("maxShmemPerBlock", "Most shared memory of a block, bytes"),
      INT("maxShmemPerBlockOptin", "Most when the program opts in, bytes"),
      INT("maxShmemPerSm", "Shared memory of a multiprocessor, bytes"), INT("maxRegistersPerSm", "Registers of a multiprocessor"),
      INT("threadsPerWarp", "Threads of a warp"), INT("asyncEngines", "Copy engines"),
      INT("maxWarpsPerSm", "Most warps on a multiprocessor"), INT("maxBlocksPerSm", "Most blocks on a multiprocessor"),
      INT("maxThreadsPerBlock", "Most threads of a block"), INT("maxBlockDimX", "In x"), INT("maxBlockDimY", "In y"),
      INT("maxBlockDimZ", "In z"), INT("maxGridDimX", "Most blocks in x"), INT("maxGridDimY", "In y"), INT("maxGridDimZ", "In z"),
      INT("computeMajor", "Compute capability, before the dot"), INT("computeMinor", "After the dot"), INT("smMajor", "The same"),
      INT("smMinor", "The same"));

/* Schema columns of the table above, by position; others are filled by hand or null. */
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

static int put_gpu(struct ws_export *x, const uint64_t *v, int64_t number, struct ws_err *e)
{
	struct ws_xcell c[WS_COUNT(gpus_columns)];

	for (size_t i = 0; i < WS_COUNT(c); i++)
		c[i] =
		    gpu_sources[i] || i == 14 ? (struct ws_xcell){.kind = WS_X_UINT, .i = (int64_t)v[gpu_sources[i]]} : ws_x_null();
	c[0] = ws_x_int(0);
	c[1] = ws_x_int(number);
	c[2] = ws_x_text(x, (uint32_t)v[ws_cuda_device_name]);
	c[3] = ws_x_text(x, (uint32_t)v[ws_cuda_device_bus]);
	c[4] = ws_x_int(!v[ws_cuda_device_integrated]);
	c[11] = ws_x_text(x, (uint32_t)v[ws_cuda_device_uuid]);
	c[13] = ws_x_text(x, (uint32_t)v[ws_cuda_device_chip]);
	c[14] = ws_x_int((int64_t)v[ws_cuda_device_id]);
	return ws_export_row(x, c, e);
}

static int export_gpus(struct ws_export *x, struct ws_err *e)
{
	struct ws_cursor *c = ws_cursor_open(x->r, WS_TABLE_cuda_device, 0, UINT64_MAX);
	uint32_t *seen = NULL;
	size_t n = 0, cap = 0, i;
	const uint64_t *v;
	int rc = ws_export_table(x, &gpus, e);

	while (!rc && ws_cursor_next(c, &v)) {
		/* An imported trace may not tell UUIDs: then a device is told by its number. */
		uint32_t key = v[ws_cuda_device_uuid] ? ws_report_string_key(x->r, (uint32_t)v[ws_cuda_device_uuid])
						      : UINT32_MAX - (uint32_t)v[ws_cuda_device_id];

		for (i = 0; i < n && seen[i] != key; i++)
			;
		if (i < n)
			continue;
		ws_grow(seen, cap, n + 1);
		seen[n++] = key;
		rc = put_gpu(x, v, (int64_t)n - 1, e);
	}
	ws_cursor_close(c);
	free(seen);
	return rc;
}

/* ---- contexts and streams ---- */

TABLE(contexts, "TARGET_INFO_CUDA_CONTEXT_INFO", "CUDA contexts, green ones too",
      MUST("nullStreamId", "Number of its default stream"), MUST("hwId", "0"), MUST("vmId", "0: this machine"),
      MUST("processId", "Process id"), MUST("deviceId", "CUDA device number in the process"),
      MUST("contextId", "Context number in the process"), INT("parentContextId", "Context that a green one belongs to"),
      INT("isGreenContext", "1 for a green context"));

TABLE(streams, "TARGET_INFO_CUDA_STREAM", "CUDA streams", MUST("streamId", "Stream number in the context"), MUST("hwId", "0"),
      MUST("vmId", "0: this machine"), MUST("processId", "Process id"), MUST("contextId", "Context number in the process"),
      MUST("priority", "Lower numbers go first"), MUST("flag", "ENUM_CUPTI_STREAM_TYPE(id)"));

static struct ws_xcell pid_cell(struct ws_export *x, uint64_t process)
{
	const struct ws_process_info *p =
	    process && process <= ws_who_processes(x->who) ? ws_who_process(x->who, (uint32_t)process) : NULL;

	return ws_x_int(p ? (int64_t)p->pid : 0);
}

static bool fill_context(struct ws_export *x, const uint64_t *v, struct ws_xcell *c)
{
	c[0] = ws_x_int((int64_t)v[ws_cuda_context_null_stream]);
	c[1] = c[2] = ws_x_int(0);
	c[3] = pid_cell(x, v[ws_cuda_context_process]);
	c[4] = ws_x_int((int64_t)v[ws_cuda_context_device]);
	c[5] = ws_x_int((int64_t)v[ws_cuda_context_id]);
	c[6] = v[ws_cuda_context_parent] == WS_NO_U32 ? ws_x_null() : ws_x_int((int64_t)v[ws_cuda_context_parent]);
	c[7] = ws_x_int((int64_t)v[ws_cuda_context_green]);
	return true;
}

static bool fill_stream(struct ws_export *x, const uint64_t *v, struct ws_xcell *c)
{
	c[0] = ws_x_int((int64_t)v[ws_cuda_stream_id]);
	c[1] = c[2] = ws_x_int(0);
	c[3] = pid_cell(x, v[ws_cuda_stream_process]);
	c[4] = ws_x_int((int64_t)v[ws_cuda_stream_context]);
	c[5] = ws_x_int((int64_t)v[ws_cuda_stream_priority]);
	c[6] = ws_x_int((int64_t)v[ws_cuda_stream_flag]);
	return true;
}

int ws_export_cuda(struct ws_export *x, enum ws_table t, struct ws_err *e)
{
	switch (t) {
	case WS_TABLE_cuda_device:
		return export_gpus(x, e);
	case WS_TABLE_cuda_context:
		return ws_export_rows(x, &contexts, t, fill_context, e);
	default:
		return ws_export_rows(x, &streams, t, fill_stream, e);
	}
}

/* ---- enumerations ---- */

#define VALUES(var, ...) static const struct ws_x_meaning var[] = {__VA_ARGS__, {0}}

VALUES(copy_kinds, {0, "CUDA_MEMCPY_KIND_UNKNOWN", "Unknown"}, {1, "CUDA_MEMCPY_KIND_HTOD", "Host-to-Device"},
       {2, "CUDA_MEMCPY_KIND_DTOH", "Device-to-Host"}, {3, "CUDA_MEMCPY_KIND_HTOA", "Host-to-Array"},
       {4, "CUDA_MEMCPY_KIND_ATOH", "Array-to-Host"}, {5, "CUDA_MEMCPY_KIND_ATOA", "Array-to-Array"},
       {6, "CUDA_MEMCPY_KIND_ATOD", "Array-to-Device"}, {7, "CUDA_MEMCPY_KIND_DTOA", "Device-to-Array"},
       {8, "CUDA_MEMCPY_KIND_DTOD", "Device-to-Device"}, {9, "CUDA_MEMCPY_KIND_HTOH", "Host-to-Host"},
       {10, "CUDA_MEMCPY_KIND_PTOP", "Peer-to-Peer"}, {11, "CUDA_MEMCPY_KIND_UVM_HTOD", "Unified Host-to-Device"},
       {12, "CUDA_MEMCPY_KIND_UVM_DTOH", "Unified Device-to-Host"}, {13, "CUDA_MEMCPY_KIND_UVM_DTOD", "Unified Device-to-Device"});
VALUES(mem_kinds, {0, "CUDA_MEMOPR_MEMORY_KIND_PAGEABLE", "Pageable"}, {1, "CUDA_MEMOPR_MEMORY_KIND_PINNED", "Pinned"},
       {2, "CUDA_MEMOPR_MEMORY_KIND_DEVICE", "Device"}, {3, "CUDA_MEMOPR_MEMORY_KIND_ARRAY", "Array"},
       {4, "CUDA_MEMOPR_MEMORY_KIND_MANAGED", "Managed"}, {5, "CUDA_MEMOPR_MEMORY_KIND_DEVICE_STATIC", "Device Static"},
       {6, "CUDA_MEMOPR_MEMORY_KIND_MANAGED_STATIC", "Managed Static"}, {7, "CUDA_MEMOPR_MEMORY_KIND_UNKNOWN", "Unknown"});
VALUES(pool_types, {0, "CUPTI_ACTIVITY_MEMORY_POOL_TYPE_INVALID", "Invalid"}, {1, "CUPTI_ACTIVITY_MEMORY_POOL_TYPE_LOCAL", "Local"},
       {2, "CUPTI_ACTIVITY_MEMORY_POOL_TYPE_IMPORTED", "Imported"});
VALUES(pool_operations, {0, "CUPTI_ACTIVITY_MEMORY_POOL_OPERATION_TYPE_INVALID", "Invalid"},
       {1, "CUPTI_ACTIVITY_MEMORY_POOL_OPERATION_TYPE_CREATED", "Created"},
       {2, "CUPTI_ACTIVITY_MEMORY_POOL_OPERATION_TYPE_DESTROYED", "Destroyed"},
       {3, "CUPTI_ACTIVITY_MEMORY_POOL_OPERATION_TYPE_TRIMMED", "Trimmed"});
VALUES(memory_operations, {0, "CUDA_DEV_MEM_EVENT_OPR_ALLOCATION", "Allocation"},
       {1, "CUDA_DEV_MEM_EVENT_OPR_DEALLOCATION", "Deallocation"});
VALUES(launch_types, {0, "CUDA_KERNEL_LAUNCH_TYPE_UNKNOWN", "Unknown"}, {1, "CUDA_KERNEL_LAUNCH_TYPE_REGULAR", "Regular"},
       {2, "CUDA_KERNEL_LAUNCH_TYPE_COOPERATIVE_SINGLE_DEVICE", "Coop Single Device"},
       {3, "CUDA_KERNEL_LAUNCH_TYPE_COOPERATIVE_MULTI_DEVICE", "Coop Multi Device"});
VALUES(shared_limits, {0, "CUDA_SHARED_MEM_LIMIT_DEFAULT", "Default"}, {1, "CUDA_SHARED_MEM_LIMIT_OPTIN", "Opt in"});
VALUES(migrations, {0, "CUDA_UNIFIED_MEMORY_MIGRATION_CAUSE_UNKNOWN", "Unknown"},
       {1, "CUDA_UNIFIED_MEMORY_MIGRATION_CAUSE_USER", "User prefetch"},
       {2, "CUDA_UNIFIED_MEMORY_MIGRATION_CAUSE_COHERENCE", "Page fault"},
       {3, "CUDA_UNIFIED_MEMORY_MIGRATION_CAUSE_PREFETCH", "Speculative prefetch"},
       {4, "CUDA_UNIFIED_MEMORY_MIGRATION_CAUSE_EVICTION", "Eviction"},
       {5, "CUDA_UNIFIED_MEMORY_MIGRATION_CAUSE_ACCESS_COUNTERS", "Access counters"});
VALUES(accesses, {0, "CUPTI_ACTIVITY_UNIFIED_MEMORY_ACCESS_TYPE_UNKNOWN", "Unknown"},
       {1, "CUPTI_ACTIVITY_UNIFIED_MEMORY_ACCESS_TYPE_READ", "Read"},
       {2, "CUPTI_ACTIVITY_UNIFIED_MEMORY_ACCESS_TYPE_WRITE", "Write"},
       {3, "CUPTI_ACTIVITY_UNIFIED_MEMORY_ACCESS_TYPE_ATOMIC", "Atomic"},
       {4, "CUPTI_ACTIVITY_UNIFIED_MEMORY_ACCESS_TYPE_PREFETCH", "Prefetch"});
VALUES(cache_configs, {0, "CU_FUNC_CACHE_PREFER_NONE", "None"}, {1, "CU_FUNC_CACHE_PREFER_SHARED", "Shared"},
       {2, "CU_FUNC_CACHE_PREFER_L1", "L1"}, {3, "CU_FUNC_CACHE_PREFER_EQUAL", "Equal"});
VALUES(stream_types, {0, "CUPTI_ACTIVITY_STREAM_CREATE_FLAG_UNKNOWN", "Unknown stream type"},
       {1, "CUPTI_ACTIVITY_STREAM_CREATE_FLAG_DEFAULT", "Default stream"},
       {2, "CUPTI_ACTIVITY_STREAM_CREATE_FLAG_NON_BLOCKING", "Non-blocking stream"},
       {3, "CUPTI_ACTIVITY_STREAM_CREATE_FLAG_NULL", "Null stream"});
VALUES(sync_types, {0, "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_UNKNOWN", "Unknown"},
       {1, "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE", "Event sync"},
       {2, "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT", "Stream wait sync"},
       {3, "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE", "Stream sync"},
       {4, "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE", "Context sync"});
VALUES(overheads, {0, "OVERHEAD_UNDEFINED", "Undefined"}, {1, "OVERHEAD_UNKNOWN", "Unknown"},
       {2, "OVERHEAD_DRIVER_COMPILER", "Driver JIT compiler (CUDA)"}, {3, "OVERHEAD_CUPTI_BUFFER_FLUSH", "Buffer flush (Profiler)"},
       {4, "OVERHEAD_CUPTI_INSTRUMENTATION", "Instrumentation (Profiler)"},
       {5, "OVERHEAD_CUPTI_RESOURCE", "Resource creation/destruction (Profiler)"},
       {6, "OVERHEAD_RUNTIME_TRIGGERED_MODULE_LOADING", "Runtime module loading (CUDA)"},
       {7, "OVERHEAD_LAZY_FUNCTION_LOADING", "Lazy function loading (CUDA)"},
       {8, "OVERHEAD_COMMAND_BUFFER_FULL", "Command buffer full (CUDA)"},
       {9, "OVERHEAD_ACTIVITY_BUFFER_REQUEST", "Activity buffer request (Profiler)"},
       {10, "OVERHEAD_UVM_ACTIVITY_INIT", "Unified memory tracing start (Profiler)"});
VALUES(limits, {WS_OCCUPANCY_UNKNOWN, "Unknown", "Not known"}, {WS_OCCUPANCY_WARPS, "Warps", "Warps of a multiprocessor"},
       {WS_OCCUPANCY_REGISTERS, "Registers", "Registers"}, {WS_OCCUPANCY_SHARED, "SharedMemory", "Shared memory"},
       {WS_OCCUPANCY_BLOCKS, "Blocks", "Blocks of a multiprocessor"});
VALUES(flags, {WS_CUDA_NO_TIMES, "NoTimes", "The driver had no times: start is when the record was received"},
       {WS_CUDA_UNFINISHED, "Unfinished", "Still under way when the program was killed"},
       {WS_CUDA_FROM_DEVICE, "FromDevice", "Launched by the GPU itself"}, {WS_CUDA_ASYNC, "Async", "By an asynchronous call"});

int ws_export_cuda_enums(struct ws_export *x, struct ws_err *e)
{
	static const struct {
		const char *name, *doc;
		const struct ws_x_meaning *meanings;
	} enums[] = {
	    {"ENUM_CUDA_MEMCPY_OPER", "What copyKind means", copy_kinds},
	    {"ENUM_CUDA_MEM_KIND", "What srcKind, dstKind and memKind mean", mem_kinds},
	    {"ENUM_CUDA_MEMPOOL_TYPE", "What poolType means", pool_types},
	    {"ENUM_CUDA_MEMPOOL_OPER", "What operationType of memory pools means", pool_operations},
	    {"ENUM_CUDA_DEV_MEM_EVENT_OPER", "What memoryOperationType means", memory_operations},
	    {"ENUM_CUDA_KERNEL_LAUNCH_TYPE", "What launchType means", launch_types},
	    {"ENUM_CUDA_SHARED_MEM_LIMIT_CONFIG", "What sharedMemoryLimitConfig means", shared_limits},
	    {"ENUM_CUDA_UNIF_MEM_MIGRATION", "What migrationCause means", migrations},
	    {"ENUM_CUDA_UNIF_MEM_ACCESS_TYPE", "What faultAccessType means", accesses},
	    {"ENUM_CUDA_FUNC_CACHE_CONFIG", "What cacheConfig means", cache_configs},
	    {"ENUM_CUPTI_STREAM_TYPE", "What TARGET_INFO_CUDA_STREAM.flag means", stream_types},
	    {"ENUM_CUPTI_SYNC_TYPE", "What syncType means", sync_types},
	    {"ENUM_CUPTI_OVERHEAD_TYPE", "What overheadType means", overheads},
	    {"ENUM_WARPSIGHT_OCCUPANCY_LIMIT", "What occupancyLimiter means", limits},
	    {"ENUM_WARPSIGHT_CUDA_FLAGS", "Bits of flags", flags},
	};

	for (size_t i = 0; i < WS_COUNT(enums); i++)
		if (ws_export_enum(x, enums[i].name, enums[i].doc, enums[i].meanings, e) < 0)
			return -1;
	return 0;
}
