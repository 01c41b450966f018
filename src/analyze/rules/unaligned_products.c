/*
 * unaligned_products.c - products of matrices whose sizes are not multiples of 16 bytes.
 *
 * Tensor cores are fed by loads of 16 bytes. Where rows begin elsewhere, libraries take kernels
 * that load one or two elements at once, with half the speed or less.
 */
#include "analyze/launch_places.h"
#include "analyze/rules/rules.h"

#define LEAST_SHARE 0.1
#define GAIN 0.5

static void check_products(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	const struct ws_kernel_kind_fact *fact = &analysis->facts.kinds[WS_KERNEL_UNALIGNED];
	uint64_t cost = ws_analysis_kind_cost(analysis, WS_KERNEL_UNALIGNED);
	struct ws_code_place code;
	struct ws_finding *finding;
	struct ws_text place = {0};

	if (ws_analysis_share(analysis, cost) < LEAST_SHARE)
		return;
	code = ws_place_kernel_kind(analysis, WS_KERNEL_UNALIGNED);
	ws_put_at_place(analysis, &code, &place);
	finding = ws_findings_add_fault(analysis, findings, &ws_rule_unaligned_products, cost,
					(uint64_t)((double)cost * GAIN));
	finding->title = ws_format(
		"Matrix products of odd sizes: for %.0f %% of the time kernels run that load one "
		"or two elements at once%s",
		100 * ws_analysis_share(analysis, cost), ws_text_or(place.text, ""));
	ws_point_at(finding, &code);
	finding->advice = ws_strdup(
		"Pad the matrices so that rows are multiples of 16 bytes: sizes (features, words "
		"of a vocabulary, lengths) that are multiples of 8 with half precision, of 4 with "
		"single precision; better of 64.");
	finding->assumption = ws_strdup("kernels for aligned data take half the time");
	ws_finding_add_evidence(finding,
				ws_report_string(analysis->model->report, fact->name, NULL), NULL,
				fact->longest.start, fact->longest.end);
	ws_text_free(&place);
}

const struct ws_rule ws_rule_unaligned_products = {
	.name = "unaligned-products",
	.title = "Matrix products of odd sizes",
	.about = "Kernels of matrix products whose names say that they load one or two elements at "
		 "once (align1, align2) take 10 % of the critical path or more: the rows of some "
		 "matrix are not multiples of 16 bytes.",
	.find_obstacle = ws_need_cuda,
	.query = ws_proof_kernels,
	.check = check_products,
};
