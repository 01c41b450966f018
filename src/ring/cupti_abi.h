/*
 * cupti_abi.h - what warpsight uses of CUPTI's binary interface, declared here so that building
 * needs no CUDA toolkit and one build serves CUPTI 12.0 to 13.x: records are cast by the version
 * found at run time.
 *
 * CUPTI's records grow only at their end. Each struct here is the newest form known; a version of
 * CUPTI may write less of it, so code that reads a field that may lie beyond the size of the
 * records must check first (WS_CUDA_HAS in record/from_cuda.h). Where the toolkit's headers are
 * present, a test compares the offsets (tests/cuda/test_abi.c).
 */
#ifndef WS_RING_CUPTI_ABI_H
#define WS_RING_CUPTI_ABI_H

#include <stddef.h>
#include <stdint.h>

/* Values of cuptiGetVersion. Before 13.0 they count releases. */
enum {
	CUPTI_12_0 = 18,
	CUPTI_12_2 = 20,
	CUPTI_12_3 = 21,
	CUPTI_12_4 = 22,
	CUPTI_12_5 = 23,
	CUPTI_12_6 = 24,
	CUPTI_12_8 = 26,
	CUPTI_12_9 = 27,
	CUPTI_13_0 = 130000
};

enum {
	CUPTI_OK = 0,
	CUPTI_ERR_INVALID_PARAMETER = 1,
	CUPTI_ERR_OUT_OF_MEMORY = 8,
	CUPTI_ERR_MAX_LIMIT_REACHED = 12,
	CUPTI_ERR_NOT_READY = 13,
	CUPTI_ERR_NOT_COMPATIBLE = 14,
	CUPTI_ERR_NOT_INITIALIZED = 15,
	CUPTI_ERR_INVALID_KIND = 21,
	CUPTI_ERR_NOT_SUPPORTED = 27,
	CUPTI_ERR_INSUFFICIENT_PRIVILEGES = 35,
	CUPTI_ERR_MULTIPLE_SUBSCRIBERS = 39,
};

/* CUpti_ActivityKind */
enum {
	CUPTI_KIND_MEMCPY = 1,
	CUPTI_KIND_MEMSET = 2,
	CUPTI_KIND_KERNEL = 3,
	CUPTI_KIND_DRIVER = 4,
	CUPTI_KIND_RUNTIME = 5,
	CUPTI_KIND_DEVICE = 8,
	CUPTI_KIND_CONTEXT = 9,
	CUPTI_KIND_CONCURRENT_KERNEL = 10,
	CUPTI_KIND_OVERHEAD = 17,
	CUPTI_KIND_MEMCPY2 = 22,
	CUPTI_KIND_UNIFIED_MEMORY_COUNTER = 25,
	CUPTI_KIND_CUDA_EVENT = 36,
	CUPTI_KIND_STREAM = 37,
	CUPTI_KIND_SYNCHRONIZATION = 38,
	CUPTI_KIND_EXTERNAL_CORRELATION = 39,
	CUPTI_KIND_INTERNAL_LAUNCH_API = 48,
	CUPTI_KIND_MEMORY2 = 49,
	CUPTI_KIND_MEMORY_POOL = 50,
	CUPTI_KIND_GRAPH_TRACE = 51,
	CUPTI_KIND_JIT = 52,
	CUPTI_KIND_COUNT = 64,
	CUPTI_KIND_INCOMPLETE = (int)0x80000000, /* bit set in a record that is not finished */
};

/* CUpti_ActivityAttribute */
enum {
	CUPTI_ATTR_DEVICE_BUFFER_SIZE = 0,
	CUPTI_ATTR_DEVICE_BUFFER_POOL_LIMIT = 2,
	CUPTI_ATTR_ZEROED_OUT_ACTIVITY_BUFFER = 5,
	CUPTI_ATTR_DEVICE_BUFFER_PRE_ALLOCATE_VALUE = 6,
	CUPTI_ATTR_PER_THREAD_ACTIVITY_BUFFER = 9,
};

enum { CUPTI_FLUSH_FORCED = 1 };
enum { CUPTI_THREAD_ID_SYSTEM = 1 };

/* CUpti_CallbackDomain and the callback ids that we name */
enum {
	CUPTI_DOMAIN_DRIVER = 1,
	CUPTI_DOMAIN_RUNTIME = 2,
	CUPTI_DOMAIN_RESOURCE = 3,
	CUPTI_DOMAIN_SYNCHRONIZE = 4,
	CUPTI_DOMAIN_NVTX = 5,
	CUPTI_DOMAIN_STATE = 6
};
enum { CUPTI_SITE_ENTER = 0, CUPTI_SITE_EXIT = 1 };
enum {
	CUPTI_RESOURCE_CONTEXT_CREATED = 1,
	CUPTI_RESOURCE_CONTEXT_DESTROY_STARTING = 2,
	CUPTI_RESOURCE_STREAM_CREATED = 3,
	CUPTI_RESOURCE_STREAM_DESTROY_STARTING = 4,
	CUPTI_RESOURCE_MODULE_LOADED = 6,
	CUPTI_RESOURCE_MODULE_UNLOAD_STARTING = 7,
	CUPTI_RESOURCE_GRAPH_CREATED = 9,
	CUPTI_RESOURCE_GRAPH_DESTROY_STARTING = 10,
	CUPTI_RESOURCE_GRAPH_CLONED = 11,
	CUPTI_RESOURCE_GRAPHNODE_CREATE_STARTING = 12,
	CUPTI_RESOURCE_GRAPHNODE_CREATED = 13,
	CUPTI_RESOURCE_GRAPHNODE_DESTROY_STARTING = 14,
	CUPTI_RESOURCE_GRAPHEXEC_CREATE_STARTING = 17,
	CUPTI_RESOURCE_GRAPHEXEC_CREATED = 18,
	CUPTI_RESOURCE_GRAPHEXEC_DESTROY_STARTING = 19,
	CUPTI_RESOURCE_GRAPHNODE_CLONED = 20,
};
enum { CUPTI_STATE_FATAL_ERROR = 1 };

#define CUPTI_RECORD __attribute__((packed, aligned(8)))

struct cupti_record { /* what all begin with */
	uint32_t kind;
} CUPTI_RECORD;

struct cupti_kernel { /* CUpti_ActivityKernel9 (12.x) and Kernel10 (13.0) */
	uint32_t kind;
	uint8_t cache_config; /* requested: low half, executed: high half */
	uint8_t shared_config;
	uint16_t registers;
	uint32_t partitioned_requested, partitioned_executed;
	uint64_t start, end, completed;
	uint32_t device, context, stream;
	int32_t grid_x, grid_y, grid_z, block_x, block_y, block_z;
	int32_t static_shared, dynamic_shared;
	uint32_t local_thread, local_total;
	uint32_t correlation;
	int64_t grid_id;
	const char *name;
	void *reserved0;
	uint64_t queued, submitted;
	uint8_t launch_type, carveout_requested, carveout, padding;
	uint32_t shared_executed;
	uint64_t graph_node;
	uint32_t shared_limit, graph;
	void *access_policy;
	uint32_t channel, channel_type;
	uint32_t cluster_x, cluster_y, cluster_z, cluster_policy;
	uint64_t local_total2;
	uint32_t max_cluster, max_active_clusters; /* since 12.3 */
	uint8_t device_launched, padding3[7];	   /* since 13.0 */
} CUPTI_RECORD;

struct cupti_memcpy { /* CUpti_ActivityMemcpy5, Memcpy6 */
	uint32_t kind;
	uint8_t copy_kind, src_kind, dst_kind, flags;
	uint64_t bytes, start, end;
	uint32_t device, context, stream, correlation, runtime_correlation, pad;
	void *reserved0;
	uint64_t graph_node;
	uint32_t graph, channel, channel_type;
	uint8_t device_launched, pad2[3];
	uint64_t copies; /* since 12.8 */
} CUPTI_RECORD;

struct cupti_memcpy_peer { /* CUpti_ActivityMemcpyPtoP4 */
	uint32_t kind;
	uint8_t copy_kind, src_kind, dst_kind, flags;
	uint64_t bytes, start, end;
	uint32_t device, context, stream, src_device, src_context, dst_device, dst_context,
		correlation;
	void *reserved0;
	uint64_t graph_node;
	uint32_t graph, channel, channel_type;
} CUPTI_RECORD;

struct cupti_memset { /* CUpti_ActivityMemset4 */
	uint32_t kind, value;
	uint64_t bytes, start, end;
	uint32_t device, context, stream, correlation;
	uint16_t flags, memory_kind;
	uint32_t pad;
	void *reserved0;
	uint64_t graph_node;
	uint32_t graph, channel, channel_type;
	uint8_t device_launched, pad2[3];
} CUPTI_RECORD;

struct cupti_api { /* CUpti_ActivityAPI */
	uint32_t kind, cbid;
	uint64_t start, end;
	uint32_t process, thread, correlation, result;
} CUPTI_RECORD;

struct cupti_sync { /* CUpti_ActivitySynchronization, Synchronization2 */
	uint32_t kind, type;
	uint64_t start, end;
	uint32_t correlation, context, stream, event;
	uint64_t event_sync; /* since 12.8 */
	uint32_t result, pad;
} CUPTI_RECORD;

struct cupti_event { /* CUpti_ActivityCudaEvent, CudaEvent2 */
	uint32_t kind, correlation, context, stream, event, pad;
	uint32_t device, pad2; /* since 12.8 */
	void *reserved0;
	uint64_t time, event_sync;
} CUPTI_RECORD;

struct cupti_stream { /* CUpti_ActivityStream */
	uint32_t kind, context, stream, priority, flag, correlation;
} CUPTI_RECORD;

struct cupti_context { /* CUpti_ActivityContext..3 */
	uint32_t kind, context, device;
	uint16_t api, null_stream;
	uint32_t parent; /* since 12.6 */
	uint8_t green, padding;
	uint16_t sms;
	uint32_t cig, padding2;
} CUPTI_RECORD;

struct cupti_device { /* CUpti_ActivityDevice4, Device5 */
	uint32_t kind, flags;
	uint64_t bandwidth, memory;
	uint32_t constant, l2, warp, clock, engines, sms, max_ipc, warps_sm, blocks_sm, shared_sm,
		regs_sm, regs_block, shared_block, threads_block, block_x, block_y, block_z, grid_x,
		grid_y, grid_z, major, minor, id, ecc;
	uint8_t uuid[16];
	const char *name;
	uint8_t visible, mig, reserved[6];
	uint32_t gpu_instance, compute_instance;
	uint8_t mig_uuid[16];
	uint32_t numa, numa_id; /* since 12.4 or so */
} CUPTI_RECORD;

struct cupti_overhead { /* CUpti_ActivityOverhead2, Overhead3 */
	uint32_t kind, overhead, object;
	union {
		struct {
			uint32_t process, thread;
		} pt;
		struct {
			uint32_t device, context, stream;
		} dcs;
	} id;
	uint64_t start, end;
	uint32_t correlation, reserved0; /* since 12.2 */
	void *data;			 /* ours to free */
} CUPTI_RECORD;

struct cupti_memory { /* CUpti_ActivityMemory4 */
	uint32_t kind, operation, memory_kind, correlation;
	uint64_t address, bytes, time, pc;
	uint32_t process, device, context, stream;
	const char *name;
	uint32_t async, pad1;
	uint32_t pool_type, pad2;
	uint64_t pool, pool_threshold, pool_size,
		pool_used; /* pool_size is a process id for imported pools */
	const char *source;
} CUPTI_RECORD;

struct cupti_pool { /* CUpti_ActivityMemoryPool2, 3 */
	uint32_t kind, operation, type, correlation, process, device;
	uint64_t keep, address, size, threshold, time, used;
	uint8_t managed, pad2[7];
} CUPTI_RECORD;

struct cupti_jit { /* CUpti_ActivityJit, Jit2 */
	uint32_t kind, entry, operation, device;
	uint64_t start, end;
	uint32_t correlation, padding;
	uint64_t operation_correlation, cache_size;
	const char *cache_path;
	uint32_t process, thread; /* since 12.8 */
} CUPTI_RECORD;

struct cupti_graph_trace { /* CUpti_ActivityGraphTrace, 2 */
	uint32_t kind, correlation;
	uint64_t start, end;
	uint32_t device, graph, context, stream;
	void *reserved;
	uint32_t end_device, end_context; /* since 12.3 or so */
} CUPTI_RECORD;

struct cupti_um { /* CUpti_ActivityUnifiedMemoryCounter2, 3 */
	uint32_t kind, counter;
	uint64_t value, start, end, address;
	uint32_t src, dst, stream, process, flags, pad;
	uint64_t processors[5];
} CUPTI_RECORD;

/* ---- callbacks ---- */

struct cupti_callback {
	uint32_t site; /* CUPTI_SITE_* */
	const char *function;
	const void *params;
	void *result; /* int * of what the call returns, at its exit */
	const char *symbol;
	void *context;
	uint32_t context_uid;
	uint64_t *correlation_data;
	uint32_t correlation;
};

struct cupti_resource {
	void *context;
	void *handle; /* stream */
	void *descriptor;
};

struct cupti_module {
	uint32_t id;
	size_t bytes;
	const char *cubin;
};

struct cupti_graph {
	void *graph, *original_graph, *node, *original_node;
	uint32_t node_type;
	void *dependency, *exec;
};

struct cupti_state {
	uint32_t result;
	const char *message;
};

struct cupti_subscriber_params { /* cuptiSubscribe_v2, 13.0 */
	size_t size;
	const char *name;
	char *old_name;
	size_t old_name_size;
};

struct cupti_um_config {
	uint32_t scope, counter, device, enable;
};

typedef void (*cupti_request_fn)(uint8_t **buffer, size_t *size, size_t *max_records);
typedef void (*cupti_complete_fn)(void *context, uint32_t stream, uint8_t *buffer, size_t size,
				  size_t valid);
typedef uint64_t (*cupti_clock_fn)(void);
typedef void (*cupti_callback_fn)(void *data, uint32_t domain, uint32_t cbid, const void *info);

#endif
