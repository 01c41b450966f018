/* blocking_launches.c - every launch waits until its kernel has run: CUDA_LAUNCH_BLOCKING. */
#include "analyze/rules/rules.h"

enum { LEAST_KERNELS = 20, USUAL_LAUNCH_NS = 6000 };

static const char *const launches[] = {"cudaLaunchKernel*", "cuLaunchKernel*", NULL};

/* The share of calls that returned only when the work that they launched was done. */
static void count_blocking(const struct ws_analysis *analysis, uint64_t *blocking, uint64_t *all)
{
	const struct ws_model *model = analysis->model;
	const uint64_t *end = model->calls.rows.col[ws_cuda_api_end];

	*blocking = *all = 0;
	for (size_t gpu = 0; gpu < model->work.gpus; gpu++)
		for (size_t i = 0; i < model->work.gpu[gpu].count; i++) {
			const struct ws_work_op *op = &model->work.gpu[gpu].op[i];
			uint32_t call;

			if (op->class == WS_WORK_MEMORY || op->end < model->from ||
			    op->start > model->to)
				continue;
			call = ws_calls_find(&model->calls, op->process, op->correlation);
			if (call == WS_NO_CALL)
				continue;
			++*all;
			*blocking += end[call] != WS_NO_TIME && end[call] + 1000 >= op->end;
		}
}

static void check_launches(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	struct ws_call_fact calls;
	struct ws_finding *finding;
	const char *variable;
	uint64_t blocking, all, usual, gain;

	count_blocking(analysis, &blocking, &all);
	if (all < LEAST_KERNELS || blocking * 100 < all * 95 ||
	    !ws_facts_sum_calls(analysis->model, &analysis->facts, launches, &calls))
		return;
	usual = calls.count * USUAL_LAUNCH_NS;
	gain = ws_estimate_bound(
		analysis, calls.ns - ws_min(calls.ns, usual), ws_cost_of_calls,
		&(struct ws_call_cost){launches, ws_min((double)usual / (double)calls.ns, 1.0)});
	finding = ws_findings_add_fault(analysis, findings, &ws_rule_blocking_launches, calls.ns,
					gain);
	finding->level = ws_max(finding->level, WS_LEVEL_WARNING);
	variable = ws_find_meta(analysis->model->report, "env.CUDA_LAUNCH_BLOCKING");
	finding->title =
		ws_format("Every launch waits until its kernel has run (%llu of %llu)%s%s",
			  (unsigned long long)blocking, (unsigned long long)all,
			  variable ? ": CUDA_LAUNCH_BLOCKING=" : "", ws_text_or(variable, ""));
	finding->advice = ws_strdup("Unset CUDA_LAUNCH_BLOCKING: it is for finding errors, and "
				    "keeps the CPU from running ahead of the GPU.");
	finding->assumption = ws_strdup("a launch then takes 6 us");
	ws_finding_add_evidence(finding, "the longest launch", NULL, calls.longest.start,
				calls.longest.end);
}

const struct ws_rule ws_rule_blocking_launches = {
	.name = "blocking-launches",
	.title = "Launches that wait for their kernels",
	.about = "At least 95 % of the calls that launch kernels return only when the kernel has "
		 "run, as with CUDA_LAUNCH_BLOCKING=1. What a launch takes beyond 6 us is lost.",
	.find_obstacle = ws_need_cuda,
	.query = ws_proof_cuda_calls,
	.check = check_launches,
};
