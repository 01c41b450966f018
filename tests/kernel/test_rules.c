/*
 * test_rules.c - the rules on made-up results: each fires where its fault is, and is silent where
 * it is not. A result is a list of metrics; the launch fits an H100.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "kernel/rules.h"
#include "kernel/values.h"

enum { MOST_METRICS = 24 };

struct made {
	const char *name;
	double value;
};

struct launch {
	uint32_t grid, block, registers, shared;
};

struct rule_case {
	const char *rule;
	bool fires;
	double estimate; /* to a hundredth; -1: none */
	struct launch launch;
	struct made metrics[MOST_METRICS];
};

#define COMPUTE(v)                                                    \
	{                                                             \
		"sm__throughput.avg.pct_of_peak_sustained_elapsed", v \
	}
#define MEMORY(v)                                                                     \
	{                                                                             \
		"gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed", v \
	}
#define L1(v)                                                           \
	{                                                               \
		"l1tex__throughput.avg.pct_of_peak_sustained_active", v \
	}
#define L2(v)                                                          \
	{                                                              \
		"lts__throughput.avg.pct_of_peak_sustained_elapsed", v \
	}
#define LOADS(v)                                                    \
	{                                                           \
		"l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum", v \
	}
#define STORES(v)                                                   \
	{                                                           \
		"l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum", v \
	}
#define LOAD_BYTES(v)                                                                \
	{                                                                            \
		"smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio", v \
	}
#define STORE_BYTES(v)                                                               \
	{                                                                            \
		"smsp__sass_average_data_bytes_per_sector_mem_global_op_st.ratio", v \
	}
#define L2_ACTIVE(v)                        \
	{                                   \
		"lts__cycles_active.sum", v \
	}
#define L2_ELAPSED(v)                        \
	{                                    \
		"lts__cycles_elapsed.sum", v \
	}
#define WAVEFRONTS(v)                                               \
	{                                                           \
		"l1tex__data_pipe_lsu_wavefronts_mem_shared.sum", v \
	}
#define CONFLICTS(v)                                                    \
	{                                                               \
		"l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum", v \
	}
#define SHARED_EXCESS(v)                                            \
	{                                                           \
		"derived__memory_l1_wavefronts_shared_excessive", v \
	}
#define ACTIVE_THREADS(v)                                               \
	{                                                               \
		"smsp__thread_inst_executed_per_inst_executed.ratio", v \
	}
#define PRED_THREADS(v)                                                         \
	{                                                                       \
		"smsp__thread_inst_executed_pred_on_per_inst_executed.ratio", v \
	}
#define WARPS(v)                                                       \
	{                                                              \
		"sm__warps_active.avg.pct_of_peak_sustained_active", v \
	}
#define ISSUE(v)                                             \
	{                                                    \
		"smsp__issue_active.avg.per_cycle_active", v \
	}
#define LATENCY(v)                                                    \
	{                                                             \
		"smsp__average_warp_latency_per_inst_issued.ratio", v \
	}
#define LONG(v)                                                                               \
	{                                                                                     \
		"smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio", v \
	}
#define BARRIER(v)                                                                    \
	{                                                                             \
		"smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio", v \
	}
#define PIPE(p, v)                                                                 \
	{                                                                          \
		"sm__pipe_" p "_cycles_active.avg.pct_of_peak_sustained_active", v \
	}
#define RATE(op, v)                                                                          \
	{                                                                                    \
		"smsp__sass_thread_inst_executed_op_" op "_pred_on.sum.per_cycle_elapsed", v \
	}
#define PEAKS                                                                               \
	{"sm__sass_thread_inst_executed_op_ffma_pred_on.sum.peak_sustained", 16896},        \
		{"sm__sass_thread_inst_executed_op_dfma_pred_on.sum.peak_sustained", 8448}, \
		{"sm__cycles_elapsed.avg.per_second", 1e9},                                 \
	{                                                                                   \
		"smsp__cycles_elapsed.avg.per_second", 1e9                                  \
	}
#define NONE -1

static const struct launch plain = {132 * 80, 256, 32, 0};

static const struct rule_case cases[] = {
	{"SmallGrid", true, 0.5, {66, 256, 32, 0}, {{NULL, 0}}},
	{"SmallGrid", false, NONE, {132, 256, 32, 0}, {{NULL, 0}}},
	{"LaunchConfiguration", true, 0.25, {1320, 48, 32, 0}, {{NULL, 0}}},
	{"LaunchConfiguration", false, NONE, {1320, 64, 32, 0}, {{NULL, 0}}},
	/* 8 blocks of 256 threads on a multiprocessor: 1,056 fill the GPU. */
	{"TailEffect", true, 0.47, {1056 + 60, 256, 32, 0}, {{NULL, 0}}},
	{"TailEffect",
	 true,
	 0.3,
	 {1056 + 60, 256, 32, 0},
	 {{"sm__cycles_active.avg", 70}, {"gpc__cycles_elapsed.max", 100}}},
	{"TailEffect", false, NONE, {1056, 256, 32, 0}, {{NULL, 0}}},
	{"TailEffect", false, NONE, {1056 * 40 + 60, 256, 32, 0}, {{NULL, 0}}},
	{"TailEffect",
	 false,
	 NONE,
	 {1056 + 60, 256, 32, 0},
	 {{"sm__cycles_active.avg", 99}, {"gpc__cycles_elapsed.max", 100}}},
	{"TheoreticalOccupancy", true, 0.75, {10560, 256, 128, 0}, {{NULL, 0}}},
	{"TheoreticalOccupancy", true, 0.3, {10560, 256, 128, 0}, {COMPUTE(70), MEMORY(10)}},
	{"TheoreticalOccupancy", true, 0.56, {10560, 128, 32, 28 << 10}, {COMPUTE(10), MEMORY(10)}},
	{"TheoreticalOccupancy", false, NONE, {10560, 256, 128, 0}, {COMPUTE(99), MEMORY(10)}},
	{"TheoreticalOccupancy", false, NONE, {10560, 256, 32, 0}, {COMPUTE(10), MEMORY(10)}},
	{"AchievedOccupancy", true, 0.4, plain, {WARPS(60), COMPUTE(30), MEMORY(20)}},
	{"AchievedOccupancy", false, NONE, plain, {WARPS(95), COMPUTE(30), MEMORY(20)}},
	{"WorkloadImbalance",
	 true,
	 0.25,
	 plain,
	 {{"sm__cycles_active.avg", 50},
	  {"sm__cycles_active.max", 100},
	  {"sm__cycles_active.sum", 50},
	  {"sm__cycles_elapsed.sum", 100}}},
	{"WorkloadImbalance",
	 false,
	 NONE,
	 plain,
	 {{"sm__cycles_active.avg", 97},
	  {"sm__cycles_active.max", 100},
	  {"sm__cycles_active.sum", 97},
	  {"sm__cycles_elapsed.sum", 100}}},
	{"UncoalescedGlobalAccess",
	 true,
	 0.7,
	 plain,
	 {LOADS(800), STORES(0), LOAD_BYTES(4), STORE_BYTES(0), L2_ACTIVE(80), L2_ELAPSED(100)}},
	{"UncoalescedGlobalAccess",
	 true,
	 0.35,
	 plain,
	 {LOADS(400), STORES(400), LOAD_BYTES(32), STORE_BYTES(4), L2_ACTIVE(80), L2_ELAPSED(100)}},
	{"UncoalescedGlobalAccess",
	 false,
	 NONE,
	 plain,
	 {LOADS(800), STORES(100), LOAD_BYTES(32), STORE_BYTES(32), L2_ACTIVE(80),
	  L2_ELAPSED(100)}},
	{"UncoalescedGlobalAccess",
	 false,
	 NONE,
	 plain,
	 {LOADS(0), STORES(0), LOAD_BYTES(0), STORE_BYTES(0), L2_ACTIVE(1), L2_ELAPSED(100)}},
	/* Half of the requests read one value for all threads. */
	{"UncoalescedGlobalAccess",
	 false,
	 NONE,
	 plain,
	 {LOADS(1310720),
	  {"l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum", 524288},
	  STORES(0),
	  LOAD_BYTES(26.4),
	  STORE_BYTES(0),
	  L2_ACTIVE(80),
	  L2_ELAPSED(100)}},
	{"UncoalescedGlobalAccess",
	 true,
	 0.7,
	 plain,
	 {LOADS(800),
	  {"l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum", 25},
	  STORES(0),
	  LOAD_BYTES(4),
	  STORE_BYTES(0),
	  L2_ACTIVE(80),
	  L2_ELAPSED(100)}},
	/* A product whose tiles are copied straight to shared memory. */
	{"UncoalescedGlobalAccess",
	 false,
	 NONE,
	 plain,
	 {LOADS(12582912), STORES(0), LOAD_BYTES(0), STORE_BYTES(32), L2_ACTIVE(80),
	  L2_ELAPSED(100)}},
	{"UncoalescedSharedAccess",
	 false,
	 NONE,
	 plain,
	 {WAVEFRONTS(100), CONFLICTS(0), SHARED_EXCESS(5), L1(80)}},
	{"SharedMemoryConflicts", true, 0.72, plain, {WAVEFRONTS(100), CONFLICTS(90), L1(80)}},
	{"SharedMemoryConflicts",
	 true,
	 0.4,
	 plain,
	 {WAVEFRONTS(100), CONFLICTS(90), L1(80), L2(60)}},
	{"SharedMemoryConflicts", false, NONE, plain, {WAVEFRONTS(100), CONFLICTS(5), L1(80)}},
	{"UncoalescedSharedAccess",
	 true,
	 0.6,
	 plain,
	 {WAVEFRONTS(100), CONFLICTS(0), SHARED_EXCESS(75), L1(80)}},
	{"UncoalescedSharedAccess",
	 false,
	 NONE,
	 plain,
	 {WAVEFRONTS(100), CONFLICTS(90), SHARED_EXCESS(91), L1(80)}},
	{"LocalMemory",
	 true,
	 0.4,
	 plain,
	 {LOADS(50),
	  STORES(50),
	  {"l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum", 60},
	  {"l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum", 40},
	  MEMORY(80)}},
	{"LocalMemory",
	 false,
	 NONE,
	 plain,
	 {LOADS(50),
	  STORES(50),
	  {"l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum", 0},
	  {"l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum", 0},
	  MEMORY(80)}},
	{"MemoryApertureUsage",
	 true,
	 0.89,
	 plain,
	 {{"lts__t_sectors_srcunit_tex_aperture_sysmem_lookup_miss.sum", 9e6},
	  {"lts__t_sectors_srcunit_tex_lookup_miss.sum", 1e7},
	  {"gpu__time_duration.sum", 1e7},
	  {"dram__bytes.sum.peak_sustained", 3000},
	  {"dram__cycles_elapsed.avg.per_second", 1e9}}},
	{"MemoryApertureUsage",
	 false,
	 NONE,
	 plain,
	 {{"lts__t_sectors_srcunit_tex_aperture_sysmem_lookup_miss.sum", 0},
	  {"lts__t_sectors_srcunit_tex_lookup_miss.sum", 1e7},
	  {"gpu__time_duration.sum", 1e7},
	  {"dram__bytes.sum.peak_sustained", 3000},
	  {"dram__cycles_elapsed.avg.per_second", 1e9}}},
	{"MemoryL2Compression",
	 true,
	 NONE,
	 plain,
	 {{"lrc__average_ilc_input_sector_success_rate.pct", 5}}},
	{"MemoryL2Compression",
	 false,
	 NONE,
	 plain,
	 {{"lrc__average_ilc_input_sector_success_rate.pct", 0}}},
	{"ThreadDivergence", true, 0.7, plain, {ACTIVE_THREADS(4), PRED_THREADS(4), COMPUTE(80)}},
	{"ThreadDivergence", true, 0.4, plain, {ACTIVE_THREADS(32), PRED_THREADS(16), COMPUTE(80)}},
	{"ThreadDivergence",
	 false,
	 NONE,
	 plain,
	 {ACTIVE_THREADS(32), PRED_THREADS(30), COMPUTE(80)}},
	{"DoublePrecision",
	 true,
	 0.45,
	 plain,
	 {PEAKS,
	  RATE("dadd", 0),
	  RATE("dmul", 0),
	  RATE("dfma", 6000),
	  RATE("fadd", 0),
	  RATE("fmul", 0),
	  RATE("ffma", 0),
	  {"sm__inst_executed_pipe_fp64.avg.pct_of_peak_sustained_active", 90}}},
	{"DoublePrecision",
	 false,
	 NONE,
	 plain,
	 {PEAKS,
	  RATE("dadd", 0),
	  RATE("dmul", 0),
	  RATE("dfma", 0),
	  RATE("fadd", 0),
	  RATE("fmul", 0),
	  RATE("ffma", 9000),
	  {"sm__inst_executed_pipe_fp64.avg.pct_of_peak_sustained_active", 0}}},
	{"FPInstructions",
	 true,
	 0.45,
	 plain,
	 {RATE("fadd", 500), RATE("fmul", 500), RATE("ffma", 0), PIPE("fma", 90)}},
	{"FPInstructions",
	 false,
	 NONE,
	 plain,
	 {RATE("fadd", 500), RATE("fmul", 0), RATE("ffma", 500), PIPE("fma", 90)}},
	{"TensorCoresIdle",
	 true,
	 0.75,
	 plain,
	 {PIPE("fma", 90),
	  PIPE("tensor", 0),
	  MEMORY(20),
	  {"smsp__sass_thread_inst_executed_op_ffma_pred_on.sum", 3200},
	  {"smsp__sass_inst_executed_op_shared_ld.sum", 20},
	  {"smsp__inst_executed.sum", 150}}},
	{"TensorCoresIdle",
	 false,
	 NONE,
	 plain,
	 {PIPE("fma", 90),
	  PIPE("tensor", 0),
	  MEMORY(20),
	  {"smsp__sass_thread_inst_executed_op_ffma_pred_on.sum", 3200},
	  {"smsp__sass_inst_executed_op_shared_ld.sum", 0},
	  {"smsp__inst_executed.sum", 150}}},
	{"TensorCoresIdle",
	 false,
	 NONE,
	 plain,
	 {PIPE("fma", 60),
	  PIPE("tensor", 80),
	  MEMORY(20),
	  {"smsp__sass_thread_inst_executed_op_ffma_pred_on.sum", 3200},
	  {"smsp__sass_inst_executed_op_shared_ld.sum", 20},
	  {"smsp__inst_executed.sum", 150}}},
	{"HighPipeUtilization", true, NONE, plain, {PIPE("alu", 3), PIPE("fma", 90)}},
	{"HighPipeUtilization", true, NONE, plain, {PIPE("alu", 3), PIPE("fma", 2)}},
	{"HighPipeUtilization", false, NONE, plain, {PIPE("alu", 40), PIPE("fma", 30)}},
	{"HighPipeUtilization", false, NONE, plain, {PIPE("alu", 3), PIPE("fma", 2), MEMORY(90)}},
	{"SlowPipeLimiter",
	 true,
	 0.8,
	 plain,
	 {{"sm__instruction_throughput.avg.pct_of_peak_sustained_elapsed", 90},
	  {"sm__inst_issued.avg.pct_of_peak_sustained_elapsed", 10},
	  COMPUTE(90)}},
	{"SlowPipeLimiter",
	 false,
	 NONE,
	 plain,
	 {{"sm__instruction_throughput.avg.pct_of_peak_sustained_elapsed", 90},
	  {"sm__inst_issued.avg.pct_of_peak_sustained_elapsed", 80},
	  COMPUTE(90)}},
	/* A product that keeps the tensor cores busy. */
	{"SlowPipeLimiter",
	 false,
	 NONE,
	 plain,
	 {{"sm__instruction_throughput.avg.pct_of_peak_sustained_elapsed", 90},
	  {"sm__inst_issued.avg.pct_of_peak_sustained_elapsed", 10},
	  {"sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed", 90},
	  COMPUTE(90)}},
	{"IssueSlotUtilization", true, 0.7, plain, {ISSUE(0.1), COMPUTE(30), MEMORY(20)}},
	{"IssueSlotUtilization", false, NONE, plain, {ISSUE(0.7), COMPUTE(30), MEMORY(20)}},
	{"CPIStall",
	 true,
	 0.7,
	 plain,
	 {ISSUE(0.1), LATENCY(100), LONG(90), COMPUTE(30), MEMORY(9)}},
	{"CPIStall", true, 0.4, plain, {ISSUE(0.1), LATENCY(100), BARRIER(40), COMPUTE(30)}},
	{"CPIStall", false, NONE, plain, {ISSUE(0.9), LATENCY(100), LONG(90), COMPUTE(30)}},
	{"CPIStall", false, NONE, plain, {ISSUE(0.1), LATENCY(100), LONG(20), COMPUTE(30)}},
	{"SOLFPRoofline",
	 true,
	 NONE,
	 plain,
	 {PEAKS, RATE("dadd", 0), RATE("dmul", 0), RATE("dfma", 0), RATE("fadd", 0),
	  RATE("fmul", 0), RATE("ffma", 9000)}},
	{"SOLFPRoofline", false, NONE, plain, {PEAKS}},
};

static int compare_names(const void *a, const void *b)
{
	const struct ws_kernel_metric *left = a, *right = b;

	return strcmp(left->name, right->name);
}

static struct ws_kernel_result make_result(const struct launch *launch, const struct made *made,
					   struct ws_kernel_metric *metrics)
{
	struct ws_kernel_result result = {
		.row = {.grid_x = launch->grid,
			.grid_y = 1,
			.grid_z = 1,
			.block_x = launch->block,
			.block_y = 1,
			.block_z = 1,
			.registers = launch->registers,
			.dynamic_shared = launch->shared,
			.executed_shared = WS_NO_U32},
		.device = {.sms = 132,
			   .warp = 32,
			   .warps_sm = 64,
			   .blocks_sm = 32,
			   .regs_sm = 65536,
			   .regs_block = 65536,
			   .shared_sm = 233472,
			   .shared_reserved = 1024,
			   .threads_block = 1024,
			   .major = 9},
		.name = "scale",
		.demangled = "scale(float *)",
		.chip = "GH100",
		.gpu = "",
		.tool = "",
		.error = "",
		.nvtx = "",
		.replay = "",
		.cache_control = "",
		.clock_control = "",
		.sections = "",
		.metrics = metrics,
	};

	for (; result.metric_count < MOST_METRICS && made[result.metric_count].name;
	     result.metric_count++)
		metrics[result.metric_count] =
			(struct ws_kernel_metric){.name = made[result.metric_count].name,
						  .unit = "",
						  .value = made[result.metric_count].value};
	if (result.metric_count)
		qsort(metrics, result.metric_count, sizeof(*metrics), compare_names);
	return result;
}

static const struct ws_kernel_finding *find_finding(const struct ws_kernel_findings *findings,
						    const char *rule)
{
	for (size_t i = 0; i < findings->count; i++)
		if (!strcmp(findings->findings[i].rule, rule))
			return &findings->findings[i];
	return NULL;
}

static void check_finding(const struct rule_case *rule_case, size_t number,
			  const struct ws_kernel_finding *finding)
{
	if (!finding != !rule_case->fires)
		fail_msg("case %zu: %s %s", number, rule_case->rule,
			 finding ? "spoke" : "was silent");
	if (!finding)
		return;
	if (rule_case->estimate < 0 ? !isnan(finding->estimate)
				    : !(fabs(finding->estimate - rule_case->estimate) < 0.011))
		fail_msg("case %zu: %s estimates %g, not %g", number, rule_case->rule,
			 finding->estimate, rule_case->estimate);
	assert_true(finding->evidence_count > 0);
	assert_true(strlen(finding->title) > 10 && strlen(finding->advice) > 10);
	assert_true(isnan(finding->estimate) || finding->assumption);
}

static void test_each_rule(void **state)
{
	(void)state;
	for (size_t i = 0; i < WS_COUNT(cases); i++) {
		struct ws_kernel_metric metrics[MOST_METRICS];
		struct ws_kernel_result result =
			make_result(&cases[i].launch, cases[i].metrics, metrics);
		struct ws_kernel_findings findings = {0};

		ws_kernel_judge(&result, &findings);
		check_finding(&cases[i], i, find_finding(&findings, cases[i].rule));
		ws_kernel_findings_free(&findings);
	}
}

/* Every rule of the list has a case that fires and one that does not; the verdict has a test of its
 * own. */
static void test_no_rule_is_left_out(void **state)
{
	(void)state;
	for (size_t i = 0; ws_kernel_rules[i]; i++) {
		unsigned seen = !strcmp(ws_kernel_rules[i]->identifier, "SOLBottleneck") ? 3 : 0;

		for (size_t k = 0; k < WS_COUNT(cases); k++)
			if (!strcmp(cases[k].rule, ws_kernel_rules[i]->identifier))
				seen |= cases[k].fires ? 1 : 2;
		if (seen != 3)
			fail_msg("%s has not both kinds of cases", ws_kernel_rules[i]->identifier);
		if (ws_kernel_find_section(ws_kernel_rules[i]->section, NULL) < 0)
			fail_msg("%s belongs to no section", ws_kernel_rules[i]->identifier);
	}
}

static void test_verdicts(void **state)
{
	static const struct {
		double compute, memory;
		uint32_t grid;
		const char *words;
	} verdicts[] = {{90, 20, 10560, "Bound by compute"},
			{20, 90, 10560, "Bound by memory"},
			{70, 20, 10560, "Mostly bound by compute"},
			{20, 70, 10560, "Mostly bound by memory"},
			{65, 68, 10560, "Balanced"},
			{20, 30, 10560, "Bound by latency"},
			{20, 30, 100, "Small grid"}};

	(void)state;
	for (size_t i = 0; i < WS_COUNT(verdicts); i++) {
		struct launch launch = {verdicts[i].grid, 256, 32, 0};
		const struct made made[MOST_METRICS] = {COMPUTE(verdicts[i].compute),
							MEMORY(verdicts[i].memory)};
		struct ws_kernel_metric metrics[MOST_METRICS];
		struct ws_kernel_result result = make_result(&launch, made, metrics);
		struct ws_kernel_findings findings = {0};

		ws_kernel_judge(&result, &findings);
		assert_true(findings.count > 0);
		assert_int_equal(findings.findings[0].kind, WS_KERNEL_VERDICT);
		if (strncmp(findings.findings[0].title, verdicts[i].words,
			    strlen(verdicts[i].words)) != 0)
			fail_msg("%s is not %s", findings.findings[0].title, verdicts[i].words);
		ws_kernel_findings_free(&findings);
	}
}

/* A cause stands before the symptom that it explains, even where both promise as much. */
static void test_order(void **state)
{
	static const struct made made[MOST_METRICS] = {COMPUTE(20), MEMORY(10), ISSUE(0.1),
						       LATENCY(100), LONG(90)};
	struct launch launch = {10560, 256, 128, 0};
	struct ws_kernel_metric metrics[MOST_METRICS];
	struct ws_kernel_result result = make_result(&launch, made, metrics);
	struct ws_kernel_findings findings = {0};

	(void)state;
	ws_kernel_judge(&result, &findings);
	assert_string_equal(findings.findings[1].rule, "TheoreticalOccupancy");
	assert_ptr_equal(ws_kernel_first_finding(&findings), &findings.findings[1]);
	ws_kernel_findings_free(&findings);
}

static void test_occupancy_of_the_launch(void **state)
{
	struct launch launch = {1056 * 3, 256, 40, 20 << 10};
	static const struct made none[MOST_METRICS];
	struct ws_kernel_metric metrics[MOST_METRICS];
	struct ws_kernel_result result = make_result(&launch, none, metrics);

	(void)state;
	assert_float_equal(ws_kernel_get(&result, "launch__occupancy_limit_registers"), 6, 0);
	assert_float_equal(ws_kernel_get(&result, "launch__occupancy_limit_shared_mem"), 10, 0);
	assert_float_equal(ws_kernel_get(&result, "launch__occupancy_limit_warps"), 8, 0);
	assert_float_equal(ws_kernel_get(&result, "launch__occupancy_limit_blocks"), 32, 0);
	assert_float_equal(ws_kernel_get(&result, "sm__maximum_warps_per_active_cycle_pct"), 75, 0);
	assert_float_equal(ws_kernel_get(&result, "launch__waves_per_multiprocessor"), 4, 0);
	assert_true(isnan(ws_kernel_get(&result, "sm__warps_active.avg.per_cycle_active")));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_rule),
		cmocka_unit_test(test_no_rule_is_left_out),
		cmocka_unit_test(test_verdicts),
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_occupancy_of_the_launch),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
