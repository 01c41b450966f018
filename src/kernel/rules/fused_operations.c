/* fused_operations.c - additions and multiplications that could be fused. */
#include "kernel/rules/rule.h"

#define LEAST_RATIO 0.1
#define RATE(op) "smsp__sass_thread_inst_executed_op_" op "_pred_on.sum.per_cycle_elapsed"

static const struct precision {
	const char *name, *add, *mul, *fma, *pipe;
} precisions[] = {
	{"FP32", RATE("fadd"), RATE("fmul"), RATE("ffma"),
	 "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active"},
	{"FP64", RATE("dadd"), RATE("dmul"), RATE("dfma"),
	 "sm__pipe_fp64_cycles_active.avg.pct_of_peak_sustained_active"},
};

static void check_precision(const struct ws_kernel_result *result,
			    const struct precision *precision, struct ws_kernel_findings *findings)
{
	double add = ws_kernel_get(result, precision->add),
	       mul = ws_kernel_get(result, precision->mul),
	       fma = ws_kernel_get(result, precision->fma),
	       /* One addition and one multiplication at most are fused into one instruction. */
		pairs = fmin(add, mul), ratio = pairs / (add + mul + fma),
	       pipe = ws_kernel_get(result, precision->pipe) / 100;
	struct ws_kernel_finding *finding;

	if (isnan(ratio) || isnan(pipe) || ratio <= LEAST_RATIO ||
	    ratio * pipe < WS_KERNEL_LEAST_GAIN)
		return;
	finding = ws_kernel_add_finding(findings, &ws_kernel_rule_fused_operations, WS_KERNEL_CAUSE,
					ratio * fmin(pipe, 1));
	finding->title = ws_format("%.0f %% of the %s instructions are sums and products that "
				   "could be fused",
				   100 * (add + mul) / (add + mul + fma), precision->name);
	finding->advice = ws_strdup("Write a * b + c in one expression, use fma(), and do not "
				    "compile with -fmad=false.");
	finding->assumption = ws_strdup("each sum finds a product to be fused with, as far as the "
					"pipe is busy");
	ws_kernel_prove(finding, result, "sums", precision->add);
	ws_kernel_prove(finding, result, "products", precision->mul);
	ws_kernel_prove(finding, result, "fused", precision->fma);
	ws_kernel_prove(finding, result, "the pipe", precision->pipe);
}

static void check(const struct ws_kernel_result *result, struct ws_kernel_findings *findings)
{
	for (size_t i = 0; i < WS_COUNT(precisions); i++)
		check_precision(result, &precisions[i], findings);
}

const struct ws_kernel_rule ws_kernel_rule_fused_operations = {
	"FPInstructions", "InstructionStats", "sums and products that could be fused", check};
