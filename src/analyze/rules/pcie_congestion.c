/* pcie_congestion.c - time in which PCIe ran close to its peak bandwidth. */
#include <math.h>

#include "analyze/rules/rules.h"

#define LEAST_SHARE 0.1 /* of the window */

static void report_link(const struct ws_analysis *analysis, size_t gpu,
			struct ws_findings *findings)
{
	const struct ws_measured_gpu *measured = &analysis->measured.gpus[gpu];
	uint64_t exposed = ws_min(analysis->gpus[gpu].exposed_copies, measured->busy_pcie);
	struct ws_finding *finding = ws_findings_add_fault(
		analysis, findings, &ws_rule_pcie_congestion, measured->busy_pcie, exposed);
	struct ws_text name = {0};

	ws_analysis_put_gpu(analysis, gpu, &name);
	finding->title =
		ws_format("PCIe of %s moved more than %d %% of what it can for %.0f %% of the time",
			  name.text, WS_BUSY_LINK_PERCENT,
			  100 * ws_analysis_part(analysis, measured->busy_pcie));
	finding->advice = ws_strdup(
		"Move less: keep data on the GPU, copy smaller types, and spread GPUs over the "
		"machine's links (nvidia-smi topo -m); overlap copies with kernels.");
	finding->assumption =
		ws_strdup("copies with no kernel beside them would be hidden or not needed");
	finding->next = ws_strdup("warpsight stats -r gpu_metric_util_sum REPORT");
	ws_finding_add_evidence(finding, "the metrics of the window", ws_proof_metrics,
				analysis->model->from, analysis->model->to);
	ws_text_free(&name);
}

static void check_link(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	for (size_t i = 0; i < analysis->model->work.gpus; i++)
		if (ws_analysis_part(analysis, analysis->measured.gpus[i].busy_pcie) >= LEAST_SHARE)
			report_link(analysis, i, findings);
}

const struct ws_rule ws_rule_pcie_congestion = {
	.name = "pcie-congestion",
	.title = "PCIe at its limit",
	.about = "Samples say that PCIe moved at least 70 % of what it can, one way or the other, "
		 "for 10 % of the time or more. Needs sampled GPU metrics.",
	.find_obstacle = ws_need_gpu_metrics,
	.query = ws_proof_metrics,
	.check = check_link,
};
