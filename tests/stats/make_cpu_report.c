/*
 * make_cpu_report.c - write a report of known CPU rows: make_cpu_report KIND FILE [COUNT].
 *
 * small   two processes with samples of every kind of frame, inlining, recursion, scheduling, waits
 * for all reasons, GPU work cycles  samples of a counter of cycles, and of a clock for a thread of
 * Python calls   calls that wait, without scheduling random  random stacks, samples, scheduling,
 * calls and GPU work on 6 threads of 2 processes: for recomputing every figure elsewhere big COUNT
 * samples and COUNT spans of scheduling, for timing hostile loops of callers, ids that are not
 * there, rows that overlap, names with markup and controls
 *
 * The session clock starts at 1,000,000,000,000 ns, so that a time that was not made relative is
 * seen at once.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/store.h"
#include "base/choose.h"
#include "../random.h"

#define ZERO UINT64_C(1000000000000)

static struct ws_writer *w;

static uint32_t put_string(const char *text)
{
	return text ? ws_writer_string(w, text, strlen(text)) : 0;
}

#define ADD(table, ...) ws_writer_add(w, WS_TABLE_##table, &(struct ws_row_##table){__VA_ARGS__})

static uint64_t next_random(void)
{
	static uint64_t state = RANDOM_SEED;

	return random_next(&state);
}

static uint64_t draw_below(uint64_t n)
{
	return (next_random() >> 20) % n;
}

/* ---- who ---- */

static void put_session(uint64_t length)
{
	ADD(collection, .start = ZERO, .end = ZERO + length);
	ADD(clock, .raw = ZERO, .realtime = UINT64_C(1700000000000000000), .ticks = 1);
}

static void put_process(uint32_t id, uint32_t pid, const char *name)
{
	ADD(process, .id = id, .pid = pid, .ppid = 1, .start = ZERO, .origin = WS_ORIGIN_TARGET,
	    .exe = put_string(name), .cmdline = put_string(name), .name = put_string(name));
}

static void put_thread(uint32_t id, uint32_t in, uint32_t tid, const char *name)
{
	ADD(thread, .id = id, .process = in, .tid = tid, .start = ZERO);
	if (name)
		ADD(thread_name, .thread = id, .start = ZERO, .name = put_string(name),
		    .priority = 20);
}

/* ---- code ---- */

static uint32_t modules, frames, stacks;

static uint32_t put_module(const char *path, int kind)
{
	ADD(module, .id = ++modules, .kind = (uint8_t)kind, .path = put_string(path),
	    .build_id = kind == WS_MODULE_FILE ? put_string(modules % 2 ? "ab01" : "ab02") : 0,
	    .size = 1000);
	return modules;
}

static uint32_t put_frame(uint32_t in, uint64_t address, int kind)
{
	ADD(frame, .id = ++frames, .kind = (uint8_t)kind,
	    .method = kind == WS_FRAME_KERNEL ? WS_UNWIND_KERNEL : WS_UNWIND_FP, .module = in,
	    .address = address);
	return frames;
}

static uint32_t put_python_frame(const char *name, const char *file, uint32_t line)
{
	ADD(frame, .id = ++frames, .kind = WS_FRAME_PYTHON, .address = line,
	    .name = put_string(name), .file = put_string(file));
	return frames;
}

static void put_symbol(uint32_t of, uint32_t depth, uint32_t set, const char *name,
		       const char *file, uint32_t line)
{
	ADD(symbol, .frame = of, .depth = depth, .set = set, .name = put_string(name),
	    .file = put_string(file), .line = line, .address = 0x1000);
}

static uint32_t put_named_frame(uint32_t in, uint64_t address, const char *name, const char *file,
				uint32_t line)
{
	uint32_t f = put_frame(in, address, WS_FRAME_USER);

	put_symbol(f, 0, 1, name, file, line);
	return f;
}

static uint32_t push_frame(uint32_t caller, uint32_t f)
{
	ADD(stack, .id = ++stacks, .parent = caller, .frame = f);
	return stacks;
}

static void put_sample(uint32_t of, uint64_t at, uint32_t leaf, uint32_t callers, uint64_t weight)
{
	ADD(sample, .start = ZERO + at, .thread = of, .cpu = of % 4, .state = WS_STATE_RUNNING,
	    .weight = weight, .frame = leaf, .callers = callers, .event = 1, .gil = WS_GIL_NONE,
	    .flags = WS_SAMPLE_CLOCK);
}

/* ---- scheduling and calls ---- */

static uint32_t wakers; /* of the random report: thread i is woken by thread i % wakers + 1 */

static void put_run(uint32_t of, uint64_t from, uint64_t to, uint32_t cpu, uint64_t woken,
		    int after)
{
	ADD(sched, .start = ZERO + from, .end = to ? ZERO + to : WS_NO_TIME, .thread = of,
	    .cpu = cpu, .woken = woken ? ZERO + woken : WS_NO_TIME,
	    .waker = woken && wakers ? of % wakers + 1 : 0, .after = (uint8_t)after);
}

static void put_call(uint32_t of, const char *name, uint64_t from, uint64_t to, uint64_t object,
		     const char *path, uint32_t holder, uint32_t chain)
{
	ADD(osrt, .start = ZERO + from, .end = to ? ZERO + to : WS_NO_TIME, .thread = of,
	    .name = put_string(name), .object = object, .path = put_string(path), .holder = holder,
	    .callchain = chain ? chain : WS_NO_U32);
}

static void put_api_call(uint32_t of, const char *name, uint32_t correlation, uint64_t from,
			 uint64_t to, uint32_t chain)
{
	ADD(cuda_api, .start = ZERO + from, .end = ZERO + to, .thread = of,
	    .correlation = correlation, .name = put_string(name),
	    .callchain = chain ? chain : WS_NO_U32);
}

static void put_kernel(uint32_t in, uint32_t device, uint32_t stream, uint32_t correlation,
		       const char *name, uint64_t from, uint64_t to)
{
	ADD(cuda_kernel, .start = ZERO + from, .end = ZERO + to, .device = device, .context = 1,
	    .green_context = WS_NO_U32, .stream = stream, .correlation = correlation, .process = in,
	    .demangled = put_string(name), .name = put_string(name), .grid_x = 1, .block_x = 1);
}

static void put_range(uint32_t of, const char *text, uint64_t from, uint64_t to)
{
	ADD(nvtx, .start = ZERO + from, .end = ZERO + to, .thread = of, .text = put_string(text),
	    .type = WS_NVTX_PUSHPOP);
}

/* ---- small ---- */

struct code {
	uint32_t main, work, leaf, again, inlined, stripped, unknown, kernel, py_step, py_main, jit;
};

static struct code make_code(void)
{
	uint32_t app = put_module("/usr/bin/app", WS_MODULE_FILE),
		 lib = put_module("/usr/lib/libstripped.so.1", WS_MODULE_FILE);
	uint32_t k = put_module("[kernel.kallsyms]", WS_MODULE_KERNEL),
		 jit = put_module("[jit]", WS_MODULE_JIT);
	struct code code = {
		.main = put_named_frame(app, 0x1000, "main", "/src/app.c", 10),
		.work = put_named_frame(app, 0x2000, "work<int>(int)", "/src/work.h", 20),
		.again = put_named_frame(app, 0x2010, "work<int>(int)", "/src/work.h",
					 21), /* another address of the same function */
		.leaf = put_named_frame(app, 0x3000, "leaf", "/src/app.c", 30),
		.inlined = put_frame(app, 0x3100, WS_FRAME_USER),
		.stripped = put_frame(lib, 0x500, WS_FRAME_USER),
		.unknown = put_frame(0, 0x7fff1234, WS_FRAME_USER),
		.kernel = put_frame(k, 0xffffffff81000000, WS_FRAME_KERNEL),
		.py_main = put_python_frame("<module>", "/src/train.py", 100),
		.py_step = put_python_frame("step", "/src/train.py", 42),
		.jit = put_frame(jit, 0x9000, WS_FRAME_JIT),
	};

	put_symbol(code.inlined, 0, 1, "old name", NULL,
		   1); /* of an earlier run of the symboliser: does not count */
	put_symbol(code.inlined, 1, 2, "outer", "/src/app.c",
		   50); /* out of order, as a file may have them */
	put_symbol(code.inlined, 0, 2, "tiny", "/src/tiny.h", 5);
	put_symbol(code.kernel, 0, 1, "do_syscall_64", NULL, 0);
	put_symbol(code.jit, 0, 1, "jitted$1", NULL, 0);
	return code;
}

static void small_samples(const struct code *code)
{
	uint32_t main = push_frame(0, code->main), work = push_frame(main, code->work),
		 again = push_frame(work, code->again);
	uint32_t script = push_frame(push_frame(main, code->py_main), code->py_step);

	ADD(perf_event, .id = 1, .type = 1, .config = 0, .frequency = 1000,
	    .name = put_string("cpu-clock"));
	ADD(perf_event, .id = 2, .type = 0, .config = 3, .period = 10000,
	    .name = put_string("cache-misses"));
	put_sample(1, 1000, code->main, 0, 100);
	put_sample(1, 1100, code->leaf, work, 200);
	put_sample(1, 1200, code->leaf, again, 300); /* work is twice in the stack */
	put_sample(1, 1300, code->inlined, main, 400);
	put_sample(1, 1400, code->kernel, work, 500);
	put_sample(2, 1500, code->stripped, main, 600);
	put_sample(2, 1600, code->unknown, 0, 700);
	put_sample(2, 1700, code->leaf, script, 800);
	put_sample(3, 1800, code->py_step, 0, 900);
	put_sample(3, 1900, code->jit, main, 1000);
	put_sample(3, 2000, 0, 0, 50); /* nothing but the moment */
	ADD(sample, .start = ZERO + 2100, .thread = 1, .cpu = WS_NO_U32, .weight = 12345,
	    .frame = code->leaf, .event = 2, .flags = WS_SAMPLE_BROKEN);
	ADD(python_sample, .start = ZERO + 1150, .thread = 1, .stack = script, .gil = WS_GIL_HOLDS,
	    .weight = 10000);
	ADD(python_sample, .start = ZERO + 1250, .thread = 2, .stack = 0, .gil = WS_GIL_WAITS,
	    .weight = 10000);
}

/* Thread 1 runs and waits for each reason in turn; thread 2 is preempted and moved; thread 3 is of
 * another process. */
static void small_sched(const struct code *code)
{
	uint32_t chain = push_frame(push_frame(0, code->main), code->work);

	put_run(1, 1000, 2000, 0, 0, WS_AFTER_SLEEPING);
	put_call(1, "pthread_mutex_lock", 1900, 3050, 0xbeef, NULL, 101,
		 chain); /* waits 2000-2800, queues till 3000 */
	put_run(1, 3000, 4000, 1, 2800, WS_AFTER_SLEEPING);
	put_call(1, "read", 3900, 5100, 3, "/data/file", 0, 0);
	put_run(1, 5000, 6000, 1, 0, WS_AFTER_PREEMPTED);
	put_run(1, 6500, 7000, 0, 0, WS_AFTER_SLEEPING);
	put_call(1, "pthread_cond_timedwait", 6900, 8100, 0xc0, NULL, 0, 0);
	ADD(gil, .start = ZERO + 6850, .end = ZERO + 8120, .thread = 1, .state = WS_GIL_WAITS);
	ADD(gil, .start = ZERO + 8120, .end = ZERO + 9000, .thread = 1, .state = WS_GIL_HOLDS);
	put_run(1, 8000, 9000, 0, 0, WS_AFTER_SLEEPING);
	put_api_call(1, "cudaStreamSynchronize_v3020", 7, 8500, 11000,
		     0); /* polls 8500-9000 and 10500-11000, waits between */
	put_call(1, "poll", 8800, 10600, 0, NULL, 0, 0);
	put_run(1, 10500, 12000, 0, 0,
		WS_AFTER_UNINTERRUPTIBLE); /* in no call: a page fault till 12500 */
	put_run(1, 12500, 13000, 2, 12400, WS_AFTER_SLEEPING);
	put_call(1, "nanosleep", 12900, 15010, 0, NULL, 0, 0);
	put_run(1, 15000, 16000, 2, 0, WS_AFTER_DEAD);
	put_run(2, 1500, 2500, 3, 0, WS_AFTER_SLEEPING); /* in no call */
	put_run(2, 4000, 4500, 3, 4000, WS_AFTER_SLEEPING);
	put_call(2, "sem_wait", 4400, 0, 0x5e, NULL, 0,
		 0); /* never returns: waits till the end of its process */
	put_run(3, 2000, 0, 0, 0, WS_AFTER_UNKNOWN); /* its switch-out was not seen */
}

static void small_gpu(void)
{
	put_api_call(1, "cudaLaunchKernel_v7000", 1, 1100, 1150, 0);
	put_api_call(1, "cudaLaunchKernel_v7000", 2, 1600, 1650, 0);
	put_api_call(1, "cudaMemcpyAsync_v3020", 3, 3100, 3150, 0);
	put_range(1, "step", 1050, 4000);
	put_range(1, "forward", 1060, 1200);
	put_kernel(1, 0, 7, 1, "gemm", 1200, 1800);
	put_kernel(1, 0, 7, 2, "relu", 2200, 2400); /* gaps 1800-2200 and 2400-5000 */
	put_kernel(1, 0, 13, 99, "lost", 5000, 5500);
	ADD(cuda_memcpy, .start = ZERO + 5400, .end = ZERO + 6000, .context = 1, .stream = 7,
	    .correlation = 3, .process = 1, .bytes = 10, .kind = WS_COPY_HTOD,
	    .green_context = WS_NO_U32);
}

/* Events counted on a core, and a counter of another kind. */
static void small_counters(void)
{
	ADD(counter, .id = 1, .device = WS_NO_U32, .cpu = 0, .name = put_string("context-switches"),
	    .unit = put_string("1/s"));
	ADD(counter, .id = 2, .device = WS_NO_U32, .cpu = 3, .name = put_string("context-switches"),
	    .unit = put_string("1/s"));
	ADD(counter, .id = 3, .device = 0, .cpu = WS_NO_U32, .name = put_string("clock"),
	    .unit = put_string("1/s"));
	ADD(counter_value, .start = ZERO + 1000, .counter = 1, .value = 1e9);
	ADD(counter_value, .start = ZERO + 1000, .counter = 3, .value = 5);
	ADD(counter_value, .start = ZERO + 1500, .counter = 2, .value = 4e6);
	ADD(counter_value, .start = ZERO + 3000, .counter = 1, .value = 7e6);
	ADD(counter_value, .start = ZERO + 4000, .counter = 2, .value = 0);
	ADD(counter_value, .start = ZERO + 5000, .counter = 1, .value = 0);
}

static void make_small(void)
{
	struct code code;

	put_session(20000);
	put_process(1, 100, "app");
	put_process(2, 200, "loader");
	put_thread(1, 1, 100, "main");
	put_thread(2, 1, 101, "worker");
	put_thread(3, 2, 200, NULL);
	ADD(process_end, .process = 1, .end = ZERO + 18000, .reason = WS_END_EXIT);
	ADD(process_end, .process = 2, .end = ZERO + 19000, .reason = WS_END_EXIT);
	code = make_code();
	small_samples(&code);
	small_sched(&code);
	small_gpu();
	small_counters();
}

static void make_cycles(void)
{
	struct code code;

	put_session(5000000);
	put_process(1, 100, "app");
	put_thread(1, 1, 100, "main");
	put_thread(2, 1, 101, "python");
	code = make_code();
	ADD(perf_event, .id = 1, .type = 0, .config = 0, .frequency = 1000,
	    .name = put_string("cpu-cycles"));
	ADD(perf_event, .id = 2, .type = 0, .config = 3, .frequency = 100,
	    .name = put_string("cache-misses"));
	ADD(perf_event, .id = 7, .type = 1, .config = 1, .frequency = 500,
	    .name = put_string("task-clock (Python)"));
	for (uint64_t i = 0; i < 4; i++)
		ADD(sample, .start = ZERO + 1000 * i, .thread = 1, .cpu = 0, .weight = 3000000,
		    .frame = code.leaf, .event = 1, .time = 1000000);
	for (uint64_t i = 0; i < 3; i++)
		ADD(sample, .start = ZERO + 1500 * i, .thread = 2, .cpu = WS_NO_U32,
		    .weight = 2000000, .frame = code.py_step, .event = 7,
		    .flags = WS_SAMPLE_CLOCK | WS_SAMPLE_SIGNAL);
	ADD(sample, .start = ZERO + 5, .thread = 1, .cpu = 0, .weight = 99, .frame = code.main,
	    .event = 2);
}

/* Cycles alone, as other tools' reports have them: the time that they took is not known. */
static void make_untimed(void)
{
	struct code lines;

	put_session(5000000);
	put_process(1, 100, "app");
	put_thread(1, 1, 100, "main");
	lines = make_code();
	ADD(perf_event, .id = 1, .type = 0, .config = 0, .frequency = 1000,
	    .name = put_string("cpu-cycles"));
	for (uint64_t i = 0; i < 10; i++)
		ADD(sample, .start = ZERO + 1000 * i, .thread = 1, .cpu = 0,
		    .weight = i < 8 ? UINT64_C(1) << i : 700, .event = 1,
		    .frame = i < 8 ? lines.leaf : lines.main);
}

static void make_calls(void)
{
	put_session(20000);
	put_process(1, 100, "app");
	put_thread(1, 1, 100, "main");
	put_thread(2, 1, 101, "worker");
	put_call(1, "read", 1000, 2000, 3, "/data/file", 0, 0);
	put_call(1, "poll", 3000, 6000, 0, NULL, 0, 0);
	put_call(1, "recv", 3500, 4000, 0, NULL, 0, 0); /* inside: the outermost counts */
	put_api_call(1, "cudaDeviceSynchronize_v3020", 1, 7000, 8000, 0);
	put_api_call(1, "cudaLaunchKernel_v7000", 2, 8100, 8200, 0); /* does not wait */
	put_call(2, "pthread_cond_wait", 500, 0, 0xc0, NULL, 0, 0);
	put_kernel(1, 0, 7, 2, "k", 1500, 3500);
	put_kernel(1, 0, 7, 2, "k", 7500, 7600);
}

/* ---- random ---- */

static void random_code(uint32_t *chain, uint32_t count)
{
	char name[32];
	uint32_t in[3];

	for (int i = 0; i < 3; i++) {
		snprintf(name, sizeof(name), "/lib/lib%d.so", i);
		in[i] = put_module(name, WS_MODULE_FILE);
	}
	for (uint32_t i = 0; i < 60; i++) {
		uint32_t f = put_frame(i % 10 == 9 ? 0 : in[i % 3], i * 16, WS_FRAME_USER);

		snprintf(name, sizeof(name), "f%u", i % 17);
		if (i % 5 != 4)
			put_symbol(f, 0, 1, name, "a.c", i);
		if (i % 7 == 3)
			put_symbol(f, 1, 1, "g", "b.c", i);
	}
	for (uint32_t i = 0; i < 10; i++) {
		snprintf(name, sizeof(name), "py%u", i % 4);
		put_python_frame(name, i % 2 ? "x.py" : "y.py", i);
	}
	for (uint32_t i = 0; i < count; i++)
		chain[i] = push_frame(
			i && draw_below(12)
				? chain[draw_below(ws_min(i, 40)) + (i < 40 ? 0 : i - 40)]
				: 0,
			(uint32_t)draw_below(70) + 1);
}

static void random_thread(uint32_t of, uint32_t in, const uint32_t *chain, uint32_t chains)
{
	static const char *const functions[] = {
		"read", "pthread_mutex_lock", "pthread_cond_wait", "usleep",
		"poll", "sem_wait",	      "frobnicate"};
	static const int ends[] = {WS_AFTER_PREEMPTED, WS_AFTER_SLEEPING, WS_AFTER_UNINTERRUPTIBLE,
				   WS_AFTER_BLOCKED};
	uint64_t now = 100 + draw_below(1000), busy = now;

	for (int i = 0; i < 400; i++) {
		uint64_t run = 1 + draw_below(5000), off = 1 + draw_below(8000), from = now,
			 to = now + run, back = to + off;
		int after = ends[draw_below(4)];

		for (uint64_t at = from + draw_below(2000); at < to; at += 1 + draw_below(2000))
			put_sample(of, at, (uint32_t)draw_below(70) + 1,
				   draw_below(20) ? chain[draw_below(chains)] : 0,
				   1 + draw_below(3000));
		if (after != WS_AFTER_PREEMPTED && run > 10 && draw_below(5)) {
			unsigned k = (unsigned)draw_below(9);
			uint64_t start = to - 1 - draw_below(run / 2), end = back + draw_below(3);

			if (start >= busy && k < 7)
				put_call(of, functions[k], start, end, 16 + draw_below(3),
					 k == 0 && draw_below(2) ? "/a/path" : NULL,
					 (uint32_t)draw_below(3),
					 draw_below(2) ? chain[draw_below(chains)] : 0);
			else if (start >= busy)
				put_api_call(of, k == 7 ? "cudaStreamSynchronize" : "cudaMalloc",
					     100000 + (uint32_t)i, start, end, 0);
			busy = start >= busy ? end : busy;
			if (draw_below(5) == 0)
				ADD(gil, .start = ZERO + to - 3, .end = ZERO + back, .thread = of,
				    .state = draw_below(3) ? WS_GIL_WAITS : WS_GIL_HOLDS);
		}
		if (draw_below(3) == 0) { /* found in a system call: inside the wait, or before it
					was over and after */
			static const char *const found[] = {"futex", "epoll_pwait", "nanosleep",
							    "read", "syscall 999"};
			uint64_t at = to + draw_below(off), spent = draw_below(60);
			unsigned k = (unsigned)draw_below(5);

			ADD(blocked, .start = ZERO + at, .end = ZERO + at + spent, .thread = of,
			    .name = put_string(found[k]),
			    .path = k == 3 ? put_string("/a/file") : 0);
		}
		put_run(of, from, to, (uint32_t)draw_below(4),
			i && draw_below(3) ? from - draw_below(20) : 0, after);
		if (draw_below(4) == 0 && to > from + 200) {
			uint32_t id = of * 1000 + (uint32_t)i;
			uint64_t start = from + 50 + draw_below(2000);

			if (from + 20 > busy)
				put_api_call(of, "cudaLaunchKernel", id, from + 10, from + 20, 0);
			put_kernel(in, in - 1, 7 + of % 2, id, draw_below(2) ? "k1" : "k2", start,
				   start + 1 + draw_below(4000));
		}
		now = back;
	}
	for (uint64_t at = 0; at < now; at += 50000)
		put_range(of, at % 100000 ? "odd" : "even", at + draw_below(100),
			  at + 40000 + draw_below(10000));
}

static void random_rows(void)
{
	enum { CHAINS = 3000 };
	uint32_t chain[CHAINS];

	wakers = 6;
	put_session(4000000);
	put_process(1, 100, "app");
	put_process(2, 200, "app");
	ADD(perf_event, .id = 1, .type = 1, .frequency = 1000, .name = put_string("cpu-clock"));
	random_code(chain, CHAINS);
	for (uint32_t t = 1; t <= 6; t++) {
		put_thread(t, t <= 3 ? 1 : 2, 1000 + t, t % 2 ? "odd" : "even");
		random_thread(t, t <= 3 ? 1 : 2, chain, CHAINS);
	}
}

/* ---- big ---- */

static void make_big(uint64_t count)
{
	enum { THREADS = 16, CHAINS = 20000 };
	static uint32_t chain[CHAINS];
	uint64_t now[THREADS];

	put_session(count * 1000);
	put_process(1, 100, "app");
	ADD(perf_event, .id = 1, .type = 1, .frequency = 1000, .name = put_string("cpu-clock"));
	random_code(chain, CHAINS);
	for (uint32_t t = 0; t < THREADS; t++) {
		put_thread(t + 1, 1, 100 + t, "worker");
		now[t] = 1000 + t;
	}
	for (uint64_t i = 0; i < count; i++) {
		uint32_t t = (uint32_t)(i / 64 % THREADS);
		uint64_t run = 500 + draw_below(20000);

		put_sample(t + 1, now[t] + 100, (uint32_t)draw_below(70) + 1,
			   chain[draw_below(CHAINS)], 1000000);
		put_run(t + 1, now[t], now[t] + run, (uint32_t)draw_below(8),
			i % 3 ? 0 : now[t] - 10, i % 2 ? WS_AFTER_SLEEPING : WS_AFTER_PREEMPTED);
		if (i % 8 == 1)
			put_call(t + 1, "read", now[t] + run - 5, now[t] + run + 110, 3,
				 "/data/file", 0, 0);
		now[t] += run + 100 + draw_below(100);
		if (i % 65536 == 0)
			ws_writer_commit(w);
	}
}

/* ---- hostile ---- */

static void make_hostile(void)
{
	uint32_t m = put_module("evil\n\"module\";", WS_MODULE_FILE), f, k;

	put_session(100000);
	put_process(1, 100, "a;b \"c\"\n");
	put_thread(1, 1, 100, "t;\x1b[31m\xff");
	f = put_named_frame(m, 1, "semi;colon \"quoted\"\nline\xff", "f;ile", 1);
	put_symbol(99999, 0, 1, "of no frame", NULL, 0);
	ADD(stack, .id = 1, .parent = 2, .frame = f);
	ADD(stack, .id = 2, .parent = 3, .frame = f);
	ADD(stack, .id = 3, .parent = 1,
	    .frame = 4000000); /* a loop, and a frame that is not there */
	ADD(stack, .id = 4, .parent = 4, .frame = f);
	ADD(stack, .id = 5, .parent = 900, .frame = f);
	ADD(stack, .id = UINT32_MAX, .parent = 1, .frame = f);
	k = 5;
	for (uint32_t i = 6; i < 10000; i++) /* deep */
		ADD(stack, .id = i, .parent = k, .frame = f), k = i;
	for (uint32_t i = 0; i < 8; i++)
		put_sample(1 + i % 3, 100 + i, i % 2 ? f : 77777, i, 1);
	put_sample(1, 200, f, k, 1);
	put_sample(1, 201, UINT32_MAX, UINT32_MAX, UINT64_MAX);
	put_run(1, 100, 5000, 0, 0, 77);
	put_run(1, 200, 300, 1u << 31, 0, WS_AFTER_SLEEPING);
	put_run(1, 250, 9000, 2, 1, WS_AFTER_SLEEPING);
	put_run(1, 20000, 10000, 2, 1, WS_AFTER_SLEEPING); /* backwards */
	put_call(1, "read", 8000, 7000, 0, NULL, 4000000, UINT32_MAX - 1);
	put_call(1, "write;\n", 9500, 0, 0, "p;\na\"th", 4000000, 900000);
}

static uint64_t count;

static void big_rows(void)
{
	make_big(count);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*fill)(void);
	} kinds[] = {{"small", make_small},    {"cycles", make_cycles}, {"untimed", make_untimed},
		     {"calls", make_calls},    {"random", random_rows}, {"big", big_rows},
		     {"hostile", make_hostile}};
	struct ws_writer_opts options = {.overwrite = true};
	struct ws_err err;
	size_t k = 0;

	while (argc >= 3 && k < WS_COUNT(kinds) && strcmp(kinds[k].name, argv[1]))
		k++;
	if (argc < 3 || k == WS_COUNT(kinds))
		return 2;
	count = argc > 3 ? strtoull(argv[3], NULL, 10) : 1000000;
	options.block_rows = k < 4 ? 4096 : 0; /* several blocks */
	w = ws_writer_create(argv[2], &options, &err);
	if (!w) {
		ws_say("%s", err.msg);
		return 1;
	}
	kinds[k].fill();
	if (ws_writer_close(w, &err) < 0) {
		ws_say("%s", err.msg);
		return 1;
	}
	return 0;
}
