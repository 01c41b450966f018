/*
 * setup_calls.c - calls of CUDA in a loop that neither launch, copy, wait nor allocate: asking for
 * properties, changing attributes and the like. Such calls take from a microsecond to several
 * milliseconds, and belong before the loop.
 */
#include "analyze/rules/rules.h"

#include "query/gpu.h"

/* What a loop is for, and what other rules look at. */
static const char *const others[] = {"cudaLaunch*",
				     "cuLaunch*",
				     "cudaMemcpy*",
				     "cuMemcpy*",
				     "cudaMemset*",
				     "cuMemset*",
				     "cudaMemPrefetch*",
				     "cuMemPrefetch*",
				     "cudaGraphLaunch*",
				     "cuGraphLaunch*",
				     "cudaDeviceSynchronize",
				     "cudaStreamSynchronize*",
				     "cudaEventSynchronize",
				     "cuCtxSynchronize",
				     "cuStreamSynchronize*",
				     "cuEventSynchronize",
				     "cudaEventRecord*",
				     "cuEventRecord*",
				     "cudaStreamWaitEvent*",
				     "cuStreamWaitEvent*",
				     "cudaEventQuery",
				     "cudaStreamQuery*",
				     "cuEventQuery",
				     "cuStreamQuery*",
				     "cudaMalloc*",
				     "cudaFree*",
				     "cudaHostAlloc",
				     "cuMemAlloc*",
				     "cuMemFree*",
				     "cuMemHostAlloc",
				     "cudaHostRegister",
				     "cudaHostUnregister",
				     "cudaStreamCreate*",
				     "cudaStreamDestroy*",
				     "cuStreamCreate*",
				     "cuStreamDestroy*",
				     "cudaEventCreate*",
				     "cudaEventDestroy*",
				     "cuEventCreate*",
				     "cuEventDestroy*",
				     "cudaGraph*",
				     "cuGraph*",
				     "cudaStreamBeginCapture*",
				     "cudaStreamEndCapture*",
				     "cuModule*",
				     "cuLibrary*",
				     "cuLink*",
				     "cudaModule*",
				     "cudaLibrary*",
				     "nvrtc*",
				     NULL};

enum { LEAST_CALLS = 20 };

/* The function with the most time on the path, its first call, which may start CUDA, left out. */
static const struct ws_call_fact *find_worst(const struct ws_analysis *analysis, uint64_t *most)
{
	const struct ws_facts *facts = &analysis->facts;
	const struct ws_call_fact *worst = NULL;

	*most = 0;
	for (size_t i = 0; i < facts->call_count && i < 100; i++) {
		const struct ws_call_fact *call = &facts->calls[i];
		uint64_t longest = call->longest.end - call->longest.start, ns;
		const char *names[] = {NULL, NULL};
		struct ws_text name = {0};
		size_t length;
		const char *known =
			ws_get_cuda_function_name(analysis->model->report, call->name, &length);

		if (call->count < LEAST_CALLS || ws_is_name_among(known, length, others))
			continue;
		ws_text_add(&name, known, length);
		names[0] = name.text;
		ns = ws_min(ws_sum_path_calls(analysis, names), call->ns - longest);
		ws_text_free(&name);
		if (ns > *most) {
			*most = ns;
			worst = call;
		}
	}
	return worst;
}

static void check_calls(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	uint64_t most;
	const struct ws_call_fact *call = find_worst(analysis, &most);
	struct ws_finding *finding;
	struct ws_text place = {0};
	size_t length;
	const char *name;

	if (!call || ws_analysis_share(analysis, most) < 0.05)
		return;
	name = ws_get_cuda_function_name(analysis->model->report, call->name, &length);
	ws_put_at_place(analysis, &call->place, &place);
	finding = ws_findings_add_fault(analysis, findings, &ws_rule_setup_calls, most, most);
	finding->title =
		ws_format("%.0f %% of the time is spent in %llu calls of %.*s%s",
			  100 * ws_analysis_share(analysis, most), (unsigned long long)call->count,
			  (int)length, name, ws_text_or(place.text, ""));
	ws_point_at(finding, &call->place);
	finding->advice = ws_strdup(
		"Call it once before the loop and keep what it says; of a GPU's properties, ask "
		"for the one that is needed (cudaDeviceGetAttribute).");
	finding->assumption = ws_strdup("it is called once");
	ws_finding_add_evidence(finding, "the longest of these calls", NULL, call->longest.start,
				call->longest.end);
	ws_text_free(&place);
}

const struct ws_rule ws_rule_setup_calls = {
	.name = "setup-calls",
	.title = "Calls of CUDA that belong before the loop",
	.about = "A function of CUDA that neither launches, copies, waits nor allocates is called "
		 "20 times or more and takes 5 % of the critical path or more, the longest call "
		 "left out: properties, attributes, free memory, limits.",
	.find_obstacle = ws_need_cuda,
	.query = ws_proof_cuda_calls,
	.check = check_calls,
};
