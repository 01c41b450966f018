/*
 * make_line.c - write a report of known rows for tests of exports: make_line KIND FILE.
 *
 * line  what formats of time lines show besides CUDA and NVTX: operators, memory, counters, samples
 * with stacks, cores, tracks, flows, ranges that cross, work that never ended, a device number that
 * is a pid too long  1,200,000 ranges and 300,000 kernels, for bounds on memory and for
 * interrupting
 *
 * The session clock starts at 1,000,000,000,000 ns.
 */
#include <stdio.h>
#include <string.h>

#include "store/store.h"

#define ZERO UINT64_C(1000000000000)
#define ADD(table, ...) ws_writer_add(w, WS_TABLE_##table, &(struct ws_row_##table){__VA_ARGS__})

static struct ws_writer *w;

static uint32_t put_string(const char *text)
{
	return ws_writer_string(w, text, strlen(text));
}

static void put_session(void)
{
	ADD(collection, .start = ZERO, .end = ZERO + 1000000);
	ADD(clock, .raw = ZERO, .realtime = UINT64_C(1700000000000000000), .ticks = 1);
	ADD(process, .id = 1, .pid = 1, .start = ZERO, .origin = WS_ORIGIN_TARGET,
	    .exe = put_string("/bin/train"), .cmdline = put_string("train"),
	    .name = put_string("train"));
	ADD(process, .id = 2, .pid = 4000, .parent = 1, .start = ZERO, .origin = WS_ORIGIN_FORK,
	    .exe = put_string("/bin/train"), .cmdline = put_string("train"),
	    .name = put_string("train"));
	ADD(thread, .id = 1, .process = 1, .tid = 1, .start = ZERO);
	ADD(thread, .id = 2, .process = 2, .tid = 4000, .start = ZERO);
	ADD(thread_name, .thread = 1, .start = ZERO, .name = put_string("loop"), .priority = 20);
}

static void put_operator(const char *name, int kind, uint64_t start, uint64_t end,
			 uint64_t external, const char *shapes, const char *args)
{
	ADD(op, .start = ZERO + start, .end = end ? ZERO + end : WS_NO_TIME, .thread = 1,
	    .kind = (uint8_t)kind, .name = put_string(name),
	    .external = external ? external : WS_NO_U64, .record_function = WS_NO_U64,
	    .sequence = external ? external + 100 : WS_NO_U64, .forward_thread = WS_NO_U64,
	    .python_id = WS_NO_U64, .python_parent = WS_NO_U64, .module_id = WS_NO_U64,
	    .shapes = shapes ? put_string(shapes) : 0, .args = args ? put_string(args) : 0);
}

static void put_kernel(uint32_t process, uint32_t device, uint32_t stream, uint32_t correlation,
		       uint64_t start, uint64_t end)
{
	ADD(cuda_kernel, .start = ZERO + start, .end = end ? ZERO + end : WS_NO_TIME,
	    .device = device, .context = 1, .green_context = WS_NO_U32, .stream = stream,
	    .correlation = correlation, .process = process,
	    .demangled = put_string("void \"quoted\"<int>\\(...)"), .name = put_string("quoted"),
	    .mangled = 0, .launch_type = WS_NO_U32, .cache_config = WS_NO_U32, .grid_x = 2,
	    .grid_y = 3, .grid_z = 4, .block_x = 32, .block_y = 1, .block_z = 1,
	    .executed_shared = WS_NO_U32, .graph_node = WS_NO_U64, .shared_limit = WS_NO_U32,
	    .graph = WS_NO_U32, .cluster_policy = WS_NO_U32, .max_cluster = WS_NO_U32,
	    .active_clusters = WS_NO_U32, .shared_percent = WS_NO_U32, .occupancy = 0.5,
	    .waves = 1.5);
}

static void put_call(uint32_t thread, int class, const char *name, uint32_t correlation,
		     uint64_t start, uint64_t end)
{
	ADD(cuda_api, .start = ZERO + start, .end = ZERO + end, .class = (uint8_t) class,
	    .thread = thread, .correlation = correlation, .name = put_string(name),
	    .callchain = WS_NO_U32);
}

static void put_range(uint32_t thread, int type, const char *text, uint64_t start, uint64_t end)
{
	ADD(nvtx, .start = ZERO + start, .end = end ? ZERO + end : WS_NO_TIME, .thread = thread,
	    .text = put_string(text), .range_id = start, .type = (uint8_t)type);
}

static void put_stacks(void)
{
	ADD(module, .id = 1, .kind = WS_MODULE_FILE, .path = put_string("/lib/libwork.so"));
	for (uint32_t i = 1; i <= 3; i++) {
		char name[16];

		snprintf(name, sizeof(name), "fn%u", i);
		ADD(frame, .id = i, .kind = WS_FRAME_USER, .method = WS_UNWIND_FP, .module = 1,
		    .address = 4096 * i);
		ADD(symbol, .frame = i, .set = 1, .name = put_string(name), .line = i);
	}
	ADD(stack, .id = 1, .parent = 0, .frame = 1);
	ADD(stack, .id = 2, .parent = 1, .frame = 2);
	ADD(sample, .start = ZERO + 600, .thread = 1, .cpu = 3, .state = WS_STATE_RUNNING,
	    .weight = 1000, .frame = 3, .callers = 2);
	ADD(sample, .start = ZERO + 700, .thread = 1, .cpu = WS_NO_U32, .state = WS_STATE_RUNNING,
	    .weight = 1000, .frame = 3, .callers = 2);
	ADD(sched, .start = ZERO + 500, .end = ZERO + 900, .thread = 1, .cpu = 3,
	    .woken = WS_NO_TIME, .after = WS_AFTER_PREEMPTED);
	ADD(gil, .start = ZERO + 510, .end = ZERO + 520, .thread = 1, .state = WS_GIL_WAITS);
}

static void put_line(void)
{
	put_session();
	put_operator("ProfilerStep#1", WS_OP_ANNOTATION, 100, 900, 0, NULL, NULL);
	put_operator("aten::mm", WS_OP_CPU, 200, 400, 11, "[[2, 3], []]", "{\"Extra\": 7}");
	put_operator("hostile args", WS_OP_CPU, 410, 420, 12, "[[2, 3", "}, {\"x\":");
	put_operator("never ends", WS_OP_PYTHON, 950, 0, 0, NULL, NULL);
	ADD(op_link, .process = 1, .correlation = 5, .external = 11);
	put_call(1, WS_CUDA_RUNTIME, "cudaLaunchKernel_v7000", 5, 250, 300);
	put_call(1, WS_CUDA_DRIVER, "cuLaunchKernel", 5, 260, 290);
	put_call(1, WS_CUDA_RUNTIME, "cudaGetDevice", 6, 310, 315);
	put_call(2, WS_CUDA_RUNTIME, "cudaLaunchKernel_v7000", 5, 250, 300);
	put_kernel(1, 1, 7, 5, 350, 450); /* device 1 beside process 1 */
	put_kernel(1, 1, 7, 99, 460, 0);  /* its call was not recorded, and it never ended */
	put_kernel(2, 0, 7, 5, 360, 500);
	put_kernel(2, 0, 7, 98, 400, 600); /* crosses the one before on its stream */
	put_range(1, WS_NVTX_PUSHPOP, "outer", 100, 800);
	put_range(1, WS_NVTX_STARTEND, "crossing", 150, 850);
	put_range(1, WS_NVTX_STARTEND, "open", 160, 0);
	put_range(1, WS_NVTX_MARK, "mark", 170, 0);
	put_range(2, WS_NVTX_PUSHPOP, "same start, inner", 100, 200);
	put_range(2, WS_NVTX_PUSHPOP, "same start, outer", 100, 300);
	ADD(nvtx, .start = ZERO - 50, .end = ZERO + 20, .thread = 1,
	    .text = put_string("before the start"), .type = WS_NVTX_PUSHPOP);
	ADD(op_memory, .start = ZERO + 210, .thread = 1, .address = 77, .bytes = -64,
	    .allocated = 1000, .reserved = 2000, .device_type = 1);
	ADD(cuda_memory, .start = ZERO + 320, .process = 1, .device = 1, .context = 1, .bytes = 512,
	    .kind = 2, .in_use = 512, .correlation = WS_NO_U32, .stream = WS_NO_U32,
	    .pool = WS_NO_U64, .pool_threshold = WS_NO_U64, .pool_size = WS_NO_U64,
	    .pool_used = WS_NO_U64, .imported_pool = WS_NO_U64, .imported_process = WS_NO_U64);
	ADD(counter, .id = 1, .process = 1, .device = WS_NO_U32, .cpu = WS_NO_U32,
	    .group = put_string("GPU 1"), .name = put_string("power"), .unit = put_string("W"));
	ADD(counter_value, .start = ZERO + 300, .counter = 1, .value = 250.5);
	ADD(counter_value, .start = ZERO + 400, .counter = 1, .value = 300);
	ADD(track, .id = 1, .process = 1, .name = put_string("pool of buffers"));
	ADD(slice, .start = ZERO + 100, .end = ZERO + 200, .track = 1, .name = put_string("fill"),
	    .category = put_string("io"), .args = put_string("{\"n\":1}"));
	ADD(slice, .start = ZERO + 150, .end = ZERO + 250, .track = 1,
	    .name = put_string("crossing fill"), .flags = WS_SLICE_ASYNC);
	ADD(slice, .start = ZERO + 160, .end = WS_NO_TIME, .thread = 1,
	    .name = put_string("moment"), .flags = WS_SLICE_INSTANT);
	ADD(flow, .start = ZERO + 110, .end = ZERO + 260, .from_track = 1, .to_thread = 1,
	    .name = put_string("handed over"), .category = put_string("io"));
	put_stacks();
}

static void put_many(void)
{
	char name[32];

	put_session();
	for (uint64_t i = 0; i < 1200000; i++) {
		snprintf(name, sizeof(name), "step %llu", (unsigned long long)(i % 500));
		put_range((uint32_t)(i & 1) + 1, WS_NVTX_PUSHPOP, name, i * 100, i * 100 + 90);
		if (i % 4 == 0)
			put_kernel(1, 0, 7, (uint32_t)i, i * 100, i * 100 + 50);
	}
}

int main(int argc, char **argv)
{
	struct ws_writer_opts options = {.overwrite = true};
	struct ws_err err;

	if (argc != 3)
		return 2;
	w = ws_writer_create(argv[2], &options, &err);
	if (!w) {
		ws_say("%s", err.msg);
		return 1;
	}
	if (!strcmp(argv[1], "long"))
		put_many();
	else
		put_line();
	if (ws_writer_close(w, &err) < 0) {
		ws_say("%s", err.msg);
		return 1;
	}
	return 0;
}
