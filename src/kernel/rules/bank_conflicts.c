/* bank_conflicts.c - lanes of a warp access different words in the same bank of shared memory, so
 * that the accesses are serialised. */
#include "kernel/rules/rule.h"

#define LEAST_SHARE 0.1
#define WAVEFRONTS "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"
#define CONFLICTS "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"
#define LOADS "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"
#define STORES "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum"

static void check(const struct ws_kernel_result *result, struct ws_kernel_findings *findings)
{
	double wavefronts = ws_kernel_get(result, WAVEFRONTS),
	       share = ws_kernel_get(result, CONFLICTS) / wavefronts,
	       weight = ws_kernel_get(result, WS_L1_THROUGHPUT) / 100, estimate;
	struct ws_kernel_finding *finding;

	if (isnan(share) || share < LEAST_SHARE || !(wavefronts > 0))
		return;
	/* Beyond this gain, the next level of memory is the limit. */
	estimate = fmin(fmin(share, 1) * fmin(weight, 1),
			1 - fmax(ws_kernel_get_or_zero(result, WS_L2_THROUGHPUT),
				 ws_kernel_get_or_zero(result, WS_DRAM_THROUGHPUT)) /
					100);
	if (isnan(estimate) || estimate < WS_KERNEL_LEAST_GAIN)
		return;
	finding = ws_kernel_add_finding(findings, &ws_kernel_rule_bank_conflicts, WS_KERNEL_CAUSE,
					estimate);
	finding->title = ws_format("Bank conflicts: %.0f %% of the wavefronts of shared memory "
				   "only repeat an access, which is %.1f-fold in the mean",
				   100 * share, 1 / ws_max(1 - share, 1e-3));
	finding->advice = ws_strdup("Make the lanes of a warp use different banks: pad rows by one "
				    "element, swizzle indices, or change which thread reads what.");
	finding->assumption = ws_strdup("time follows the wavefronts of the L1/TEX cache, as far "
					"as it is busy");
	ws_kernel_prove(finding, result, "wavefronts of shared memory", WAVEFRONTS);
	ws_kernel_prove(finding, result, "of these, conflicts", CONFLICTS);
	ws_kernel_prove(finding, result, "conflicts of loads", LOADS);
	ws_kernel_prove(finding, result, "conflicts of stores", STORES);
	ws_kernel_prove(finding, result, "L1/TEX throughput", WS_L1_THROUGHPUT);
}

const struct ws_kernel_rule ws_kernel_rule_bank_conflicts = {
	"SharedMemoryConflicts", "MemoryWorkloadAnalysis_Tables",
	"lanes that take turns at a bank of shared memory", check};
