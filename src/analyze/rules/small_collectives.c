/* small_collectives.c - many collectives of few bytes: each costs its latency. */
#include <stdlib.h>

#include "analyze/messages.h"
#include "analyze/rules/rules.h"

enum { LEAST_A_STEP = 8, SHORT_COLLECTIVE_NS = 60000 };
/* Messages from this size on use the full bandwidth: their time depends on their bytes. */
#define LARGE_MESSAGE (UINT64_C(4) << 20)

static void check_collectives(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	const struct ws_model *model = analysis->model;
	uint64_t count = 0, ns = 0, exposed = 0;
	struct ws_messages messages = ws_count_messages(model, NULL);
	struct ws_finding *finding;
	char *size;

	for (size_t gpu = 0; gpu < model->work.gpus; gpu++) {
		exposed = ws_max(exposed, analysis->gpus[gpu].exposed_comm);
		for (size_t i = 0; i < model->work.gpu[gpu].count; i++) {
			const struct ws_work_op *op = &model->work.gpu[gpu].op[i];

			if (op->class != WS_WORK_COMM || op->start < model->from ||
			    op->end > model->to)
				continue;
			count++;
			ns += op->end - op->start;
		}
	}
	if (count < LEAST_A_STEP * analysis->steps * model->work.gpus ||
	    ns / count > SHORT_COLLECTIVE_NS || ws_analysis_share(analysis, exposed) < 0.03 ||
	    ws_findings_have(findings, &ws_rule_late_rank))
		return;
	if (messages.count && messages.bytes / messages.count >= LARGE_MESSAGE)
		return;
	finding = ws_findings_add_fault(analysis, findings, &ws_rule_small_collectives, exposed,
					exposed - exposed / 5);
	size = ws_describe_message(&messages);
	finding->title = ws_format(
		"%.0f collectives a step of %.1f us%s on average: their latency counts, not their "
		"bytes",
		(double)count / (double)analysis->steps /
			(double)ws_max(model->work.gpus, (size_t)1),
		(double)ns / (double)count / 1e3, size);
	free(size);
	finding->advice = ws_strdup("Put small tensors together: larger buckets (DDP: "
				    "bucket_cap_mb=100), one flat buffer, "
				    "all_reduce_coalesced, ncclGroupStart and ncclGroupEnd.");
	finding->assumption = ws_strdup("one large collective takes the place of several");
}

const struct ws_rule ws_rule_small_collectives = {
	.name = "small-collectives",
	.title = "Many small collectives",
	.about = "Eight collectives a step or more take less than 60 us each on average, and for 3 "
		 "% of the time or more nothing hides them; where their bytes are known, less than "
		 "4 MiB each.",
	.find_obstacle = ws_need_cuda,
	.query = ws_proof_kernels,
	.check = check_collectives,
};
