/*
 * test_rules.c - rules on reports of made-up programs with one fault each, of kinds that traces of
 * other tools cannot say and that no machine without GPUs can record.
 */
#include "made_up_program.h"

static void step_with_registers(struct program *program, int number)
{
	(void)number;
	add_kernel(program, 0, "crowded", 4 * MS,
		   (struct ws_row_cuda_kernel){.occupancy = 0.125,
					       .waves = 10,
					       .registers = 200,
					       .limiter = WS_OCCUPANCY_REGISTERS});
	add_kernel(program, 0, "other", MS / 2, full);
}

static void step_with_tail(struct program *program, int number)
{
	(void)number;
	add_kernel(program, 0, "lonely", 4 * MS,
		   (struct ws_row_cuda_kernel){.occupancy = 1,
					       .waves = 1.01,
					       .registers = 32,
					       .limiter = WS_OCCUPANCY_WARPS});
	add_kernel(program, 0, "other", MS / 2, full);
}

static void step_with_compiling(struct program *program, int number)
{
	uint64_t start = program->now;

	(void)number;
	add_call(program, "cuModuleLoadData", 3 * MS);
	ROW(program, cuda_jit, .start = start + MS, .end = start + 2 * MS, .thread = 1,
	    .correlation = program->correlation, .entry = 1, .operation = 3);
	add_kernel(program, 0, "work", MS, full);
}

static void step_on_two_gpus(struct program *program, int number)
{
	(void)number;
	for (int i = 0; i < 100; i++) {
		program->now += 20 * US;
		add_kernel(program, (uint32_t)i % 2, "work", 20 * US, full);
	}
}

/* The second GPU computes longer, the first waits for it in the collective. */
static void step_with_late_rank(struct program *program, int number)
{
	(void)number;
	add_kernel(program, 0, "work", 2 * MS, full);
	add_kernel(program, 1, "work", 4 * MS, full);
	add_kernel(program, 0, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 2 * MS + 100 * US, full);
	add_kernel(program, 1, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 100 * US, full);
}

static void step_with_small_collectives(struct program *program, int number)
{
	(void)number;
	add_kernel(program, 0, "work", MS, full);
	for (int i = 0; i < 40; i++)
		add_kernel(program, 0, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 20 * US, full);
}

/* The same with what NCCL says of each: `bytes`. */
static void add_collective(struct program *program, uint64_t bytes, uint64_t ns)
{
	add_kernel(program, 0, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", ns, full);
	ROW(program, collective, .start = program->gpu_end[0] - ns, .end = program->gpu_end[0],
	    .process = 1, .correlation = program->correlation,
	    .name = make_string(program, "AllReduce"), .bytes = bytes, .group_size = 2);
}

static void step_with_small_messages(struct program *program, int number)
{
	(void)number;
	add_kernel(program, 0, "work", MS, full);
	for (int i = 0; i < 40; i++)
		add_collective(program, 4096, 20 * US);
}

static void step_with_large_messages(struct program *program, int number)
{
	(void)number;
	add_kernel(program, 0, "work", MS, full);
	for (int i = 0; i < 40; i++)
		add_collective(program, 8 << 20, 50 * US);
}

static void step_with_queries(struct program *program, int number)
{
	(void)number;
	add_kernel(program, 0, "work", MS, full);
	for (int i = 0; i < 400; i++)
		add_call(program, "cudaStreamQuery_v3020", 2 * US);
}

static void test_registers_that_limit_occupancy(void **state)
{
	(void)state;
	check_first(step_with_registers, "low-occupancy", "crowded");
	check_first(step_with_registers, "low-occupancy", "200 registers");
}

static void test_the_last_wave(void **state)
{
	(void)state;
	check_first(step_with_tail, "tail-waves", "lonely");
}

static void test_compiling_in_each_step(void **state)
{
	(void)state;
	check_first(step_with_compiling, "compilation", "while steps run");
}

/* The module of the first step is one of nvcc -G. */
static void step_with_debug_code(struct program *program, int number)
{
	if (!number)
		ROW(program, cuda_module, .start = program->now, .thread = 1, .module = 1,
		    .operation = 1, .for_debugger = 1);
	add_kernel(program, 0, "slowly", 4 * MS, full);
}

static void step_with_release_code(struct program *program, int number)
{
	if (!number)
		ROW(program, cuda_module, .start = program->now, .thread = 1, .module = 1,
		    .operation = 1);
	add_kernel(program, 0, "slowly", 4 * MS, full);
}

static void test_gpu_code_for_a_debugger(void **state)
{
	struct analysed analysed = analyse_program(step_with_release_code);

	(void)state;
	assert_int_equal(find_level(&analysed, "debug-build", ""), -1);
	forget_program(&analysed);
	check_first(step_with_debug_code, "debug-build", "most of it slowly");
}

static void test_one_thread_for_two_gpus(void **state)
{
	(void)state;
	check_first(step_on_two_gpus, "one-feeder", "feeds 2 GPUs");
}

static void test_the_rank_that_comes_last(void **state)
{
	(void)state;
	check_first(step_with_late_rank, "late-rank", "GPU 1 comes last");
}

static void test_many_small_collectives(void **state)
{
	(void)state;
	check_first(step_with_small_collectives, "small-collectives", "collectives a step");
	check_first(step_with_small_messages, "small-collectives", "20.0 us and 4.0 KiB");
	check_first(step_with_large_messages, "exposed-communication",
		    "320.0 MiB a step in 40 operations");
}

static void test_queries_in_a_loop(void **state)
{
	(void)state;
	check_first(step_with_queries, "busy-waiting", "whether work is done");
}

static void step_with_transposing(struct program *program, int number)
{
	(void)number;
	add_kernel(program, 0, "work", 4 * MS, full);
	add_kernel(program, 0,
		   "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<"
		   "at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)>>",
		   3 * MS, full);
}

static void step_with_a_cast(struct program *program, int number)
{
	(void)number;
	add_kernel(program, 0, "work", 4 * MS, full);
	add_kernel(program, 0, "at::native::bfloat16_copy_kernel_cuda", MS / 2, full);
}

static void test_kernels_that_only_copy(void **state)
{
	struct analysed analysed;

	(void)state;
	check_first(step_with_transposing, "data-movement", "For 43 % of the time");
	analysed = analyse_program(step_with_a_cast);
	assert_int_equal(find_level(&analysed, "data-movement", ""), -1);
	forget_program(&analysed);
}

static void step_of_odd_sizes(struct program *program, int number)
{
	(void)number;
	add_kernel(program, 0, "void cutlass::Kernel2<cutlass_75_s1688gemm_bf16_nn_align1>(int)",
		   2 * MS, full);
	add_kernel(program, 0, "cutlass_80_s16816gemm_bf16_nn_align16", MS, full);
	add_kernel(program, 0, "cutlass_80_simt_sgemm_128x256_8x4_nt_align1", MS, full);
}

static void test_products_of_odd_sizes(void **state)
{
	(void)state;
	check_first(step_of_odd_sizes, "unaligned-products", "for 50 % of the time");
}

static void add_memset(struct program *program, uint64_t ns)
{
	add_call(program, "cudaMemsetAsync_v3020", 3 * US);
	ROW(program, cuda_memset, .start = ws_max(program->gpu_end[0], program->now),
	    .end = ws_max(program->gpu_end[0], program->now) + ns, .stream = 7, .process = 1,
	    .correlation = program->correlation, .bytes = 1 << 20);
	program->gpu_end[0] = ws_max(program->gpu_end[0], program->now) + ns;
}

static void step_with_memsets(struct program *program, int number)
{
	(void)number;
	add_memset(program, 3 * MS);
	add_kernel(program, 0, "work", MS, full);
}

static void test_memory_that_is_set(void **state)
{
	(void)state;
	check_first(step_with_memsets, "copy-overlap", "sets memory (memset) for 7");
}

static void step_in_double(struct program *program, int number)
{
	(void)number;
	add_kernel(program, 0, "integrate(double*, int)", 2 * MS, full);
	add_kernel(program, 0, "normal_kernel(at::TensorBase const&, double, double)", 2 * MS,
		   full);
}

static void test_double_precision(void **state)
{
	struct analysed analysed = analyse_program(step_in_double);

	(void)state;
	assert_int_equal(find_level(&analysed, "double-precision", "for 50 % of the time"),
			 WS_LEVEL_NOTE);
	forget_program(&analysed);
}

static void step_with_questions(struct program *program, int number)
{
	(void)number;
	for (int i = 0; i < 4; i++) {
		add_call(program, "cudaGetDeviceProperties_v2_v12000", 500 * US);
		add_kernel(program, 0, "work", 200 * US, full);
	}
}

/* Only the first call takes long: it starts CUDA. */
static void step_with_a_question(struct program *program, int number)
{
	add_call(program, "cudaGetDevice_v3020", number ? US : 50 * MS);
	add_call(program, "cudaGetDevice_v3020", US);
	add_kernel(program, 0, "work", MS, full);
}

static void test_questions_in_a_loop(void **state)
{
	struct analysed analysed;

	(void)state;
	check_first(step_with_questions, "setup-calls", "cudaGetDeviceProperties_v2");
	analysed = analyse_program(step_with_a_question);
	assert_int_equal(find_level(&analysed, "setup-calls", ""), -1);
	forget_program(&analysed);
}

static void step_on_full_streams(struct program *program, int number)
{
	struct ws_row_cuda_kernel kernel = full;

	(void)number;
	for (uint32_t stream = 13; stream < 17; stream++) {
		kernel.stream = stream;
		program->gpu_end[0] = 0;
		add_kernel(program, 0, "work", 4 * MS, kernel);
	}
}

static void test_streams_that_gain_nothing(void **state)
{
	struct analysed analysed = analyse_program(step_on_full_streams);

	(void)state;
	assert_int_equal(find_level(&analysed, "serial-streams", "4 streams run side by side, 4."),
			 WS_LEVEL_OK);
	forget_program(&analysed);
	analysed = analyse_program(step_with_tail);
	assert_int_equal(find_level(&analysed, "serial-streams", ""), -1);
	forget_program(&analysed);
}

static void step_that_grows(struct program *program, int number)
{
	for (int i = 0; i < 4 + number; i++)
		add_kernel(program, 0, "work", MS / 4, full);
}

static void step_on_more_data(struct program *program, int number)
{
	add_kernel(program, 0, "work", MS + (uint64_t)number * MS / 5, full);
}

/* One step in the middle takes long. */
static void step_that_is_slow_once(struct program *program, int number)
{
	for (int i = 0; i < 4 + 30 * (number == 6); i++)
		add_kernel(program, 0, "work", MS / 4, full);
}

static void test_steps_that_grow(void **state)
{
	struct analysed analysed;

	(void)state;
	check_first(step_that_grows, "growing-steps", "operations on the GPU a step at first");
	analysed = analyse_program(step_on_more_data);
	assert_int_equal(find_level(&analysed, "growing-steps", ""), WS_LEVEL_NOTE);
	forget_program(&analysed);
	analysed = analyse_program(step_that_is_slow_once);
	assert_int_equal(find_level(&analysed, "growing-steps", ""), -1);
	forget_program(&analysed);
}

static void step_of_one_kernel(struct program *program, int number)
{
	(void)number;
	add_kernel(program, 0, "own_kernel", 4 * MS, full);
}

static void step_with_few_threads(struct program *program, int number)
{
	struct ws_row_cuda_kernel kernel = full;

	(void)number;
	kernel.block_x = 40;
	add_kernel(program, 0, "sum_row", 4 * MS, kernel);
}

static void test_warps_of_few_threads(void **state)
{
	struct analysed analysed;

	(void)state;
	check_first(step_with_few_threads, "partial-warps", "blocks of 40 threads: 38 % of the");
	analysed = analyse_program(step_of_one_kernel);
	assert_int_equal(find_level(&analysed, "partial-warps", ""), -1);
	forget_program(&analysed);
}

/* The function whose code the next program runs in its steps, called by main; and its file. */
static struct {
	const char *name, *file;
	uint8_t kind;
} sampled_code;

static void describe_code(struct program *program)
{
	uint32_t name = make_string(program, sampled_code.name);

	ROW(program, module, .id = 1, .kind = WS_MODULE_PYTHON,
	    .path = make_string(program, "/home/user/train.py"));
	ROW(program, frame, .id = 1, .kind = WS_FRAME_PYTHON, .module = 1, .address = 7,
	    .name = make_string(program, "main"),
	    .file = make_string(program, "/home/user/train.py"));
	ROW(program, module, .id = 2, .kind = sampled_code.kind,
	    .path = make_string(program, sampled_code.file));
	ROW(program, frame, .id = 2, .module = 2, .address = 4096, .name = name,
	    .kind = sampled_code.kind == WS_MODULE_PYTHON ? WS_FRAME_PYTHON : WS_FRAME_USER,
	    .file = make_string(program, sampled_code.file));
	ROW(program, symbol, .frame = 2, .set = 1, .name = name);
	ROW(program, stack, .id = 1, .frame = 1);
}

/* 3 ms of code, then a kernel of 1 ms. */
static void step_with_code(struct program *program, int number)
{
	if (!number)
		describe_code(program);
	for (int i = 0; i < 30; i++) {
		ROW(program, sample, .start = program->now, .thread = 1, .weight = 100 * US,
		    .frame = 2, .callers = 1, .flags = WS_SAMPLE_CLOCK, .time = 100 * US);
		program->now += 100 * US;
	}
	add_kernel(program, 0, "work", MS, full);
}

static void sample_code(const char *name, const char *file, uint8_t kind)
{
	sampled_code.name = name;
	sampled_code.file = file;
	sampled_code.kind = kind;
}

/* Samples show calls of CUDA that are not recorded. */
static void test_calls_that_only_samples_show(void **state)
{
	static const char cuda[] = "/usr/lib/x86_64-linux-gnu/libcudart.so.13";

	(void)state;
	sample_code("cudaMemGetInfo", cuda, WS_MODULE_FILE);
	check_first(step_with_code, "setup-calls",
		    "in calls of cudaMemGetInfo at main (train.py:7)");
	sample_code("cublasCreate_v2", "/usr/lib/x86_64-linux-gnu/libcublas.so.13", WS_MODULE_FILE);
	check_first(step_with_code, "setup-calls",
		    "of the time at main (train.py:7), in cublasCreate_v2");
	sample_code("cudaEventQuery", cuda, WS_MODULE_FILE);
	check_first(step_with_code, "sync-calls", "of the time in cudaEventQuery at main");
}

/* What is done once is no work of the steps. */
static void test_imports_starve_no_gpu(void **state)
{
	struct analysed analysed;

	(void)state;
	sample_code("prepare", "/usr/lib/libprepare.so.1", WS_MODULE_FILE);
	check_first(step_with_code, "gpu-starved",
		    "while the CPU computes at main (train.py:7), in prepare");
	sample_code("_find_and_load", "<frozen importlib._bootstrap>", WS_MODULE_PYTHON);
	analysed = analyse_program(step_with_code);
	assert_int_equal(find_level(&analysed, "gpu-starved", ""), -1);
	forget_program(&analysed);
}

/* A kernel that is over long before a copy is asked for, whose call lasts. */
static void step_that_computes_before_it_copies(struct program *program, int number)
{
	if (!number)
		describe_code(program);
	add_kernel(program, 0, "work", 100 * US, full);
	program->now += 3 * MS;
	add_call(program, "cudaMemcpyAsync_v3020", 150 * US);
	ROW(program, cuda_memcpy, .start = program->now - 10 * US, .end = program->now - 5 * US,
	    .process = 1, .correlation = program->correlation, .bytes = 1 << 20,
	    .kind = WS_COPY_HTOD, .stream = 7);
}

/* What a thread computed before such a call is no time of the call. */
static void test_calls_begin_when_they_are_made(void **state)
{
	struct analysed analysed;

	(void)state;
	sample_code("prepare", "/usr/lib/libprepare.so.1", WS_MODULE_FILE);
	analysed = analyse_program(step_that_computes_before_it_copies);
	assert_true(analysed.analysis->breakdown.by_cause[WS_CAUSE_CUDA_CALL] <
		    analysed.analysis->window / 4);
	forget_program(&analysed);
}

/* A graph whose kernels are not recorded, and a small kernel beside it that copies. */
static void step_with_a_graph(struct program *program, int number)
{
	add_call(program, "cudaStreamCreate_v3020", 5 * US);
	ROW(program, cuda_stream, .process = 1, .correlation = program->correlation,
	    .id = 20u + (uint32_t)number);
	add_call(program, "cudaGraphLaunch_v10000", 10 * US);
	ROW(program, cuda_graph_trace, .start = program->now, .end = program->now + 5 * MS,
	    .process = 1, .correlation = program->correlation, .stream = 7, .graph = 3);
	program->gpu_end[0] = program->now + 5 * MS;
	add_kernel(program, 0, "at::native::direct_copy_kernel_cuda", 5 * US,
		   (struct ws_row_cuda_kernel){.grid_x = 1});
}

static void test_graphs_hold_most_work(void **state)
{
	struct analysed analysed = analyse_program(step_with_a_graph);

	(void)state;
	assert_int_equal(find_level(&analysed, "data-movement", ""), -1);
	assert_int_equal(find_level(&analysed, "serial-streams", ""), -1);
	forget_program(&analysed);
}

/* What another process launches has no call here. */
static void step_beside_another(struct program *program, int number)
{
	struct ws_row_cuda_kernel kernel = full;

	if (!number) {
		ROW(program, process, .id = 2, .pid = 200, .start = BEGIN,
		    .name = make_string(program, "made-up"), .origin = WS_ORIGIN_TARGET);
		ROW(program, cuda_device, .process = 2, .start = BEGIN, .id = 0, .sms = 132,
		    .uuid = make_string(program, "GPU-0"));
	}
	add_kernel(program, 0, "work", 4 * MS, full);
	if (number % 2)
		return;
	program->gpu_end[0] -= 3 * MS;
	kernel.process = 2;
	add_kernel(program, 0, "other", 3 * MS, kernel);
}

static void test_processes_that_share_a_gpu(void **state)
{
	struct analysed analysed;

	(void)state;
	analysed = analyse_program(step_beside_another);
	assert_in_range(find_level(&analysed, "shared-gpu", "2 processes compute on GPU 0"),
			WS_LEVEL_WARNING, WS_LEVEL_CRITICAL);
	forget_program(&analysed);
	analysed = analyse_program(step_of_one_kernel);
	assert_int_equal(find_level(&analysed, "shared-gpu", ""), -1);
	forget_program(&analysed);
}

/* The stream waits for a millisecond behind each kernel. */
static void step_with_host_functions(struct program *program, int number)
{
	(void)number;
	for (int i = 0; i < 3; i++) {
		add_kernel(program, 0, "work", MS, full);
		add_call(program, "cudaLaunchHostFunc_v10000", 3 * US);
		program->gpu_end[0] += MS;
	}
}

static void test_functions_of_the_host(void **state)
{
	(void)state;
	check_first(step_with_host_functions, "host-functions", "36 of them");
}

/* Waits for a read of so many bytes at that place of a file. */
static void add_read(struct program *program, uint64_t place, uint64_t bytes)
{
	uint64_t since = ws_max(BEGIN, program->on_core_since);

	program->now += 100 * US;
	ROW(program, sched, .start = since, .end = program->now + US, .thread = 1, .cpu = 5,
	    .after = WS_AFTER_UNINTERRUPTIBLE);
	ROW(program, osrt, .start = program->now, .end = program->now + 3 * MS, .thread = 1,
	    .name = make_string(program, "read"), .result = (int64_t)bytes, .object = 3,
	    .path = make_string(program, "/data/table.bin"), .callchain = WS_NO_U32,
	    .position = place + bytes);
	program->now += 3 * MS;
	program->on_core_since = program->now - US;
}

static void step_with_jumping_reads(struct program *program, int number)
{
	for (int i = 0; i < 4; i++)
		add_read(program, (uint64_t)((number * 4 + i) * 37 % 64) << 20, 65536);
	add_kernel(program, 0, "work", MS / 2, full);
}

static void step_with_small_reads(struct program *program, int number)
{
	for (int i = 0; i < 4; i++)
		add_read(program, (uint64_t)(number * 4 + i) * 512, 512);
	add_kernel(program, 0, "work", MS / 2, full);
}

static void step_with_large_reads(struct program *program, int number)
{
	for (int i = 0; i < 4; i++)
		add_read(program, (uint64_t)(number * 4 + i) << 20, 1 << 20);
	add_kernel(program, 0, "work", MS / 2, full);
}

static void check_advice(void (*step)(struct program *program, int number), const char *words)
{
	struct analysed analysed = analyse_program(step);
	const struct ws_finding *finding =
		find_finding(&analysed, "blocking-io", "/data/table.bin");

	assert_non_null(finding);
	if (!strstr(finding->advice, words))
		print_error("advice: %s\n", finding->advice);
	assert_non_null(strstr(finding->advice, words));
	forget_program(&analysed);
}

static void test_how_a_file_is_read(void **state)
{
	(void)state;
	check_advice(step_with_jumping_reads, "100 % of the reads begin elsewhere");
	check_advice(step_with_small_reads, "48 of 48 reads are of less than 4096 bytes");
	check_advice(step_with_large_reads, "Read ahead on another thread");
}

static void step_with_copies(struct program *program, int number)
{
	(void)number;
	add_call(program, "cudaMemcpyAsync_v3020", 3 * MS);
	add_kernel(program, 0, "work", MS, full);
}

/* The thread runs on core 5. */
static void test_a_gpu_of_another_node(void **state)
{
	static const struct fact nodes[] = {{"cpu.nodes", "0-3;4-7"},
					    {"gpu.nodes", "0000:00:06.0=0;0000:00:07.0=1"},
					    {NULL, NULL}};

	(void)state;
	facts = nodes;
	check_first(step_with_copies, "wrong-numa-node", "on NUMA node 1");
	facts = NULL;
}

static void step_alone(struct program *program, int number)
{
	(void)number;
	program->now += 3 * MS;
	add_kernel(program, 0, "work", MS / 2, full);
}

static void test_a_quota_that_is_spent(void **state)
{
	static const struct fact quota[] = {{"cpu.quota", "0.50"},
					    {"cpu.throttled_us", "20000"},
					    {"cpu.throttled", "7"},
					    {NULL, NULL}};

	(void)state;
	facts = quota;
	check_first(step_alone, "cpu-throttling", "0.50 processors, and was stopped 7 times");
	facts = NULL;
}

/* ---- by metrics of GPUs ---- */

static void step_of_products(struct program *program, int number)
{
	(void)number;
	add_kernel(program, 0, "ampere_sgemm_128x64_tn", 2 * MS, full);
	add_kernel(program, 0, "custom_gemm", 2 * MS, full);
}

static void step_on_uneven_gpus(struct program *program, int number)
{
	(void)number;
	add_kernel(program, 0, "work", 4 * MS, full);
	add_kernel(program, 1, "work", MS, full);
}

static void test_few_warps(void **state)
{
	static const struct sampled rows[] = {{"SM Active", {95, NAN}},
					      {"SM Issue", {6, NAN}},
					      {"Tensor Active", {0, NAN}},
					      {"DRAM Read Bandwidth", {5, NAN}},
					      {"DRAM Write Bandwidth", {1, NAN}},
					      {"Compute Warps in Flight", {3, NAN}},
					      {NULL, {0}}};

	(void)state;
	sampled = rows;
	check_first(step_of_one_kernel, "idle-warps", "own_kernel has 3.0 % of the warps");
	sampled = NULL;
}

static void test_kernels_that_do_not_fill(void **state)
{
	static const struct sampled rows[] = {
		{"SM Active", {25, NAN}}, {"Compute Warps in Flight", {20, NAN}}, {NULL, {0}}};

	(void)state;
	sampled = rows;
	check_first(step_of_one_kernel, "underused-gpu", "only 25 % of its multiprocessors");
	sampled = NULL;
}

/* A GPU that is well used: that is said, and nothing is wrong with it. */
static void test_a_gpu_that_is_well_used(void **state)
{
	static const struct sampled rows[] = {{"SM Active", {92, NAN}},
					      {"SM Issue", {65, NAN}},
					      {"Tensor Active", {30, NAN}},
					      {"DRAM Read Bandwidth", {20, NAN}},
					      {"Compute Warps in Flight", {50, NAN}},
					      {"PCIe RX Throughput", {20, NAN}},
					      {NULL, {0}}};
	static const char *const silent[] = {"idle-warps", "uneven-gpus", "pcie-congestion",
					     "power-limit", "tensor-cores"};
	struct analysed analysed;

	(void)state;
	sampled = rows;
	analysed = analyse_program(step_of_products);
	assert_int_equal(find_level(&analysed, "underused-gpu", "92 %"), WS_LEVEL_OK);
	for (size_t i = 0; i < WS_COUNT(silent); i++)
		assert_int_equal(find_level(&analysed, silent[i], ""), -1);
	forget_program(&analysed);
	sampled = NULL;
}

/* What was measured decides, not the names. */
static void test_products_without_tensor_cores(void **state)
{
	static const struct sampled rows[] = {
		{"SM Active", {92, NAN}}, {"Tensor Active", {0, NAN}}, {NULL, {0}}};
	const struct ws_finding *finding;
	struct analysed analysed;
	uint64_t by_name;

	(void)state;
	analysed = analyse_program(step_of_products);
	finding = find_finding(&analysed, "tensor-cores", "mostly ampere_sgemm");
	assert_non_null(finding);
	by_name = finding->cost_ns;
	forget_program(&analysed);
	sampled = rows;
	analysed = analyse_program(step_of_products);
	finding = find_finding(&analysed, "tensor-cores", "unused");
	assert_non_null(finding);
	assert_int_equal(finding->level, WS_LEVEL_NOTE);
	assert_in_range(finding->cost_ns, by_name * 19 / 10, by_name * 21 / 10);
	forget_program(&analysed);
	sampled = NULL;
}

/* Advice fits the GPU: not every one has tensor cores, or all their types. */
static void test_tensor_cores_of_older_gpus(void **state)
{
	static const char *const words[] = {[6] = NULL, [7] = "float16", [8] = "TF32"};

	(void)state;
	for (capability = 6; capability <= 8; capability++) {
		struct analysed analysed = analyse_program(step_of_products);
		const struct ws_finding *finding = find_finding(&analysed, "tensor-cores", "");

		assert_int_equal(finding != NULL, words[capability] != NULL);
		if (finding && !strstr(finding->advice, words[capability]))
			print_error("%u: %s\n", capability, finding->advice);
		assert_true(!finding || strstr(finding->advice, words[capability]));
		forget_program(&analysed);
	}
	capability = 0;
}

static void test_gpus_with_unequal_shares(void **state)
{
	static const struct sampled rows[] = {{"SM Active", {90, 21}}, {NULL, {0}}};
	struct analysed analysed;

	(void)state;
	sampled = rows;
	analysed = analyse_program(step_on_uneven_gpus);
	assert_in_range(find_level(&analysed, "uneven-gpus", "of GPU 1 21 %"), WS_LEVEL_WARNING,
			WS_LEVEL_CRITICAL);
	forget_program(&analysed);
	sampled = NULL;
}

/* Where most samples were lost, those that are left say nothing. */
static void test_too_few_samples(void **state)
{
	static const struct sampled rows[] = {{"SM Active", {5, 90}}, {NULL, {0}}};
	static const char *const silent[] = {"uneven-gpus", "underused-gpu", "idle-warps"};
	struct analysed analysed;

	(void)state;
	sampled = rows;
	covered = 0.3;
	analysed = analyse_program(step_on_uneven_gpus);
	for (size_t i = 0; i < WS_COUNT(silent); i++)
		assert_int_equal(find_level(&analysed, silent[i], ""), -1);
	assert_non_null(strstr(ws_rule_uneven_gpus.find_obstacle(analysed.analysis),
			       "less than half of the time"));
	forget_program(&analysed);
	covered = 0.8;
	analysed = analyse_program(step_on_uneven_gpus);
	assert_true(find_level(&analysed, "uneven-gpus", "") >= WS_LEVEL_WARNING);
	forget_program(&analysed);
	covered = 1;
	sampled = NULL;
}

static void test_links_and_power_at_their_limits(void **state)
{
	static const struct sampled rows[] = {
		{"SM Active", {90, NAN}}, {"PCIe RX Throughput", {85, NAN}}, {NULL, {0}}};
	struct analysed analysed;

	(void)state;
	sampled = rows;
	slowed = true;
	analysed = analyse_program(step_of_one_kernel);
	assert_int_equal(find_level(&analysed, "pcie-congestion", "for 100 % of the time"),
			 WS_LEVEL_NOTE);
	assert_int_equal(find_level(&analysed, "power-limit", "for its power 100 %"),
			 WS_LEVEL_NOTE);
	forget_program(&analysed);
	slowed = false;
	sampled = NULL;
}

/* A process may have no name: what lies before its text must not be looked at. */
static void test_empty_names(void **state)
{
	static const char text[] = "*";
	const char *names[] = {text + 1, NULL};

	(void)state;
	assert_true(ws_is_name_among("", 0, names));
	assert_false(ws_is_name_among("a", 1, names));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_registers_that_limit_occupancy),
		cmocka_unit_test(test_empty_names),
		cmocka_unit_test(test_the_last_wave),
		cmocka_unit_test(test_compiling_in_each_step),
		cmocka_unit_test(test_gpu_code_for_a_debugger),
		cmocka_unit_test(test_one_thread_for_two_gpus),
		cmocka_unit_test(test_the_rank_that_comes_last),
		cmocka_unit_test(test_many_small_collectives),
		cmocka_unit_test(test_queries_in_a_loop),
		cmocka_unit_test(test_kernels_that_only_copy),
		cmocka_unit_test(test_products_of_odd_sizes),
		cmocka_unit_test(test_memory_that_is_set),
		cmocka_unit_test(test_double_precision),
		cmocka_unit_test(test_questions_in_a_loop),
		cmocka_unit_test(test_streams_that_gain_nothing),
		cmocka_unit_test(test_steps_that_grow),
		cmocka_unit_test(test_processes_that_share_a_gpu),
		cmocka_unit_test(test_functions_of_the_host),
		cmocka_unit_test(test_warps_of_few_threads),
		cmocka_unit_test(test_calls_that_only_samples_show),
		cmocka_unit_test(test_imports_starve_no_gpu),
		cmocka_unit_test(test_calls_begin_when_they_are_made),
		cmocka_unit_test(test_graphs_hold_most_work),
		cmocka_unit_test(test_how_a_file_is_read),
		cmocka_unit_test(test_a_gpu_of_another_node),
		cmocka_unit_test(test_a_quota_that_is_spent),
		cmocka_unit_test(test_few_warps),
		cmocka_unit_test(test_kernels_that_do_not_fill),
		cmocka_unit_test(test_a_gpu_that_is_well_used),
		cmocka_unit_test(test_products_without_tensor_cores),
		cmocka_unit_test(test_tensor_cores_of_older_gpus),
		cmocka_unit_test(test_gpus_with_unequal_shares),
		cmocka_unit_test(test_too_few_samples),
		cmocka_unit_test(test_links_and_power_at_their_limits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
