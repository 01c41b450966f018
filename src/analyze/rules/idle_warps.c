/*
 * idle_warps.c - kernels with work on most multiprocessors, but few warps in each. This is
 * measured, while low_occupancy computes how many would fit.
 *
 * Kernels that keep the tensor cores or the memory busy need no more warps.
 */
#include <math.h>

#include "analyze/rules/rules.h"

#define MOST_WARPS 12.5 /* percent: 8 of 64 */
#define LEAST_ACTIVE 50 /* percent */
#define MOST_ISSUE 25	/* percent */
#define LEAST_SHARE 0.1 /* of the path */

static bool is_idle(const struct ws_measured_kernel *kernel)
{
	return kernel->own_share >= 0.5 && kernel->bound == WS_BOUND_LATENCY &&
	       kernel->means[WS_GPU_WARPS] > 0 && /* 0 means that the counter does not count */
	       kernel->means[WS_GPU_WARPS] < MOST_WARPS &&
	       kernel->means[WS_GPU_SM_ACTIVE] >= LEAST_ACTIVE &&
	       !(kernel->means[WS_GPU_SM_ISSUE] > MOST_ISSUE) &&
	       !(kernel->means[WS_GPU_TENSOR] > MOST_ISSUE);
}

static void report_kernel(const struct ws_analysis *analysis, const struct ws_kernel_fact *kernel,
			  const struct ws_measured_kernel *measured, uint64_t on_path,
			  struct ws_findings *findings)
{
	struct ws_finding *finding = ws_findings_add_fault(analysis, findings, &ws_rule_idle_warps,
							   on_path, on_path / 4);
	struct ws_text launch = {0};

	ws_put_launch(analysis, kernel, finding, &launch);
	finding->title = ws_format(
		"The kernel %.80s has %.1f %% of the warps in flight that fit, although %.0f %% of "
		"the multiprocessors are active%s",
		ws_report_string(analysis->model->report, kernel->name, NULL),
		measured->means[WS_GPU_WARPS], measured->means[WS_GPU_SM_ACTIVE],
		ws_text_or(launch.text, ""));
	ws_text_free(&launch);
	if (kernel->threads && kernel->threads < 64)
		finding->advice = ws_format("Its blocks have %llu threads: give them 128 to 256, "
					    "or each thread less to do.",
					    (unsigned long long)kernel->threads);
	else
		finding->advice =
			ws_strdup("Give it more threads: larger blocks or more of them on a "
				  "multiprocessor (fewer registers, less shared memory), and work "
				  "for them that is shared out evenly.");
	finding->assumption = ws_strdup("a quarter of its time is latency that warps could hide");
	finding->next = ws_strdup("warpsight stats -r gpu_metric_kern_sum REPORT");
	ws_finding_add_evidence(finding, "its longest run", ws_proof_kernels, kernel->longest.start,
				kernel->longest.end);
}

static void check_warps(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	const struct ws_facts *facts = &analysis->facts;

	for (size_t i = 0; i < facts->kernel_count; i++) {
		uint64_t on_path;

		if (!is_idle(&analysis->measured.kernels[i]) ||
		    ws_is_library_kernel(analysis, &facts->kernels[i]))
			continue;
		on_path = ws_sum_path_kernel(analysis, facts->kernels[i].name);
		if (ws_analysis_share(analysis, on_path) >= LEAST_SHARE)
			report_kernel(analysis, &facts->kernels[i], &analysis->measured.kernels[i],
				      on_path, findings);
	}
}

const struct ws_rule ws_rule_idle_warps = {
	.name = "idle-warps",
	.title = "Kernels with few warps in flight, as measured",
	.about = "A kernel that takes 10 % of the critical path or more has fewer than 12.5 % of "
		 "the warps in flight that fit (a block of one warp, threads that end early), "
		 "while half of the multiprocessors or more are active, and neither memory nor "
		 "tensor cores nor the issue of instructions are busy. Not for kernels of "
		 "libraries. Needs sampled GPU metrics.",
	.find_obstacle = ws_need_gpu_metrics,
	.query = ws_proof_metrics,
	.check = check_warps,
};
