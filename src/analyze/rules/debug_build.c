/* debug_build.c - the program's own code was compiled without optimisation. */
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

static void check_build(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	uint64_t cost = ws_sum_path_rows(analysis, is_unoptimised);
	const struct ws_breakdown_row *row = ws_find_path_row(analysis, is_unoptimised);
	struct ws_finding *finding;
	struct ws_text place = {0};
	bool others = have_others_spoken(findings);

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

const struct ws_rule ws_rule_debug_build = {
	.name = "debug-build",
	.title = "Code compiled without optimisation",
	.about = "The debugging information of the program says that most of what was sampled was "
		 "compiled without -O, and 10 % of the critical path or more is such code. GCC "
		 "notes its options there, Clang only with -grecord-command-line. A note where "
		 "another fault was found: that would remain.",
	.find_obstacle = ws_need_samples,
	.query = ws_proof_code,
	.check = check_build,
};
