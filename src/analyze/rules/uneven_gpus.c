/* uneven_gpus.c - some GPUs of one program do much less than others, as measured. */
#include <math.h>

#include "analyze/rules/rules.h"

#define LEAST_APART 20	/* points of SM Active between the busiest GPU and the least busy */
#define LEAST_ACTIVE 20 /* percent of the busiest */

static void report_gpus(const struct ws_analysis *analysis, size_t most, size_t least, double mean,
			struct ws_findings *findings)
{
	double high = analysis->measured.gpus[most].means[WS_GPU_SM_ACTIVE],
	       low = analysis->measured.gpus[least].means[WS_GPU_SM_ACTIVE];
	uint64_t lost = (uint64_t)((1 - mean / high) * (double)analysis->window);
	struct ws_finding *finding =
		ws_findings_add_fault(analysis, findings, &ws_rule_uneven_gpus, lost, lost);
	struct ws_text busy = {0}, idle = {0};

	/* Where GPUs wait in collectives, another rule knows better which one comes last. */
	if (ws_findings_have(findings, &ws_rule_late_rank))
		finding->level = WS_LEVEL_NOTE;
	ws_analysis_put_gpu(analysis, most, &busy);
	ws_analysis_put_gpu(analysis, least, &idle);
	finding->title = ws_format("GPUs have unequal shares: %.0f %% of the multiprocessors of "
				   "%s were active, of %s %.0f %%",
				   high, busy.text, idle.text, low);
	finding->advice = ws_strdup("Share the work out by what each GPU can do: equal batches or "
				    "layers, sequences of similar length on each rank.");
	finding->assumption = ws_strdup("all GPUs could have the same share");
	finding->next = ws_strdup("warpsight stats -r gpu_metric_util_sum REPORT");
	ws_finding_add_evidence(finding, "the metrics of the window", ws_proof_metrics,
				analysis->model->from, analysis->model->to);
	ws_text_free(&busy);
	ws_text_free(&idle);
}

static void check_gpus(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	size_t most = 0, least = 0, count = 0;
	double sum = 0, high = -1, low = 101;

	for (size_t i = 0; i < analysis->model->work.gpus; i++) {
		double active = analysis->measured.gpus[i].means[WS_GPU_SM_ACTIVE];

		if (isnan(active))
			continue;
		count++;
		sum += active;
		if (active > high) {
			high = active;
			most = i;
		}
		if (active < low) {
			low = active;
			least = i;
		}
	}
	if (count > 1 && high >= LEAST_ACTIVE && high - low >= LEAST_APART)
		report_gpus(analysis, most, least, sum / (double)count, findings);
}

const struct ws_rule ws_rule_uneven_gpus = {
	.name = "uneven-gpus",
	.title = "GPUs of which some do much less than others",
	.about = "On GPUs that the program works on, the share of active multiprocessors differs "
		 "by 20 points or more on average. Needs sampled GPU metrics of each.",
	.find_obstacle = ws_need_gpu_metrics,
	.query = ws_proof_metrics,
	.check = check_gpus,
};
