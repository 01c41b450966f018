/* slow_pipe.c - few instructions issue, but the compute throughput is high: the limit is a pipe
 * that takes many cycles per instruction. */
#include "kernel/rules/rule.h"

#define HIGH 80.0
#define FEW 20.0
#define APART 25.0
#define THROUGHPUT "sm__instruction_throughput.avg.pct_of_peak_sustained_elapsed"
#define TENSOR "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed"
#define ISSUED "sm__inst_issued.avg.pct_of_peak_sustained_elapsed"

static void check(const struct ws_kernel_result *result, struct ws_kernel_findings *findings)
{
	double throughput = ws_kernel_get(result, THROUGHPUT),
	       issued = ws_kernel_get(result, ISSUED), weight = ws_kernel_compute_share(result);
	struct ws_kernel_finding *finding;

	if (!(throughput >= HIGH) || !(issued < FEW) || !(throughput - issued > APART))
		return;
	/* No other pipe does the work of tensor cores faster. */
	if (ws_kernel_get(result, TENSOR) > throughput - 1)
		return;
	finding = ws_kernel_add_finding(findings, &ws_kernel_rule_slow_pipe, WS_KERNEL_SYMPTOM,
					(throughput - issued) / throughput *
						fmin(isnan(weight) ? 1 : weight, 1));
	finding->title = ws_format("A slow pipe holds the kernel back: it is %.0f %% busy while "
				   "%.0f %% of the issue slots are used",
				   throughput, issued);
	finding->advice = ws_strdup("Replace instructions of that pipe: the table of pipes shows "
				    "which it is.");
	finding->assumption = ws_strdup("other pipes can do the work");
	ws_kernel_prove(finding, result, "instruction throughput", THROUGHPUT);
	ws_kernel_prove(finding, result, "issue slots used", ISSUED);
}

const struct ws_kernel_rule ws_kernel_rule_slow_pipe = {"SlowPipeLimiter",
							"ComputeWorkloadAnalysis",
							"a pipe with few instructions is the limit",
							check};
