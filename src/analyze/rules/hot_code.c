/* hot_code.c - where a program that computes spends its time. A note: computing is no fault. */
#include "analyze/rules/rules.h"

static bool is_code(const struct ws_analysis *analysis, const struct ws_breakdown_row *row)
{
	(void)analysis;
	return row->cause == WS_CAUSE_CPU && row->place.leaf;
}

static void check_code(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	const struct ws_breakdown_row *row = ws_find_path_row(analysis, is_code);
	struct ws_finding *finding;
	struct ws_text place = {0};

	if (!row || ws_analysis_share(analysis, row->ns) < 0.1)
		return;
	ws_put_at_place(analysis, &row->place, &place);
	finding = ws_findings_add(findings, &ws_rule_hot_code);
	finding->cost_ns = row->ns;
	finding->title =
		ws_format("Most of the time on the CPU is spent%s (%.0f %%)",
			  ws_text_or(place.text, ""), 100 * ws_analysis_share(analysis, row->ns));
	finding->advice = ws_strdup("Look there first: a better algorithm, less work, vectors, or "
				    "more threads.");
	finding->next = ws_strdup("warpsight report --view=top-down REPORT");
	ws_text_free(&place);
}

const struct ws_rule ws_rule_hot_code = {
	.name = "hot-code",
	.title = "Where the CPU's time is spent",
	.about = "The place in the user's code that takes most of the critical path, from 10 % on. "
		 "Never more than a note.",
	.check = check_code,
};
