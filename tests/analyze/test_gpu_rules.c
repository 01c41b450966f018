/* test_gpu_rules.c - more rules on reports of made-up programs that use GPUs. */
#include <sys/stat.h>

#include "made_up_program.h"

/* ---- steps that nothing marks ---- */

/* Layers of one kind: no kernel occurs only once. */
static void step_of_like_layers(struct program *program, int number)
{
	(void)number;
	program->now += 50 * US;
	for (int layer = 0; layer < 3; layer++) {
		add_kernel(program, 0, "convolve", MS, full);
		add_kernel(program, 0, "add_bias", 20 * US, full);
		if (layer < 2)
			add_kernel(program, 0, "tanh", 30 * US, full);
	}
}

static void test_steps_of_like_layers(void **state)
{
	struct analysed analysed;

	(void)state;
	marked = false;
	analysed = analyse_program(step_of_like_layers);
	marked = true;
	assert_int_equal(analysed.analysis->model->step_source, WS_STEPS_REPEATED);
	/* The last begins one that does not end. */
	assert_in_range(analysed.analysis->steps, STEPS - 3, STEPS - 1);
	for (size_t i = 1; i < analysed.analysis->model->steps.count; i++) {
		const struct ws_step *step = &analysed.analysis->model->steps.steps[i];

		assert_in_range(step->end - step->start, 3 * MS, 4 * MS);
	}
	forget_program(&analysed);
}

/* ---- workers of a data loader ---- */

enum { WORKERS = 4, PER_EPOCH = 3 };

static bool kept_workers;

static void describe_loader(struct program *program)
{
	static const char user[] = "/home/user/train.py",
			  torch[] = "/usr/lib/python3/dist-packages/torch/utils/data/dataloader.py";

	ROW(program, module, .id = 1, .kind = WS_MODULE_PYTHON, .path = make_string(program, user));
	ROW(program, module, .id = 2, .kind = WS_MODULE_PYTHON,
	    .path = make_string(program, torch));
	ROW(program, frame, .id = 1, .kind = WS_FRAME_PYTHON, .module = 1, .address = 7,
	    .name = make_string(program, "epoch"), .file = make_string(program, user));
	ROW(program, frame, .id = 2, .kind = WS_FRAME_PYTHON, .module = 2, .address = 1170,
	    .name = make_string(program, "_MultiProcessingDataLoaderIter.__init__"),
	    .file = make_string(program, torch));
	ROW(program, stack, .id = 1, .frame = 1);
}

/* A worker process that loads for a while once it is there. */
static void start_worker(struct program *program, uint32_t id, uint64_t end)
{
	ROW(program, process, .id = id, .pid = 100 + id, .parent = 1, .start = program->now,
	    .name = make_string(program, "python3"), .origin = WS_ORIGIN_FORK);
	if (end)
		ROW(program, process_end, .process = id, .end = end);
	ROW(program, thread, .id = id, .process = id, .tid = 100 + id, .start = program->now);
	ROW(program, thread_name, .thread = id, .name = make_string(program, "pt_data_worker"));
}

/* Every third step begins an epoch: the process is copied for each worker. */
static void step_of_short_epochs(struct program *program, int number)
{
	if (!number)
		describe_loader(program);
	for (int i = 0; number % PER_EPOCH == 0 && i < WORKERS; i++) {
		uint32_t id = 2 + (uint32_t)(number / PER_EPOCH * WORKERS + i);

		for (int k = 0; k < 30; k++) {
			ROW(program, sample, .start = program->now, .thread = 1, .weight = 100 * US,
			    .frame = 2, .callers = 1, .flags = WS_SAMPLE_CLOCK, .time = 100 * US);
			program->now += 100 * US;
		}
		if (!kept_workers || !number)
			start_worker(program, id, kept_workers ? 0 : program->now + 18 * MS);
		ROW(program, sched, .start = program->now, .end = program->now + MS,
		    .thread = kept_workers ? 2 + (uint32_t)i : id, .cpu = 6);
	}
	add_kernel(program, 0, "work", 2 * MS, full);
}

static void test_workers_that_are_started_anew(void **state)
{
	struct analysed analysed;

	(void)state;
	check_first(step_of_short_epochs, "data-loading",
		    "The 4 workers of the data loader are started anew about 3 times");
	check_first(step_of_short_epochs, "data-loading", "at epoch (train.py:7)");
	kept_workers = true;
	analysed = analyse_program(step_of_short_epochs);
	kept_workers = false;
	assert_int_equal(analysed.analysis->facts.loader_workers, WORKERS);
	assert_int_equal(find_level(&analysed, "data-loading", "anew"), -1);
	forget_program(&analysed);
}

/* ---- a wait in the middle of a step that is bound by launches ---- */

static bool reads_loss;

static void step_of_short_kernels(struct program *program, int number)
{
	uint64_t wait;

	if (!number)
		describe_loader(program);
	for (int i = 0; i < 60; i++) {
		program->now += 20 * US;
		add_kernel(program, 0, "work", 8 * US, full);
		if (i != 30 || !reads_loss)
			continue;
		wait = program->gpu_end[0] - program->now + 5 * US;
		ROW(program, cuda_api, .start = program->now, .end = program->now + wait,
		    .thread = 1, .correlation = ++program->correlation, .callchain = 1,
		    .name = make_string(program, "cudaStreamSynchronize_v3020"));
		program->now += wait;
	}
}

static void test_a_wait_among_launches(void **state)
{
	struct analysed analysed = analyse_program(step_of_short_kernels);

	(void)state;
	assert_int_equal(find_level(&analysed, "launch-bound", "in each step"), -1);
	forget_program(&analysed);
	reads_loss = true;
	check_first(step_of_short_kernels, "launch-bound",
		    "; in each step the CPU waits for the GPU at epoch (train.py:7)");
	reads_loss = false;
}

/* ---- a start that takes shorter than what comes then ---- */

static uint32_t imports; /* ms */

/* No two steps are alike: the whole run is looked at, with its imports. */
static void step_of_doubles(struct program *program, int number)
{
	char name[64];

	if (!number) {
		describe_loader(program);
		ROW(program, module, .id = 3, .kind = WS_MODULE_PYTHON,
		    .path = make_string(program, "<frozen importlib._bootstrap>"));
		ROW(program, frame, .id = 3, .kind = WS_FRAME_PYTHON, .module = 3, .address = 9,
		    .name = make_string(program, "_find_and_load"),
		    .file = make_string(program, "<frozen importlib._bootstrap>"));
		for (uint32_t i = 0; i < imports; i++) {
			ROW(program, sample, .start = program->now, .thread = 1, .weight = MS,
			    .frame = 3, .callers = 1, .flags = WS_SAMPLE_CLOCK, .time = MS);
			program->now += MS;
		}
	}
	snprintf(name, sizeof(name), "void add_%d<double>(double*)", number);
	add_kernel(program, 0, name, 3 * MS, full);
	snprintf(name, sizeof(name), "work_%d", number);
	add_kernel(program, 0, name, 2 * MS, full);
}

/* Kernels in no order that repeats, after a file that is read in one piece. */
static void step_after_a_read(struct program *program, int number)
{
	struct ws_row_cuda_kernel kernel = full;
	char name[32];

	if (!number) {
		program->now += 2 * MS;
		ROW(program, sched, .start = BEGIN, .end = program->now + US, .thread = 1, .cpu = 5,
		    .after = WS_AFTER_UNINTERRUPTIBLE);
		ROW(program, osrt, .start = program->now, .end = program->now + 40 * MS,
		    .thread = 1, .name = make_string(program, "read"), .result = 1 << 20,
		    .object = 3, .path = make_string(program, "/data/table.bin"),
		    .callchain = WS_NO_U32);
		program->now += 40 * MS;
		program->on_core_since = program->now - US;
	}
	kernel.local_thread = 512;
	add_kernel(program, 0, "fit", 4 * MS, kernel);
	for (int i = 0; i < number * number % 7; i++) {
		snprintf(name, sizeof(name), "work_%d_%d", number, i);
		add_kernel(program, 0, name, 500 * US, full);
	}
}

static void test_a_start_comes_after_faults(void **state)
{
	struct analysed analysed;

	(void)state;
	marked = false;
	analysed = analyse_program(step_after_a_read);
	marked = true;
	assert_int_equal(analysed.analysis->model->step_source, WS_STEPS_NONE);
	assert_int_equal(find_level(&analysed, "blocking-io", "table.bin"), WS_LEVEL_CRITICAL);
	assert_string_equal(analysed.findings.findings[0].rule->name, "local-memory");
	assert_string_equal(analysed.findings.findings[1].rule->name, "blocking-io");
	forget_program(&analysed);
}

static const char *find_first(uint32_t import_ms)
{
	struct analysed analysed;
	const char *first;

	imports = import_ms;
	marked = false;
	analysed = analyse_program(step_of_doubles);
	marked = true;
	assert_int_equal(analysed.analysis->model->step_source, WS_STEPS_NONE);
	assert_true(find_level(&analysed, "library-work", "importing modules") >= 0);
	first = analysed.findings.findings[0].rule->name;
	forget_program(&analysed);
	return first;
}

static void test_a_short_start_comes_last(void **state)
{
	(void)state;
	assert_string_equal(find_first(50), "double-precision");
	/* Where most of the time is the start, it comes first. */
	assert_string_equal(find_first(200), "library-work");
}

/* ---- where launches and allocations come from ---- */

enum { UPDATE_FRAME = 10, UPDATE_LINES = 4, TIDY_FRAME = 20 };

static void describe_function(struct program *program, uint32_t frame, const char *name,
			      uint32_t line)
{
	ROW(program, frame, .id = frame, .kind = WS_FRAME_PYTHON, .module = 1, .address = line,
	    .name = make_string(program, name),
	    .file = make_string(program, "/home/user/train.py"));
	ROW(program, stack, .id = frame, .frame = frame);
}

static void compute_at(struct program *program, uint32_t frame, uint64_t ns)
{
	ROW(program, sample, .start = program->now + ns - US, .thread = 1, .weight = ns,
	    .frame = frame, .flags = WS_SAMPLE_CLOCK, .time = ns);
	program->now += ns;
}

/* A function launches from several lines, of which none does as much as one of another. */
static void step_of_an_update(struct program *program, int number)
{
	if (!number) {
		describe_loader(program);
		for (uint32_t i = 0; i < UPDATE_LINES; i++)
			describe_function(program, UPDATE_FRAME + i, "update", 30 + i);
	}
	for (int i = 0; i < 15; i++) {
		compute_at(program, 1, 60 * US);
		add_kernel(program, 0, "forward", 5 * US, full);
		for (uint32_t k = 0; k < UPDATE_LINES; k++) {
			compute_at(program, UPDATE_FRAME + k, (40 + k) * US);
			add_kernel(program, 0, "add", 5 * US, full);
		}
	}
}

static void test_a_function_that_launches_most(void **state)
{
	(void)state;
	check_first(step_of_an_update, "launch-bound",
		    "most of the launching at update (train.py:33)");
}

static void add_call_at(struct program *program, const char *name, uint32_t frame, uint64_t ns)
{
	ROW(program, cuda_api, .start = program->now, .end = program->now + ns, .thread = 1,
	    .correlation = ++program->correlation, .name = make_string(program, name),
	    .callchain = frame);
	program->now += ns;
}

/* A cache of memory is emptied in each step. */
static void step_that_empties_a_cache(struct program *program, int number)
{
	if (!number) {
		describe_loader(program);
		describe_function(program, TIDY_FRAME, "tidy", 50);
	}
	add_call_at(program, "cudaMalloc_v3020", 1, 3 * MS);
	add_kernel(program, 0, "work", MS, full);
	add_call_at(program, "cudaFree_v3020", TIDY_FRAME, 2 * MS);
}

static void test_a_cache_that_is_emptied(void **state)
{
	(void)state;
	check_first(step_that_empties_a_cache, "allocation-churn",
		    " at epoch (train.py:7), freed at tidy (train.py:50)");
}

/* ---- what does not fit into registers ---- */

static uint32_t local_bytes;

static void step_with_local_memory(struct program *program, int number)
{
	struct ws_row_cuda_kernel kernel = full;

	(void)number;
	kernel.local_thread = local_bytes;
	add_kernel(program, 0, "fit", 4 * MS, kernel);
}

static void test_values_in_local_memory(void **state)
{
	struct analysed analysed;

	(void)state;
	local_bytes = 512;
	check_first(step_with_local_memory, "local-memory",
		    "kernel fit keeps 512 bytes in local memory beside its 32 registers");
	/* A function of mathematics may need a little. */
	local_bytes = 40;
	analysed = analyse_program(step_with_local_memory);
	assert_int_equal(find_level(&analysed, "local-memory", ""), -1);
	forget_program(&analysed);
}

/* Newer drivers say only what is reserved for all threads that fit on the GPU, a part of which
 * every kernel has. */
enum { RESIDENT = 132 * 2048, USUAL = 576 };

static uint32_t reserved_bytes; /* for each thread */
static bool other_kernels;

static void step_with_reserved_memory(struct program *program, int number)
{
	struct ws_row_cuda_kernel kernel = full, other = full;

	if (!number)
		ROW(program, cuda_device, .process = 1, .start = BEGIN, .id = 2, .sms = 132,
		    .warps_sm = 64, .warp = 32);
	kernel.local_total = (uint64_t)reserved_bytes * RESIDENT;
	other.local_total = (uint64_t)(USUAL + 352) * RESIDENT;
	if (other_kernels)
		add_kernel(program, 0, "prepare", 100 * US, other);
	add_kernel(program, 0, "fit", 4 * MS, kernel);
}

static void test_reserved_local_memory(void **state)
{
	struct analysed analysed;

	(void)state;
	reserved_bytes = USUAL + 560;
	check_first(step_with_reserved_memory, "local-memory",
		    "kernel fit keeps 560 bytes in local memory");
	other_kernels = true;
	check_first(step_with_reserved_memory, "local-memory",
		    "kernel fit keeps 208 bytes in local memory");
	reserved_bytes = USUAL + 352;
	analysed = analyse_program(step_with_reserved_memory);
	assert_int_equal(find_level(&analysed, "local-memory", ""), -1);
	forget_program(&analysed);
	other_kernels = false;
	analysed = analyse_program(step_with_reserved_memory);
	assert_int_equal(find_level(&analysed, "local-memory", ""), -1);
	forget_program(&analysed);
}

/* ---- what the source of a kernel shows ---- */

static const char *kernel_source;
static bool sampled_launches = true;

/* A file that is older than what was recorded. */
static void write_source(char *path, size_t size)
{
	static const struct timespec times[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
	FILE *file;

	assert_non_null(getcwd(path, size - 32));
	snprintf(path + strlen(path), 32, "/test_gpu_rules.%d.cu", (int)getpid());
	file = fopen(path, "w");
	assert_non_null(file);
	fputs(kernel_source, file);
	assert_int_equal(fflush(file), 0);
	assert_int_equal(futimens(fileno(file), times), 0);
	fclose(file);
}

static void step_with_a_source(struct program *program, int number)
{
	char path[4096];

	if (!number) {
		write_source(path, sizeof(path));
		describe_loader(program);
		ROW(program, clock, .raw = BEGIN, .realtime = UINT64_C(2000000000000000000));
		ROW(program, frame, .id = 3, .kind = WS_FRAME_PYTHON, .module = 1, .address = 7,
		    .name = make_string(program, "launch"), .file = make_string(program, path));
		ROW(program, stack, .id = 3, .frame = 3);
	}
	if (sampled_launches)
		ROW(program, sample, .start = program->now + US, .thread = 1, .weight = US,
		    .frame = 3, .flags = WS_SAMPLE_CLOCK, .time = US);
	else
		compute_at(program, 3, 100 * US);
	add_kernel(program, 0, "count", 4 * MS, full);
}

static int find_atomics(const char *source, const char *words)
{
	struct analysed analysed;
	int level;

	kernel_source = source;
	analysed = analyse_program(step_with_a_source);
	level = find_level(&analysed, "atomics", words);
	forget_program(&analysed);
	return level;
}

#define COUNT(parameters, body)                                    \
	"__global__ void other(int *sum) { atomicAdd(sum, 1); }\n" \
	"__global__ void __launch_bounds__(256)\ncount(" parameters ") {\n" body "\n}\n"

static void test_atomics_on_one_address(void **state)
{
	char path[4096];

	(void)state;
	assert_int_equal(
		find_atomics(COUNT("const float *x, int n, float *sum",
				   "int i = threadIdx.x;\nif (i < n) {\n  atomicAdd(sum, x[i]); }"),
			     "do atomicAdd on one address, sum, one after another"),
		WS_LEVEL_WARNING);
	assert_int_equal(find_atomics(COUNT("int *most", "atomicMax(&most[0], 3);"), ":4)"),
			 WS_LEVEL_WARNING);
	assert_int_equal(find_atomics(COUNT("float *x", "atomicAdd(&everything, x[0]);"),
				      "everything"),
			 WS_LEVEL_WARNING);
	/* No sample shows what launches it. */
	sampled_launches = false;
	assert_int_equal(find_atomics(COUNT("float *x", "atomicAdd(x, x[0]);"), ", x, "),
			 WS_LEVEL_WARNING);
	sampled_launches = true;
	/* Addresses that differ, shared memory, and what one thread does for its block. */
	assert_int_equal(find_atomics(COUNT("int *bins, int *x", "atomicAdd(&bins[x[1]], 1);"), ""),
			 -1);
	assert_int_equal(find_atomics(COUNT("int *x", "__shared__ int part;\natomicAdd(&part, 1);"),
				      ""),
			 -1);
	assert_int_equal(
		find_atomics(COUNT("int *sum", "if (threadIdx.x == 0)\natomicAdd(sum, 1);"), ""),
		-1);
	assert_int_equal(find_atomics(COUNT("int *sum", "int lane = threadIdx.x % 32;\n"
							"if (!lane) { int k = 3;\n"
							"  for (int i = 0; i < k; i++)\n"
							"    atomicAdd(sum, i); }"),
				      ""),
			 -1);
	assert_int_equal(
		find_atomics(COUNT("int *sum", "/* atomicAdd(sum, 1); */ // atomicAdd(sum, 1)"),
			     ""),
		-1);
	write_source(path, sizeof(path));
	unlink(path);
}

static bool is_found_apart(const char *source, const char *words)
{
	struct analysed analysed;
	bool found;

	kernel_source = source;
	analysed = analyse_program(step_with_a_source);
	found = find_finding(&analysed, "hot-kernel", words) != NULL;
	assert_int_equal(find_level(&analysed, "hot-kernel", ""), WS_LEVEL_NOTE);
	forget_program(&analysed);
	return found;
}

#define INDEX "int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;\n"
#define STRUCTURE "struct Body {\n  float x, y, z, m[5];\n};\n"

static void test_atomics_on_many_addresses(void **state)
{
	char path[4096];

	(void)state;
	assert_true(is_found_apart(COUNT("int *bins, int *x, int *all",
					 INDEX "atomicAdd(&bins[x[y]], 1);"),
				   "; its threads do atomicAdd on bins[x[y]] at "));
	/* One address is another rule's, also where it comes later; shared memory is well. */
	assert_false(is_found_apart(COUNT("int *bins, int *x, int *all",
					  INDEX "atomicAdd(&bins[x[y]], 1);\natomicAdd(all, 1);"),
				    "atomicAdd"));
	assert_false(is_found_apart(COUNT("int *x", "__shared__ int bins[32];\n" INDEX
						    "atomicAdd(&bins[x[y]], 1);"),
				    "atomicAdd"));
	write_source(path, sizeof(path));
	unlink(path);
}

static void test_accesses_that_lie_apart(void **state)
{
	static const char apart[] = "neighbouring threads use addresses that lie apart";
	char path[4096];

	(void)state;
	assert_true(is_found_apart(COUNT("const float *in, float *out, int h",
					 INDEX "out[y * h + x] = in[x * h + y];"),
				   ":5, in[x * h + y]"));
	assert_true(is_found_apart(
		COUNT("float *out, int n",
		      "for (int k = 0; k < n; k++)\n  out[n * threadIdx.x + k] = 0;"),
		"out[n * threadIdx.x + k]"));
	assert_true(is_found_apart(STRUCTURE COUNT("Body *b", INDEX "b[x].x += b[x].y;"),
				   "b[x].x, where it uses 2 of 8 values of each Body"));
	/* Neighbours, a few together, shared memory, whole elements, and most of their values. */
	assert_false(is_found_apart(COUNT("float *in, int h",
					  "__shared__ float tile[32 * 33];\n" INDEX
					  "in[y * h + x] = tile[x * h];\nin[2 * x] = 0;"),
				    apart));
	assert_false(is_found_apart(COUNT("float *in, int h",
					  "int warp = threadIdx.x / 32;\nin[warp * h] = 0;"),
				    apart));
	assert_false(is_found_apart(STRUCTURE COUNT("Body *b, Body *to",
						    INDEX "Body one = b[x];\nto[x] = one;"),
				    apart));
	assert_false(is_found_apart("struct Point { float x, y; };\n" COUNT("Point *p", INDEX
									    "p[x].x += p[x].y;"),
				    apart));
	write_source(path, sizeof(path));
	unlink(path);
}

/* ---- libraries that compute or compile on the CPU ---- */

enum { NATIVE_FRAME = 40 };

static void describe_library(struct program *program, uint32_t id, const char *path)
{
	ROW(program, module, .id = id, .kind = WS_MODULE_FILE, .path = make_string(program, path));
	ROW(program, frame, .id = NATIVE_FRAME + id, .kind = WS_FRAME_USER, .module = id,
	    .address = 0x1000, .name = make_string(program, ""));
}

/* Code of a library, called at a line of Python (the stack of this id) or by a thread's own. */
static void run_library(struct program *program, uint32_t id, uint32_t callers, uint64_t ns)
{
	ROW(program, sample, .start = program->now + ns / 2, .thread = 1, .weight = ns,
	    .frame = NATIVE_FRAME + id, .callers = callers, .flags = WS_SAMPLE_CLOCK, .time = ns);
	program->now += ns;
}

static const char *library;

static void step_with_library(struct program *program, int number)
{
	if (!number) {
		describe_loader(program);
		describe_library(program, 3, library);
	}
	run_library(program, 3, 1, 4 * MS);
	add_kernel(program, 0, "work", MS, full);
}

static void test_tensors_of_the_cpu(void **state)
{
	(void)state;
	library = "/usr/lib/python3/dist-packages/torch/lib/libtorch_cpu.so";
	check_first(step_with_library, "gpu-starved",
		    "The GPU waits while the CPU computes tensors at epoch (train.py:7)");
	library = "/usr/lib/x86_64-linux-gnu/libm.so.6";
	check_first(step_with_library, "gpu-starved",
		    "The GPU waits while the CPU computes at epoch (train.py:7)");
}

/* cuDNN compiles what it tries, most of it where no line of Python is known. */
static void step_with_a_search(struct program *program, int number)
{
	if (!number) {
		describe_loader(program);
		describe_library(program, 3, "/usr/lib/libnvrtc.so.13");
		describe_library(program, 4, "/usr/lib/libcudnn_engines_runtime_compiled.so.9");
	}
	run_library(program, 3, 0, 4 * MS);
	run_library(program, 3, 1, 2 * MS);
	run_library(program, 4, 0, MS);
	add_kernel(program, 0, "work", MS, full);
}

static void test_a_search_of_cudnn(void **state)
{
	(void)state;
	check_first(step_with_a_search, "compilation",
		    "cuDNN compiles kernels while steps run at epoch (train.py:7)");
}

/* ---- graphs that are made for one launch ---- */

static bool kept_graph;

static void step_with_a_graph(struct program *program, int number)
{
	uint32_t graph = kept_graph ? 1 : (uint32_t)number + 1;

	if (!number) {
		describe_loader(program);
		describe_function(program, UPDATE_FRAME, "capture", 30);
	}
	for (int i = 0; i < (kept_graph && number ? 0 : 1); i++) {
		add_call_at(program, "cudaStreamBeginCapture_v10000", UPDATE_FRAME, 10 * US);
		compute_at(program, UPDATE_FRAME, 2 * MS);
		add_call_at(program, "cudaStreamEndCapture_v10000", UPDATE_FRAME, 10 * US);
		add_call_at(program, "cudaGraphInstantiateWithFlags_v11040", UPDATE_FRAME,
			    500 * US);
	}
	add_call_at(program, "cudaGraphLaunch_v10000", 1, 200 * US);
	ROW(program, cuda_graph_trace, .start = program->now, .end = program->now + MS,
	    .process = 1, .device = 0, .stream = 7, .context = 1, .graph = graph,
	    .correlation = program->correlation);
	program->gpu_end[0] = program->now + MS;
}

static void test_graphs_made_again_and_again(void **state)
{
	struct analysed analysed;

	(void)state;
	check_first(step_with_a_graph, "allocation-churn",
		    "graphs are captured and instantiated again and again: 12 are made and "
		    "launched 12 times at capture (train.py:30)");
	/* Steps are found although no two graphs are the same. */
	marked = false;
	analysed = analyse_program(step_with_a_graph);
	marked = true;
	assert_int_equal(analysed.analysis->model->step_source, WS_STEPS_REPEATED);
	assert_in_range(analysed.analysis->steps, STEPS - 3, STEPS - 1);
	forget_program(&analysed);
	kept_graph = true;
	analysed = analyse_program(step_with_a_graph);
	kept_graph = false;
	assert_int_equal(find_level(&analysed, "allocation-churn", ""), -1);
	forget_program(&analysed);
}

/* ---- steps of one kernel ---- */

enum { TILES = 16, ROUNDS = 4 };

/* A copy, a wait for it and some launches of the only kernel, and that again. */
static void step_of_tiles(struct program *program, int number)
{
	(void)number;
	for (int tile = 0; tile < TILES; tile++) {
		add_call(program, "cudaMemcpyAsync_v3020", 5 * US);
		ROW(program, cuda_memcpy, .start = program->now, .end = program->now + 20 * US,
		    .process = 1, .device = 0, .stream = 8, .correlation = program->correlation,
		    .bytes = MS, .kind = 1, .src_kind = 1, .dst_kind = 2);
		add_call(program, "cudaDeviceSynchronize_v3020", 25 * US);
		for (int round = 0; round < ROUNDS; round++)
			add_kernel(program, 0, "sharpen", 2 * US, full);
	}
}

static void test_steps_of_one_kernel(void **state)
{
	struct analysed analysed;

	(void)state;
	marked = false;
	analysed = analyse_program(step_of_tiles);
	assert_int_equal(analysed.analysis->model->step_source, WS_STEPS_REPEATED);
	assert_in_range(analysed.analysis->steps, STEPS * TILES - 3, STEPS * TILES - 1);
	forget_program(&analysed);
	check_first(step_of_tiles, "sync-calls", "The CPU waits for the GPU 20");
	marked = true;
}

/* ---- how CUDA starts ---- */

/* The first allocation starts CUDA, and no step is like another. */
static void step_after_a_start(struct program *program, int number)
{
	char name[32];

	if (!number) {
		describe_loader(program);
		add_call_at(program, "cudaMalloc_v3020", 1, 30 * MS);
		for (int i = 0; i < 10; i++)
			add_call_at(program, "cudaMalloc_v3020", 1, 20 * US);
	}
	snprintf(name, sizeof(name), "work_%d", number);
	add_kernel(program, 0, name, 3 * MS, full);
}

static void describe_kernel_frame(struct program *program, uint32_t id, const char *name,
				  const char *module)
{
	ROW(program, module, .id = id, .kind = WS_MODULE_KERNEL,
	    .path = make_string(program, module));
	ROW(program, frame, .id = id, .module = id, .address = id, .kind = WS_FRAME_KERNEL,
	    .name = make_string(program, name));
	ROW(program, symbol, .frame = id, .set = 1, .name = make_string(program, name));
}

static int driver_samples;

/* 40 samples of the kernel at one line, `driver_samples` of them in NVIDIA's driver. */
static void step_in_the_kernel(struct program *program, int number)
{
	enum { DRIVER = 30, PAGES };

	if (!number) {
		describe_loader(program);
		describe_kernel_frame(program, DRIVER, "uvm_va_block_map", "[nvidia_uvm]");
		describe_kernel_frame(program, PAGES, "clear_page_erms", "[kernel.kallsyms]");
	}
	for (int i = 0; i < 40; i++) {
		ROW(program, sample, .start = program->now, .thread = 1, .weight = 100 * US,
		    .frame = i < driver_samples ? DRIVER : PAGES, .callers = 1,
		    .flags = WS_SAMPLE_CLOCK, .time = 100 * US);
		program->now += 100 * US;
	}
	add_kernel(program, 0, "work", MS, full);
}

static void test_starting_is_no_fault(void **state)
{
	struct analysed analysed;

	(void)state;
	marked = false;
	analysed = analyse_program(step_after_a_start);
	marked = true;
	assert_int_equal(analysed.analysis->model->step_source, WS_STEPS_NONE);
	assert_int_equal(find_level(&analysed, "allocation-churn", ""), -1);
	forget_program(&analysed);
	driver_samples = 1;
	analysed = analyse_program(step_in_the_kernel);
	assert_int_equal(find_level(&analysed, "page-migration", ""), -1);
	forget_program(&analysed);
	driver_samples = 20;
	check_first(step_in_the_kernel, "page-migration", "at epoch (train.py:7)");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_steps_of_like_layers),
		cmocka_unit_test(test_workers_that_are_started_anew),
		cmocka_unit_test(test_a_wait_among_launches),
		cmocka_unit_test(test_a_short_start_comes_last),
		cmocka_unit_test(test_a_start_comes_after_faults),
		cmocka_unit_test(test_a_function_that_launches_most),
		cmocka_unit_test(test_a_cache_that_is_emptied),
		cmocka_unit_test(test_values_in_local_memory),
		cmocka_unit_test(test_reserved_local_memory),
		cmocka_unit_test(test_atomics_on_one_address),
		cmocka_unit_test(test_accesses_that_lie_apart),
		cmocka_unit_test(test_atomics_on_many_addresses),
		cmocka_unit_test(test_tensors_of_the_cpu),
		cmocka_unit_test(test_a_search_of_cudnn),
		cmocka_unit_test(test_graphs_made_again_and_again),
		cmocka_unit_test(test_steps_of_one_kernel),
		cmocka_unit_test(test_starting_is_no_fault),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
