/*
 * power_limit.c - GPUs that were slowed down because of their power or heat, as the driver reports.
 */
#include <math.h>

#include "analyze/rules/rules.h"

#define LEAST_PERCENT 10 /* of the window */

static void report_limit(const struct ws_analysis *analysis, size_t gpu, bool heat, double percent,
			 struct ws_findings *findings)
{
	const double *means = analysis->measured.gpus[gpu].means;
	struct ws_finding *finding = ws_findings_add(findings, &ws_rule_power_limit);
	struct ws_text text = {0};

	ws_analysis_put_gpu(analysis, gpu, &text);
	ws_text_printf(&text, " was slowed down for its %s %.0f %% of the time",
		       heat ? "heat" : "power", percent);
	if (!isnan(means[WS_GPU_POWER]))
		ws_text_printf(&text, ", at %.0f W on average", means[WS_GPU_POWER]);
	if (!isnan(means[WS_GPU_SM_CLOCK]))
		ws_text_printf(&text, " and %.2f GHz", means[WS_GPU_SM_CLOCK] / 1e9);
	finding->title = text.text;
	if (heat)
		finding->advice = ws_strdup("Look at its cooling: fans, air flow, neighbours. "
					    "Compare runs at the same temperature only.");
	else
		finding->advice =
			ws_strdup("This is what a GPU at work does at its limit. Raise the limit "
				  "where it was lowered (nvidia-smi -q -d POWER), and compare runs "
				  "at locked clocks (nvidia-smi -lgc).");
	finding->next = ws_strdup("warpsight stats -r gpu_metric_util_sum REPORT");
	ws_finding_add_evidence(finding, "the metrics of the window", ws_proof_metrics,
				analysis->model->from, analysis->model->to);
}

static void check_limits(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	for (size_t i = 0; i < analysis->model->work.gpus; i++) {
		const double *means = analysis->measured.gpus[i].means;

		if (means[WS_GPU_SLOWED_BY_HEAT] * 100 >= LEAST_PERCENT)
			report_limit(analysis, i, true, means[WS_GPU_SLOWED_BY_HEAT] * 100,
				     findings);
		if (means[WS_GPU_SLOWED_BY_POWER] * 100 >= LEAST_PERCENT)
			report_limit(analysis, i, false, means[WS_GPU_SLOWED_BY_POWER] * 100,
				     findings);
	}
}

static const char *find_obstacle(const struct ws_analysis *analysis)
{
	for (size_t i = 0; i < analysis->model->work.gpus; i++)
		if (analysis->measured.gpus[i].metered)
			return NULL;
	return "what the driver says of GPUs was not recorded (--system-metrics=gpu)";
}

const struct ws_rule ws_rule_power_limit = {
	.name = "power-limit",
	.title = "GPUs slowed down for their power or heat",
	.about = "The driver says that a GPU ran slower than it could for 10 % of the time or "
		 "more, because of its power or its temperature. A note: what it would gain to "
		 "have more is not known.",
	.find_obstacle = find_obstacle,
	.query = ws_proof_metrics,
	.check = check_limits,
};
