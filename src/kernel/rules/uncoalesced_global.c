/*
 * uncoalesced_global.c - global accesses that move sectors of which only a part is used.
 *
 * A sector has 32 bytes. The number of bytes per sector that the threads asked for says how many
 * sectors were moved needlessly; they cost time when the L2 cache, which delivers them, is busy.
 */
#include "kernel/rules/rule.h"

#define LEAST_EXCESS 0.05
#define LOADS "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"
#define STORES "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"
#define LOAD_BYTES "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio"
#define STORE_BYTES "smsp__sass_average_data_bytes_per_sector_mem_global_op_st.ratio"
#define EXCESSIVE "derived__memory_l2_theoretical_sectors_global_excessive"

/* How busy the path to memory is: the L2 cache, or a substitute when that was not measured. */
static double find_weight(const struct ws_kernel_result *result)
{
	double active = ws_kernel_get(result, "lts__cycles_active.sum") /
			ws_kernel_get(result, "lts__cycles_elapsed.sum");

	if (isnan(active))
		active = ws_kernel_memory_share(result);
	return fmin(active, 1);
}

static void check(const struct ws_kernel_result *result, struct ws_kernel_findings *findings)
{
	double sectors =
		       ws_kernel_get_or_zero(result, LOADS) + ws_kernel_get_or_zero(result, STORES),
	       excess = ws_kernel_get(result, EXCESSIVE) / sectors, estimate;
	struct ws_kernel_finding *finding;

	if (!sectors || isnan(excess) || excess < LEAST_EXCESS)
		return;
	estimate = fmin(excess, 1) * find_weight(result);
	if (isnan(estimate) || estimate < WS_KERNEL_LEAST_GAIN)
		return;
	finding = ws_kernel_add_finding(findings, &ws_kernel_rule_uncoalesced_global,
					WS_KERNEL_CAUSE, estimate);
	finding->title = ws_format("Global accesses are not coalesced: %.0f %% of the sectors "
				   "are moved in vain",
				   100 * excess);
	finding->advice = ws_strdup("Let neighbouring threads use neighbouring addresses: "
				    "structures of arrays, another order of indices, or a detour "
				    "through shared memory.");
	finding->assumption = ws_strdup("time follows the sectors that the L2 cache moves, while "
					"it is active");
	ws_kernel_prove(finding, result, "bytes used of a sector (32), loads", LOAD_BYTES);
	ws_kernel_prove(finding, result, "bytes used of a sector (32), stores", STORE_BYTES);
	ws_kernel_prove(finding, result, "sectors loaded", LOADS);
	ws_kernel_prove(finding, result, "sectors stored", STORES);
	ws_kernel_prove(finding, result, "sectors in vain", EXCESSIVE);
}

const struct ws_kernel_rule ws_kernel_rule_uncoalesced_global = {
	"UncoalescedGlobalAccess", "SourceCounters",
	"global accesses that use part of their sectors", check};
