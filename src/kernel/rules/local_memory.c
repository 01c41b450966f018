/* local_memory.c - spilled registers, or arrays of a thread that are indexed at run time: they are
 * in device memory and are accessed through the L1/TEX cache. */
#include "kernel/rules/rule.h"

#define LEAST_SHARE 0.05
#define LOADS "l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum"
#define STORES "l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum"
#define GLOBAL_LOADS "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"
#define GLOBAL_STORES "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"

static void check(const struct ws_kernel_result *result, struct ws_kernel_findings *findings)
{
	double local = ws_kernel_get(result, LOADS) + ws_kernel_get(result, STORES),
	       global = ws_kernel_get(result, GLOBAL_LOADS) + ws_kernel_get(result, GLOBAL_STORES),
	       share = local / (local + global), estimate;
	struct ws_kernel_finding *finding;

	if (isnan(share) || share < LEAST_SHARE)
		return;
	estimate = share * ws_kernel_memory_share(result);
	if (isnan(estimate) || estimate < WS_KERNEL_LEAST_GAIN)
		return;
	finding = ws_kernel_add_finding(findings, &ws_kernel_rule_local_memory, WS_KERNEL_CAUSE,
					estimate);
	finding->title = ws_format("%.0f %% of the sectors are local memory: spilled registers or "
				   "arrays of single threads",
				   100 * share);
	finding->advice = ws_strdup("Allow more registers (__launch_bounds__, -maxrregcount), keep "
				    "less in each thread, and index small arrays by constants, so "
				    "that they fit into registers.");
	finding->assumption = ws_strdup("time follows the traffic of memory, as far as it is busy");
	ws_kernel_prove(finding, result, "local sectors loaded", LOADS);
	ws_kernel_prove(finding, result, "local sectors stored", STORES);
	ws_kernel_prove(finding, result, "registers of a thread", "launch__registers_per_thread");
}

const struct ws_kernel_rule ws_kernel_rule_local_memory = {"LocalMemory",
							   "MemoryWorkloadAnalysis_Tables",
							   "spilled registers, arrays of threads",
							   check};
