/* exposed_communication.c - collectives that no computation hides. */
#include <stdlib.h>

#include "analyze/messages.h"
#include "analyze/rules/rules.h"

static void check_gpu(const struct ws_analysis *analysis, size_t gpu, struct ws_findings *findings)
{
	const struct ws_gpu_budget *budget = &analysis->gpus[gpu];
	uint64_t all = budget->exposed_comm + budget->overlapped, gain;
	struct ws_finding *finding;
	struct ws_text name = {0};
	struct ws_messages messages;

	if (ws_analysis_share(analysis, budget->exposed_comm) < 0.05 ||
	    ws_findings_have(findings, &ws_rule_late_rank) ||
	    ws_findings_have(findings, &ws_rule_small_collectives))
		return;
	ws_analysis_put_gpu(analysis, gpu, &name);
	gain = ws_estimate_bound(analysis, ws_min(budget->exposed_comm, budget->compute) / 2,
				 ws_cost_of_half_communication, NULL);
	finding = ws_findings_add_fault(analysis, findings, &ws_rule_exposed_communication,
					budget->exposed_comm, gain);
	finding->title =
		ws_format("%s communicates for %.0f %% of the time while it computes "
			  "nothing (%.0f %% of its communication)",
			  name.text, 100 * ws_analysis_share(analysis, budget->exposed_comm),
			  100.0 * (double)budget->exposed_comm / (double)all);
	messages = ws_count_messages(analysis->model, &analysis->model->work.gpu[gpu]);
	if (messages.count && analysis->steps) {
		char *title = finding->title;

		finding->title =
			ws_format("%s: %.1f MiB a step in %.0f operations", title,
				  (double)messages.bytes / (double)analysis->steps / (1 << 20),
				  (double)messages.count / (double)analysis->steps);
		free(title);
	}
	finding->advice = ws_strdup(
		"Let the collectives of one layer run beside the backward pass of the next (DDP "
		"does; try bucket_cap_mb and gradient_as_bucket_view), send fewer bytes "
		"(bfloat16 gradients), or look for a rank that comes late.");
	finding->assumption = ws_strdup("half of it can be hidden");
	ws_text_free(&name);
}

static void check_communication(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	for (size_t i = 0; i < analysis->model->work.gpus; i++)
		check_gpu(analysis, i, findings);
}

const struct ws_rule ws_rule_exposed_communication = {
	.name = "exposed-communication",
	.title = "Communication that nothing hides",
	.about = "For 5 % of the time or more a GPU communicates and computes nothing meanwhile.",
	.find_obstacle = ws_need_cuda,
	.query = ws_proof_kernels,
	.check = check_communication,
};
