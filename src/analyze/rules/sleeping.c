/* sleeping.c - threads on the critical path that sleep for a time. */
#include "analyze/rules/rules.h"

static bool is_sleep(const struct ws_analysis *analysis, const struct ws_breakdown_row *row)
{
	(void)analysis;
	return row->cause == WS_CAUSE_SLEEP && !row->place.loader;
}

static void check_sleeps(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	uint64_t all = ws_sum_path_rows(analysis, is_sleep);
	const struct ws_breakdown_row *row = ws_find_path_row(analysis, is_sleep);
	struct ws_finding *finding;
	struct ws_text what = {0};

	if (!row || ws_analysis_share(analysis, all) < 0.02)
		return;
	ws_breakdown_put_row(analysis->model, row, &what);
	finding = ws_findings_add_fault(analysis, findings, &ws_rule_sleeping, all, all);
	ws_limit_to_users(analysis, finding, &row->place);
	finding->title = ws_format("The program sleeps: %s", ws_text_or(what.text, ""));
	finding->advice = ws_strdup("Wait for the event itself (a condition variable, a "
				    "descriptor) instead of for a time, or leave the pause out.");
	finding->assumption = ws_strdup("there is nothing to wait for");
	ws_finding_add_evidence(finding, "the longest sleep", NULL, row->longest.start,
				row->longest.end);
	ws_text_free(&what);
}

const struct ws_rule ws_rule_sleeping = {
	.name = "sleeping",
	.title = "Sleeping on the critical path",
	.about = "Calls that sleep for a time (nanosleep, usleep, select without descriptors) take "
		 "2 % of the critical path or more.",
	.find_obstacle = ws_need_scheduling,
	.check = check_sleeps,
};
