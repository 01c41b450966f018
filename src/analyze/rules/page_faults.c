/* page_faults.c - memory that is taken from the system and given back again and again. */
#include "analyze/rules/rules.h"

#define LEAST_SHARE 0.2
#define LEAST_MAPPING 0.03
enum { SHORT_RUN_NS = 100000000 /* starting costs page faults too */ };

enum { MOST_TOTALS = 64 };

/* Faults of new memory, and the calls that allocate and free it; `worst` is the user function with
 * most of this time. */
static uint64_t sum_faults(const struct ws_analysis *analysis, struct ws_usage_row *worst,
			   uint64_t *mapping)
{
	struct ws_usage_total totals[MOST_TOTALS];
	size_t count = ws_total_usage(analysis, 1u << WS_USAGE_FAULT | 1u << WS_USAGE_MEMORY,
				      totals, MOST_TOTALS);
	uint64_t sum = 0;

	*worst = (struct ws_usage_row){0};
	*mapping = 0;
	for (size_t i = 0; i < count; i++) {
		sum += totals[i].row.path_ns;
		if (totals[i].row.kind == WS_USAGE_MEMORY)
			*mapping += totals[i].row.path_ns;
		if (totals[i].row.path_ns > worst->path_ns)
			*worst = totals[i].row;
	}
	return sum;
}

static void check_faults(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	struct ws_usage_row worst;
	uint64_t mapping, sum = sum_faults(analysis, &worst, &mapping);
	const struct ws_usage_row *row = &worst;
	struct ws_finding *finding;
	struct ws_code_place code;
	struct ws_text place = {0};

	if (!sum || ws_analysis_share(analysis, sum) < LEAST_SHARE ||
	    analysis->rated < SHORT_RUN_NS ||
	    ws_findings_have(findings, &ws_rule_pageable_copies) || /* then it is the driver's */
	    ws_findings_have(findings, &ws_rule_page_migration))
		return;
	code = row->place;
	ws_put_at_place(analysis, &code, &place);
	finding =
		ws_findings_add_fault(analysis, findings, &ws_rule_page_faults, sum, sum - sum / 5);
	ws_limit_to_users(analysis, finding, &code);
	/* Memory that is never freed must be touched once anyway. */
	if ((double)mapping < LEAST_MAPPING * (double)sum)
		finding->level = WS_LEVEL_NOTE;
	finding->title =
		ws_format("%.0f %% of the time goes into page faults and giving pages "
			  "back%s",
			  100 * ws_analysis_share(analysis, sum), ws_text_or(place.text, ""));
	finding->advice = ws_strdup(
		"Keep large buffers and use them again instead of allocating them each time "
		"(mallopt M_MMAP_THRESHOLD and M_TRIM_THRESHOLD, another allocator), or use huge "
		"pages.");
	finding->assumption = ws_strdup("memory is used again");
	ws_finding_add_evidence(finding, "from the first sample of it to the last", NULL,
				row->span.start, row->span.end);
	ws_text_free(&place);
}

const struct ws_rule ws_rule_page_faults = {
	.name = "page-faults",
	.title = "Memory taken and given back again and again",
	.about = "In a run of 100 ms or more, 20 % of the critical path or more is the kernel's "
		 "handling of page faults and of memory that is given back. A note where hardly "
		 "any is given back: then each page is touched for the first time.",
	.find_obstacle = ws_need_kernel_samples,
	.query = ws_proof_code,
	.check = check_faults,
};
