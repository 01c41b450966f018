/*
 * setup_calls.c - calls of CUDA in a loop that neither launch, copy, wait nor allocate: asking for
 * properties, changing attributes and the like. Such calls take from a microsecond to several
 * milliseconds, and belong before the loop. So do handles and plans of libraries, whatever calls
 * making them takes.
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

/* A function that was called in the loop: its time on the path. */
struct setup_call {
	const struct ws_call_fact *calls; /* NULL: calls are not recorded, samples show it */
	const struct ws_breakdown_row *row;
	uint64_t ns;
};

/* Of the functions whose calls are recorded, the first call, which may start CUDA, left out. */
static void find_recorded(const struct ws_analysis *analysis, struct setup_call *worst)
{
	const struct ws_facts *facts = &analysis->facts;

	for (size_t i = 0; i < facts->call_count && i < 100; i++) {
		const struct ws_call_fact *call = &facts->calls[i];
		uint64_t longest = call->longest.end - call->longest.start, ns;
		const char *names[] = {NULL, NULL};
		struct ws_text name = {0};
		size_t length;
		const char *known =
			ws_get_cuda_function_name(analysis->model->report, call->name, &length);

		if (call->count < LEAST_CALLS || ws_is_name_among(known, length, others) ||
		    ws_is_library_setup(analysis, &call->place))
			continue;
		ws_text_add(&name, known, length);
		names[0] = name.text;
		ns = ws_min(ws_sum_path_calls(analysis, names), call->ns - longest);
		ws_text_free(&name);
		if (ns > worst->ns)
			*worst = (struct setup_call){.calls = call, .ns = ns};
	}
}

static bool is_other_function(const char *name)
{
	bool runtime = !strncmp(name, "cuda", 4) && name[4] >= 'A' && name[4] <= 'Z',
	     driver = !strncmp(name, "cu", 2) && name[2] >= 'A' && name[2] <= 'Z';

	return (runtime || driver) && !ws_is_name_among(name, strlen(name), others);
}

static bool is_in_other_function(const struct ws_analysis *analysis,
				 const struct ws_breakdown_row *row)
{
	const struct ws_stacks *stacks = analysis->model->stacks;

	return row->cause == WS_CAUSE_CPU && row->place.called &&
	       is_other_function(ws_stacks_get_function(stacks, row->place.called)->name);
}

/* Of functions that CUPTI is not asked to record, such as cudaMemGetInfo. */
static void find_sampled(const struct ws_analysis *analysis, struct setup_call *worst)
{
	const struct ws_breakdown *breakdown = &analysis->breakdown;

	if (analysis->model->step_source == WS_STEPS_NONE)
		return; /* it may be the start of CUDA */
	for (size_t i = 0; i < breakdown->count && i < 200; i++) {
		const struct ws_breakdown_row *row = &breakdown->rows[i];
		uint64_t ns = 0;

		if (!is_in_other_function(analysis, row))
			continue;
		for (size_t k = 0; k < breakdown->count; k++)
			if (breakdown->rows[k].cause == WS_CAUSE_CPU &&
			    breakdown->rows[k].place.called == row->place.called)
				ns += breakdown->rows[k].ns;
		if (ns > worst->ns)
			*worst = (struct setup_call){.row = row, .ns = ns};
	}
}

/* ---- handles of libraries ---- */

/* A function that makes or destroys handles, with the most time on the path; and all of them. */
struct handles {
	struct ws_code_place place;
	struct ws_span longest;
	uint64_t most, all;
};

static void add_handles(const struct ws_analysis *analysis, const struct ws_code_place *place,
			struct ws_span longest, uint64_t ns, struct handles *handles)
{
	if (!ws_is_library_setup(analysis, place))
		return;
	handles->all += ns;
	if (ns > handles->most) {
		handles->most = ns;
		handles->place = *place;
		handles->longest = longest;
	}
}

/* Their own code, and the calls of CUDA that they make. */
static void find_handles(const struct ws_analysis *analysis, struct handles *handles)
{
	const struct ws_facts *facts = &analysis->facts;

	for (size_t i = 0; i < analysis->breakdown.count; i++) {
		const struct ws_breakdown_row *row = &analysis->breakdown.rows[i];

		if (row->cause == WS_CAUSE_CPU)
			add_handles(analysis, &row->place, row->longest, row->ns, handles);
	}
	for (size_t i = 0; i < facts->call_count && i < 100; i++) {
		const struct ws_call_fact *call = &facts->calls[i];
		uint64_t ns = 0;

		for (size_t k = 0; k < analysis->breakdown.count; k++) {
			const struct ws_breakdown_row *row = &analysis->breakdown.rows[k];

			if (row->cause == WS_CAUSE_CUDA_CALL &&
			    ws_report_string_key(analysis->model->report, row->name) == call->name)
				ns += row->ns;
		}
		add_handles(analysis, &call->place, call->longest, ws_min(ns, call->ns), handles);
	}
}

static void check_handles(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	struct handles handles = {.most = 0};
	struct ws_finding *finding;
	struct ws_text where = {0};

	find_handles(analysis, &handles);
	/* Without steps it may be the program's start. */
	if (ws_analysis_share(analysis, handles.all) < 0.05 ||
	    analysis->model->step_source == WS_STEPS_NONE)
		return;
	finding = ws_findings_add_fault(analysis, findings, &ws_rule_setup_calls, handles.all,
					handles.all);
	handles.place.leaf = handles.place.called;
	ws_put_at_place(analysis, &handles.place, &where);
	finding->title = ws_format("Handles of a library are made and destroyed again and again, "
				   "%.0f %% of the time%s",
				   100 * ws_analysis_share(analysis, handles.all),
				   ws_text_or(where.text, ""));
	ws_point_at(finding, &handles.place);
	finding->advice = ws_strdup(
		"Make the handle or plan once, before the loop, and keep it: making one allocates "
		"memory of the GPU and may load code, and destroying it waits for the whole GPU.");
	finding->assumption = ws_strdup("none is made within the steps");
	ws_finding_add_evidence(finding, "the longest stretch in it", NULL, handles.longest.start,
				handles.longest.end);
	ws_text_free(&where);
}

/* ---- single calls ---- */

static void name_call(const struct ws_analysis *analysis, const struct setup_call *worst,
		      struct ws_finding *finding)
{
	struct ws_code_place place;
	struct ws_text where = {0};
	double percent = 100 * ws_analysis_share(analysis, worst->ns);
	const char *name;
	size_t length;

	if (worst->calls) {
		name = ws_get_cuda_function_name(analysis->model->report, worst->calls->name,
						 &length);
		place = worst->calls->place;
		ws_put_at_place(analysis, &place, &where);
		finding->title = ws_format("%.0f %% of the time is spent in %llu calls of %.*s%s",
					   percent, (unsigned long long)worst->calls->count,
					   (int)length, name, ws_text_or(where.text, ""));
		ws_finding_add_evidence(finding, "the longest of these calls", NULL,
					worst->calls->longest.start, worst->calls->longest.end);
	} else {
		place = worst->row->place;
		name = ws_stacks_get_function(analysis->model->stacks, place.called)->name;
		place.called = 0;
		place.leaf = place.function;
		ws_put_at_place(analysis, &place, &where);
		finding->title = ws_format("%.0f %% of the time is spent in calls of %s%s", percent,
					   name, ws_text_or(where.text, ""));
		ws_finding_add_evidence(finding, "the longest stretch of code in it", NULL,
					worst->row->longest.start, worst->row->longest.end);
	}
	ws_point_at(finding, &place);
	ws_text_free(&where);
}

static void check_calls(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	struct setup_call worst = {0};
	struct ws_finding *finding;

	check_handles(analysis, findings);
	find_recorded(analysis, &worst);
	find_sampled(analysis, &worst);
	if (ws_analysis_share(analysis, worst.ns) < 0.05)
		return;
	finding =
		ws_findings_add_fault(analysis, findings, &ws_rule_setup_calls, worst.ns, worst.ns);
	name_call(analysis, &worst, finding);
	finding->advice = ws_strdup(
		"Call it once before the loop and keep what it says; of a GPU's properties, ask "
		"for the one that is needed (cudaDeviceGetAttribute).");
	finding->assumption = ws_strdup("it is called once");
}

const struct ws_rule ws_rule_setup_calls = {
	.name = "setup-calls",
	.title = "Calls of CUDA that belong before the loop",
	.about = "A function of CUDA that neither launches, copies, waits nor allocates is called "
		 "20 times or more and takes 5 % of the critical path or more, the longest call "
		 "left out: properties, attributes, free memory, limits. Or making and destroying "
		 "handles and plans of CUDA's libraries (cublasCreate, cufftPlan1d) does so in "
		 "the steps.",
	.find_obstacle = ws_need_cuda,
	.query = ws_proof_cuda_calls,
	.check = check_calls,
};
