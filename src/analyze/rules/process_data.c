/* process_data.c - Python processes that mostly pack up data for each other. */
#include "analyze/rules/rules.h"

static bool is_packing(const struct ws_analysis *analysis, const struct ws_breakdown_row *row)
{
	(void)analysis;
	return row->place.library == WS_LIBRARY_PACKING && row->cause == WS_CAUSE_CPU &&
	       !row->place.loader;
}

static void check_packing(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	uint64_t cost = ws_sum_path_rows(analysis, is_packing);
	const struct ws_breakdown_row *row = ws_find_path_row(analysis, is_packing);
	struct ws_finding *finding;
	struct ws_code_place code;
	struct ws_text place = {0};

	if (!row || ws_analysis_share(analysis, cost) < 0.1)
		return;
	code = row->place;
	code.leaf = code.function;
	ws_put_at_place(analysis, &code, &place);
	finding = ws_findings_add_fault(analysis, findings, &ws_rule_process_data, cost,
					cost - cost / 4);
	finding->title =
		ws_format("For %.0f %% of the time processes pack, send and unpack data "
			  "for each other, mostly%s",
			  100 * ws_analysis_share(analysis, cost), ws_text_or(place.text, ""));
	finding->advice = ws_strdup(
		"Send less: names, indexes or parts instead of whole objects; let the workers load "
		"the data themselves (an initializer), or share it (multiprocessing.shared_memory, "
		"memory-mapped arrays).");
	finding->assumption = ws_strdup("a quarter of the data has to be sent");
	ws_finding_add_evidence(finding, "the longest stretch", NULL, row->longest.start,
				row->longest.end);
	ws_text_free(&place);
}

const struct ws_rule ws_rule_process_data = {
	.name = "process-data",
	.title = "Data packed and sent between Python processes",
	.about = "10 % of the critical path or more is code on cores below functions of "
		 "multiprocessing or pickle that pack, send, receive and unpack objects.",
	.query = ws_proof_code,
	.check = check_packing,
};
