/* hot_kernel.c - the kernel that is worth optimising. A note: computing is not a fault. */
#include "analyze/kernel_text.h"
#include "analyze/rules/rules.h"
#include "lanes/row_tree.h"

/* What to do about a kernel that was measured; NULL where nothing was. */
static const char *choose_advice(enum ws_gpu_bound bound)
{
	static const char *const advice[] = {
		[WS_BOUND_MEMORY] = "It is bound by the bandwidth of the GPU's memory: read and "
				    "write less (fuse it with its neighbours, smaller types), "
				    "keep what is used again in caches or shared memory, and let "
				    "neighbouring threads use neighbouring addresses.",
		[WS_BOUND_TENSOR] = "It is bound by the tensor cores, as it should be: only less "
				    "work or a smaller type (FP8) makes it faster.",
		[WS_BOUND_ISSUE] = "It is bound by issuing instructions: fewer and wider ones, or "
				   "tensor cores for its products.",
		[WS_BOUND_LINK] = "It is bound by NVLink or PCIe: move less, or compute beside it.",
		[WS_BOUND_FILL] = "Most multiprocessors have no block of it: give it more blocks, "
				  "or run others beside it.",
		[WS_BOUND_LATENCY] = "Neither memory nor arithmetic is busy: it waits for "
				     "latencies. Give it more warps and independent work.",
	};

	return advice[bound];
}

/* The user's own kernels are worth measuring; of a library's, who calls them can be changed. */
static char *choose_next(const struct ws_analysis *analysis, const struct ws_kernel_fact *kernel,
			 bool measured)
{
	if (measured)
		return ws_strdup("warpsight stats -r gpu_metric_kern_sum REPORT");
	if (ws_is_library_kernel(analysis, kernel))
		return ws_strdup("warpsight stats -r cuda_gpu_kern_sum REPORT");
	return ws_kernel_command(analysis, kernel);
}

/* Which accesses lie apart in neighbouring threads, as the kernel's source shows, and what to do;
 * NULL where it shows none. */
static const char *put_stride(const struct ws_kernel_stride *stride, const char *file,
			      struct ws_text *text)
{
	ws_text_printf(text, "; neighbouring threads use addresses that lie apart at %s:%u, %s",
		       file, stride->line, stride->access);
	if (!*stride->type)
		return "The GPU's memory moves 32 bytes at least for each thread there. Let "
		       "neighbouring threads (threadIdx.x) use neighbouring addresses: exchange "
		       "the indexes, or go through a tile in shared memory. Hardware counters say "
		       "how many bytes are moved and not used.";
	ws_text_printf(text, ", where it uses %u of %u values of each %s", stride->used,
		       stride->values, stride->type);
	return "The GPU's memory moves 32 bytes at least for each thread there. Keep an array for "
	       "each value (a structure of arrays) instead of an array of structures. Hardware "
	       "counters say how many bytes are moved and not used.";
}

/* What the kernel's source shows, and what to do; NULL where it shows nothing. */
static const char *put_source(const struct ws_analysis *analysis,
			      const struct ws_kernel_fact *kernel, struct ws_finding *finding,
			      struct ws_text *text)
{
	const struct ws_report *report = analysis->model->report;
	const char *name = ws_report_string(report, kernel->name, NULL);
	uint64_t until = (uint64_t)ws_lanes_realtime(report, analysis->model->to);
	struct ws_kernel_stride stride;
	struct ws_kernel_atomic atomic;
	uint32_t file;
	const char *path = ws_find_kernel_source(analysis, kernel, &file),
		   *slash = strrchr(path, '/'), *last = slash ? slash + 1 : path;

	if (ws_is_library_kernel(analysis, kernel))
		return NULL;
	if (ws_find_kernel_stride(path, name, until, &stride)) {
		finding->file = file;
		finding->line = stride.line;
		return put_stride(&stride, last, text);
	}
	/* Those on one address are another rule's. */
	if (!ws_find_kernel_atomic(path, name, until, &atomic) || atomic.one_address)
		return NULL;
	finding->file = file;
	finding->line = atomic.line;
	ws_text_printf(text, "; its threads do %s on %s at %s:%u", atomic.function, atomic.target,
		       last, atomic.line);
	return "Where many threads do atomic operations on few addresses, these take turns: let "
	       "each block do them in shared memory first, and add the results up at its end. "
	       "Hardware counters say how long it waits for them.";
}

static void check_kernels(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	const struct ws_kernel_fact *most = NULL;
	const char *measured, *source;
	struct ws_finding *finding;
	struct ws_text average = {0}, launch = {0};
	uint64_t longest = 0;

	for (size_t i = 0; i < analysis->facts.kernel_count && i < 200; i++) {
		const struct ws_kernel_fact *kernel = &analysis->facts.kernels[i];
		uint64_t on_path = ws_sum_path_kernel(analysis, kernel->name);

		if (on_path > longest) {
			longest = on_path;
			most = kernel;
		}
	}
	if (!most || ws_analysis_share(analysis, longest) < 0.2)
		return;
	finding = ws_findings_add(findings, &ws_rule_hot_kernel);
	finding->cost_ns = longest;
	ws_put_rounded_time(&average, most->ns / most->count);
	ws_put_launch(analysis, most, finding, &launch);
	source = put_source(analysis, most, finding, &launch);
	finding->title = ws_format(
		"The kernel %.80s takes %.0f %% of the time (%llu runs of %s on average)%s",
		ws_report_string(analysis->model->report, most->name, NULL),
		100 * ws_analysis_share(analysis, longest), (unsigned long long)most->count,
		average.text, ws_text_or(launch.text, ""));
	ws_text_free(&average);
	ws_text_free(&launch);
	measured = choose_advice(analysis->measured.kernels[most - analysis->facts.kernels].bound);
	finding->advice = ws_strdup(ws_text_or(
		ws_text_or(measured, source),
		ws_is_library_kernel(analysis, most)
			? "Nothing else holds the program up as long."
			: "Nothing else holds the program up as long. Hardware counters say what "
			  "it waits for: memory (also for bytes that it does not use, where "
			  "threads' addresses lie apart), arithmetic, atomics or latencies."));
	finding->next = choose_next(analysis, most, measured != NULL);
	ws_finding_add_evidence(finding, "its longest run", NULL, most->longest.start,
				most->longest.end);
}

const struct ws_rule ws_rule_hot_kernel = {
	.name = "hot-kernel",
	.title = "The kernel to look at with hardware counters",
	.about = "The kernel that takes most of the critical path, from 20 % on; where GPU metrics "
		 "were sampled, what it is bound by; where its source is on this machine, accesses "
		 "that lie apart in neighbouring threads and atomic operations. Never more than a "
		 "note.",
	.find_obstacle = ws_need_cuda,
	.query = ws_proof_kernels,
	.check = check_kernels,
};
