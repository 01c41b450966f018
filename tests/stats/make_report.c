/*
 * make_report.c - write a report of known rows: make_report KIND FILE.
 *
 * basic    two processes, domains, push/pop and start/end ranges, marks, calls, everything the
 * exports have columns for empty    a collection in which nothing happened hostile  names with
 * quotes, markup, controls, broken UTF-8, 10 kB cuda     two processes, calls, kernels, copies,
 * memsets, graphs and unified memory, launched inside nested and overlapping ranges launches random
 * calls with kernels and copies, some lost, in random ranges that nest and overlap, on 3 threads of
 * 2 processes gpus     random work of two ranks on three GPUs, of which they share one, on several
 * streams, with steps and with communication many     200,000 ranges of 3,000 names on 5 threads,
 * in several blocks deep     2,500 ranges one inside the other, and on another thread as many that
 * overlap without nesting wild     3,000 rows in every table, all columns arbitrary: what only a
 * broken or malicious writer makes
 *
 * The session clock starts at 1,000,000,000,000 ns, so that a time that was not made relative is
 * seen at once.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/store.h"
#include "../random.h"

#define ZERO UINT64_C(1000000000000)

static struct ws_writer *w;

static uint32_t put_string(const char *text)
{
	return text ? ws_writer_string(w, text, strlen(text)) : 0;
}

#define ADD(table, ...) ws_writer_add(w, WS_TABLE_##table, &(struct ws_row_##table){__VA_ARGS__})

static void put_session(uint64_t length)
{
	ADD(collection, .start = ZERO, .end = WS_NO_TIME);
	if (length)
		ADD(collection, .start = ZERO,
		    .end = ZERO + length); /* as the recorder does when it ends */
	ADD(clock, .raw = ZERO - 500, .realtime = UINT64_C(1700000000000000000), .ticks = 1);
	ADD(clock, .raw = ZERO + 1000000, .realtime = UINT64_C(1700000000001000500),
	    .ticks = 3000000);
	ADD(meta, .name = put_string("host.name"), .value = put_string("testhost"));
	ADD(meta, .name = put_string("host.machine"), .value = put_string("x86_64"));
	ADD(meta, .name = put_string("cpu.count"), .value = put_string("8"));
	ADD(meta, .name = put_string("session.start_local"),
	    .value = put_string("2023-11-15T00:13:20+0200"));
	ADD(meta, .name = put_string("env.RANK"), .value = put_string("3"));
}

static void put_process(uint32_t id, uint32_t pid, uint32_t parent, int origin, uint64_t start,
			const char *name)
{
	char exe[64], cmdline[64];

	snprintf(exe, sizeof(exe), "/usr/bin/%s", name);
	snprintf(cmdline, sizeof(cmdline), "%s --run 'all of it'", name);
	ADD(process, .id = id, .pid = pid, .parent = parent, .ppid = parent ? 100 : 1,
	    .start = ZERO + start, .origin = (uint8_t)origin, .exe = put_string(exe),
	    .cmdline = put_string(cmdline), .name = put_string(name));
}

static void put_thread(uint32_t id, uint32_t in, uint32_t tid, const char *name, int priority)
{
	ADD(thread, .id = id, .process = in, .tid = tid, .start = ZERO);
	if (name)
		ADD(thread_name, .thread = id, .start = ZERO + id, .name = put_string(name),
		    .priority = priority);
}

static void put_range(uint32_t id, uint32_t domain, const char *text, uint64_t start, uint64_t end)
{
	ADD(nvtx, .start = ZERO + start, .end = ZERO + end, .thread = id, .text = put_string(text),
	    .domain = domain, .type = WS_NVTX_PUSHPOP);
}

static void put_call(uint32_t id, const char *name, uint64_t start, uint64_t end, int64_t result)
{
	ADD(osrt, .start = ZERO + start, .end = end ? ZERO + end : WS_NO_TIME, .thread = id,
	    .name = put_string(name), .result = result, .error = result < 0 ? 11 : 0,
	    .nesting = start % 2 ? 1 : 0, .object = 5, .path = put_string("/tmp/file"));
}

static void put_payload(uint64_t at, int type, uint64_t bits)
{
	ADD(nvtx, .start = ZERO + at, .end = WS_NO_TIME, .thread = 1, .text = put_string("payload"),
	    .type = WS_NVTX_MARK, .payload = bits, .payload_type = (uint8_t)type);
}

static uint64_t bits_of(const void *v, size_t size)
{
	uint64_t bits = 0;

	memcpy(&bits, v, size);
	return bits;
}

static void put_payloads(void)
{
	double d = 2.5;
	float f = -0.25f;

	put_payload(9000, WS_NVTX_PAYLOAD_U64, UINT64_MAX);
	put_payload(9001, WS_NVTX_PAYLOAD_I64, (uint64_t)-7);
	put_payload(9002, WS_NVTX_PAYLOAD_F64, bits_of(&d, sizeof(d)));
	put_payload(9003, WS_NVTX_PAYLOAD_U32, UINT32_MAX);
	put_payload(9004, WS_NVTX_PAYLOAD_I32, (uint32_t)-9);
	put_payload(9005, WS_NVTX_PAYLOAD_F32, bits_of(&f, sizeof(f)));
	ADD(nvtx, .start = ZERO + 9006, .end = ZERO + 9007, .thread = 1,
	    .text = put_string("extended"), .type = WS_NVTX_PUSHPOP,
	    .payload_type = WS_NVTX_PAYLOAD_EXT, .binary = ws_writer_string(w, "\0\1\xff\"", 4));
	ADD(nvtx_schema, .process = 1, .domain = 1, .id = 17, .name = put_string("point"),
	    .type = 1, .entries = 1, .size = 8, .align = 4);
	ADD(nvtx_schema_entry, .process = 1, .domain = 1, .schema = 17, .index = 0, .type = 7,
	    .name = put_string("x"), .description = put_string("across"), .offset = 4);
	ADD(nvtx_resource, .process = 1, .start = ZERO + 5, .domain = 1, .type = 3,
	    .identifier = UINT64_MAX, .device = 1, .context = 2, .stream = WS_NO_U32,
	    .name = put_string("stream of work"));
}

static void put_ranges(void)
{
	/* thread 1: outer 1000-5000 holds two inner, the second of which holds leaf; another outer
	 */
	put_range(1, 0, "leaf", 3200, 3300);
	put_range(1, 0, "inner", 1500, 2500);
	put_range(1, 0, "inner", 3000, 4000);
	put_range(1, 0, "outer", 1000, 5000);
	put_range(1, 0, "outer", 6000, 6500);
	/* thread 2, same moments; a domain that overlaps without nesting; the same domain name in
	 * the other process */
	put_range(2, 0, "inner", 1500, 1600);
	put_range(2, 1, "overlap", 2000, 3000);
	put_range(2, 0, "plain", 2500, 3500);
	put_range(3, 2, "overlap", 100, 101);
	ADD(nvtx, .start = ZERO + 10, .end = WS_NO_TIME, .thread = 1, .text = put_string("lib"),
	    .domain = 1, .type = WS_NVTX_DOMAIN_CREATE);
	ADD(nvtx, .start = ZERO + 20, .end = WS_NO_TIME, .thread = 3, .text = put_string("lib"),
	    .domain = 2, .type = WS_NVTX_DOMAIN_CREATE);
	ADD(nvtx, .start = ZERO + 30, .end = WS_NO_TIME, .thread = 1, .text = put_string("loading"),
	    .domain = 1, .category = 4, .type = WS_NVTX_CATEGORY);
	ADD(nvtx, .start = ZERO + 40, .end = WS_NO_TIME, .thread = 1, .text = put_string("hello"),
	    .category = 4, .color = 0xff112233, .flags = WS_NVTX_HAS_COLOR, .type = WS_NVTX_MARK);
	ADD(nvtx, .start = ZERO + 7000, .end = ZERO + 7800, .thread = 1, .end_thread = 2,
	    .text = put_string("request"), .range_id = 77, .type = WS_NVTX_STARTEND);
	ADD(nvtx, .start = ZERO + 7100, .end = ZERO + 7200, .thread = 2,
	    .text = put_string("request"), .range_id = 78, .domain = 1, .flags = WS_NVTX_REGISTERED,
	    .type = WS_NVTX_STARTEND);
	ADD(nvtx, .start = ZERO + 7300, .end = WS_NO_TIME, .thread = 2,
	    .text = put_string("never ends"), .flags = WS_NVTX_LEFT_OPEN, .type = WS_NVTX_PUSHPOP);
	ADD(nvtx, .start = ZERO + 7400, .end = ZERO + 7500, .thread = 2,
	    .text = put_string("in the open"), .type = WS_NVTX_PUSHPOP);
}

static void make_basic(void)
{
	put_session(10000000);
	put_process(1, 100, 0, WS_ORIGIN_TARGET, 0, "sh");
	put_process(2, 200, 1, WS_ORIGIN_FORK, 50, "sh");
	put_process(3, 100, 0, WS_ORIGIN_EXEC, 60, "app");
	ADD(process_end, .process = 2, .end = ZERO + 9999, .reason = WS_END_EXIT, .status = -9);
	ADD(process_end, .process = 1, .end = ZERO + 60, .reason = WS_END_EXEC,
	    .status = WS_NO_STATUS);
	put_thread(1, 3, 100, "kernel", 10);
	put_thread(2, 3, 101, "worker", 20);
	put_thread(3, 2, 200, NULL, 0);
	ADD(thread_name, .thread = 1, .start = ZERO + 5, .name = put_string("main loop"),
	    .priority = 30);
	ADD(thread_name, .thread = 1, .start = ZERO + 4, .name = put_string("older"),
	    .priority = 30);
	put_ranges();
	put_payloads();
	put_call(1, "read", 2000, 2400, 1);
	put_call(1, "read", 3001, 3101, -1);
	put_call(1, "read", 4000, 4050, 5);
	put_call(2, "pthread_mutex_lock", 1000, 9000, 0);
	put_call(2, "poll", 9500, 0, 0);
	ADD(output, .start = ZERO + 3, .stream = 1, .bytes = put_string("one\n"));
	ADD(output, .start = ZERO + 4, .stream = 2, .bytes = put_string("oops\n"));
	ADD(output, .start = ZERO + 5, .stream = 1, .bytes = put_string("two\n"));
	ADD(loss, .thread = 2, .kind = put_string("nvtx"), .events = 12,
	    .reason = put_string("memory budget"));
	ADD(loss, .thread = 0, .kind = put_string("osrt"), .events = 1,
	    .reason = put_string("full disk"));
	ADD(diagnostic, .start = ZERO + 7, .severity = WS_WARNING, .source = put_string("nvtx"),
	    .process = 3, .text = put_string("two libraries embed NVTX"));
	ADD(diagnostic, .start = ZERO + 8, .severity = WS_INFO, .source = put_string("recorder"),
	    .text = put_string("all is well"));
}

/* ---- CUDA ---- */

static void put_api_call(uint32_t id, const char *name, uint32_t correlation, uint64_t start,
			 uint64_t end, int32_t result)
{
	ADD(cuda_api, .start = ZERO + start, .end = end ? ZERO + end : WS_NO_TIME,
	    .class = !strncmp(name, "cuda", 4) ? 0 : 1, .thread = id, .correlation = correlation,
	    .name = put_string(name), .result = result, .callchain = WS_NO_U32);
}

static void put_kernel(uint32_t in, uint32_t correlation, const char *name, const char *base,
		       uint32_t grid, uint64_t start, uint64_t end)
{
	ADD(cuda_kernel, .start = ZERO + start, .end = end ? ZERO + end : WS_NO_TIME,
	    .device = in - 1, .context = 1, .green_context = WS_NO_U32, .stream = 7,
	    .correlation = correlation, .process = in, .demangled = put_string(name),
	    .name = put_string(base), .mangled = grid == 4 ? put_string("_Z4gemmIfEvPT_") : 0,
	    .launch_type = 1, .cache_config = 0, .registers = 32, .grid_x = grid, .grid_y = 2,
	    .grid_z = 1, .block_x = 128, .block_y = 1, .block_z = 1, .static_shared = 1024,
	    .dynamic_shared = 49152, .grid_id = correlation, .executed_shared = 102400,
	    .graph_node = WS_NO_U64, .shared_limit = 0, .graph = WS_NO_U32,
	    .cluster_policy = WS_NO_U32, .max_cluster = WS_NO_U32, .active_clusters = WS_NO_U32,
	    .shared_percent = WS_NO_U32, .occupancy = 0.5, .waves = 1.25, .blocks_per_sm = 8,
	    .limiter = WS_OCCUPANCY_WARPS, .flags = end ? 0 : WS_CUDA_NO_TIMES);
}

static void put_copy(uint32_t correlation, int kind, uint64_t bytes, uint64_t address,
		     uint64_t start, uint64_t end)
{
	ADD(cuda_memcpy, .start = ZERO + start, .end = ZERO + end, .context = 1, .green_context = 3,
	    .stream = 7, .correlation = correlation, .process = 1, .bytes = bytes,
	    .kind = (uint8_t)kind, .src_kind = 0, .dst_kind = 2, .src_device = WS_NO_U32,
	    .src_context = WS_NO_U32, .dst_device = WS_NO_U32, .dst_context = WS_NO_U32,
	    .migration_cause = kind > 10 ? 2 : WS_NO_U32, .graph_node = WS_NO_U64,
	    .address = address, .copies = 1, .graph = WS_NO_U32);
}

static void put_device(uint32_t in, uint32_t id, const char *uuid)
{
	ADD(cuda_device, .process = in, .start = ZERO + 1, .id = id, .name = put_string("Some GPU"),
	    .bus = put_string("0000:01:00.0"), .uuid = put_string(uuid),
	    .chip = put_string("GX100"), .visible = 1, .memory_bytes = 80000000000, .sms = 132,
	    .warp = 32, .major = 9, .minor = 0);
}

/* Calls of thread 1: in "step" (1000-9000) are "forward" (2000-4000) and a start/end range
 * (3000-6000) that overlaps it. */
static void cuda_calls(void)
{
	put_api_call(1, "cudaMalloc_v3020", 1, 500, 900, 2);
	put_api_call(1, "cudaLaunchKernel_v7000", 2, 2100, 2200, 0);
	put_api_call(1, "cuLaunchKernel", 2, 2120, 2180,
		     0); /* nested, with the id of the outer call */
	put_api_call(1, "cudaLaunchKernelExC_v11060", 3, 3100, 3200, 0);
	put_api_call(1, "cudaMemcpyAsync_v3020", 4, 5000, 5100, 0);
	put_api_call(1, "cudaMemsetAsync_v3020", 5, 7000, 7050, 0);
	put_api_call(1, "cudaGraphLaunch_v10000", 6, 8000, 8100, 0);
	put_api_call(1, "cudaLaunchKernel_v7000", 7, 8900, 9100,
		     0); /* returns after the end of "step" */
	put_api_call(1, "cudaLaunchKernel_v7000", 8, 9500, 9600, 0); /* in no range */
	put_api_call(1, "cudaDeviceSynchronize_v3020", 9, 9700, 0, 0);
	put_api_call(2, "cudaLaunchKernel_v7000", 2, 2150, 2250,
		     0); /* the other process uses the same ids */
	put_api_call(2, "cudaLaunchKernel_v7000", 3, 2350, 2450, 0);
	put_api_call(2, "cudaLaunchKernel_v7000", WS_NO_U32, 2500, 2600, 1);
	put_range(1, 0, "step", 1000, 9000);
	put_range(1, 0, "forward", 2000, 4000);
	put_range(1, 1, "overlap", 2050, 2150);
	put_range(2, 0, "step", 2000, 2300);
	put_range(2, 0, "step", 2320, 3000);
	ADD(nvtx, .start = ZERO + 10, .end = WS_NO_TIME, .thread = 1, .text = put_string("lib"),
	    .domain = 1, .type = WS_NVTX_DOMAIN_CREATE);
	ADD(nvtx, .start = ZERO + 3000, .end = ZERO + 6000, .thread = 1,
	    .text = put_string("request"), .range_id = 7, .type = WS_NVTX_STARTEND);
	ADD(nvtx, .start = ZERO + 3000, .end = ZERO + 6000, .thread = 1, .end_thread = 2,
	    .text = put_string("handed over"), .range_id = 8, .type = WS_NVTX_STARTEND);
}

static void cuda_work(void)
{
	put_kernel(1, 2, "void gemm<float>(float *)", "gemm", 4, 2150,
		   4150); /* began before its call returned */
	put_kernel(1, 3, "void gemm<float>(float *)", "gemm", 8, 4200, 5200);
	put_kernel(1, 7, "void relu(float *, int)", "relu", 1, 12000, 12400);
	put_kernel(1, 8, "void relu(float *, int)", "relu", 1, 12500, 12900);
	put_kernel(1, 99, "void relu(float *, int)", "relu", 1, 13000,
		   13100); /* its call was not recorded */
	put_kernel(1, 8, "void relu(float *, int)", "relu", 1, 14000, 0); /* no times */
	put_kernel(2, 2, "void gemm<double>(double *)", "gemm", 4, 3000, 3300);
	put_kernel(2, 3, "void gemm<double>(double *)", "gemm", 4, 3400, 3500);
	put_copy(4, WS_COPY_HTOD, 2500000, WS_NO_U64, 6000, 106000);
	put_copy(4, WS_COPY_HTOD, 500, WS_NO_U64, 106000, 106100);
	put_copy(WS_NO_U32, WS_COPY_UM_HTOD, 65536, 0x7f0000010000, 20000, 21000);
	put_copy(WS_NO_U32, WS_COPY_UM_HTOD, 4096, 0x7f0000010000, 22000, 22500);
	put_copy(WS_NO_U32, WS_COPY_UM_DTOH, 8192, 0x7f0000020000, 23000, 24000);
	ADD(cuda_memset, .start = ZERO + 7100, .end = ZERO + 7200, .context = 1,
	    .green_context = WS_NO_U32, .stream = 7, .correlation = 5, .process = 1, .value = 0,
	    .bytes = 4096, .graph_node = WS_NO_U64, .mem_kind = 2, .graph = WS_NO_U32);
	ADD(cuda_graph_trace, .start = ZERO + 9000, .end = ZERO + 11000, .context = 1,
	    .green_context = WS_NO_U32, .stream = 7, .correlation = 6, .process = 1, .graph = 12,
	    .exec = WS_NO_U32, .end_device = 0, .end_context = 1);
	for (int i = 0; i < 3; i++)
		ADD(cuda_um_cpu_fault, .start = ZERO + 25000, .process = 1,
		    .address = 0x7f0000020000,
		    .instruction = put_string(i ? "fill_rows" : "0x401234"));
	ADD(cuda_um_gpu_fault, .start = ZERO + 20000, .end = ZERO + 20500, .process = 1,
	    .address = 0x7f0000010000, .faults = 5, .access = 1);
}

static void put_cuda(void)
{
	put_session(200000);
	put_process(1, 600, 0, WS_ORIGIN_TARGET, 0, "train");
	put_process(2, 700, 1, WS_ORIGIN_FORK, 50, "train");
	put_thread(1, 1, 600, "main", 20);
	put_thread(2, 2, 700, NULL, 0);
	cuda_calls();
	cuda_work();
	put_device(1, 0, "GPU-a");
	put_device(1, 1, "GPU-b");
	put_device(2, 0, "GPU-a");
	put_device(2, 1, "GPU-b");
	ADD(cuda_sync, .start = ZERO + 9700, .end = ZERO + 9800, .context = 1,
	    .green_context = WS_NO_U32, .stream = WS_NO_U32, .correlation = 9, .process = 1,
	    .type = 4, .event = WS_NO_U32, .event_sync = WS_NO_U64);
	ADD(cuda_event, .start = ZERO + 9650, .context = 1, .green_context = WS_NO_U32, .stream = 7,
	    .correlation = WS_NO_U32, .process = 1, .event = 4, .time = WS_NO_TIME,
	    .event_sync = 1);
	ADD(cuda_stream, .process = 1, .start = ZERO + 2, .id = 7, .context = 1, .priority = -1,
	    .flag = 2, .correlation = WS_NO_U32);
	ADD(cuda_context, .process = 1, .start = ZERO + 2, .id = 1, .device = 0, .null_stream = 7,
	    .parent = WS_NO_U32);
}

static void make_hostile(void)
{
	static const char *const names[] = {
		"comma, here",
		"quote \" here",
		"line\nbreak",
		"carriage\rreturn",
		"tab\there",
		"<script>alert('x')</script>",
		"a&b",
		"pipe|pipe",
		"back\\slash",
		"\x1b[31mred",
		"\xe2\x80\xae"
		"desrever",
		"broken \xff\xc3 utf-8",
		"=cmd()",
		"*bold* _it_ `c`",
		"\xe6\xbc\xa2\xe5\xad\x97",
		"",
		" padded ",
		"%s%n",
		"'; DROP TABLE StringIds; --",
	};
	char long_name[10001];

	put_session(1000000);
	put_process(1, 300, 0, WS_ORIGIN_TARGET, 0, "bad\n\"name\"");
	put_thread(1, 1, 300, "\x1b]0;pwned\x07", 30);
	for (uint32_t i = 0; i < WS_COUNT(names); i++)
		put_range(1, 0, names[i], i * 1000, i * 1000 + 100 - i);
	memset(long_name, 'L', sizeof(long_name) - 1);
	long_name[sizeof(long_name) - 1] = 0;
	put_range(1, 0, long_name, 90000, 90010);
	ADD(nvtx, .start = ZERO + 91000, .end = ZERO + 91005, .thread = 1,
	    .text = ws_writer_string(w, "nul\0inside", 10), .type = WS_NVTX_PUSHPOP);
	ADD(nvtx, .start = ZERO + 92000, .end = ZERO + 92002, .thread = 99, .text = 4000000,
	    .domain = 9, .type = WS_NVTX_PUSHPOP);
	ADD(nvtx, .start = ZERO + 93000, .end = ZERO + 92999, .thread = 1,
	    .text = put_string("backwards"), .type = WS_NVTX_PUSHPOP);
	ADD(meta, .name = put_string("target.command_line"),
	    .value = put_string("sh -c 'echo \"\x1b[2J\"\n'"));
}

static void make_many(void)
{
	put_session(0);
	put_process(1, 400, 0, WS_ORIGIN_TARGET, 0, "many");
	for (uint32_t t = 1; t <= 5; t++)
		put_thread(t, 1, 400 + t, NULL, 0);
	for (uint64_t i = 0; i < 200000; i++) {
		char name[32];

		snprintf(name, sizeof(name), "name %llu", (unsigned long long)(i * 7919 % 3000));
		put_range((uint32_t)(i % 5) + 1, 0, name, i / 5 * 100, i / 5 * 100 + i * i % 97);
	}
}

static void make_deep(void)
{
	enum { LEVELS = 2500 };

	put_session(0);
	put_process(1, 500, 0, WS_ORIGIN_TARGET, 0, "deep");
	put_thread(1, 1, 501, NULL, 0);
	put_thread(2, 1, 502, NULL, 0);
	for (uint64_t i = 0; i < LEVELS; i++) {
		put_range(1, 0, "level", i, 10000 - i);
		put_range(2, (uint32_t)i, "stair", i, 5000 + i);
	}
	/* inside the whole staircase; its parent is the last step */
	put_range(2, 0, "landing", 3000, 4000);
}

static uint64_t next_random(void)
{
	static uint64_t state = RANDOM_SEED;

	return random_next(&state);
}

/* Extremes, small numbers (which hit real ids and enumerations) and anything else. */
static uint64_t wild_value(void)
{
	static const uint64_t extremes[] = {
		0,	    1,	       UINT64_MAX, INT64_MAX, (uint64_t)INT64_MIN,
		UINT32_MAX, INT32_MAX, ZERO,	   ZERO - 1,  ZERO + 1000000};
	uint64_t r = next_random() >> 20;

	switch (r % 4) {
	case 0:
		return extremes[r / 4 % WS_COUNT(extremes)];
	case 1:
		return r / 4 % 80;
	case 2:
		return ZERO + r / 4 % 1000000;
	default:
		return next_random() >> (r / 4 % 64);
	}
}

/* Ranges that nest within [from, to): push and pop. */
static void put_nested(uint32_t id, int depth, uint64_t from, uint64_t to)
{
	static const char *const names[] = {"a", "b", "c", "d", "e"};

	while (from + 4 < to) {
		uint64_t start = from + (next_random() >> 40) % (to - from) / 4,
			 end = start + 2 + (next_random() >> 40) % (to - start);

		if (end > to)
			return;
		put_range(id, (next_random() >> 33) % 4 == 0, names[(next_random() >> 33) % 5],
			  start, end);
		if (depth)
			put_nested(id, depth - 1, start, end);
		from = end;
	}
}

static void put_launches(void)
{
	static const char *const kernels[] = {"k<int>()", "k<float>()", "other()"},
				 *const bases[] = {"k", "k", "other"};
	static const char *const functions[] = {"cudaLaunchKernel_v7000", "cudaMemcpyAsync_v3020"};

	put_session(1000000);
	for (uint32_t t = 1; t <= 3; t++) {
		uint32_t in = t < 3 ? 1 : 2;
		uint64_t now = 100;

		if (t != 2)
			put_process(in, 800 + in, 0, WS_ORIGIN_TARGET, 0, "launches");
		put_thread(t, in, 1000 + t, NULL, 0);
		put_nested(t, 6, 0, 200000);
		for (int i = 0; i < 60; i++) {
			uint64_t start = (next_random() >> 33) % 190000;

			ADD(nvtx, .start = ZERO + start,
			    .end = ZERO + start + (next_random() >> 33) % 9000, .thread = t,
			    .text = put_string(i % 2 ? "x" : "y"), .range_id = i,
			    .type = WS_NVTX_STARTEND);
		}
		for (uint32_t i = 0; i < 1500; i++) {
			uint32_t id = (t == 2) * 100000 + i * (t == 3 ? 7 : 1);
			uint64_t took = 1 + (next_random() >> 33) % 90,
				 start = now + took / 2 + (next_random() >> 33) % 3000;
			unsigned k = (next_random() >> 33) % 3;

			if (i % 50)
				put_api_call(t, functions[k == 2], id, now, now + took, 0);
			if (k == 2)
				ADD(cuda_memcpy, .start = ZERO + start, .end = ZERO + start + 77,
				    .correlation = id, .process = in, .bytes = 10, .kind = 1);
			else
				put_kernel(in, id, kernels[(i + k) % 3], bases[(i + k) % 3], 1,
					   start, start + 10 + i % 13);
			now += took + (next_random() >> 33) % 50;
		}
	}
}

/* Work that overlaps on streams; some of it without a call, some launched late. */
static void put_gpus(void)
{
	static const char *const kernels[] = {"gemm", "relu",
					      "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "softmax",
					      "void ncclKernel_x()"};
	static const char *const uuids[] = {"GPU-a", "GPU-b", "GPU-c"};
	uint32_t id = 1;

	put_session(0);
	for (uint32_t p = 1; p <= 2; p++) {
		put_process(p, 900 + p, 0, WS_ORIGIN_TARGET, 0, "train");
		put_thread(p, p, 900 + p, NULL, 0);
		ADD(rank, .process = p, .rank = 4 + p, .world = 8);
		put_device(p, 0, uuids[p - 1]);
		put_device(p, 1, uuids[2]);
		for (uint64_t i = 0; i < 20; i++) {
			char name[32];

			snprintf(name, sizeof(name), p == 1 ? "step %llu" : "step",
				 (unsigned long long)i);
			put_range(p, 0, name, 1000 + i * 5000,
				  1000 + i * 5000 + 4000 + (next_random() >> 33) % 1000);
			put_range(p, 0, "forward", 1100 + i * 5000, 1100 + i * 5000 + 1500);
			put_range(p, 0, "backward", 2700 + i * 5000, 2700 + i * 5000 + 1500);
		}
		for (uint64_t now = 500; now < 101000; id++) {
			unsigned k = (next_random() >> 33) % 7, on = (next_random() >> 33) % 4 == 0;
			uint64_t start = now + 10 +
					 (next_random() >> 33) % 60 *
						 ((next_random() >> 33) % 10 == 0 ? 1000 : 1);
			uint64_t end = start + (next_random() >> 33) % 400;

			if (k && id % 17)
				put_api_call(p, "cudaLaunchKernel_v7000", id, now, now + 9, 0);
			if (k < 5)
				ADD(cuda_kernel, .start = ZERO + start, .end = ZERO + end,
				    .device = on, .context = 1, .green_context = WS_NO_U32,
				    .stream = 7 + k % 3, .correlation = id, .process = p,
				    .demangled = put_string(kernels[k]),
				    .name = put_string(kernels[k]), .mangled = put_string("k"),
				    .graph_node = WS_NO_U64, .graph = WS_NO_U32);
			else
				ADD(cuda_memcpy, .start = ZERO + start, .end = ZERO + end,
				    .device = on, .context = 1, .green_context = WS_NO_U32,
				    .stream = 20, .correlation = id, .process = p, .bytes = 10,
				    .kind = 1, .graph = WS_NO_U32);
			now += 10 + (next_random() >> 33) % 200;
		}
	}
	ADD(collective, .start = ZERO + 900, .end = ZERO + 950, .process = 1, .correlation = 5,
	    .name = put_string("allreduce"));
}

static void put_wild(void)
{
	static const uint8_t types[] = {WS_NVTX_PUSHPOP, WS_NVTX_STARTEND, WS_NVTX_DOMAIN_CREATE,
					WS_NVTX_MARK};

	for (int i = 0; i < 60; i++) {
		char name[16];

		snprintf(name, sizeof(name), "wild %d\xff", i);
		put_string(name);
	}
	for (int t = 0; t < WS_TABLE_COUNT; t++) {
		for (int i = 0; i < 3000; i++) {
			uint64_t row[WS_MAX_COLUMNS] = {
				0}; /* large enough for any row struct, and aligned */

			for (uint32_t c = 0; c < ws_tables[t].column_count; c++)
				ws_row_set(t, row, c, wild_value());
			if (t == WS_TABLE_nvtx && i % 8)
				((struct ws_row_nvtx *)row)->type = types[i % WS_COUNT(types)];
			ws_writer_add(w, t, row);
		}
	}
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*fill)(void);
	} kinds[] = {{"basic", make_basic},	 {"hostile", make_hostile}, {"cuda", put_cuda},
		     {"launches", put_launches}, {"gpus", put_gpus},	    {"many", make_many},
		     {"deep", make_deep},	 {"wild", put_wild},	    {"empty", NULL}};
	struct ws_writer_opts options = {.overwrite = true, .block_rows = 16384};
	struct ws_err err;
	size_t k = 0;

	while (argc == 3 && k < WS_COUNT(kinds) && strcmp(kinds[k].name, argv[1]))
		k++;
	if (argc != 3 || k == WS_COUNT(kinds))
		return 2;
	w = ws_writer_create(argv[2], &options, &err);
	if (!w) {
		ws_say("%s", err.msg);
		return 1;
	}
	if (kinds[k].fill)
		kinds[k].fill();
	else
		put_session(5);
	if (ws_writer_close(w, &err) < 0) {
		ws_say("%s", err.msg);
		return 1;
	}
	return 0;
}
