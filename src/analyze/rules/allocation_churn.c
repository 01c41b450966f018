/* allocation_churn.c - memory of the GPU, or streams, events and graphs, are made and destroyed in
 * every step. */
#include "analyze/rules/rules.h"

static const char *const allocations[] = {"cudaMalloc",
					  "cudaFree",
					  "cudaMallocHost",
					  "cudaFreeHost",
					  "cudaHostAlloc",
					  "cudaMallocPitch",
					  "cudaMallocManaged",
					  "cuMemAlloc*",
					  "cuMemFree*",
					  "cuMemHostAlloc",
					  "cudaHostRegister",
					  "cudaHostUnregister",
					  NULL};

/* What is made once in programs that run well. */
static const char *const frees[] = {"cudaFree", "cuMemFree*", NULL};

static const char *const objects[] = {
	"cudaStreamCreate*",	   "cudaStreamDestroy*",    "cuStreamCreate*",
	"cuStreamDestroy*",	   "cudaEventCreate*",	    "cudaEventDestroy*",
	"cuEventCreate*",	   "cuEventDestroy*",	    "cudaGraphInstantiate*",
	"cudaGraphExecDestroy*",   "cuGraphInstantiate*",   "cuGraphExecDestroy*",
	"cudaStreamBeginCapture*", "cudaStreamEndCapture*", NULL};

struct churn {
	const char *const *calls;
	const char *title, *advice, *assumption;
};

static const struct churn churns[] = {
	{allocations, "GPU or pinned memory is allocated and freed again and again",
	 "Allocate once before the loop and use it again, or allocate from a pool "
	 "(cudaMallocAsync, a framework's caching allocator, which needs no "
	 "torch.cuda.empty_cache()): cudaFree also waits for the whole GPU.",
	 "nothing is allocated within the steps"},
	{objects, "Streams, events or graphs are made and destroyed again and again",
	 "Make them once before the loop and use them again; a graph that changed a little can be "
	 "updated (cudaGraphExecUpdate).",
	 "none is made within the steps"},
};

/* Where memory is freed, if that is another function: a pool gives all back there. */
static void put_freeing(const struct ws_analysis *analysis, const struct ws_call_fact *calls,
			struct ws_text *text)
{
	struct ws_call_fact freeing;

	if (!ws_facts_sum_calls(analysis->model, &analysis->facts, frees, &freeing) ||
	    !freeing.place.users || freeing.place.function == calls->place.function ||
	    freeing.ns < calls->ns / 10)
		return;
	ws_text_puts(text, ", freed");
	ws_put_at_place(analysis, &freeing.place, text);
}

/* The time on the path of these calls. Where the whole run is looked at, a program that allocates
 * at its start is well, and the first call of all starts CUDA. */
static uint64_t sum_churn(const struct ws_analysis *analysis, const struct churn *churn,
			  const struct ws_call_fact *calls)
{
	enum { LEAST_CALLS = 4, LEAST_IN_RUN = 50 };
	uint64_t on_path = ws_sum_path_calls(analysis, churn->calls);
	bool steps = analysis->model->step_source != WS_STEPS_NONE;

	if (calls->count < (uint64_t)(steps ? LEAST_CALLS : LEAST_IN_RUN))
		return 0;
	return on_path - ws_min(on_path, steps ? 0 : calls->longest.end - calls->longest.start);
}

static void check_churn(const struct ws_analysis *analysis, const struct churn *churn,
			struct ws_findings *findings)
{
	uint64_t on_path;
	struct ws_call_fact calls;
	struct ws_finding *finding;
	struct ws_text place = {0};

	if (!ws_facts_sum_calls(analysis->model, &analysis->facts, churn->calls, &calls) ||
	    ws_is_library_setup(analysis, &calls.place))
		return; /* of handles another rule knows more */
	on_path = sum_churn(analysis, churn, &calls);
	if (ws_analysis_share(analysis, on_path) < 0.03)
		return;
	ws_put_at_place(analysis, &calls.place, &place);
	if (churn->calls == allocations)
		put_freeing(analysis, &calls, &place);
	finding = ws_findings_add_fault(analysis, findings, &ws_rule_allocation_churn, on_path,
					on_path);
	finding->title = ws_format("%s: %llu calls%s", churn->title,
				   (unsigned long long)calls.count, ws_text_or(place.text, ""));
	ws_point_at(finding, &calls.place);
	finding->advice = ws_strdup(churn->advice);
	finding->assumption = ws_strdup(churn->assumption);
	ws_finding_add_evidence(finding, "the longest of these calls", NULL, calls.longest.start,
				calls.longest.end);
	ws_text_free(&place);
}

static void check_allocations(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	for (size_t i = 0; i < WS_COUNT(churns); i++)
		check_churn(analysis, &churns[i], findings);
}

const struct ws_rule ws_rule_allocation_churn = {
	.name = "allocation-churn",
	.title = "Memory is allocated and freed in every step",
	.about =
		"Calls that allocate or free memory of the GPU, or pin memory, take 3 % of the "
		"critical path or more; or calls that make and destroy streams, events and graphs. "
		"Where no steps are known, 50 calls or more do so, without the longest.",
	.find_obstacle = ws_need_cuda,
	.query = ws_proof_cuda_calls,
	.check = check_allocations,
};
