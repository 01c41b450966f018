/*
 * gpu_starved.c - the GPU waits for code on the CPU that launches nothing: the general case, which
 * no more specific rule covers.
 */
#include "analyze/rules/rules.h"

/* What is done once, such as importing the modules of an optimiser when it is made, is no work of
 * the steps, however long a short program takes for it. */
static bool is_code(const struct ws_analysis *analysis, const struct ws_breakdown_row *row)
{
	(void)analysis;
	return row->cause == WS_CAUSE_CPU && (row->place.leaf || row->name) && !row->place.loader &&
	       row->place.library != WS_LIBRARY_COMPILING && !ws_is_start_up(&row->place);
}

/* All time of one user function in a breakdown; without samples, of one range or operator. */
static uint64_t sum_function(const struct ws_analysis *analysis,
			     const struct ws_breakdown *breakdown,
			     const struct ws_breakdown_row *wanted)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < breakdown->count; i++) {
		const struct ws_breakdown_row *row = &breakdown->rows[i];

		if (is_code(analysis, row) && row->place.function == wanted->place.function &&
		    (row->place.function || row->name == wanted->name))
			sum += row->ns;
	}
	return sum;
}

/* The busiest GPU: its idle time counts. */
static size_t find_busiest(const struct ws_analysis *analysis)
{
	size_t best = 0;

	for (size_t i = 1; i < analysis->model->work.gpus; i++)
		if (analysis->gpus[i].idle_total < analysis->gpus[best].idle_total)
			best = i;
	return best;
}

/* How long the GPU waited for a row's function. A program without steps begins with importing and
 * reading, for which its GPU does not wait yet. */
static uint64_t measure_wait(const struct ws_analysis *analysis, const struct ws_breakdown_row *row)
{
	const struct ws_model *model = analysis->model;
	size_t gpu = find_busiest(analysis);
	struct ws_gpu_budget budget;
	uint64_t first = model->to, ns;

	if (model->step_source != WS_STEPS_NONE || !model->work.gpus)
		return sum_function(analysis, &analysis->gpus[gpu].idle, row);
	if (model->work.gpu[gpu].count)
		first = ws_max(model->work.gpu[gpu].op[0].start, model->from);
	if (first >= model->to)
		return 0;
	ws_analysis_measure_gpu(analysis, gpu, first, model->to, &budget);
	ns = sum_function(analysis, &budget.idle, row);
	ws_breakdown_free(&budget.idle);
	return ns;
}

static const struct ws_breakdown_row *find_worst(const struct ws_analysis *analysis, uint64_t *most)
{
	const struct ws_breakdown_row *worst = NULL;

	*most = 0;
	for (size_t i = 0; i < analysis->breakdown.count && i < 200; i++) {
		const struct ws_breakdown_row *row = &analysis->breakdown.rows[i];
		uint64_t sum;

		if (!is_code(analysis, row))
			continue;
		sum = sum_function(analysis, &analysis->breakdown, row);
		if (sum > *most) {
			*most = sum;
			worst = row;
		}
	}
	return worst;
}

/* Whether a rule that knows a particular cause explains most of the time. */
static bool is_explained(const struct ws_findings *findings, uint64_t ns)
{
	static const struct ws_rule *const particular[] = {
		&ws_rule_sync_calls,	 &ws_rule_tiny_copies,	   &ws_rule_blocking_launches,
		&ws_rule_compilation,	 &ws_rule_one_feeder,	   &ws_rule_gil,
		&ws_rule_page_migration, &ws_rule_allocation_churn};

	for (size_t i = 0; i < findings->count; i++)
		for (size_t k = 0; k < WS_COUNT(particular); k++)
			if (findings->findings[i].rule == particular[k] &&
			    findings->findings[i].level >= WS_LEVEL_WARNING &&
			    findings->findings[i].gain_ns >= ns / 2)
				return true;
	return false;
}

static bool is_torch(const struct ws_analysis *analysis, uint32_t function)
{
	const struct ws_stacks *stacks = analysis->model->stacks;

	return function &&
	       strstr(ws_stacks_get_origin(stacks, ws_stacks_get_function(stacks, function)),
		      "libtorch");
}

/* Whether most of what a function does there is done by PyTorch: it computes with tensors that lie
 * in the CPU's memory. Their operators (a - b) are called by the interpreter. */
static bool computes_tensors(const struct ws_analysis *analysis,
			     const struct ws_breakdown_row *wanted, uint64_t all)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < analysis->breakdown.count; i++) {
		const struct ws_breakdown_row *row = &analysis->breakdown.rows[i];

		if (is_code(analysis, row) && wanted->place.function &&
		    row->place.function == wanted->place.function &&
		    (is_torch(analysis, row->place.called) || is_torch(analysis, row->place.leaf)))
			sum += row->ns;
	}
	return sum >= all / 3;
}

static void check_starved(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	uint64_t most, idle;
	const struct ws_breakdown_row *row = find_worst(analysis, &most);
	struct ws_finding *finding;
	struct ws_text place = {0};
	bool tensors;

	/* Code of a program that a quota stops again and again looks long. */
	if (!row || ws_findings_have(findings, &ws_rule_cpu_throttling))
		return;
	/* Where launching is slow as well, only code apart from it counts here. */
	if (ws_findings_have(findings, &ws_rule_launch_bound))
		most = ws_min(most, analysis->breakdown.apart);
	idle = ws_min(most, measure_wait(analysis, row));
	if (ws_analysis_share(analysis, idle) < 0.1 || is_explained(findings, idle))
		return;
	if (row->place.leaf)
		ws_put_at_place(analysis, &row->place, &place);
	else
		ws_text_printf(&place, " in %s",
			       ws_report_string(analysis->model->report, row->name, NULL));
	tensors = computes_tensors(analysis, row, most);
	finding = ws_findings_add_fault(analysis, findings, &ws_rule_gpu_starved, most, idle);
	finding->title = ws_format("The GPU waits while the CPU computes%s%s",
				   tensors ? " tensors" : "", ws_text_or(place.text, ""));
	ws_point_at(finding, &row->place);
	finding->advice = ws_strdup(
		tensors ? "Make these tensors on the GPU (device='cuda'), and once before the loop "
			  "where they are the same in each step. Or do this work ahead, on another "
			  "thread or in another process."
			: "Do this work ahead, on another thread or in another process, or on the "
			  "GPU.");
	finding->assumption = ws_strdup("the work is done while the GPU is busy");
	ws_finding_add_evidence(finding, "the longest stretch", NULL, row->longest.start,
				row->longest.end);
	ws_text_free(&place);
}

const struct ws_rule ws_rule_gpu_starved = {
	.name = "gpu-starved",
	.title = "The GPU waits for code on the CPU",
	.about = "One function takes 10 % of the critical path or more while the GPU is idle, and "
		 "no rule that knows a particular cause has spoken. Where there are no steps, the "
		 "time before the first work on the GPU is left out.",
	.find_obstacle = ws_need_cuda,
	.query = ws_proof_cuda_calls,
	.check = check_starved,
};
