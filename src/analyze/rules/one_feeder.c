/*
 * one_feeder.c - one thread launches the work of several GPUs, which therefore take turns.
 *
 * While the thread prepares, copies or waits for one GPU, the others have nothing to do. With one
 * thread per GPU, a step takes as long as the thread's work for the most demanding GPU: about that
 * GPU's share of all work. Where results go from one GPU to the next, as between the layers of a
 * model that is spread over them, threads would change nothing: parts of a batch that follow each
 * other would.
 */
#include "analyze/rules/rules.h"

struct feeding {
	uint64_t gpus;		   /* GPUs that did work for the process */
	uint64_t busy, most;	   /* ns of all GPUs, and of the one that worked most */
	uint32_t thread;	   /* thread that launched the first piece */
	uint64_t launched, others; /* pieces launched by that thread and by others */
	uint64_t idle, turns;	   /* ns that GPUs were idle, and because another one worked */
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
		feeding->idle += analysis->gpus[i].idle_total;
		feeding->turns += analysis->gpus[i].idle.by_cause[WS_CAUSE_GPU_COMPUTE] +
				  analysis->gpus[i].idle.by_cause[WS_CAUSE_GPU_COPY];
		feeding->busy += busy;
		feeding->most = ws_max(feeding->most, busy);
	}
}

/* Whether GPUs wait for each other's results, and not for the thread. */
static bool hand_on(const struct ws_analysis *analysis, const struct feeding *feeding)
{
	enum { LEAST_COPIES = 10 };
	const double least_turns = 0.7;
	const struct ws_copy_fact *copies = analysis->facts.copies[WS_BETWEEN];

	return copies[0].count + copies[1].count >= LEAST_COPIES &&
	       (double)feeding->turns >= least_turns * (double)feeding->idle;
}

static bool is_of_users(const struct ws_analysis *analysis, const struct ws_breakdown_row *row)
{
	(void)analysis;
	return row->cause == WS_CAUSE_CPU && row->place.users && row->place.leaf;
}

static void report_turns(const struct ws_analysis *analysis, const struct feeding *feeding,
			 struct ws_finding *finding)
{
	const struct ws_breakdown_row *row = ws_find_path_row(analysis, is_of_users);
	struct ws_text place = {0};

	if (row) {
		struct ws_code_place code = row->place;

		code.leaf = code.function;
		ws_put_at_place(analysis, &code, &place);
		ws_point_at(finding, &code);
	}
	finding->title = ws_format(
		"%llu GPUs take turns: each waits for the results of another, and they work %.0f "
		"%% of the time on average%s%s",
		(unsigned long long)feeding->gpus,
		100 * ws_analysis_share(analysis, feeding->busy) / (double)feeding->gpus,
		place.text ? ", launched" : "", ws_text_or(place.text, ""));
	finding->advice = ws_strdup(
		"Send parts of a batch through the GPUs one after the other (a pipeline: "
		"x.chunk(4), torch.distributed.pipelining), so that all work at once on different "
		"parts; or, if the model fits one GPU, let each GPU compute all of it on its share "
		"of the batch (DistributedDataParallel).");
	finding->assumption = ws_strdup("all GPUs work at once");
	ws_text_free(&place);
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
	finding->next = ws_strdup("warpsight stats -r gpu_idle_causes REPORT");
	if (hand_on(analysis, &feeding)) {
		report_turns(analysis, &feeding, finding);
		return;
	}
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
}

const struct ws_rule ws_rule_one_feeder = {
	.name = "one-feeder",
	.title = "One thread that feeds several GPUs",
	.about = "One thread launches at least 95 % of the work of two GPUs or more, none of which "
		 "works for more than 70 % of the time. What it does for one, the others wait for. "
		 "Where they are idle for 70 % of that time since another one works, and copy to "
		 "each other, they take turns.",
	.find_obstacle = ws_need_cuda,
	.query = ws_proof_launchers,
	.check = check_feeding,
};
