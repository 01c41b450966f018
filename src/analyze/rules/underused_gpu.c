/*
 * underused_gpu.c - a GPU that always runs a kernel but whose multiprocessors do little; and a GPU
 * that is well used.
 */
#include <math.h>

#include "analyze/rules/rules.h"

#define WELL_USED 80  /* percent, on average over the window */
#define LEAST_LOST 20 /* points between the time with a kernel and SM Active */

/* Percent of the window in which something ran. */
static double measure_busy(const struct ws_analysis *analysis, size_t gpu)
{
	uint64_t copies = analysis->gpus[gpu].exposed_copies,
		 idle = analysis->gpus[gpu].idle_total + copies;

	return 100 * (1 - ws_analysis_part(analysis, ws_min(idle, analysis->window)));
}

static void report_use(const struct ws_analysis *analysis, size_t gpu, double busy,
		       struct ws_findings *findings)
{
	double active = analysis->measured.gpus[gpu].means[WS_GPU_SM_ACTIVE];
	uint64_t lost = (uint64_t)((busy - active) / 100 * (double)analysis->window);
	struct ws_finding *finding =
		ws_findings_add_fault(analysis, findings, &ws_rule_underused_gpu, lost, lost / 2);
	struct ws_text name = {0};

	ws_analysis_put_gpu(analysis, gpu, &name);
	finding->title = ws_format("%s had a kernel %.0f %% of the time, but only %.0f %% of its "
				   "multiprocessors were active on average",
				   name.text, busy, active);
	finding->advice = ws_strdup(
		"Give kernels more blocks (a larger batch, fused or batched small kernels), or let "
		"several run side by side in streams.");
	finding->assumption = ws_strdup("half of the idle multiprocessors could work");
	finding->next = ws_strdup("warpsight stats -r gpu_metric_kern_sum REPORT");
	ws_finding_add_evidence(finding, "the metrics of the window", ws_proof_metrics,
				analysis->model->from, analysis->model->to);
	ws_text_free(&name);
}

static void praise_use(const struct ws_analysis *analysis, size_t gpu, struct ws_findings *findings)
{
	struct ws_finding *finding = ws_findings_add(findings, &ws_rule_underused_gpu);
	struct ws_text name = {0};

	ws_analysis_put_gpu(analysis, gpu, &name);
	finding->level = WS_LEVEL_OK;
	finding->title = ws_format("%.0f %% of the multiprocessors of %s were active on average",
				   analysis->measured.gpus[gpu].means[WS_GPU_SM_ACTIVE], name.text);
	finding->advice = ws_strdup("The GPU is well filled: look at what limits its kernels.");
	ws_text_free(&name);
}

static void check_use(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	for (size_t i = 0; i < analysis->model->work.gpus; i++) {
		const struct ws_measured_gpu *gpu = &analysis->measured.gpus[i];
		double busy = measure_busy(analysis, i);

		if (!gpu->known)
			continue;
		if (gpu->means[WS_GPU_SM_ACTIVE] >= WELL_USED)
			praise_use(analysis, i, findings);
		else if (busy - gpu->means[WS_GPU_SM_ACTIVE] >= LEAST_LOST)
			report_use(analysis, i, busy, findings);
	}
}

const struct ws_rule ws_rule_underused_gpu = {
	.name = "underused-gpu",
	.title = "Multiprocessors without work while kernels run",
	.about = "Fewer than 80 % of a GPU's multiprocessors are active on average, and at least "
		 "20 % of the time less than it has a kernel running: kernels with too few blocks, "
		 "which `nvidia-smi` takes for a busy GPU. From 80 % on it is well used. Needs "
		 "sampled GPU metrics.",
	.find_obstacle = ws_need_gpu_metrics,
	.query = ws_proof_metrics,
	.check = check_use,
};
