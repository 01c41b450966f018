/*
 * make_report.c - a report with some of everything the time line shows, the same each time: for
 * tests of the viewer.
 *
 *   make_report FILE [steps]
 *
 * Two ranks on one GPU each: steps with layers, launches, kernels on two streams, copies both ways,
 * a memset and a wait; a third process with hostile names, calls of libraries, operators, waits for
 * locks and for the GIL; samples with stacks, scheduling, OS runtime calls, counters, tracks,
 * output, diagnostics, losses.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/store.h"
#include "base/choose.h"
#include "../random.h"

static struct ws_writer *w;
static uint64_t now[2], gpu[2];
static uint32_t correlation[2];

#define ADD(table, ...) ws_writer_add(w, WS_TABLE_##table, &(struct ws_row_##table){__VA_ARGS__})

static uint32_t put_text(const char *word)
{
	return ws_writer_string(w, word, strlen(word));
}

static uint64_t random_number(void)
{
	static uint64_t state = RANDOM_SEED;

	return random_next(&state);
}

enum { ZERO = 5000000, US = 1000 };

static void begin_report(void)
{
	ADD(collection, .start = ZERO, .end = WS_NO_TIME);
	ADD(clock, .raw = ZERO, .realtime = UINT64_C(1700000000000000000));
	ADD(meta, .name = put_text("command"), .value = put_text("python train.py --batch 64"));
	ADD(meta, .name = put_text("host.name"), .value = put_text("node-1"));
	ADD(process, .id = 3, .pid = 300, .start = ZERO, .origin = WS_ORIGIN_TARGET,
	    .name = put_text("<b>bold</b>"),
	    .cmdline = put_text("\"><script>alert(1)</script>\xe2\x80\xae"));
	ADD(thread, .id = 5, .process = 3, .tid = 300, .start = ZERO);
	for (uint32_t i = 0; i < 2; i++) {
		ADD(process, .id = i + 1, .pid = 100 + i * 100, .start = ZERO,
		    .origin = WS_ORIGIN_TARGET, .name = put_text("python3"),
		    .cmdline = put_text("python train.py --batch 64"));
		ADD(rank, .process = i + 1, .rank = i, .world = 2, .local = i,
		    .host = put_text("node-1"), .gpus = put_text("0,1"));
		ADD(thread, .id = i * 2 + 1, .process = i + 1, .tid = 100 + i * 100, .start = ZERO);
		ADD(thread, .id = i * 2 + 2, .process = i + 1, .tid = 101 + i * 100, .start = ZERO);
		ADD(thread_name, .thread = i * 2 + 2, .start = ZERO, .name = put_text("DataLoader"),
		    .priority = 20);
		ADD(cuda_device, .process = i + 1, .id = 0, .name = put_text("NVIDIA H200"),
		    .sms = 132);
		ADD(cuda_context, .process = i + 1, .id = 1, .device = 0, .null_stream = 7);
		now[i] = gpu[i] = ZERO + 200 * US;
	}
	for (uint32_t i = 0; i < 3; i++) { /* threads that hardly run */
		ADD(thread, .id = 10 + i, .process = 1, .tid = 110 + i, .start = ZERO);
		ADD(thread_name, .thread = 10 + i, .start = ZERO, .name = put_text("pool"),
		    .priority = 20);
		ADD(osrt, .start = ZERO + 300 * US, .end = ZERO + 5000 * US, .thread = 10 + i,
		    .name = put_text("sem_wait"), .callchain = WS_NO_U32);
	}
	ADD(nvtx, .start = ZERO, .end = WS_NO_TIME, .thread = 1, .domain = 1,
	    .text = put_text("NCCL"), .type = WS_NVTX_DOMAIN_CREATE);
	ADD(nvtx, .start = ZERO, .end = WS_NO_TIME, .thread = 3, .domain = 1,
	    .text = put_text("NCCL"), .type = WS_NVTX_DOMAIN_CREATE);
}

static void put_launch(uint32_t side, const char *kernel, uint32_t stream, uint64_t length)
{
	uint64_t start = now[side];

	correlation[side]++;
	ADD(cuda_api, .start = start, .end = start + 4 * US, .thread = side * 2 + 1,
	    .correlation = correlation[side], .name = put_text("cudaLaunchKernel_v7000"),
	    .callchain = stream == 7 ? 3 : WS_NO_U32);
	now[side] += 6 * US;
	if (gpu[side] < start + 8 * US)
		gpu[side] = start + 8 * US;
	ADD(cuda_kernel, .start = gpu[side], .end = gpu[side] + length, .device = 0, .context = 1,
	    .green_context = WS_NO_U32, .stream = stream, .correlation = correlation[side],
	    .process = side + 1, .name = put_text(kernel), .demangled = put_text(kernel),
	    .grid_x = 528, .grid_y = 1, .grid_z = 1, .block_x = 256, .block_y = 1, .block_z = 1,
	    .registers = 64, .occupancy = 0.75, .waves = 1.25, .limiter = WS_OCCUPANCY_REGISTERS,
	    /* numbers that a double cannot tell apart */
	    .grid_id = (UINT64_C(1) << 60) + correlation[side] * 37 % 101);
	gpu[side] += stream == 7 ? length + US : length / 2;
}

static void put_copy(uint32_t side, uint8_t kind, uint64_t bytes)
{
	correlation[side]++;
	ADD(cuda_api, .start = now[side], .end = now[side] + 5 * US, .thread = side * 2 + 1,
	    .correlation = correlation[side], .name = put_text("cudaMemcpyAsync_v3020"),
	    .callchain = WS_NO_U32);
	now[side] += 6 * US;
	gpu[side] = ws_max(gpu[side], now[side]);
	ADD(cuda_memcpy, .start = gpu[side], .end = gpu[side] + bytes / 20, .device = 0,
	    .context = 1, .stream = 7, .correlation = correlation[side], .process = side + 1,
	    .bytes = bytes, .kind = kind);
	gpu[side] += bytes / 20 + US;
}

static void put_range(uint32_t thread, uint64_t start, uint64_t end, const char *name,
		      uint32_t argb, uint32_t domain)
{
	ADD(nvtx, .start = start, .end = end, .thread = thread, .text = put_text(name),
	    .type = WS_NVTX_PUSHPOP, .color = argb, .domain = domain,
	    .flags = argb ? WS_NVTX_HAS_COLOR : 0);
}

static void put_step(uint32_t side, uint32_t number)
{
	static const char *const kernels[] = {"sm90_gemm_f16", "softmax_warp_forward",
					      "layer_norm_kernel", "elementwise_kernel"};
	uint64_t start = now[side], phase;
	uint32_t thread = side * 2 + 1;
	char name[32];

	put_copy(side, WS_COPY_HTOD, 400000);
	phase = now[side];
	for (uint32_t layer = 0; layer < 6; layer++) {
		uint64_t from = now[side];

		for (uint32_t i = 0; i < 4; i++)
			put_launch(side, kernels[i], layer == 3 && i == 3 ? 13 : 7,
				   (4 + random_number() % 12 + (i == 0) * 14) * US);
		snprintf(name, sizeof(name), "layer %u", layer);
		put_range(thread, from, now[side] - US, name, 0, 0);
	}
	put_range(thread, phase, now[side], "forward", 0xff4c72b0, 0);
	phase = now[side];
	for (uint32_t i = 0; i < 12; i++)
		put_launch(side, kernels[i % 4], 7, (8 + random_number() % 20) * US);
	put_launch(side, "ncclDevKernel_AllReduce_Sum_f16_RING_LL", 13, 90 * US);
	put_range(thread, phase, now[side], "backward", 0xffdd8452, 0);
	put_range(thread, phase + 20 * US, now[side] - 2 * US, "ncclAllReduce", 0, 1);
	put_copy(side, WS_COPY_DTOH, 4000);
	correlation[side]++;
	ADD(cuda_memset, .start = gpu[side], .end = gpu[side] + 3 * US, .device = 0, .context = 1,
	    .stream = 7, .correlation = correlation[side], .process = side + 1, .bytes = 65536);
	gpu[side] += 4 * US;
	correlation[side]++;
	ADD(cuda_api, .start = now[side], .end = gpu[side] + 2 * US, .thread = thread,
	    .correlation = correlation[side], .name = put_text("cudaStreamSynchronize_v3020"),
	    .callchain = WS_NO_U32);
	ADD(cuda_sync, .start = now[side] + US, .end = gpu[side] + US, .device = 0, .context = 1,
	    .stream = 7, .correlation = correlation[side], .process = side + 1, .type = 3,
	    .event = WS_NO_U32);
	now[side] = gpu[side] + 4 * US;
	snprintf(name, sizeof(name), "step %u", number);
	put_range(thread, start, now[side], name, 0, 0);
	ADD(cuda_memory, .start = start, .process = side + 1, .device = 0, .context = 1,
	    .bytes = 1 << 20, .kind = 2, .name = 0,
	    .in_use = UINT64_C(2000000000) + (number % 7) * UINT64_C(300000000));
	ADD(osrt, .start = start, .end = now[side] - 30 * US, .thread = side * 2 + 2,
	    .name = put_text("pthread_cond_wait"), .callchain = WS_NO_U32);
	ADD(osrt, .start = now[side] - 25 * US, .end = now[side] - 5 * US, .thread = side * 2 + 2,
	    .name = put_text("read"), .callchain = WS_NO_U32);
	now[side] += 10 * US;
}

/* Three functions, two stacks. */
static void put_code(void)
{
	static const char *const functions[] = {"main", "train", "forward", "matmul", "backward"};

	ADD(module, .id = 1, .kind = WS_MODULE_FILE, .path = put_text("/usr/bin/python3"));
	for (uint32_t i = 0; i < 5; i++) {
		ADD(frame, .id = i + 1, .kind = WS_FRAME_USER, .module = 1,
		    .address = 0x1000 + i * 64);
		ADD(symbol, .frame = i + 1, .depth = 0, .set = 1, .name = put_text(functions[i]),
		    .file = put_text("train.c"), .line = 10 * i + 5);
	}
	ADD(frame, .id = 6, .kind = WS_FRAME_USER, .module = 1, .address = 0x9000);
	ADD(stack, .id = 1, .parent = 0, .frame = 1);
	ADD(stack, .id = 2, .parent = 1, .frame = 2);
	ADD(stack, .id = 3, .parent = 2, .frame = 3);
	ADD(stack, .id = 4, .parent = 2, .frame = 5);
	ADD(perf_event, .id = 1, .name = put_text("cpu-clock"), .frequency = 1000);
}

static void put_machine(uint64_t end)
{
	uint64_t t = ZERO;

	for (uint32_t i = 0; t < end; i++) {
		uint32_t thread = 1 + i % 4;

		ADD(sched, .start = t, .end = t + 150 * US, .thread = thread, .cpu = i % 2,
		    .woken = WS_NO_TIME,
		    .after = i % 3 == 2 ? WS_AFTER_UNINTERRUPTIBLE
			     : i % 3	? WS_AFTER_SLEEPING
					: WS_AFTER_PREEMPTED);
		if (i % 8 == 2)
			ADD(blocked, .start = t + 300 * US, .end = t + 301 * US, .thread = thread,
			    .name = put_text("futex"));
		ADD(sample, .start = t + 60 * US, .thread = thread, .cpu = i % 2,
		    .state = WS_STATE_RUNNING, .weight = 1000000, .frame = i % 5 ? 4 : 6,
		    .callers = i % 3 ? 3 : 4, .event = 1, .flags = WS_SAMPLE_CLOCK);
		if (thread < 3)
			ADD(gil, .start = t, .end = t + 100 * US, .thread = thread,
			    .state = i % 4 ? WS_GIL_HOLDS : WS_GIL_WAITS);
		ADD(counter_value, .start = t, .counter = 1,
		    .value = 60 + (double)(random_number() % 4000) / 100);
		ADD(counter_value, .start = t, .counter = 2, .value = 300 + (double)(i % 400));
		t += 170 * US;
	}
	ADD(counter, .id = 1, .device = 0, .cpu = WS_NO_U32, .group = put_text("GPU metrics"),
	    .name = put_text("SM active"), .unit = put_text("%"));
	ADD(counter, .id = 2, .device = 0, .cpu = WS_NO_U32, .group = put_text("GPU metrics"),
	    .name = put_text("Power"), .unit = put_text("W"));
	ADD(track, .id = 1, .name = put_text("Data pipeline"));
	for (uint32_t i = 0; i < 20; i++)
		ADD(slice, .start = ZERO + i * 400 * US, .end = ZERO + i * 400 * US + 350 * US,
		    .track = 1, .name = put_text("batch"));
	ADD(flow, .start = ZERO + 500 * US, .end = ZERO + 1300 * US, .from_track = 1, .to_track = 1,
	    .name = put_text("next"));
	ADD(output, .start = ZERO + 300 * US, .stream = 1,
	    .bytes = put_text("epoch 1 loss 0.734\n"));
	ADD(output, .start = ZERO + 900 * US, .stream = 2,
	    .bytes = put_text("warning: <i>slow</i> \x1b[31mdisk\x1b[0m\n"));
	ADD(diagnostic, .start = ZERO + 100 * US, .severity = WS_WARNING,
	    .source = put_text("cuda"),
	    .text = put_text("CUDA_LAUNCH_BLOCKING is set: every launch waits."));
	ADD(loss, .thread = 1, .kind = put_text("nvtx"), .events = 12,
	    .reason = put_text("memory budget"));
}

/* Of the third process: one thread waits for what the other has, a lock and then the GIL, and is
 * woken by it. */
static void put_waits(void)
{
	for (uint32_t i = 0; i < 3; i++)
		ADD(thread, .id = 20 + i, .process = 3, .tid = 301 + i, .start = ZERO);
	ADD(osrt, .start = ZERO + 900 * US, .end = ZERO + 2000 * US, .thread = 20,
	    .name = put_text("write"), .callchain = WS_NO_U32);
	ADD(osrt, .start = ZERO + 1000 * US, .end = ZERO + 2010 * US, .thread = 21,
	    .name = put_text("pthread_mutex_lock"), .callchain = 3, .object = 0x1000,
	    .holder = 301);
	ADD(sched, .start = ZERO + 950 * US, .end = ZERO + 1000 * US, .thread = 21, .cpu = 2,
	    .woken = WS_NO_TIME, .after = WS_AFTER_SLEEPING);
	ADD(sched, .start = ZERO + 2005 * US, .end = ZERO + 2400 * US, .thread = 21, .cpu = 2,
	    .woken = ZERO + 1995 * US, .waker = 20, .after = WS_AFTER_PREEMPTED);
	ADD(gil, .start = ZERO + 3000 * US, .end = ZERO + 4000 * US, .thread = 20,
	    .state = WS_GIL_HOLDS);
	ADD(gil, .start = ZERO + 3200 * US, .end = ZERO + 4002 * US, .thread = 21,
	    .state = WS_GIL_WAITS);
	ADD(gil, .start = ZERO + 4001 * US, .end = ZERO + 4500 * US, .thread = 20,
	    .state = WS_GIL_WAITS);
}

/* What other tools' traces bring: calls of libraries, operators, calls of Python, collectives; and
 * rarer kinds of events. */
static void put_rarer(void)
{
	for (uint32_t i = 0; i < 6; i++) {
		uint64_t t = ZERO + i * 1200 * US;

		ADD(slice, .start = t, .end = t + 300 * US, .thread = 22,
		    .name = put_text("cublasGemmEx"), .category = put_text("CUBLAS_EVENTS"),
		    .args = put_text("{\"transA\":\"T\",\"m\":64,\"flops\":32768}"));
		ADD(slice, .start = t + 310 * US, .end = t + 500 * US, .thread = 22,
		    .name = put_text("cudnnConvolutionForward"),
		    .category = put_text("CUDNN_EVENTS"));
		ADD(slice, .start = t + 20 * US, .end = t + 600 * US, .thread = 22,
		    .name = put_text("request"), .category = put_text("app"));
		ADD(op, .start = t, .end = t + 900 * US, .thread = 22, .kind = WS_OP_PYTHON,
		    .name = put_text("train.py(12): step"));
		ADD(op, .start = t + 10 * US, .end = t + 700 * US, .thread = 22, .kind = WS_OP_CPU,
		    .name = put_text("aten::linear"), .shapes = put_text("[[64, 256]]"));
		ADD(op, .start = t + 20 * US, .end = t + 400 * US, .thread = 22, .kind = WS_OP_CPU,
		    .name = put_text("aten::addmm"));
		ADD(cuda_api, .start = t + 50 * US, .end = t + 60 * US, .thread = 22,
		    .correlation = 5000 + i, .name = put_text("cudaLaunchKernel_v7000"),
		    .callchain = WS_NO_U32);
		ADD(cuda_kernel, .start = t + 100 * US, .end = t + 350 * US, .device = 1,
		    .context = 1, .green_context = WS_NO_U32, .stream = 7, .correlation = 5000 + i,
		    .process = 3, .name = put_text("addmm_kernel"),
		    .demangled = put_text("addmm_kernel"));
		ADD(collective, .start = t + 400 * US, .end = t + 800 * US, .process = 3,
		    .correlation = WS_NO_U32, .name = put_text("broadcast"),
		    .label = put_text("broadcast"), .device = 1, .in_elements = 4096,
		    .out_elements = 4096, .dtype = put_text("Float"), .group_size = 2);
		ADD(cuda_overhead, .start = t + 50 * US, .end = t + 55 * US, .thread = 22,
		    .name = put_text("Command Buffer Full"));
		ADD(cuda_jit, .start = t + 700 * US, .end = t + 760 * US, .thread = 22,
		    .operation = 3);
		ADD(cuda_module, .start = t + 770 * US, .thread = 22, .operation = 1);
		ADD(cuda_um_gpu_fault, .start = t + 120 * US, .end = t + 130 * US, .process = 3,
		    .device = 1, .access = 2);
		ADD(python_sample, .start = t + 200 * US, .thread = 22, .stack = 2,
		    .weight = 1000000);
		ADD(ftrace, .start = t + 210 * US, .thread = 22, .cpu = 1,
		    .name = put_text("sched/sched_wakeup"));
	}
}

/* Names that try to be more than names. */
static void put_hostile(void)
{
	static const char *const names[] = {"<img src=x onerror=alert(1)>",
					    "\xe2\x80\xae"
					    "gnp.exe",
					    "line\nbreak\ttab",
					    "\xf0\x9f\x98\x80 emoji \xe4\xb8\xad\xe6\x96\x87",
					    "=HYPERLINK(\"http://x\")",
					    "broken \xff\xfe utf-8",
					    "\"quotes\" 'and' `ticks` ${x}",
					    ""};
	char *big = malloc(10001);

	memset(big, 'X', 10000);
	big[10000] = 0;
	for (uint32_t i = 0; i < 8; i++)
		put_range(5, ZERO + i * 900 * US, ZERO + i * 900 * US + 800 * US, names[i], 0, 0);
	put_range(5, ZERO + 8 * 900 * US, ZERO + 8 * 900 * US + 800 * US, big, 0, 0);
	ADD(nvtx, .start = ZERO + 400 * US, .end = WS_NO_TIME, .thread = 5,
	    .text = put_text("a mark"), .type = WS_NVTX_MARK);
	ADD(nvtx, .start = ZERO + 450 * US, .end = WS_NO_TIME, .thread = 5,
	    .text = put_text("left open"), .type = WS_NVTX_PUSHPOP, .flags = WS_NVTX_LEFT_OPEN);
	/* The same in whatever has a name. */
	ADD(thread_name, .thread = 5, .start = ZERO, .name = put_text(names[1]), .priority = 20);
	ADD(track, .id = 2, .name = put_text(big));
	ADD(slice, .start = ZERO, .end = ZERO + 900 * US, .track = 2, .name = put_text(names[0]),
	    .category = put_text(names[0]));
	ADD(counter, .id = 3, .device = 0, .cpu = WS_NO_U32, .group = put_text(names[0]),
	    .name = put_text(names[1]), .unit = put_text(names[3]));
	for (uint32_t i = 0; i < 4; i++)
		ADD(counter_value, .start = ZERO + i * 1000 * US, .counter = 3, .value = i);
	ADD(frame, .id = 7, .kind = WS_FRAME_USER, .module = 1, .address = 0xa000);
	ADD(symbol, .frame = 7, .depth = 0, .set = 1, .name = put_text(names[0]),
	    .file = put_text(names[1]), .line = 1);
	for (uint32_t i = 0; i < 8; i++)
		ADD(sample, .start = ZERO + i * 900 * US + 10 * US, .thread = 5, .cpu = 1,
		    .state = WS_STATE_RUNNING, .weight = 1000000, .frame = 7, .event = 1,
		    .flags = WS_SAMPLE_CLOCK);
	ADD(meta, .name = put_text(names[0]), .value = put_text(big));
	ADD(diagnostic, .start = ZERO + 200 * US, .severity = WS_WARNING,
	    .source = put_text(names[1]), .text = put_text(names[0]));
	ADD(loss, .thread = 5, .kind = put_text(names[0]), .events = 1,
	    .reason = put_text(names[1]));
	ADD(nvtx, .start = ZERO, .end = WS_NO_TIME, .thread = 5, .domain = 2,
	    .text = put_text(names[0]), .type = WS_NVTX_DOMAIN_CREATE);
	put_range(5, ZERO + 100 * US, ZERO + 200 * US, "in it", 0, 2);
	put_range(5, ZERO + 210 * US, ZERO + 300 * US, "in one without a name", 0, 7);
	free(big);
}

int main(int argc, char **argv)
{
	struct ws_writer_opts options = {.overwrite = true, .no_journal = true, .block_rows = 512};
	uint32_t steps = argc > 2 ? (uint32_t)atoi(argv[2]) : 12;
	struct ws_err err;

	w = argc > 1 ? ws_writer_create(argv[1], &options, &err) : NULL;
	if (!w) {
		fprintf(stderr, "make_report: %s\n", argc > 1 ? err.msg : "no file");
		return 1;
	}
	begin_report();
	for (uint32_t i = 0; i < steps; i++) {
		put_step(0, i);
		put_step(1, i);
		now[1] += 30 * US;
	}
	put_code();
	put_machine(ws_max(now[0], now[1]));
	put_waits();
	put_rarer();
	put_hostile();
	if (ws_writer_close(w, &err) < 0) {
		fprintf(stderr, "make_report: %s\n", err.msg);
		return 1;
	}
	return 0;
}
