/*
 * enums.c - ENUM_*: the numbers that occur in an export, and what they mean. Those of CUDA have the numbers and names that CUPTI
 * and the exports that people know give them.
 */
#include "export/tables.h"

struct meaning {
	int id;
	const char *name, *label;
};

#define SAME(id, name)         \
	{                      \
		id, name, name \
	}

static const struct meaning event_types[] = {
    SAME(WS_NVTX_CATEGORY, "NvtxCategory"),
    SAME(WS_NVTX_MARK, "NvtxMark"),
    SAME(WS_NVTX_THREAD, "NvtxThread"),
    SAME(49, "Diagnostic"),
    SAME(WS_NVTX_PUSHPOP, "NvtxPushPopRange"),
    SAME(WS_NVTX_STARTEND, "NvtxStartEndRange"),
    SAME(WS_NVTX_DOMAIN_CREATE, "NvtxDomainCreate"),
    SAME(WS_NVTX_DOMAIN_DESTROY, "NvtxDomainDestroy"),
    SAME(85, "OS runtime libraries"),
    {0},
};
static const struct meaning event_classes[] = {
    {WS_CUDA_RUNTIME, "TRACE_PROCESS_EVENT_CUDA_RUNTIME", "CUDA runtime"},
    {WS_CUDA_DRIVER, "TRACE_PROCESS_EVENT_CUDA_DRIVER", "CUDA driver"},
    {27, "TRACE_PROCESS_EVENT_OS_RUNTIME", "OSRT runtime"},
    {77, "TRACE_PROCESS_EVENT_CUDA_GRAPH_NODE_CREATION", "CUDA graph node creation"},
    {94, "TRACE_PROCESS_EVENT_CUDA_GRAPHEXEC_CREATION", "CUDA graph exec creation"},
    {95, "TRACE_PROCESS_EVENT_CUDA_GRAPH_CREATION", "CUDA graph creation"},
    {96, "TRACE_PROCESS_EVENT_CUDA_GRAPH_CLONE", "CUDA graph clone"},
    {103, "TRACE_PROCESS_EVENT_CUDA_OVERHEAD", "CUDA overhead"},
    {0},
};
static const struct meaning severities[] = {
    SAME(WS_INFO, "Info"),
    SAME(WS_WARNING, "Warning"),
    SAME(WS_ERROR, "Error"),
    {0},
};
static const struct meaning sources[] = {SAME(WS_X_SOURCE_INJECTION, "Injection"), SAME(WS_X_SOURCE_DAEMON, "Daemon"), {0}};
static const struct meaning timestamps[] = {{WS_X_TIMESTAMP_TARGET, "TargetTimestamp", "Target timestamp"}, {0}};
static const struct meaning origins[] = {
    {WS_ORIGIN_TARGET, "Target", "Started by profile"},
    {WS_ORIGIN_EXEC, "Exec", "A new image: exec, posix_spawn"},
    {WS_ORIGIN_FORK, "Fork", "A forked child, running its parent's image"},
    {0},
};
static const struct meaning ends[] = {
    {WS_END_EXIT, "Exit", "It ended"},
    {WS_END_EXEC, "Exec", "Another image replaced it"},
    {WS_END_RUNNING, "Running", "It was still running when the recording ended"},
    {0},
};
static const struct meaning occupancy_limits[] = {
    {WS_OCCUPANCY_UNKNOWN, "Unknown", "Not known"},
    {WS_OCCUPANCY_WARPS, "Warps", "Warps of a multiprocessor"},
    {WS_OCCUPANCY_REGISTERS, "Registers", "Registers of a multiprocessor"},
    {WS_OCCUPANCY_SHARED, "SharedMemory", "Shared memory of a multiprocessor"},
    {WS_OCCUPANCY_BLOCKS, "Blocks", "Blocks of a multiprocessor"},
    {0},
};
static const struct meaning cuda_memcpy_oper[] = {
    {0, "CUDA_MEMCPY_KIND_UNKNOWN", "Unknown"},
    {1, "CUDA_MEMCPY_KIND_HTOD", "Host-to-Device"},
    {2, "CUDA_MEMCPY_KIND_DTOH", "Device-to-Host"},
    {3, "CUDA_MEMCPY_KIND_HTOA", "Host-to-Array"},
    {4, "CUDA_MEMCPY_KIND_ATOH", "Array-to-Host"},
    {5, "CUDA_MEMCPY_KIND_ATOA", "Array-to-Array"},
    {6, "CUDA_MEMCPY_KIND_ATOD", "Array-to-Device"},
    {7, "CUDA_MEMCPY_KIND_DTOA", "Device-to-Array"},
    {8, "CUDA_MEMCPY_KIND_DTOD", "Device-to-Device"},
    {9, "CUDA_MEMCPY_KIND_HTOH", "Host-to-Host"},
    {10, "CUDA_MEMCPY_KIND_PTOP", "Peer-to-Peer"},
    {11, "CUDA_MEMCPY_KIND_UVM_HTOD", "Unified Host-to-Device"},
    {12, "CUDA_MEMCPY_KIND_UVM_DTOH", "Unified Device-to-Host"},
    {13, "CUDA_MEMCPY_KIND_UVM_DTOD", "Unified Device-to-Device"},
    {0},
};
static const struct meaning cuda_mem_kind[] = {
    {0, "CUDA_MEMOPR_MEMORY_KIND_PAGEABLE", "Pageable"},
    {1, "CUDA_MEMOPR_MEMORY_KIND_PINNED", "Pinned"},
    {2, "CUDA_MEMOPR_MEMORY_KIND_DEVICE", "Device"},
    {3, "CUDA_MEMOPR_MEMORY_KIND_ARRAY", "Array"},
    {4, "CUDA_MEMOPR_MEMORY_KIND_MANAGED", "Managed"},
    {5, "CUDA_MEMOPR_MEMORY_KIND_DEVICE_STATIC", "Device Static"},
    {6, "CUDA_MEMOPR_MEMORY_KIND_MANAGED_STATIC", "Managed Static"},
    {7, "CUDA_MEMOPR_MEMORY_KIND_UNKNOWN", "Unknown"},
    {0},
};
static const struct meaning cuda_mempool_type[] = {
    {0, "CUPTI_ACTIVITY_MEMORY_POOL_TYPE_INVALID", "Invalid"},
    {1, "CUPTI_ACTIVITY_MEMORY_POOL_TYPE_LOCAL", "Local"},
    {2, "CUPTI_ACTIVITY_MEMORY_POOL_TYPE_IMPORTED", "Imported"},
    {0},
};
static const struct meaning cuda_mempool_oper[] = {
    {0, "CUPTI_ACTIVITY_MEMORY_POOL_OPERATION_TYPE_INVALID", "Invalid"},
    {1, "CUPTI_ACTIVITY_MEMORY_POOL_OPERATION_TYPE_CREATED", "Created"},
    {2, "CUPTI_ACTIVITY_MEMORY_POOL_OPERATION_TYPE_DESTROYED", "Destroyed"},
    {3, "CUPTI_ACTIVITY_MEMORY_POOL_OPERATION_TYPE_TRIMMED", "Trimmed"},
    {0},
};
static const struct meaning cuda_dev_mem_event_oper[] = {
    {0, "CUDA_DEV_MEM_EVENT_OPR_ALLOCATION", "Allocation"},
    {1, "CUDA_DEV_MEM_EVENT_OPR_DEALLOCATION", "Deallocation"},
    {0},
};
static const struct meaning cuda_kernel_launch_type[] = {
    {0, "CUDA_KERNEL_LAUNCH_TYPE_UNKNOWN", "Unknown"},
    {1, "CUDA_KERNEL_LAUNCH_TYPE_REGULAR", "Regular"},
    {2, "CUDA_KERNEL_LAUNCH_TYPE_COOPERATIVE_SINGLE_DEVICE", "Coop Single Device"},
    {3, "CUDA_KERNEL_LAUNCH_TYPE_COOPERATIVE_MULTI_DEVICE", "Coop Multi Device"},
    {0},
};
static const struct meaning cuda_shared_mem_limit_config[] = {
    {0, "CUDA_SHARED_MEM_LIMIT_DEFAULT", "Default"},
    {1, "CUDA_SHARED_MEM_LIMIT_OPTIN", "Opt in"},
    {0},
};
static const struct meaning cuda_unif_mem_migration[] = {
    {0, "CUDA_UNIFIED_MEMORY_MIGRATION_CAUSE_UNKNOWN", "Unknown"},
    {1, "CUDA_UNIFIED_MEMORY_MIGRATION_CAUSE_USER", "User prefetch"},
    {2, "CUDA_UNIFIED_MEMORY_MIGRATION_CAUSE_COHERENCE", "Page fault"},
    {3, "CUDA_UNIFIED_MEMORY_MIGRATION_CAUSE_PREFETCH", "Speculative prefetch"},
    {4, "CUDA_UNIFIED_MEMORY_MIGRATION_CAUSE_EVICTION", "Eviction"},
    {5, "CUDA_UNIFIED_MEMORY_MIGRATION_CAUSE_ACCESS_COUNTERS", "Access counters"},
    {0},
};
static const struct meaning cuda_unif_mem_access_type[] = {
    {0, "CUPTI_ACTIVITY_UNIFIED_MEMORY_ACCESS_TYPE_UNKNOWN", "Unknown"},
    {1, "CUPTI_ACTIVITY_UNIFIED_MEMORY_ACCESS_TYPE_READ", "Read"},
    {2, "CUPTI_ACTIVITY_UNIFIED_MEMORY_ACCESS_TYPE_WRITE", "Write"},
    {3, "CUPTI_ACTIVITY_UNIFIED_MEMORY_ACCESS_TYPE_ATOMIC", "Atomic"},
    {4, "CUPTI_ACTIVITY_UNIFIED_MEMORY_ACCESS_TYPE_PREFETCH", "Prefetch"},
    {0},
};
static const struct meaning cuda_func_cache_config[] = {
    {0, "CU_FUNC_CACHE_PREFER_NONE", "None"},
    {1, "CU_FUNC_CACHE_PREFER_SHARED", "Shared"},
    {2, "CU_FUNC_CACHE_PREFER_L1", "L1"},
    {3, "CU_FUNC_CACHE_PREFER_EQUAL", "Equal"},
    {0},
};
static const struct meaning cupti_stream_type[] = {
    {0, "CUPTI_ACTIVITY_STREAM_CREATE_FLAG_UNKNOWN", "Unknown stream type"},
    {1, "CUPTI_ACTIVITY_STREAM_CREATE_FLAG_DEFAULT", "Default stream"},
    {2, "CUPTI_ACTIVITY_STREAM_CREATE_FLAG_NON_BLOCKING", "Non-blocking stream"},
    {3, "CUPTI_ACTIVITY_STREAM_CREATE_FLAG_NULL", "Null stream"},
    {0},
};
static const struct meaning cupti_sync_type[] = {
    {0, "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_UNKNOWN", "Unknown"},
    {1, "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE", "Event sync"},
    {2, "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT", "Stream wait sync"},
    {3, "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE", "Stream sync"},
    {4, "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE", "Context sync"},
    {0},
};
static const struct meaning cupti_overhead_type[] = {
    {0, "OVERHEAD_UNDEFINED", "Undefined"},
    {1, "OVERHEAD_UNKNOWN", "Unknown"},
    {2, "OVERHEAD_DRIVER_COMPILER", "Driver JIT compiler (CUDA)"},
    {3, "OVERHEAD_CUPTI_BUFFER_FLUSH", "Buffer flush (Profiler)"},
    {4, "OVERHEAD_CUPTI_INSTRUMENTATION", "Instrumentation (Profiler)"},
    {5, "OVERHEAD_CUPTI_RESOURCE", "Resource creation/destruction (Profiler)"},
    {6, "OVERHEAD_RUNTIME_TRIGGERED_MODULE_LOADING", "Runtime module loading (CUDA)"},
    {7, "OVERHEAD_LAZY_FUNCTION_LOADING", "Lazy function loading (CUDA)"},
    {8, "OVERHEAD_COMMAND_BUFFER_FULL", "Command buffer full (CUDA)"},
    {0},
};

static const struct {
	const char *name, *doc;
	const struct meaning *meanings; /* up to one without a name */
} enums[] = {
    {"ENUM_NSYS_EVENT_TYPE", "What NVTX_EVENTS.eventType means", event_types},
    {"ENUM_NSYS_EVENT_CLASS", "What eventClass means", event_classes},
    {"ENUM_DIAGNOSTIC_SEVERITY_LEVEL", "What DIAGNOSTIC_EVENT.severity means", severities},
    {"ENUM_DIAGNOSTIC_SOURCE_TYPE", "What DIAGNOSTIC_EVENT.source means", sources},
    {"ENUM_DIAGNOSTIC_TIMESTAMP_SOURCE", "What DIAGNOSTIC_EVENT.timestampType means", timestamps},
    {"ENUM_WARPSIGHT_PROCESS_ORIGIN", "What WARPSIGHT_PROCESS.origin means", origins},
    {"ENUM_WARPSIGHT_PROCESS_END_REASON", "What WARPSIGHT_PROCESS_END.reason means", ends},
    {"ENUM_WARPSIGHT_OCCUPANCY_LIMIT", "What CUPTI_ACTIVITY_KIND_KERNEL.occupancyLimiter means", occupancy_limits},
    {"ENUM_CUDA_MEMCPY_OPER", "What CUPTI_ACTIVITY_KIND_MEMCPY.copyKind means", cuda_memcpy_oper},
    {"ENUM_CUDA_MEM_KIND", "What srcKind, dstKind and memKind mean", cuda_mem_kind},
    {"ENUM_CUDA_MEMPOOL_TYPE", "What CUDA_GPU_MEMORY_POOL_EVENTS.poolType means", cuda_mempool_type},
    {"ENUM_CUDA_MEMPOOL_OPER", "What CUDA_GPU_MEMORY_POOL_EVENTS.operationType means", cuda_mempool_oper},
    {"ENUM_CUDA_DEV_MEM_EVENT_OPER", "What CUDA_GPU_MEMORY_USAGE_EVENTS.memoryOperationType means", cuda_dev_mem_event_oper},
    {"ENUM_CUDA_KERNEL_LAUNCH_TYPE", "What CUPTI_ACTIVITY_KIND_KERNEL.launchType means", cuda_kernel_launch_type},
    {"ENUM_CUDA_SHARED_MEM_LIMIT_CONFIG", "What CUPTI_ACTIVITY_KIND_KERNEL.sharedMemoryLimitConfig means",
     cuda_shared_mem_limit_config},
    {"ENUM_CUDA_UNIF_MEM_MIGRATION", "What CUPTI_ACTIVITY_KIND_MEMCPY.migrationCause means", cuda_unif_mem_migration},
    {"ENUM_CUDA_UNIF_MEM_ACCESS_TYPE", "What CUDA_UM_GPU_PAGE_FAULT_EVENTS.faultAccessType means", cuda_unif_mem_access_type},
    {"ENUM_CUDA_FUNC_CACHE_CONFIG", "What CUPTI_ACTIVITY_KIND_KERNEL.cacheConfig means", cuda_func_cache_config},
    {"ENUM_CUPTI_STREAM_TYPE", "What TARGET_INFO_CUDA_STREAM.flag means", cupti_stream_type},
    {"ENUM_CUPTI_SYNC_TYPE", "What CUPTI_ACTIVITY_KIND_SYNCHRONIZATION.syncType means", cupti_sync_type},
    {"ENUM_CUPTI_OVERHEAD_TYPE", "What CUPTI_ACTIVITY_KIND_OVERHEAD.overheadType means", cupti_overhead_type},
};

int ws_export_enums(struct ws_export *x, struct ws_err *e)
{
	static const struct ws_xcolumn columns[] = {
	    {"id", "INTEGER", true, true, "Number"},
	    {"name", "TEXT", false, false, "Name"},
	    {"label", "TEXT", false, false, "Name for people"},
	};

	for (size_t i = 0; i < WS_COUNT(enums); i++) {
		struct ws_xtable t = {enums[i].name, enums[i].doc, columns, WS_COUNT(columns)};

		if (ws_export_table(x, &t, e) < 0)
			return -1;
		for (const struct meaning *m = enums[i].meanings; m->name; m++)
			if (ws_export_row(x, (struct ws_xcell[]){ws_x_int(m->id), ws_x_literal(m->name), ws_x_literal(m->label)},
					  e) < 0)
				return -1;
	}
	return 0;
}
