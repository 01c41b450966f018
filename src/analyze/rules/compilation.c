/*
 * compilation.c - code for the GPU that is compiled or loaded while steps run.
 *
 * This is usual in the first steps, which are left out. Later it means that something changes from
 * step to step: shapes, types, a cache that is too small.
 */
#include "analyze/rules/rules.h"

static const char *const loading[] = {"cuModuleLoad*",	  "cuLibraryLoad*",
				      "cuLink*",	  "cudaModuleLoad*",
				      "cudaLibraryLoad*", "cuModuleUnload",
				      "cuLibraryUnload",  "cuModuleGetFunction",
				      "nvrtcCompile*",	  NULL};

static bool is_compiling(const struct ws_analysis *analysis, const struct ws_breakdown_row *row)
{
	(void)analysis;
	return row->place.library == WS_LIBRARY_COMPILING;
}

static bool is_from_ptx(const struct ws_analysis *analysis, const struct ws_breakdown_row *row)
{
	const struct ws_stacks *stacks = analysis->model->stacks;

	return row->place.library == WS_LIBRARY_COMPILING && row->place.leaf &&
	       strstr(ws_stacks_get_origin(stacks, ws_stacks_get_function(stacks, row->place.leaf)),
		      "ptxjitcompiler");
}

static bool is_mostly_ptx(const struct ws_analysis *analysis, uint64_t cost)
{
	return ws_sum_path_rows(analysis, is_from_ptx) >= cost / 2;
}

/* In the user's code, where that is known: threads of a framework have none. */
static bool is_compiling_for_users(const struct ws_analysis *analysis,
				   const struct ws_breakdown_row *row)
{
	return is_compiling(analysis, row) && row->place.users;
}

static bool is_cudnn_compiling(const struct ws_analysis *analysis,
			       const struct ws_breakdown_row *row)
{
	const struct ws_stacks *stacks = analysis->model->stacks;

	return row->place.leaf &&
	       strstr(ws_stacks_get_origin(stacks, ws_stacks_get_function(stacks, row->place.leaf)),
		      "libcudnn_engines_runtime_compiled");
}

static struct ws_code_place find_place(const struct ws_analysis *analysis,
				       const struct ws_call_fact *calls)
{
	const struct ws_breakdown_row *row = ws_find_path_row(analysis, is_compiling_for_users);

	if (row)
		return row->place;
	if (calls->place.users)
		return calls->place;
	row = ws_find_path_row(analysis, is_compiling);
	return row ? row->place : calls->place;
}

static void put_what(const struct ws_analysis *analysis, const struct ws_call_fact *calls,
		     struct ws_text *text)
{
	struct ws_code_place code = find_place(analysis, calls);

	if (calls->count)
		ws_text_printf(text, ", %llu calls that load code",
			       (unsigned long long)calls->count);
	if (analysis->facts.compile.count)
		ws_text_printf(text, ", %llu times just in time or on first use",
			       (unsigned long long)analysis->facts.compile.count);
	code.leaf = code.function;
	ws_put_at_place(analysis, &code, text);
}

static void check_compilation(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	const struct ws_compile_fact *fact = &analysis->facts.compile;
	uint64_t code = ws_sum_path_rows(analysis, is_compiling), cost;
	bool cudnn = ws_find_path_row(analysis, is_cudnn_compiling) != NULL;
	struct ws_call_fact calls = {.count = 0};
	struct ws_finding *finding;
	struct ws_text what = {0};

	ws_facts_sum_calls(analysis->model, &analysis->facts, loading, &calls);
	cost = code + ws_max(fact->ns, ws_sum_path_calls(analysis, loading));
	cost = ws_min(cost, analysis->window);
	if (ws_analysis_share(analysis, cost) < 0.03)
		return;
	put_what(analysis, &calls, &what);
	finding = ws_findings_add_fault(analysis, findings, &ws_rule_compilation, cost, cost);
	/* Without steps it may be the program's start; machine code in the binary would spare
	 * compiling PTX even there. */
	if (analysis->model->step_source == WS_STEPS_NONE && !is_mostly_ptx(analysis, cost)) {
		finding->level = ws_min(finding->level, WS_LEVEL_NOTE);
		ws_mark_start_up(analysis, finding);
	}
	finding->title =
		ws_format("For %.0f %% of the time %s%s%s", 100 * ws_analysis_share(analysis, cost),
			  cudnn ? "cuDNN compiles kernels" : "code is compiled or loaded",
			  analysis->model->step_source == WS_STEPS_NONE ? "" : " while steps run",
			  ws_text_or(what.text, ""));
	finding->advice = ws_strdup(
		cudnn ? "cuDNN looks for its fastest algorithm again for each new shape, and "
			"compiles those it tries: keep to few shapes (padding to fixed lengths), "
			"or switch the search off where shapes change "
			"(torch.backends.cudnn.benchmark = False)."
		      : "Compile before the loop and keep the result: fixed shapes (padding, "
			"mark_dynamic, dynamic=True), larger caches, modules loaded once, machine "
			"code "
			"for this GPU in the binary (-gencode), CUDA_MODULE_LOADING=EAGER.");
	finding->assumption = ws_strdup("nothing is compiled or loaded in the steps");
	if (fact->longest.end)
		ws_finding_add_evidence(finding, "the longest of them", NULL, fact->longest.start,
					fact->longest.end);
	else
		ws_finding_add_evidence(finding, "the longest of these calls", NULL,
					calls.longest.start, calls.longest.end);
	ws_text_free(&what);
}

const struct ws_rule ws_rule_compilation = {
	.name = "compilation",
	.title = "Code compiled or loaded while steps run",
	.about = "Compiling just in time (PTX, NVRTC, torch.compile, Triton, Numba, JAX), loading "
		 "of modules and functions on first use take 3 % of the time or more after the "
		 "warm-up. A note where there are no steps, unless most of it is compiling PTX: "
		 "programs "
		 "begin with it.",
	.find_obstacle = ws_need_cuda,
	.query = ws_proof_cuda_calls,
	.check = check_compilation,
};
