/*
 * partial_warps.c - kernels whose blocks do not fill their warps: a multiprocessor runs 32 threads
 * in step, however few there are.
 */
#include "analyze/rules/rules.h"

enum { WARP = 32 };
#define LEAST_WASTE 0.25

/* The share of the lanes of warps that no thread uses. */
static double measure_waste(const struct ws_kernel_fact *kernel)
{
	uint64_t lanes = (kernel->threads + WARP - 1) / WARP * WARP;

	if (!lanes)
		return 0;
	return 1 - (double)kernel->threads / (double)lanes;
}

static void report_kernel(const struct ws_analysis *analysis, const struct ws_kernel_fact *kernel,
			  uint64_t on_path, struct ws_findings *findings)
{
	double waste = measure_waste(kernel);
	struct ws_kernel_cost cost = {&kernel->name, 1, 1 - waste};
	uint64_t gain = ws_estimate_bound(analysis, (uint64_t)((double)on_path * waste),
					  ws_cost_of_kernels, &cost);
	struct ws_finding *finding =
		ws_findings_add_fault(analysis, findings, &ws_rule_partial_warps, on_path, gain);
	struct ws_text launch = {0};

	ws_put_launch(analysis, kernel, finding, &launch);
	finding->title =
		ws_format("The kernel %s runs in blocks of %llu thread%s: %.0f %% of the lanes of "
			  "its warps do nothing%s",
			  ws_report_string(analysis->model->report, kernel->name, NULL),
			  (unsigned long long)kernel->threads, ws_plural(kernel->threads),
			  100 * waste, ws_text_or(launch.text, ""));
	ws_text_free(&launch);
	finding->advice = ws_strdup(
		"Make the number of threads of a block a multiple of 32, 128 or 256 to begin with, "
		"and let each thread, or each warp, take an element.");
	finding->assumption = ws_strdup("all lanes of the warps have work");
	ws_finding_add_evidence(finding, "its longest run", NULL, kernel->longest.start,
				kernel->longest.end);
}

static void check_blocks(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	for (size_t i = 0; i < analysis->facts.kernel_count; i++) {
		const struct ws_kernel_fact *kernel = &analysis->facts.kernels[i];
		uint64_t on_path;

		/* A kernel of one block has another fault. */
		if (measure_waste(kernel) < LEAST_WASTE ||
		    kernel->blocks * 4 <= analysis->facts.multiprocessors ||
		    ws_is_library_kernel(analysis, kernel))
			continue;
		on_path = ws_sum_path_kernel(analysis, kernel->name);
		if (ws_analysis_share(analysis, on_path) >= 0.05)
			report_kernel(analysis, kernel, on_path, findings);
	}
}

const struct ws_rule ws_rule_partial_warps = {
	.name = "partial-warps",
	.title = "Kernels whose blocks do not fill their warps",
	.about = "A kernel of the program's own has blocks of so few threads, or so odd a number, "
		 "that a quarter of the lanes of their warps do nothing, and takes 5 % of the "
		 "critical path or more.",
	.find_obstacle = ws_need_cuda,
	.query = ws_proof_kernels,
	.check = check_blocks,
};
