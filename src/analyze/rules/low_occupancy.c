/*
 * low_occupancy.c - kernels that use so much that few of their warps fit on a multiprocessor.
 *
 * Few warps hide less latency. Libraries' kernels for matrix products need few by design, and the
 * user does not choose their shape.
 */
#include "analyze/rules/rules.h"

#define MOST_OCCUPANCY 0.5

static char *describe_limit(const struct ws_kernel_fact *kernel)
{
	switch (kernel->limiter) {
	case WS_OCCUPANCY_REGISTERS:
		return ws_format("%u registers a thread", kernel->registers);
	case WS_OCCUPANCY_SHARED:
		return ws_format("%u bytes of shared memory a block", kernel->shared);
	case WS_OCCUPANCY_BLOCKS:
		return ws_format("blocks of only %llu threads",
				 (unsigned long long)kernel->threads);
	default:
		return ws_strdup("the shape of its blocks");
	}
}

static const char *choose_advice(uint8_t limiter)
{
	switch (limiter) {
	case WS_OCCUPANCY_REGISTERS:
		return "Use fewer registers: __launch_bounds__, -maxrregcount, smaller tiles, or "
		       "two kernels instead of one.";
	case WS_OCCUPANCY_SHARED:
		return "Use less shared memory a block: smaller tiles, or reuse one buffer.";
	default:
		return "Make the blocks larger: 128 to 256 threads suit most kernels.";
	}
}

static void report_kernel(const struct ws_analysis *analysis, const struct ws_kernel_fact *kernel,
			  uint64_t on_path, struct ws_findings *findings)
{
	struct ws_finding *finding =
		ws_findings_add_fault(analysis, findings, &ws_rule_low_occupancy, on_path,
				      (uint64_t)((double)on_path * (1 - kernel->occupancy) / 2));
	char *limit = describe_limit(kernel);
	struct ws_text launch = {0};

	ws_put_launch(analysis, kernel, finding, &launch);
	finding->title =
		ws_format("The kernel %s fills multiprocessors to %.0f %% of their warps at most, "
			  "limited by %s%s",
			  ws_report_string(analysis->model->report, kernel->name, NULL),
			  100 * kernel->occupancy, limit, ws_text_or(launch.text, ""));
	ws_text_free(&launch);
	finding->advice = ws_strdup(choose_advice(kernel->limiter));
	finding->assumption = ws_strdup("half of what occupancy lacks is lost time");
	finding->next = ws_strdup("warpsight stats -r cuda_gpu_trace REPORT");
	ws_finding_add_evidence(finding, "its longest run",
				"SELECT start, end - start AS ns, theoreticalOccupancy, waves, "
				"registersPerThread, blockX, blockY, blockZ FROM "
				"CUPTI_ACTIVITY_KIND_KERNEL ORDER BY ns DESC",
				kernel->longest.start, kernel->longest.end);
	free(limit);
}

static bool is_crowded(const struct ws_kernel_fact *kernel)
{
	return kernel->occupancy > 0 && kernel->occupancy < MOST_OCCUPANCY && kernel->waves >= 1;
}

static void check_occupancy(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	ws_report_long_kernels(analysis, is_crowded, report_kernel, findings);
}

const struct ws_rule ws_rule_low_occupancy = {
	.name = "low-occupancy",
	.title = "Kernels of which few warps fit on a multiprocessor",
	.about = "A kernel of more than 20 us on average that fills the GPU reaches less than half "
		 "of the warps that a multiprocessor can hold (from its registers, shared memory "
		 "and block size), and takes 10 % of the critical path or more. Not for kernels "
		 "of libraries: their shape is not the user's.",
	.find_obstacle = ws_need_cuda,
	.query = ws_proof_kernels,
	.check = check_occupancy,
};
