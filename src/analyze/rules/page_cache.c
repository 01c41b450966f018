/*
 * page_cache.c - code that touches mapped memory whose pages have to come from a disk.
 *
 * Such a wait is not in a call: the thread stops at an instruction. Where the kernel was sampled,
 * the same function's page faults show that the page is from a file or the swap space.
 */
#include "analyze/rules/rules.h"

static bool is_unexplained(const struct ws_analysis *analysis, const struct ws_breakdown_row *row)
{
	(void)analysis;
	return row->cause == WS_CAUSE_FAULT || (row->cause == WS_CAUSE_OTHER_WAIT && !row->name);
}

/* How long the program handled faults that bring pages in, on the path. */
static uint64_t sum_file_faults(const struct ws_analysis *analysis,
				const struct ws_usage_row **longest)
{
	uint64_t sum = 0;

	*longest = NULL;
	for (size_t i = 0; i < analysis->usage.count; i++) {
		const struct ws_usage_row *row = &analysis->usage.rows[i];

		if (row->kind != WS_USAGE_FILE_FAULT)
			continue;
		sum += row->path_ns;
		if (!*longest)
			*longest = row;
	}
	return sum;
}

/* Whether the function that waits was seen to fault: other calls of the kernel wait as well. */
static bool is_faulting(const struct ws_analysis *analysis, const struct ws_breakdown_row *row)
{
	for (size_t i = 0; i < analysis->usage.count; i++)
		if (analysis->usage.rows[i].kind == WS_USAGE_FILE_FAULT &&
		    analysis->usage.rows[i].place.function == row->place.function)
			return true;
	return !row->place.function;
}

static void check_stalls(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	const struct ws_usage_row *faults;
	const struct ws_breakdown_row *row = ws_find_path_row(analysis, is_unexplained);
	uint64_t waits = ws_sum_path_rows(analysis, is_unexplained),
		 handling = sum_file_faults(analysis, &faults), cost = waits + handling;
	struct ws_code_place code;
	struct ws_finding *finding;
	struct ws_text place = {0};

	/* Waits that no fault of a file explains have another cause; processes that start touch
	 * their pages for the first time. */
	if (!row || ws_findings_have(findings, &ws_rule_child_processes) ||
	    ws_analysis_share(analysis, waits) < 0.03 || ws_analysis_share(analysis, cost) < 0.05 ||
	    (!faults && (row->cause != WS_CAUSE_FAULT || analysis->usage.kernel)) ||
	    (faults && !is_faulting(analysis, row)))
		return;
	code = faults && faults->place.users ? faults->place : row->place;
	code.leaf = code.function;
	ws_put_at_place(analysis, &code, &place);
	finding = ws_findings_add_fault(analysis, findings, &ws_rule_page_cache, cost,
					cost - cost / 5);
	ws_limit_to_users(analysis, finding, &code);
	/* What is mapped when a program starts comes from the disk where it did not run lately. */
	if (!code.function || ws_is_start_up(&code) || ws_is_start_up(&row->place))
		finding->level = WS_LEVEL_NOTE;
	finding->title =
		ws_format("%.0f %% of the time the program waits for pages of mapped "
			  "files or of the swap space%s",
			  100 * ws_analysis_share(analysis, cost), ws_text_or(place.text, ""));
	finding->advice = ws_strdup(
		"Bring the pages in ahead (madvise MADV_WILLNEED, MAP_POPULATE, a thread that "
		"reads ahead), go through the file in order, or read it in large pieces; where it "
		"is the swap space, use less memory.");
	finding->assumption = ws_strdup("the pages are there when they are needed");
	ws_finding_add_evidence(finding, "the longest of these waits", NULL, row->longest.start,
				row->longest.end);
	ws_text_free(&place);
}

static const char *find_obstacle(const struct ws_analysis *analysis)
{
	const char *why = ws_need_scheduling(analysis);

	if (why)
		return why;
	return ws_need_samples(analysis);
}

const struct ws_rule ws_rule_page_cache = {
	.name = "page-cache",
	.title = "Waiting for pages of files that are mapped",
	.about = "Waits in no call, and the handling of page faults that bring in pages of a file "
		 "or of the swap space, take 5 % of the critical path or more.",
	.find_obstacle = find_obstacle,
	.query = ws_proof_waits,
	.check = check_stalls,
};
