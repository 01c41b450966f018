/* small_grid.c - kernels with too few blocks to fill the GPU. */
#include "analyze/rules/rules.h"

static void report_kernel(const struct ws_analysis *analysis, const struct ws_kernel_fact *kernel,
			  uint64_t on_path, struct ws_findings *findings)
{
	double filled = (double)kernel->blocks / (double)analysis->facts.multiprocessors;
	struct ws_kernel_cost cost = {&kernel->name, 1, filled};
	uint64_t gain = ws_estimate_bound(analysis, (uint64_t)((double)on_path * (1 - filled)),
					  ws_cost_of_kernels, &cost);
	struct ws_finding *finding =
		ws_findings_add_fault(analysis, findings, &ws_rule_small_grid, on_path, gain);
	const char *name = ws_report_string(analysis->model->report, kernel->name, NULL);
	struct ws_text launch = {0};

	ws_put_launch(analysis, kernel, finding, &launch);
	finding->title =
		ws_format("The kernel %s runs in %llu block%s of %llu thread%s: %llu of "
			  "%llu multiprocessors do nothing%s",
			  name, (unsigned long long)kernel->blocks, ws_plural(kernel->blocks),
			  (unsigned long long)kernel->threads, ws_plural(kernel->threads),
			  (unsigned long long)(analysis->facts.multiprocessors - kernel->blocks),
			  (unsigned long long)analysis->facts.multiprocessors,
			  ws_text_or(launch.text, ""));
	ws_text_free(&launch);
	finding->advice = ws_strdup("Split the work into more blocks (a parallel reduction, a "
				    "grid-stride loop), at least one for each multiprocessor.");
	finding->assumption = ws_strdup("the work can be shared out among all multiprocessors");
	ws_finding_add_evidence(finding, "its longest run", NULL, kernel->longest.start,
				kernel->longest.end);
}

static void check_grids(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	uint64_t compute = 0;

	for (size_t i = 0; i < analysis->model->work.gpus; i++)
		compute += analysis->gpus[i].compute;
	/* Small kernels that run in parallel do fill it. */
	if (!analysis->facts.multiprocessors || !compute ||
	    (double)(analysis->facts.kernel_ns + analysis->facts.graph_ns) >
		    1.5 * (double)compute ||
	    ws_findings_have(findings, &ws_rule_serial_streams))
		return;
	for (size_t i = 0; i < analysis->facts.kernel_count; i++) {
		const struct ws_kernel_fact *kernel = &analysis->facts.kernels[i];
		uint64_t on_path;

		if (kernel->blocks * 4 > analysis->facts.multiprocessors ||
		    kernel->ns < kernel->count * 2 * WS_SHORT_KERNEL_NS)
			continue;
		on_path = ws_sum_path_kernel(analysis, kernel->name);
		if (ws_analysis_share(analysis, on_path) >= 0.05)
			report_kernel(analysis, kernel, on_path, findings);
	}
}

const struct ws_rule ws_rule_small_grid = {
	.name = "small-grid",
	.title = "Kernels that leave most of the GPU idle",
	.about = "A kernel of more than 20 us on average has fewer blocks than a quarter of the "
		 "multiprocessors, nothing runs beside it, and it takes 5 % of the critical path "
		 "or more.",
	.find_obstacle = ws_need_cuda,
	.query = ws_proof_kernels,
	.check = check_grids,
};
