/* page_faults.c - memory that is taken from the system and given back again and again. */
#include "analyze/rules/rules.h"

enum { SHORT_RUN_NS = 100000000 /* starting costs page faults too */ };

static bool is_fault(const struct ws_analysis *analysis, const struct ws_breakdown_row *row)
{
	static const char *const names[] = {"clear_page",	"page_fault",	"anonymous_page",
					    "folio_zero",	"alloc_pages",	"vma_alloc_folio",
					    "zap_pte",		"free_unref",	"handle_mm",
					    "unmap_page_range", "folio_batch_", "clear_huge",
					    "charge_memcg",	"lru_add",	"free_pages",
					    "huge_pmd"};
	const struct ws_function *function;

	if (row->cause == WS_CAUSE_FAULT)
		return true;
	if (row->cause != WS_CAUSE_CPU || !row->place.leaf)
		return false;
	function = ws_stacks_get_function(analysis->model->stacks, row->place.leaf);
	if (function->kind != WS_FRAME_KERNEL)
		return false;
	for (size_t i = 0; i < WS_COUNT(names); i++)
		if (strstr(function->name, names[i]))
			return true;
	return false;
}

static void check_faults(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	uint64_t sum = ws_sum_path_rows(analysis, is_fault);
	const struct ws_breakdown_row *row = ws_find_path_row(analysis, is_fault);
	struct ws_finding *finding;
	struct ws_code_place code;
	struct ws_text place = {0};

	if (!row || ws_analysis_share(analysis, sum) < 0.2 || analysis->rated < SHORT_RUN_NS)
		return;
	code = row->place;
	code.leaf = code.function;
	ws_put_at_place(analysis, &code, &place);
	finding =
		ws_findings_add_fault(analysis, findings, &ws_rule_page_faults, sum, sum - sum / 5);
	finding->title =
		ws_format("%.0f %% of the time goes into page faults and giving pages "
			  "back%s",
			  100 * ws_analysis_share(analysis, sum), ws_text_or(place.text, ""));
	finding->advice = ws_strdup(
		"Keep large buffers and use them again instead of allocating them each time "
		"(mallopt M_MMAP_THRESHOLD and M_TRIM_THRESHOLD, another allocator), or use huge "
		"pages.");
	finding->assumption = ws_strdup("memory is used again");
	ws_finding_add_evidence(finding, "the longest stretch", NULL, row->longest.start,
				row->longest.end);
	ws_text_free(&place);
}

const struct ws_rule ws_rule_page_faults = {
	.name = "page-faults",
	.title = "Memory taken and given back again and again",
	.about = "In a run of 100 ms or more, 20 % of the critical path or more is the kernel's "
		 "handling of page faults and of memory that is given back.",
	.check = check_faults,
};
