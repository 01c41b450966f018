/*
 * gpu_starved.c - the GPU waits for code on the CPU that launches nothing: the general case, which
 * no more specific rule covers.
 */
#include "analyze/rules/rules.h"

static bool is_code(const struct ws_analysis *analysis, const struct ws_breakdown_row *row)
{
	(void)analysis;
	return row->cause == WS_CAUSE_CPU && row->place.leaf && !row->place.loader;
}

/* All time of one user function in a breakdown. */
static uint64_t sum_function(const struct ws_analysis *analysis,
			     const struct ws_breakdown *breakdown, uint32_t function)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < breakdown->count; i++)
		if (is_code(analysis, &breakdown->rows[i]) &&
		    breakdown->rows[i].place.function == function)
			sum += breakdown->rows[i].ns;
	return sum;
}

/* The busiest GPU: its idle time counts. */
static const struct ws_breakdown *find_idle(const struct ws_analysis *analysis)
{
	size_t best = 0;

	for (size_t i = 1; i < analysis->model->work.gpus; i++)
		if (analysis->gpus[i].idle_total < analysis->gpus[best].idle_total)
			best = i;
	return &analysis->gpus[best].idle;
}

static const struct ws_breakdown_row *find_worst(const struct ws_analysis *analysis, uint64_t *most)
{
	const struct ws_breakdown_row *worst = NULL;

	*most = 0;
	for (size_t i = 0; i < analysis->breakdown.count && i < 200; i++) {
		const struct ws_breakdown_row *row = &analysis->breakdown.rows[i];
		uint64_t sum;

		if (!is_code(analysis, row))
			continue;
		sum = sum_function(analysis, &analysis->breakdown, row->place.function);
		if (sum > *most) {
			*most = sum;
			worst = row;
		}
	}
	return worst;
}

static void check_starved(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	uint64_t most, idle = 0;
	const struct ws_breakdown_row *row = find_worst(analysis, &most);
	struct ws_finding *finding;
	struct ws_text place = {0};

	if (row)
		idle = sum_function(analysis, find_idle(analysis), row->place.function);
	if (!row || ws_analysis_share(analysis, ws_min(most, idle)) < 0.1 ||
	    ws_findings_have(findings, &ws_rule_launch_bound) ||
	    ws_findings_have(findings, &ws_rule_sync_calls) ||
	    ws_findings_have(findings, &ws_rule_tiny_copies) ||
	    ws_findings_have(findings, &ws_rule_blocking_launches) ||
	    ws_findings_have(findings, &ws_rule_compilation) ||
	    ws_findings_have(findings, &ws_rule_one_feeder) ||
	    ws_findings_have(findings, &ws_rule_gil) ||
	    ws_findings_have(findings, &ws_rule_page_migration))
		return;
	ws_put_at_place(analysis, &row->place, &place);
	finding = ws_findings_add_fault(analysis, findings, &ws_rule_gpu_starved, most,
					ws_min(most, idle));
	finding->title =
		ws_format("The GPU waits while the CPU computes%s", ws_text_or(place.text, ""));
	finding->advice = ws_strdup("Do this work ahead, on another thread or in another process, "
				    "or on the GPU.");
	finding->assumption = ws_strdup("the work is done while the GPU is busy");
	ws_finding_add_evidence(finding, "the longest stretch", NULL, row->longest.start,
				row->longest.end);
	ws_text_free(&place);
}

const struct ws_rule ws_rule_gpu_starved = {
	.name = "gpu-starved",
	.title = "The GPU waits for code on the CPU",
	.about = "One function takes 10 % of the critical path or more while the GPU is idle, and "
		 "no rule that knows a particular cause has spoken.",
	.find_obstacle = ws_need_cuda,
	.query = ws_proof_cuda_calls,
	.check = check_starved,
};
