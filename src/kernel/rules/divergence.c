/* divergence.c - instructions that only some of the 32 lanes execute: threads of a warp took
 * different branches, or were predicated off. */
#include "kernel/rules/rule.h"

#define ENOUGH 24.0
#define ACTIVE "smsp__thread_inst_executed_per_inst_executed.ratio"
#define PREDICATED "smsp__thread_inst_executed_pred_on_per_inst_executed.ratio"

static void check(const struct ws_kernel_result *result, struct ws_kernel_findings *findings)
{
	double active = ws_kernel_get(result, ACTIVE), on = ws_kernel_get(result, PREDICATED),
	       least = fmin(active, on), weight = ws_kernel_compute_share(result), estimate;
	struct ws_kernel_finding *finding;

	if (isnan(least) || least >= ENOUGH || least <= 0)
		return;
	estimate = (1 - least / 32) * fmin(isnan(weight) ? 1 : weight, 1);
	if (estimate < WS_KERNEL_LEAST_GAIN)
		return;
	finding = ws_kernel_add_finding(findings, &ws_kernel_rule_divergence, WS_KERNEL_CAUSE,
					estimate);
	finding->title = ws_format("Threads of a warp diverge: an instruction works for %.1f of 32 "
				   "threads",
				   least);
	finding->advice = ws_strdup("Let the threads of a warp take the same branch: sort or group "
				    "the work by kind, choose the branch by warp, or compute both "
				    "sides and select.");
	finding->assumption = ws_strdup("full warps need as many instructions fewer, as far as "
					"compute is busy");
	ws_kernel_prove(finding, result, "active threads of an instruction (32)", ACTIVE);
	ws_kernel_prove(finding, result, "of these, not predicated off", PREDICATED);
	ws_kernel_prove(finding, result, "divergent branches",
			"smsp__sass_branch_targets_threads_divergent.avg");
	ws_kernel_prove(finding, result, "compute throughput", WS_COMPUTE_THROUGHPUT);
}

const struct ws_kernel_rule ws_kernel_rule_divergence = {
	"ThreadDivergence", "WarpStateStats", "warps whose threads take different branches", check};
