/*
 * late_rank.c - GPUs that wait in collectives for the one that comes last.
 *
 * The k-th collective of each GPU is the same one. For the GPU that comes last, it takes only as
 * long as the transfer needs; any additional time on the others is waiting.
 */
#include "analyze/rules/rules.h"

enum { LEAST_COLLECTIVES = 4 };
#define USUAL_SHARE 0.1 /* of the time: by chance some rank comes last */

struct rank {
	const struct ws_work_gpu *gpu;
	size_t at; /* the current operation */
	uint64_t waited, collectives;
};

/* Moves on to the next collective within the window; false at the end. */
static bool find_next(const struct ws_model *model, struct rank *rank)
{
	for (; rank->at < rank->gpu->count; rank->at++) {
		const struct ws_work_op *op = &rank->gpu->op[rank->at];

		if (op->class == WS_WORK_COMM && op->start >= model->from && op->end <= model->to)
			return true;
	}
	return false;
}

static bool step_all(const struct ws_model *model, struct rank *ranks, size_t count,
		     struct ws_span *longest)
{
	uint64_t least = UINT64_MAX;

	for (size_t i = 0; i < count; i++) {
		const struct ws_work_op *op;

		if (!find_next(model, &ranks[i]))
			return false;
		op = &ranks[i].gpu->op[ranks[i].at];
		least = ws_min(least, op->end - op->start);
	}
	for (size_t i = 0; i < count; i++) {
		const struct ws_work_op *op = &ranks[i].gpu->op[ranks[i].at++];

		ranks[i].collectives++;
		ranks[i].waited += op->end - op->start - least;
		if (op->end - op->start - least > longest->end - longest->start)
			*longest = (struct ws_span){op->start, op->end - least};
	}
	return true;
}

/* The ranks that communicate at all. */
static size_t list_ranks(const struct ws_analysis *analysis, struct rank *ranks)
{
	const struct ws_work *work = &analysis->model->work;
	size_t count = 0;

	for (size_t i = 0; i < work->gpus; i++) {
		ranks[count] = (struct rank){.gpu = &work->gpu[i]};
		count += find_next(analysis->model, &ranks[count]);
	}
	return count;
}

static void report_late(const struct ws_analysis *analysis, const struct rank *late, uint64_t cost,
			struct ws_span longest, struct ws_findings *findings)
{
	struct ws_finding *finding =
		ws_findings_add_fault(analysis, findings, &ws_rule_late_rank, cost, cost);
	struct ws_text name = {0};

	if (ws_analysis_share(analysis, cost) < USUAL_SHARE)
		finding->level = WS_LEVEL_NOTE;
	ws_analysis_put_gpu(analysis, (size_t)(late->gpu - analysis->model->work.gpu), &name);
	finding->title = ws_format(
		"%s comes last to collectives: the others wait for it in them for %.0f %% of the "
		"time (%llu collectives)",
		name.text, 100 * ws_analysis_share(analysis, cost),
		(unsigned long long)late->collectives);
	finding->advice = ws_strdup("Give all ranks the same work (equal batches, lengths, experts "
				    "and layers), and see what slows this one down: its data, its "
				    "CPU, its clocks.");
	finding->assumption = ws_strdup("all ranks come at the same time");
	ws_finding_add_evidence(finding, "the longest such wait", NULL, longest.start, longest.end);
	ws_text_free(&name);
}

/* How long the GPUs that waited computed nothing meanwhile, on average: a wait that computation
 * hides costs nothing. */
static uint64_t measure_exposed(const struct ws_analysis *analysis, const struct rank *ranks,
				size_t count, size_t late)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < count; i++)
		if (i != late)
			sum += analysis->gpus[ranks[i].gpu - analysis->model->work.gpu]
				       .exposed_comm;
	return sum / (count - 1);
}

static void check_ranks(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	struct rank *ranks = ws_calloc(analysis->model->work.gpus + 1, sizeof(*ranks));
	size_t count = list_ranks(analysis, ranks), late = 0;
	struct ws_span longest = {0};
	uint64_t sum = 0, cost;

	while (count > 1 && step_all(analysis->model, ranks, count, &longest))
		;
	for (size_t i = 0; i < count; i++) {
		sum += ranks[i].waited;
		if (ranks[i].waited < ranks[late].waited)
			late = i;
	}
	if (count > 1 && ranks[0].collectives >= LEAST_COLLECTIVES) {
		cost = (sum - ranks[late].waited) / (count - 1) - ranks[late].waited;
		cost = ws_min(cost, measure_exposed(analysis, ranks, count, late));
		if (ws_analysis_share(analysis, cost) >= 0.03)
			report_late(analysis, &ranks[late], cost, longest, findings);
	}
	free(ranks);
}

const struct ws_rule ws_rule_late_rank = {
	.name = "late-rank",
	.title = "GPUs that wait in collectives for the one that comes last",
	.about = "Collectives of the GPUs of a report are compared one by one: what they take "
		 "longer than on the GPU where they take least is waiting. Reported from 3 % of "
		 "the time on, for the GPU that waits least, and no more than what no computation "
		 "hides. A note below 10 %. Reports of one rank each are compared when all of them "
		 "are given to analyze.",
	.find_obstacle = ws_need_cuda,
	.query = ws_proof_kernels,
	.check = check_ranks,
};
