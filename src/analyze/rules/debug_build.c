/*
 * debug_build.c - the program's own code was compiled without optimisation: on the CPU, as its
 * debugging information says, or for the GPU, as its modules do.
 */
#include "analyze/rules/rules.h"

#define LEAST_SHARE 0.1

/* Whether a path is in a list separated by colons. */
static bool is_listed(const char *paths, const char *path)
{
	size_t length = strlen(path);

	for (const char *at = paths; at && *at;) {
		size_t part = strcspn(at, ":");

		if (part == length && !memcmp(at, path, part))
			return true;
		at += part + (at[part] == ':');
	}
	return false;
}

static bool is_unoptimised(const struct ws_analysis *analysis, const struct ws_breakdown_row *row)
{
	const struct ws_model *model = analysis->model;
	const struct ws_function *function;

	if (row->cause != WS_CAUSE_CPU || !row->place.leaf)
		return false;
	function = ws_stacks_get_function(model->stacks, row->place.leaf);
	return function->kind == WS_FRAME_USER &&
	       is_listed(ws_find_meta(model->report, "symbols.unoptimised"),
			 ws_stacks_get_module(model->stacks, function->module)->path);
}

static bool have_others_spoken(const struct ws_findings *findings)
{
	for (size_t i = 0; i < findings->count; i++)
		if (findings->findings[i].level >= WS_LEVEL_WARNING)
			return true;
	return false;
}

static bool is_users_kernel(const struct ws_analysis *analysis, const struct ws_kernel_fact *kernel)
{
	return kernel->ns && !ws_is_library_kernel(analysis, kernel);
}

/* Modules compiled by nvcc -G are the user's: libraries are not delivered like that. */
static void check_kernels(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	const struct ws_facts *facts = &analysis->facts;
	const struct ws_kernel_fact *most = NULL;
	struct ws_finding *finding;
	uint64_t cost = 0;

	for (size_t i = 0; facts->debug_modules && i < facts->kernel_count; i++)
		if (is_users_kernel(analysis, &facts->kernels[i])) {
			cost += ws_sum_path_kernel(analysis, facts->kernels[i].name);
			most = ws_or(most, &facts->kernels[i]);
		}
	if (!most || ws_analysis_share(analysis, cost) < LEAST_SHARE)
		return;
	finding = ws_findings_add_fault(analysis, findings, &ws_rule_debug_build, cost,
					cost - cost / 4);
	finding->title = ws_format(
		"GPU code was compiled without optimisation, for a debugger (nvcc -G): %.0f %% of "
		"the time is its kernels, most of it %s",
		100 * ws_analysis_share(analysis, cost),
		ws_report_string(analysis->model->report, most->name, NULL));
	finding->advice = ws_strdup("Compile without -G (-device-debug, CMAKE_CUDA_FLAGS_DEBUG); "
				    "-lineinfo keeps the lines for profilers and costs nothing.");
	finding->assumption = ws_strdup("optimised kernels take a quarter of the time");
	ws_finding_add_evidence(finding, "its longest run", ws_proof_kernels, most->longest.start,
				most->longest.end);
}

static void check_build(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	uint64_t cost = ws_sum_path_rows(analysis, is_unoptimised);
	const struct ws_breakdown_row *row = ws_find_path_row(analysis, is_unoptimised);
	struct ws_finding *finding;
	struct ws_text place = {0};
	bool others = have_others_spoken(findings);

	check_kernels(analysis, findings);
	if (!row || ws_analysis_share(analysis, cost) < LEAST_SHARE)
		return;
	ws_put_at_place(analysis, &row->place, &place);
	finding = ws_findings_add_fault(analysis, findings, &ws_rule_debug_build, cost, cost / 2);
	/* Other faults remain in an optimised build, so they come first. */
	if (others)
		finding->level = WS_LEVEL_NOTE;
	finding->title =
		ws_format("The program was compiled without optimisation (a debug build): "
			  "%.0f %% of the time is its own code, most of it%s",
			  100 * ws_analysis_share(analysis, cost), ws_text_or(place.text, ""));
	finding->advice = ws_strdup("Compile with -O2 (and -g, which costs nothing), for CMake "
				    "-DCMAKE_BUILD_TYPE=RelWithDebInfo, without nvcc -G; measure "
				    "that build.");
	finding->assumption = ws_strdup("optimised code takes half the time");
	ws_finding_add_evidence(finding, "the longest stretch", NULL, row->longest.start,
				row->longest.end);
	ws_text_free(&place);
}

static const char *find_obstacle(const struct ws_analysis *analysis)
{
	if (analysis->model->has_cuda)
		return NULL;
	return ws_need_samples(analysis);
}

const struct ws_rule ws_rule_debug_build = {
	.name = "debug-build",
	.title = "Code compiled without optimisation",
	.about = "The debugging information of the program says that most of what was sampled was "
		 "compiled without -O, and 10 % of the critical path or more is such code. GCC "
		 "notes its options there; of Clang and Rust, how variables are described tells "
		 "(not with -g1). A note where another fault was found: that would remain. Kernels "
		 "of the user's count where a module was compiled with nvcc -G.",
	.find_obstacle = find_obstacle,
	.query = ws_proof_code,
	.check = check_build,
};
