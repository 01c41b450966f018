/*
 * shared_gpu.c - several processes compute on one GPU and take turns.
 *
 * Without MPS a GPU works for one process at a time: what another one has launched waits, although
 * it seems to run. Work of two processes whose times overlap therefore shows how long each of them
 * was held up.
 */
#include "analyze/rules/rules.h"
#include "base/map.h"

#define LEAST_SHARE 0.1

/* What processes did on one GPU within the window. */
struct sharing {
	uint64_t both;	    /* ns in which the explained process and others had work on it */
	uint64_t processes; /* that had work on it in the window */
};

static uint64_t count_processes(const struct ws_model *model, const struct ws_work_gpu *gpu)
{
	struct ws_map processes = {0};
	uint64_t last = UINT64_MAX, count;

	for (size_t i = 0; i < gpu->count; i++) {
		const struct ws_work_op *op = &gpu->op[i];

		if (op->process == last || op->end <= model->from || op->start >= model->to)
			continue;
		last = op->process;
		ws_map_set(&processes, last, 1);
	}
	count = processes.count;
	ws_map_free(&processes);
	return count;
}

static void add_cut(struct ws_cover *cover, const struct ws_model *model,
		    const struct ws_work_op *op)
{
	uint64_t start = ws_max(op->start, model->from), end = ws_min(op->end, model->to);

	if (start < end)
		ws_cover_add(cover, start, end);
}

static struct sharing measure_sharing(const struct ws_model *model, const struct ws_work_gpu *gpu)
{
	struct ws_cover own = {0}, others = {0}, all = {0};
	struct sharing sharing = {.processes = count_processes(model, gpu)};

	if (sharing.processes < 2)
		return sharing;
	for (size_t i = 0; i < gpu->count; i++) {
		const struct ws_work_op *op = &gpu->op[i];

		add_cut(&all, model, op);
		if (op->process == model->process)
			add_cut(&own, model, op);
		else
			add_cut(&others, model, op);
	}
	sharing.both = own.length + others.length - all.length;
	return sharing;
}

static void report_sharing(const struct ws_analysis *analysis, size_t gpu, struct sharing sharing,
			   struct ws_findings *findings)
{
	struct ws_finding *finding =
		ws_findings_add_fault(analysis, findings, &ws_rule_shared_gpu, sharing.both,
				      sharing.both - sharing.both / sharing.processes);
	const struct ws_process_info *info =
		ws_find_process(analysis->model->who, analysis->model->process);
	struct ws_text name = {0};

	ws_analysis_put_gpu(analysis, gpu, &name);
	finding->title = ws_format(
		"%llu processes compute on %s at the same time and take turns: for %.0f %% of the "
		"time others hold up process %u",
		(unsigned long long)sharing.processes, name.text,
		100 * ws_analysis_share(analysis, sharing.both), info->pid);
	finding->advice = ws_strdup(
		"Give each process a GPU of its own (CUDA_VISIBLE_DEVICES, the local rank), let "
		"one process do the work of all (larger batches, threads with streams), or start "
		"MPS (nvidia-cuda-mps-control -d), under which they run side by side.");
	finding->assumption = ws_strdup("the process has the GPU for itself");
	ws_text_free(&name);
}

static void check_sharing(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	for (size_t i = 0; i < analysis->model->work.gpus; i++) {
		struct sharing sharing =
			measure_sharing(analysis->model, &analysis->model->work.gpu[i]);

		if (ws_analysis_share(analysis, sharing.both) >= LEAST_SHARE)
			report_sharing(analysis, i, sharing, findings);
	}
}

static const char query[] =
	"SELECT globalPid / 0x1000000 % 0x1000000 AS pid, deviceId AS gpu, count(*) AS kernels, "
	"sum(end - start) AS total_ns, min(start) AS first_ns, max(end) AS last_ns FROM "
	"CUPTI_ACTIVITY_KIND_KERNEL GROUP BY 1, 2 ORDER BY 4 DESC";

const struct ws_rule ws_rule_shared_gpu = {
	.name = "shared-gpu",
	.title = "Processes that share a GPU and take turns",
	.about = "For 10 % of the time or more the process that is explained and others had work "
		 "on the same GPU at once. Without MPS, of which a report says nothing, a GPU "
		 "works for one process at a time.",
	.find_obstacle = ws_need_cuda,
	.query = query,
	.check = check_sharing,
};
