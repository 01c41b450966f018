/*
 * local_memory.c - kernels whose threads keep values in local memory: what did not fit into
 * registers, or arrays that are indexed by numbers known only when the kernel runs.
 *
 * Local memory lies in the GPU's memory, behind its caches. The sizes are recorded with each
 * launch, what the accesses cost is not: never more than a warning.
 */
#include "analyze/rules/rules.h"

enum { LEAST_BYTES = 128 };
#define GAIN 0.5

static void report_kernel(const struct ws_analysis *analysis, const struct ws_kernel_fact *kernel,
			  uint64_t on_path, struct ws_findings *findings)
{
	struct ws_finding *finding =
		ws_findings_add_fault(analysis, findings, &ws_rule_local_memory, on_path,
				      (uint64_t)((double)on_path * GAIN));
	struct ws_text launch = {0};

	finding->level = ws_min(finding->level, WS_LEVEL_WARNING);
	ws_put_launch(analysis, kernel, finding, &launch);
	finding->title = ws_format(
		"Each thread of the kernel %s keeps %u bytes in local memory beside its %u "
		"registers: spilled ones, or arrays%s",
		ws_report_string(analysis->model->report, kernel->name, NULL), kernel->local,
		kernel->registers, ws_text_or(launch.text, ""));
	ws_text_free(&launch);
	finding->advice = ws_strdup(
		"Give each thread more registers (__launch_bounds__ with fewer blocks, a larger "
		"-maxrregcount) or less to keep (smaller tiles, less unrolling, two kernels); "
		"unroll loops over small arrays, so that their indexes are constants, or keep "
		"these in shared memory. nvcc -Xptxas -v says how much is spilled.");
	finding->assumption = ws_strdup("half of its time goes into local memory");
	ws_finding_add_evidence(finding, "its longest run",
				"SELECT start, end - start AS ns, localMemoryPerThread, "
				"localMemoryTotal, registersPerThread, blockX, blockY, blockZ FROM "
				"CUPTI_ACTIVITY_KIND_KERNEL WHERE localMemoryTotal > 0 OR "
				"localMemoryPerThread > 0 ORDER BY localMemoryTotal DESC, ns DESC "
				"LIMIT 20",
				kernel->longest.start, kernel->longest.end);
	finding->next = ws_kernel_command(analysis, kernel);
}

static bool keeps_values(const struct ws_kernel_fact *kernel)
{
	return kernel->local >= LEAST_BYTES;
}

static void check_local(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	ws_report_long_kernels(analysis, keeps_values, report_kernel, findings);
}

const struct ws_rule ws_rule_local_memory = {
	.name = "local-memory",
	.title = "Kernels that keep values in local memory",
	.about = "A kernel of more than 20 us on average keeps 128 bytes or more of each thread in "
		 "local memory, which are spilled registers or arrays, and takes 10 % of the "
		 "critical path or more. Never more than a warning, since what the accesses cost "
		 "is not recorded. Not for kernels of libraries.",
	.find_obstacle = ws_need_cuda,
	.query = ws_proof_kernels,
	.check = check_local,
};
