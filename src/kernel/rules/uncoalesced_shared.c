/*
 * uncoalesced_shared.c - accesses to shared memory that take more wavefronts than their bytes need.
 * Only counts of single instructions show that: an access by which all lanes read the same word
 * moves little but wastes nothing.
 */
#include "kernel/rules/rule.h"

#define LEAST_EXCESS 0.1
#define EXCESS "derived__memory_l1_wavefronts_shared_excessive"
#define CONFLICTS "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"
#define WAVEFRONTS "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"

static void check(const struct ws_kernel_result *result, struct ws_kernel_findings *findings)
{
	double wavefronts = ws_kernel_get(result, WAVEFRONTS),
	       excess = ws_kernel_get(result, EXCESS) / wavefronts,
	       conflicts = ws_kernel_get(result, CONFLICTS) / wavefronts,
	       weight = ws_kernel_get(result, WS_L1_THROUGHPUT) / 100;
	struct ws_kernel_finding *finding;

	if (isnan(excess) || isnan(weight) || !(wavefronts > 0))
		return;
	/* Conflicts are subtracted since they have a rule of their own. */
	excess = fmin(excess, 1) - (isnan(conflicts) ? 0 : conflicts);
	if (excess < LEAST_EXCESS)
		return;
	finding = ws_kernel_add_finding(findings, &ws_kernel_rule_uncoalesced_shared,
					WS_KERNEL_CAUSE, excess * fmin(weight, 1));
	finding->title = ws_format("%.0f %% of the wavefronts of shared memory are more than the "
				   "bytes need",
				   100 * excess);
	finding->advice = ws_strdup("Let neighbouring lanes use neighbouring words, and move 4 "
				    "bytes or more with each: vector types, packed narrow types.");
	finding->assumption = ws_strdup("time follows the wavefronts of the L1/TEX cache, as far "
					"as it is busy");
	ws_kernel_prove(finding, result, "wavefronts in excess", EXCESS);
	ws_kernel_prove(finding, result, "wavefronts of shared memory", WAVEFRONTS);
	ws_kernel_prove(finding, result, "L1/TEX throughput", WS_L1_THROUGHPUT);
}

const struct ws_kernel_rule ws_kernel_rule_uncoalesced_shared = {
	"UncoalescedSharedAccess", "SourceCounters",
	"more wavefronts of shared memory than its bytes need", check};
