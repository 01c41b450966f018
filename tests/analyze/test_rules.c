/*
 * test_rules.c - rules on reports of made-up programs with one fault each, of kinds that traces of
 * other tools cannot say and that no machine without GPUs can record.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "analyze/analysis.h"
#include "analyze/finding.h"
#include "base/choose.h"
#include "store/store.h"

enum { STEPS = 12, GPUS = 2, US = 1000, MS = 1000000, BEGIN = 1000000 };

struct program {
	struct ws_writer *writer;
	uint64_t now, gpu_end[GPUS];
	uint32_t correlation, launch, wait, step;
};

#define ROW(program, table, ...) \
	ws_writer_add((program)->writer, WS_TABLE_##table, &(struct ws_row_##table){__VA_ARGS__})

static uint32_t make_string(struct program *program, const char *text)
{
	return ws_writer_string(program->writer, text, strlen(text));
}

static void say_fact(struct program *program, const char *name, const char *value)
{
	ROW(program, meta, .name = make_string(program, name),
	    .value = make_string(program, value));
}

static void add_call(struct program *program, const char *name, uint64_t ns)
{
	ROW(program, cuda_api, .start = program->now, .end = program->now + ns, .thread = 1,
	    .correlation = ++program->correlation, .name = make_string(program, name),
	    .callchain = WS_NO_U32);
	program->now += ns;
}

/* Launches a kernel, of which the caller says what is special. */
static void add_kernel(struct program *program, uint32_t gpu, const char *name, uint64_t ns,
		       struct ws_row_cuda_kernel kernel)
{
	add_call(program, "cudaLaunchKernel_v7000", 5 * US);
	kernel.start = ws_max(program->gpu_end[gpu], program->now + 2 * US);
	kernel.end = program->gpu_end[gpu] = kernel.start + ns;
	kernel.name = kernel.demangled = make_string(program, name);
	kernel.device = gpu;
	kernel.stream = 7 + gpu;
	kernel.process = 1;
	kernel.correlation = program->correlation;
	kernel.grid_x = ws_or(kernel.grid_x, 4000u);
	kernel.block_x = ws_or(kernel.block_x, 256u);
	kernel.grid_y = kernel.grid_z = kernel.block_y = kernel.block_z = 1;
	kernel.graph_node = WS_NO_U64;
	kernel.graph = WS_NO_U32;
	ws_writer_add(program->writer, WS_TABLE_cuda_kernel, &kernel);
}

static void wait_for_gpus(struct program *program)
{
	uint64_t end = ws_max(program->gpu_end[0], program->gpu_end[1]);

	add_call(program, "cudaDeviceSynchronize_v3020",
		 ws_max(end, program->now) - program->now + 3 * US);
}

/* What the report says of the machine beside that; ended by one without a name. */
static const struct fact {
	const char *name, *value;
} * facts;

static void describe_session(struct program *program)
{
	ROW(program, process, .id = 1, .pid = 100, .start = BEGIN,
	    .name = make_string(program, "made-up"),
	    .exe = make_string(program, "/home/user/made-up"), .origin = WS_ORIGIN_TARGET);
	ROW(program, thread, .id = 1, .process = 1, .tid = 100, .start = BEGIN);
	for (uint32_t gpu = 0; gpu < GPUS; gpu++) {
		char uuid[8];

		snprintf(uuid, sizeof(uuid), "GPU-%u", gpu);
		ROW(program, cuda_device, .process = 1, .start = BEGIN, .id = gpu, .sms = 132,
		    .uuid = make_string(program, uuid),
		    .bus = make_string(program, gpu ? "0000:00:07.0" : "0000:00:06.0"));
	}
	say_fact(program, "cpu.count", "8");
	for (const struct fact *fact = facts; fact && fact->name; fact++)
		say_fact(program, fact->name, fact->value);
}

/* The first finding of a program of which each step does `step`. */
static void check_first(void (*step)(struct program *program, int number), const char *rule,
			const char *words)
{
	struct ws_writer_opts options = {.overwrite = true, .block_rows = 16384};
	struct ws_model_options all = {.to = UINT64_MAX};
	struct program program = {.now = BEGIN};
	struct ws_err err = {""};
	struct ws_analysis *analysis;
	struct ws_findings findings;
	struct ws_report *report;
	char path[64];

	snprintf(path, sizeof(path), "test_rules.%d.wsrep", (int)getpid());
	program.writer = ws_writer_create(path, &options, &err);
	assert_non_null(program.writer);
	describe_session(&program);
	for (int i = 0; i < STEPS; i++) {
		uint64_t start = program.now;

		step(&program, i);
		wait_for_gpus(&program);
		ROW(&program, nvtx, .start = start, .end = program.now, .thread = 1,
		    .text = make_string(&program, "step"), .type = WS_NVTX_PUSHPOP);
	}
	ROW(&program, sched, .start = BEGIN, .end = program.now, .thread = 1, .cpu = 5);
	ROW(&program, collection, .start = BEGIN, .end = program.now);
	assert_int_equal(ws_writer_close(program.writer, &err), 0);
	report = ws_report_open_plain(path, &err);
	assert_non_null(report);
	analysis = ws_analysis_open(report, &all, &err);
	assert_non_null(analysis);
	ws_findings_make(analysis, NULL, &findings);
	assert_true(findings.count > 0);
	if (strcmp(findings.findings[0].rule->name, rule) ||
	    !strstr(findings.findings[0].title, words))
		print_error("first: %s: %s\n", findings.findings[0].rule->name,
			    findings.findings[0].title);
	assert_string_equal(findings.findings[0].rule->name, rule);
	assert_non_null(strstr(findings.findings[0].title, words));
	if (findings.findings[0].level < WS_LEVEL_WARNING)
		print_error("only a note: %s\n", findings.findings[0].title);
	assert_true(findings.findings[0].level >= WS_LEVEL_WARNING);
	ws_findings_free(&findings);
	ws_analysis_close(analysis);
	ws_report_close(report);
	unlink(path);
}

static const struct ws_row_cuda_kernel full = {
	.occupancy = 1, .waves = 30, .limiter = WS_OCCUPANCY_WARPS, .registers = 32};

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
}

static void test_queries_in_a_loop(void **state)
{
	(void)state;
	check_first(step_with_queries, "busy-waiting", "whether work is done");
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_registers_that_limit_occupancy),
		cmocka_unit_test(test_the_last_wave),
		cmocka_unit_test(test_compiling_in_each_step),
		cmocka_unit_test(test_one_thread_for_two_gpus),
		cmocka_unit_test(test_the_rank_that_comes_last),
		cmocka_unit_test(test_many_small_collectives),
		cmocka_unit_test(test_queries_in_a_loop),
		cmocka_unit_test(test_a_gpu_of_another_node),
		cmocka_unit_test(test_a_quota_that_is_spent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
