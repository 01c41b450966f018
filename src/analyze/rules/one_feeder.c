/*
 * one_feeder.c - one thread launches the work of several GPUs, which therefore take turns.
 *
 * While the thread prepares, copies or waits for one GPU, the others have nothing to do. With one
 * thread per GPU, a step takes as long as the thread's work for the most demanding GPU: about that
 * GPU's share of all work.
 */
#include "analyze/rules/rules.h"

struct feeding {
	uint64_t gpus;		   /* GPUs that did work for the process */
	uint64_t busy, most;	   /* ns of all GPUs, and of the one that worked most */
	uint32_t thread;	   /* thread that launched the first piece */
	uint64_t launched, others; /* pieces launched by that thread and by others */
};

static void count_launchers(const struct ws_analysis *analysis, const struct ws_work_gpu *gpu,
			    struct feeding *feeding)
{
	const struct ws_model *model = analysis->model;

	for (size_t i = 0; i < gpu->count; i++) {
		const struct ws_work_op *op = &gpu->op[i];
		uint32_t call;

		if (op->process != model->process || op->end <= model->from ||
		    op->start >= model->to)
			continue;
		call = ws_calls_find(&model->calls, op->process, op->correlation);
		if (call == WS_NO_CALL)
			continue;
		if (!feeding->thread)
			feeding->thread = (uint32_t)model->calls.rows.col[ws_cuda_api_thread][call];
		if (model->calls.rows.col[ws_cuda_api_thread][call] == feeding->thread)
			feeding->launched++;
		else
			feeding->others++;
	}
}

static void look_at_gpus(const struct ws_analysis *analysis, struct feeding *feeding)
{
	*feeding = (struct feeding){0};
	for (size_t i = 0; i < analysis->model->work.gpus; i++) {
		uint64_t busy =
			analysis->window - ws_min(analysis->gpus[i].idle_total, analysis->window);
		uint64_t before = feeding->launched + feeding->others;

		count_launchers(analysis, &analysis->model->work.gpu[i], feeding);
		if (feeding->launched + feeding->others == before)
			continue;
		feeding->gpus++;
		feeding->busy += busy;
		feeding->most = ws_max(feeding->most, busy);
	}
}

static void check_feeding(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	struct feeding feeding;
	struct ws_finding *finding;
	uint64_t after;

	look_at_gpus(analysis, &feeding);
	if (feeding.gpus < 2 || !feeding.most || feeding.others * 20 > feeding.launched ||
	    ws_analysis_share(analysis, feeding.most) > 0.7 ||
	    ws_findings_have(findings, &ws_rule_data_loading))
		return;
	after = (uint64_t)((double)analysis->window * (double)feeding.most / (double)feeding.busy);
	after = ws_max(after, feeding.most);
	if (ws_analysis_share(analysis, analysis->window - after) < 0.05)
		return;
	finding = ws_findings_add_fault(analysis, findings, &ws_rule_one_feeder,
					analysis->window - feeding.most, analysis->window - after);
	finding->title = ws_format(
		"One thread (%s %u) feeds %llu GPUs, which work %.0f %% of the time on average",
		ws_find_thread(analysis->model->who, feeding.thread)->name,
		ws_find_thread(analysis->model->who, feeding.thread)->tid,
		(unsigned long long)feeding.gpus,
		100 * ws_analysis_share(analysis, feeding.busy) / (double)feeding.gpus);
	finding->advice = ws_strdup(
		"Give each GPU a thread of its own, in Python a process of its own "
		"(DistributedDataParallel instead of DataParallel); or launch the work of all "
		"before waiting for any, and prepare the next batch meanwhile.");
	finding->assumption = ws_strdup("what is done for one GPU need not wait for the others");
	finding->next = ws_strdup("warpsight stats -r gpu_idle_causes REPORT");
}

const struct ws_rule ws_rule_one_feeder = {
	.name = "one-feeder",
	.title = "One thread that feeds several GPUs",
	.about = "One thread launches at least 95 % of the work of two GPUs or more, none of which "
		 "works for more than 70 % of the time. What it does for one, the others wait for.",
	.find_obstacle = ws_need_cuda,
	.query = ws_proof_launchers,
	.check = check_feeding,
};
