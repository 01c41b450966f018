/*
 * uncoalesced_shared.c - accesses to shared memory that move less than a wavefront can (128 bytes),
 * without bank conflicts: narrow types, or few lanes.
 */
#include "kernel/rules/rule.h"

#define LEAST_EXCESS 0.5
#define BUSY 0.5
#define LEAST_BYTES 4.0
#define BYTES "smsp__sass_average_data_bytes_per_wavefront_mem_shared.ratio"
#define CONFLICTS "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"
#define WAVEFRONTS "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"

static void check(const struct ws_kernel_result *result, struct ws_kernel_findings *findings)
{
	enum { WAVEFRONT_BYTES = 128 };
	double bytes = ws_kernel_get(result, BYTES), wavefronts = ws_kernel_get(result, WAVEFRONTS),
	       conflicts = ws_kernel_get(result, CONFLICTS) / wavefronts,
	       weight = ws_kernel_get(result, WS_L1_THROUGHPUT) / 100, excess;
	struct ws_kernel_finding *finding;

	if (isnan(bytes) || isnan(weight) || bytes <= 0 || !(wavefronts > 0) || weight < BUSY)
		return;
	/* Matrix products and tile copies use wavefronts but are not counted in the bytes. */
	if (bytes < LEAST_BYTES)
		return;
	/* Conflicts are subtracted since they have a rule of their own. */
	excess = 1 - bytes / WAVEFRONT_BYTES - (isnan(conflicts) ? 0 : conflicts);
	if (excess < LEAST_EXCESS)
		return;
	finding = ws_kernel_add_finding(findings, &ws_kernel_rule_uncoalesced_shared,
					WS_KERNEL_CAUSE, excess * fmin(weight, 1));
	finding->title = ws_format("Accesses to shared memory move %.0f of the 128 bytes of a "
				   "wavefront",
				   bytes);
	finding->advice = ws_strdup("Let each lane move 4 bytes or more, and all lanes take part: "
				    "vector types, packed narrow types.");
	finding->assumption = ws_strdup("time follows the wavefronts of the L1/TEX cache, as far "
					"as it is busy");
	ws_kernel_prove(finding, result, "bytes of a wavefront (128)", BYTES);
	ws_kernel_prove(finding, result, "wavefronts of shared memory", WAVEFRONTS);
	ws_kernel_prove(finding, result, "L1/TEX throughput", WS_L1_THROUGHPUT);
}

const struct ws_kernel_rule ws_kernel_rule_uncoalesced_shared = {
	"UncoalescedSharedAccess", "SourceCounters", "wavefronts of shared memory that move little",
	check};
