/*
 * atomics.c - kernels all of whose threads do atomic operations on one address, one after another.
 *
 * Nothing that is recorded shows that: the kernel's source does, where it is on this machine. A
 * kernel whose threads take little time each is not held up by it.
 */
#include "analyze/kernel_text.h"
#include "analyze/rules/rules.h"
#include "lanes/row_tree.h"

#define GAIN 0.9
#define THREAD_NS 0.1 /* of the run for each thread: a tenth of what one after another takes */

static bool takes_long_for_threads(const struct ws_kernel_fact *kernel)
{
	double threads = (double)kernel->blocks * (double)kernel->threads;

	return threads > 0 &&
	       (double)(kernel->longest.end - kernel->longest.start) >= threads * THREAD_NS;
}

static void report_kernel(const struct ws_analysis *analysis, const struct ws_kernel_fact *kernel,
			  uint64_t on_path, struct ws_findings *findings)
{
	const struct ws_report *report = analysis->model->report;
	const char *name = ws_report_string(report, kernel->name, NULL), *path, *slash;
	struct ws_kernel_atomic atomic;
	struct ws_finding *finding;
	struct ws_text launch = {0};
	uint32_t file;

	path = ws_find_kernel_source(analysis, kernel, &file);
	if (!ws_find_kernel_atomic(path, name,
				   (uint64_t)ws_lanes_realtime(report, analysis->model->to),
				   &atomic) ||
	    !atomic.one_address)
		return;
	finding = ws_findings_add_fault(analysis, findings, &ws_rule_atomics, on_path,
					(uint64_t)((double)on_path * GAIN));
	finding->level = ws_min(finding->level, WS_LEVEL_WARNING);
	ws_put_launch(analysis, kernel, finding, &launch);
	finding->file = file;
	finding->line = atomic.line;
	slash = strrchr(path, '/');
	finding->title = ws_format("All threads of the kernel %s do %s on one address, %s, one "
				   "after another (%s:%u)%s",
				   name, atomic.function, atomic.target, slash ? slash + 1 : path,
				   atomic.line, ws_text_or(launch.text, ""));
	ws_text_free(&launch);
	finding->advice = ws_strdup(
		"Combine what the threads of a warp and a block have first (__shfl_down_sync, "
		"__reduce_add_sync, shared memory, cub::BlockReduce), then let one thread of each "
		"block do the atomic operation; or give each block a place of its own and combine "
		"these afterwards.");
	finding->assumption = ws_strdup("the kernel takes a tenth of its time without them");
	ws_finding_add_evidence(finding, "its longest run", NULL, kernel->longest.start,
				kernel->longest.end);
	finding->next = ws_kernel_command(analysis, kernel);
}

static void check_atomics(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	ws_report_long_kernels(analysis, takes_long_for_threads, report_kernel, findings);
}

const struct ws_rule ws_rule_atomics = {
	.name = "atomics",
	.title = "Kernels whose threads do atomic operations on one address",
	.about = "The source of a kernel of more than 20 us on average, which takes 10 % of the "
		 "critical path or more, has an atomic operation that all threads do on the same "
		 "address, and a run takes 0.1 ns or more for each thread. Only where the source "
		 "is on this machine, unchanged, in the file that launches the kernel or, where "
		 "that is not known, runs most. Never more than a warning, since what the "
		 "operations cost is not recorded.",
	.find_obstacle = ws_need_cuda,
	.query = ws_proof_kernels,
	.check = check_atomics,
};
