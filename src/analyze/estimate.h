/*
 * estimate.h - what findings could gain, by scheduling the recorded work again (graph.h). The graph
 * is built when the first rule asks, and belongs to the analysis.
 */
#ifndef WS_ANALYZE_ESTIMATE_H
#define WS_ANALYZE_ESTIMATE_H

#include "analyze/analysis.h"
#include "analyze/graph.h"

/* How much of its cost a node keeps, 1 for all of it. */
typedef double ws_cost_function(const struct ws_analysis *analysis, const struct ws_node *node,
				const void *context);

/* How much shorter the window would be if nodes cost what `cost` says, ns. Of a window that is too
 * large for the graph the first part is scheduled, and its gain taken for all. */
uint64_t ws_estimate_gain(const struct ws_analysis *analysis, ws_cost_function *cost,
			  const void *context);

/* `gain_ns`, which a rule computed, or what scheduling says where that is less: other work may take
 * nearly as long. Where calls of CUDA were not recorded there is nothing to schedule work by, and
 * `gain_ns` stays. */
uint64_t ws_estimate_bound(const struct ws_analysis *analysis, uint64_t gain_ns,
			   ws_cost_function *cost, const void *context);

/* Costs for ws_estimate_gain. No code of the steps' process takes time; context NULL. */
ws_cost_function ws_cost_without_cpu;
/* Nothing waits for a GPU, and what was waited for is not fetched from it by calls that copy;
 * context NULL. */
ws_cost_function ws_cost_without_syncs;
/* Copies cost nothing; context NULL. */
ws_cost_function ws_cost_without_copies;
/* Nothing is copied by loops of short calls: calls of copies, the code between one and the next,
 * and copies of less than 20 us cost nothing; context NULL. */
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
