/* hot_code.c - where a program that computes spends its time. A note: computing is not a fault. */
#include "analyze/rules/rules.h"

static bool is_code(const struct ws_analysis *analysis, const struct ws_breakdown_row *row)
{
	(void)analysis;
	return row->cause == WS_CAUSE_CPU && row->place.leaf;
}

/* All time on the path at one line of user code, whatever it called. */
static uint64_t sum_line(const struct ws_analysis *analysis, const struct ws_code_place *place)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < analysis->breakdown.count; i++) {
		const struct ws_breakdown_row *row = &analysis->breakdown.rows[i];

		if (is_code(analysis, row) && row->place.function == place->function &&
		    row->place.file == place->file && row->place.line == place->line)
			sum += row->ns;
	}
	return sum;
}

static const struct ws_breakdown_row *find_hottest(const struct ws_analysis *analysis,
						   uint64_t *most)
{
	enum { ROWS_TRIED = 200 };
	const struct ws_breakdown_row *hottest = NULL;

	*most = 0;
	for (size_t i = 0; i < analysis->breakdown.count && i < ROWS_TRIED; i++)
		if (is_code(analysis, &analysis->breakdown.rows[i])) {
			uint64_t sum = sum_line(analysis, &analysis->breakdown.rows[i].place);

			if (sum > *most) {
				*most = sum;
				hottest = &analysis->breakdown.rows[i];
			}
		}
	return hottest;
}

static void check_code(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	uint64_t most;
	const struct ws_breakdown_row *row = find_hottest(analysis, &most);
	struct ws_finding *finding;
	struct ws_text place = {0};
	struct ws_code_place code;

	if (!row || ws_analysis_share(analysis, most) < 0.1)
		return;
	code = row->place;
	if (row->ns < most / 2)
		code.leaf = code.function; /* it called several */
	ws_put_at_place(analysis, &code, &place);
	finding = ws_findings_add(findings, &ws_rule_hot_code);
	finding->cost_ns = most;
	finding->title =
		ws_format("%.0f %% of the time the CPU computes%s",
			  100 * ws_analysis_share(analysis, most), ws_text_or(place.text, ""));
	finding->advice = ws_strdup("Look there first: a better algorithm, less work, vectors, or "
				    "more threads.");
	finding->next = ws_strdup("warpsight report --view=top-down REPORT");
	ws_finding_add_evidence(finding, "the longest stretch", NULL, row->longest.start,
				row->longest.end);
	ws_text_free(&place);
}

const struct ws_rule ws_rule_hot_code = {
	.name = "hot-code",
	.title = "Where the CPU's time is spent",
	.about = "The place in the user's code that takes most of the critical path, from 10 % on. "
		 "Never more than a note.",
	.query = ws_proof_code,
	.check = check_code,
};
