/* short_capture.c - too little was recorded to trust the figures. A note. */
#include "analyze/rules/rules.h"

enum { FEW_STEPS = 5, SHORT_GPU_NS = 20000000, SHORT_CPU_NS = 20000000 };

static char *describe_shortness(const struct ws_analysis *analysis)
{
	double ms = (double)analysis->window / 1e6;

	if (analysis->model->step_source != WS_STEPS_NONE && analysis->steps < FEW_STEPS)
		return ws_format("Only %zu step%s after the warm-up were recorded: figures of so "
				 "few vary",
				 analysis->steps, ws_plural(analysis->steps));
	if (analysis->model->step_source != WS_STEPS_NONE)
		return NULL;
	if (analysis->model->has_cuda && analysis->window < SHORT_GPU_NS)
		return ws_format("Only %.3g ms with work on a GPU were recorded, and no steps were "
				 "found in them",
				 ms);
	if (!analysis->model->has_cuda && analysis->window < SHORT_CPU_NS)
		return ws_format("The run took only %.3g ms: samples are too few to say much", ms);
	return NULL;
}

static void check_length(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	char *title = describe_shortness(analysis);
	struct ws_finding *finding;

	if (!title)
		return;
	finding = ws_findings_add(findings, &ws_rule_short_capture);
	finding->title = title;
	finding->advice = ws_strdup("Record 10 to 20 steps after the warm-up, or a longer run, and "
				    "mark the steps with NVTX ranges; --sampling-period takes "
				    "more samples of a short one.");
}

const struct ws_rule ws_rule_short_capture = {
	.name = "short-capture",
	.title = "Too little was recorded",
	.about = "Fewer than five steps after the warm-up, or, where there are no steps, less than "
		 "20 ms. Never more than a note.",
	.check = check_length,
};
