/*
 * sources.c - which tables feed which lanes, as data. A new event kind is on the time line once it
 * has an entry here; the page shows what it is told of kinds it does not know.
 */
#include "lanes/lane.h"
#include "lanes/names.h"

const struct ws_lane_desc ws_lane_descs[WS_LANE_KINDS] = {
	[WS_LANE_NVTX] = {"nvtx", false},
	[WS_LANE_OSRT] = {"osrt", false},
	[WS_LANE_CUDA_API] = {"cuda_api", false},
	[WS_LANE_CUDA_OTHER] = {"cuda_other", false},
	[WS_LANE_OP] = {"op", false},
	[WS_LANE_SLICE] = {"slice", false},
	[WS_LANE_GIL] = {"gil", false},
	[WS_LANE_STATE] = {"state", false},
	[WS_LANE_SAMPLE] = {"sample", false},
	[WS_LANE_PYTHON] = {"python", false},
	[WS_LANE_PROJECTED] = {"projected", false},
	[WS_LANE_KERNELS] = {"kernels", false},
	[WS_LANE_MEMORY] = {"memory", false},
	[WS_LANE_STREAM] = {"stream", false},
	[WS_LANE_SYNC] = {"sync", false},
	[WS_LANE_UM] = {"um", false},
	[WS_LANE_GPU_BYTES] = {"gpu_bytes", true},
	[WS_LANE_COLLECTIVE] = {"collective", false},
	[WS_LANE_CPU] = {"cpu", false},
	[WS_LANE_FTRACE] = {"ftrace", false},
	[WS_LANE_TRACK] = {"track", false},
	[WS_LANE_COUNTER] = {"counter", true},
	[WS_LANE_OUTPUT] = {"output", false},
	[WS_LANE_DIAGNOSTIC] = {"diagnostic", false},
};

#define TIMES(t) .table = WS_TABLE_##t, .start = ws_##t##_start, .end = ws_##t##_end
#define MOMENT(t) .table = WS_TABLE_##t, .start = ws_##t##_start, .end = -1
#define BY_STR(t, column) .naming = WS_NAMED_STR, .name = ws_##t##_##column
#define BY_ENUM(t, column, text)                                                   \
	.naming = WS_NAMED_ENUM, .name = ws_##t##_##column, .ours = WS_OWN_##text, \
	.ours_n = WS_OWN_##text##_N
#define FEED_THREAD(t, lane)                                                  \
	{                                                                     \
		.kind = WS_LANE_##lane, .keys = 1, .key = { ws_##t##_thread } \
	}
#define FEED_DEVICE(t, lane)                                                                    \
	{                                                                                       \
		.kind = WS_LANE_##lane, .keys = 2, .key = { ws_##t##_process, ws_##t##_device } \
	}
#define FEED_STREAM(t)                             \
	{                                          \
		.kind = WS_LANE_STREAM, .keys = 4, \
		.key = { ws_##t##_process,         \
			 ws_##t##_device,          \
			 ws_##t##_context,         \
			 ws_##t##_stream }         \
	}
#define ONE(...) .feed = {__VA_ARGS__}, .feeds = 1
#define TWO(...) .feed = {__VA_ARGS__}, .feeds = 2

const struct ws_source ws_sources[] = {
	{TIMES(cuda_kernel), BY_STR(cuda_kernel, name),
	 TWO(FEED_DEVICE(cuda_kernel, KERNELS), FEED_STREAM(cuda_kernel))},
	{TIMES(cuda_memcpy), BY_ENUM(cuda_memcpy, kind, COPY),
	 TWO(FEED_DEVICE(cuda_memcpy, MEMORY), FEED_STREAM(cuda_memcpy))},
	{TIMES(cuda_memset), BY_ENUM(cuda_memset, flags, MEMSET),
	 TWO(FEED_DEVICE(cuda_memset, MEMORY), FEED_STREAM(cuda_memset))},
	{TIMES(cuda_graph_trace), BY_ENUM(cuda_graph_trace, flags, GRAPH),
	 TWO(FEED_DEVICE(cuda_graph_trace, KERNELS), FEED_STREAM(cuda_graph_trace))},
	{TIMES(cuda_sync), BY_ENUM(cuda_sync, type, SYNC), ONE(FEED_DEVICE(cuda_sync, SYNC))},
	{TIMES(cuda_um_gpu_fault), BY_ENUM(cuda_um_gpu_fault, access, FAULT),
	 ONE(FEED_DEVICE(cuda_um_gpu_fault, UM))},
	{TIMES(nvtx), BY_STR(nvtx, text),
	 ONE({.kind = WS_LANE_NVTX, .keys = 2, .key = {ws_nvtx_thread, ws_nvtx_domain}})},
	{TIMES(op), BY_STR(op, name), ONE(FEED_THREAD(op, OP))},
	{TIMES(cuda_api), BY_STR(cuda_api, name), ONE(FEED_THREAD(cuda_api, CUDA_API))},
	{TIMES(cuda_overhead), BY_STR(cuda_overhead, name),
	 ONE(FEED_THREAD(cuda_overhead, CUDA_OTHER))},
	{TIMES(cuda_jit), BY_ENUM(cuda_jit, operation, JIT),
	 ONE(FEED_THREAD(cuda_jit, CUDA_OTHER))},
	{MOMENT(cuda_module), BY_ENUM(cuda_module, operation, MODULE),
	 ONE(FEED_THREAD(cuda_module, CUDA_OTHER))},
	{MOMENT(cuda_host), BY_STR(cuda_host, name), ONE(FEED_THREAD(cuda_host, CUDA_OTHER))},
	{TIMES(osrt), BY_STR(osrt, name), ONE(FEED_THREAD(osrt, OSRT))},
	{TIMES(sched), .naming = WS_NAMED_THREAD, .name = ws_sched_thread,
	 TWO({.kind = WS_LANE_CPU,
	      .keys = 1,
	      .key = {ws_sched_cpu},
	      .when = WS_FEED_NOT_NULL,
	      .test = ws_sched_cpu},
	     FEED_THREAD(sched, STATE))},
	{MOMENT(sample), .naming = WS_NAMED_FRAME, .name = ws_sample_frame,
	 ONE(FEED_THREAD(sample, SAMPLE))},
	{MOMENT(python_sample), .naming = WS_NAMED_STACK, .name = ws_python_sample_stack,
	 ONE(FEED_THREAD(python_sample, PYTHON))},
	{TIMES(gil), BY_ENUM(gil, state, GIL), ONE(FEED_THREAD(gil, GIL))},
	{TIMES(slice), BY_STR(slice, name),
	 TWO({.kind = WS_LANE_SLICE,
	      .keys = 1,
	      .key = {ws_slice_thread},
	      .when = WS_FEED_ZERO,
	      .test = ws_slice_track},
	     {.kind = WS_LANE_TRACK,
	      .keys = 1,
	      .key = {ws_slice_track},
	      .when = WS_FEED_NONZERO,
	      .test = ws_slice_track})},
	{TIMES(collective), BY_STR(collective, name),
	 ONE({.kind = WS_LANE_COLLECTIVE, .keys = 1, .key = {ws_collective_process}})},
	{MOMENT(ftrace), BY_STR(ftrace, name),
	 ONE({.kind = WS_LANE_FTRACE, .keys = 1, .key = {ws_ftrace_cpu}})},
	{MOMENT(output), BY_STR(output, bytes), ONE({.kind = WS_LANE_OUTPUT})},
	{MOMENT(diagnostic), BY_STR(diagnostic, text), ONE({.kind = WS_LANE_DIAGNOSTIC})},
	{.table = WS_TABLE_counter_value,
	 .start = ws_counter_value_start,
	 .end = ws_counter_value_value,
	 .f64 = true,
	 .name = -1,
	 ONE({.kind = WS_LANE_COUNTER, .keys = 1, .key = {ws_counter_value_counter}})},
	{.table = WS_TABLE_cuda_memory,
	 .start = ws_cuda_memory_start,
	 .end = ws_cuda_memory_in_use,
	 .name = -1,
	 ONE({.kind = WS_LANE_GPU_BYTES,
	      .keys = 3,
	      .key = {ws_cuda_memory_process, ws_cuda_memory_device, ws_cuda_memory_kind}})},
	{.table = WS_TABLE_sched,
	 .name = -1}, /* states of threads: from several tables together (thread_states.c) */
};
const size_t ws_source_count = WS_COUNT(ws_sources);
