/* allocation_churn.c - memory of the GPU, or streams, events and graphs, are made and destroyed in
 * every step. */
#include "analyze/rules/rules.h"
#include "base/map.h"

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
	"cudaStreamCreate*", "cudaStreamDestroy*", "cuStreamCreate*",
	"cuStreamDestroy*",  "cudaEventCreate*",   "cudaEventDestroy*",
	"cuEventCreate*",    "cuEventDestroy*",	   NULL};

static const char *const graphs[] = {"cudaGraphInstantiate*",
				     "cudaGraphExecDestroy*",
				     "cudaGraphDestroy",
				     "cuGraphInstantiate*",
				     "cuGraphExecDestroy*",
				     "cuGraphDestroy",
				     "cudaStreamBeginCapture*",
				     "cudaStreamEndCapture*",
				     "cuStreamBeginCapture*",
				     "cuStreamEndCapture*",
				     NULL};

static const char *const instantiations[] = {"cudaGraphInstantiate*", "cuGraphInstantiate*", NULL};
static const char *const captures[] = {"cudaStreamBeginCapture*", "cuStreamBeginCapture*", NULL};
static const char *const capture_ends[] = {"cudaStreamEndCapture*", "cuStreamEndCapture*", NULL};
static const char *const graph_launches[] = {"cudaGraphLaunch*", "cuGraphLaunch*", NULL};

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
	{objects, "Streams or events are made and destroyed again and again",
	 "Make them once before the loop and use them again.", "none is made within the steps"},
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

enum call_sort { SORT_OTHER, SORT_CAPTURE, SORT_CAPTURE_END };

/* How long the explained thread captured within the window: the CPU runs all that the graph is to
 * do, and the GPU nothing of it. */
static uint64_t sum_captures(const struct ws_analysis *analysis)
{
	const struct ws_model *model = analysis->model;
	const struct ws_model_thread *thread = &model->threads[model->thread];
	uint64_t *const *col = model->calls.rows.col;
	static const char *const *const lists[] = {captures, capture_ends, NULL};
	struct ws_map sorts = {0};
	uint64_t since = WS_NO_TIME, sum = 0;

	for (size_t i = thread->first_call; i < thread->end_call; i++) {
		uint64_t sort =
			ws_sort_call(analysis, &sorts, (uint32_t)col[ws_cuda_api_name][i], lists);

		if (sort == SORT_CAPTURE)
			since = ws_max(col[ws_cuda_api_start][i], model->from);
		if (sort != SORT_CAPTURE_END || since == WS_NO_TIME)
			continue;
		sum += ws_min(col[ws_cuda_api_end][i], model->to) -
		       ws_min(since, ws_min(col[ws_cuda_api_end][i], model->to));
		since = WS_NO_TIME;
	}
	ws_map_free(&sorts);
	return sum;
}

/* The calls that make and destroy graphs, and all that is done while one is captured. */
static uint64_t sum_graphs(const struct ws_analysis *analysis)
{
	uint64_t captured = sum_captures(analysis);
	uint64_t calls = ws_sum_path_calls(analysis, graphs);
	uint64_t ends = ws_sum_path_calls(analysis, capture_ends);

	return ws_min(captured + calls - ends, analysis->window);
}

/* Graphs are worth their while where each is launched many times. */
static void check_graphs(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	enum { LEAST_GRAPHS = 8, WORTHWHILE = 3 };
	const struct ws_facts *facts = &analysis->facts;
	struct ws_call_fact made, launched = {.count = 0};
	struct ws_finding *finding;
	struct ws_text place = {0};
	uint64_t cost, gain;

	if (!ws_facts_sum_calls(analysis->model, facts, instantiations, &made) ||
	    made.count < LEAST_GRAPHS)
		return;
	ws_facts_sum_calls(analysis->model, facts, graph_launches, &launched);
	cost = sum_graphs(analysis);
	if (launched.count > made.count * WORTHWHILE || ws_analysis_share(analysis, cost) < 0.03)
		return;
	gain = analysis->window - ws_min(analysis->window, ws_analysis_gpu_busy(analysis));
	ws_put_at_place(analysis, &made.place, &place);
	finding = ws_findings_add_fault(analysis, findings, &ws_rule_allocation_churn, cost,
					ws_min(cost, gain));
	finding->title =
		ws_format("CUDA graphs are captured and instantiated again and again: %llu are "
			  "made and launched %llu times%s",
			  (unsigned long long)made.count, (unsigned long long)launched.count,
			  ws_text_or(place.text, ""));
	ws_point_at(finding, &made.place);
	finding->advice = ws_strdup(
		"Capture and instantiate once before the loop and launch that graph in each step: "
		"copy what is new into the memory that it reads. One that changed a little can be "
		"updated (cudaGraphExecUpdate); for shapes that change, keep one for each.");
	finding->assumption = ws_strdup("no graph is made within the steps");
	ws_finding_add_evidence(finding, "the longest instantiation", NULL, made.longest.start,
				made.longest.end);
	ws_text_free(&place);
}

static void check_allocations(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	check_graphs(analysis, findings);
	for (size_t i = 0; i < WS_COUNT(churns); i++)
		check_churn(analysis, &churns[i], findings);
}

const struct ws_rule ws_rule_allocation_churn = {
	.name = "allocation-churn",
	.title = "Memory is allocated and freed in every step",
	.about = "Calls that allocate or free memory of the GPU, or pin memory, take 3 % of the "
		 "critical path or more; or calls that make and destroy streams and events. Where "
		 "no steps are known, 50 calls or more do so, without the longest. Or CUDA graphs "
		 "are made, with all that is done to capture them, of which each is launched three "
		 "times at most.",
	.find_obstacle = ws_need_cuda,
	.query = ws_proof_cuda_calls,
	.check = check_allocations,
};
