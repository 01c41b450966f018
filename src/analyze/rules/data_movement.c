/*
 * data_movement.c - kernels that compute nothing: they copy tensors into another layout or type.
 *
 * Only kernels of frameworks and libraries are known by their names. Some of this work is usual
 * (casts of mixed precision), so that it has to take a fifth of the time.
 */
#include "analyze/launch_places.h"
#include "analyze/rules/rules.h"

#define LEAST_SHARE 0.2
#define GAIN 0.8 /* share of it that goes away where the layout is kept */

static const char *choose_advice(const char *name)
{
	if (strstr(name, "chw") || strstr(name, "CHW") || strstr(name, "Nhwc"))
		return "Keep images in the layout that the convolutions want: "
		       "model.to(memory_format=torch.channels_last), and the input as well.";
	if (strstr(name, "Cat"))
		return "Write into a buffer that was allocated once (a slice of it, index_copy_, "
		       "out=) instead of joining tensors again and again.";
	return "Leave tensors in the layout and type in which they are used next: avoid "
	       ".contiguous(), permute and transpose before operations that need them packed, "
	       ".clone() and .to(); torch.compile fuses what remains.";
}

static void check_movement(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	const struct ws_kernel_kind_fact *moves = &analysis->facts.kinds[WS_KERNEL_MOVES];
	uint64_t cost = ws_analysis_kind_cost(analysis, WS_KERNEL_MOVES);
	struct ws_code_place code;
	struct ws_finding *finding;
	struct ws_text place = {0};
	const char *name;

	if (ws_analysis_share(analysis, cost) < LEAST_SHARE)
		return;
	name = ws_report_string(analysis->model->report, moves->name, NULL);
	code = ws_place_kernel_kind(analysis, WS_KERNEL_MOVES);
	ws_put_at_place(analysis, &code, &place);
	finding = ws_findings_add_fault(analysis, findings, &ws_rule_data_movement, cost,
					(uint64_t)((double)cost * GAIN));
	finding->title = ws_format(
		"For %.0f %% of the time kernels only copy tensors into another layout or type "
		"(%.0f a step)%s",
		100 * ws_analysis_share(analysis, cost),
		(double)moves->count / (double)analysis->steps, ws_text_or(place.text, ""));
	ws_point_at(finding, &code);
	finding->advice = ws_strdup(choose_advice(name));
	finding->assumption = ws_strdup("four in five of these copies can be left out");
	ws_finding_add_evidence(finding, name, NULL, moves->longest.start, moves->longest.end);
	ws_text_free(&place);
}

const struct ws_rule ws_rule_data_movement = {
	.name = "data-movement",
	.title = "Kernels that only copy tensors into another layout or type",
	.about = "Kernels of frameworks and libraries that copy, transpose, join or cast tensors, "
		 "known by their names, take a fifth of the critical path or more. Less is usual: "
		 "mixed precision casts, and convolutions may change the layout once.",
	.find_obstacle = ws_need_cuda,
	.query = ws_proof_kernels,
	.check = check_movement,
};
