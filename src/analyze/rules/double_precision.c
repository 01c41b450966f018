/* double_precision.c - kernels that compute in double precision. A note: whether results need it
 * only the user knows. */
#include "analyze/launch_places.h"
#include "analyze/rules/rules.h"

#define LEAST_SHARE 0.1
#define GAIN 0.5 /* half the bytes, and at least twice the arithmetic */

static void check_doubles(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	const struct ws_kernel_kind_fact *doubles = &analysis->facts.kinds[WS_KERNEL_DOUBLE];
	uint64_t cost = ws_analysis_kind_cost(analysis, WS_KERNEL_DOUBLE);
	struct ws_code_place code;
	struct ws_finding *finding;
	struct ws_text place = {0};

	if (ws_analysis_share(analysis, cost) < LEAST_SHARE)
		return;
	code = ws_place_kernel_kind(analysis, WS_KERNEL_DOUBLE);
	ws_put_at_place(analysis, &code, &place);
	finding = ws_findings_add_fault(analysis, findings, &ws_rule_double_precision, cost,
					(uint64_t)((double)cost * GAIN));
	finding->level = WS_LEVEL_NOTE;
	finding->title = ws_format("Kernels compute in double precision for %.0f %% of the time, "
				   "mostly %.80s%s",
				   100 * ws_analysis_share(analysis, cost),
				   ws_report_string(analysis->model->report, doubles->name, NULL),
				   ws_text_or(place.text, ""));
	ws_point_at(finding, &code);
	finding->advice = ws_strdup(
		"If single precision is enough: float32 where data come from NumPy, whose default "
		"is float64 (tensor.float(), dtype=torch.float32), and literals such as 0.5f and "
		"sinf in CUDA. GPUs that are not made for it do 32 to 64 times as much in single "
		"precision.");
	finding->assumption = ws_strdup("single precision takes half the time");
	ws_finding_add_evidence(finding, "the longest of them", NULL, doubles->longest.start,
				doubles->longest.end);
	ws_text_free(&place);
}

const struct ws_rule ws_rule_double_precision = {
	.name = "double-precision",
	.title = "Kernels that compute in double precision",
	.about = "Kernels whose names say that their data are of type double take 10 % of the "
		 "critical path or more. Never more than a note: the precision of results changes.",
	.find_obstacle = ws_need_cuda,
	.query = ws_proof_kernels,
	.check = check_doubles,
};
