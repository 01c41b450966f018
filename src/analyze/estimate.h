/*
 * estimate.h - estimates what fixing a finding could gain, by scheduling the recorded work again
 * (graph.h). The graph is built when the first rule asks, and belongs to the analysis.
 */
#ifndef WS_ANALYZE_ESTIMATE_H
#define WS_ANALYZE_ESTIMATE_H

#include "analyze/analysis.h"
#include "analyze/graph.h"

/* How much of its cost a node keeps, 1 for all of it. */
typedef double ws_cost_function(const struct ws_analysis *analysis, const struct ws_node *node,
				const void *context);

/* How much shorter the window would be if nodes cost what `cost` says, ns. If the window is too
 * large for the graph, its first part is scheduled and the gain scaled to the whole. */
uint64_t ws_estimate_gain(const struct ws_analysis *analysis, ws_cost_function *cost,
			  const void *context);

/*
 * Returns `gain_ns`, which a rule computed, or the gain by scheduling where that is less, because
 * other work may take nearly as long. Where calls of CUDA were not recorded nothing can be
 * scheduled, and `gain_ns` stays.
 */
uint64_t ws_estimate_bound(const struct ws_analysis *analysis, uint64_t gain_ns,
			   ws_cost_function *cost, const void *context);

/* Costs for ws_estimate_gain. No code of the steps' process takes time; context NULL. */
ws_cost_function ws_cost_without_cpu;
/* Nothing waits for a GPU, and calls that copy do not fetch what was waited for; context NULL. */
ws_cost_function ws_cost_without_syncs;
/* Copies cost nothing; context NULL. */
ws_cost_function ws_cost_without_copies;
/* Loops of short calls copy nothing: calls of copies, the code between two of them, and copies of
 * less than 20 us cost nothing; context NULL. */
ws_cost_function ws_cost_without_copy_loops;
/* Communication takes half as long; context NULL. */
ws_cost_function ws_cost_of_half_communication;

/* Calls of CUDA and the waits in them cost less. */
struct ws_call_cost {
	const char *const *names; /* as for ws_facts_sum_calls */
	double factor;
};
ws_cost_function ws_cost_of_calls; /* context: struct ws_call_cost */

/* Kernels cost less. */
struct ws_kernel_cost {
	const uint32_t *names; /* as ws_report_string_key has them */
	size_t count;
	double factor;
};
ws_cost_function ws_cost_of_kernels; /* context: struct ws_kernel_cost */

/* Threads cost nothing, their waits for time and devices included. */
struct ws_thread_cost {
	bool (*concerns)(const struct ws_analysis *analysis, uint32_t thread);
};
ws_cost_function ws_cost_without_threads; /* context: struct ws_thread_cost */

#endif
