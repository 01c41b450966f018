/*
 * host_functions.c - functions of the host that a stream has to wait for (cudaLaunchHostFunc,
 * cudaStreamAddCallback): a thread of the driver runs them, one after the other, and what was
 * launched behind them waits.
 */
#include "analyze/rules/rules.h"

enum { LEAST_CALLS = 4, USUAL_GAP_NS = 5000 };

static const char *const calls_of_host[] = {"cudaLaunchHostFunc*", "cudaStreamAddCallback*",
					    "cuLaunchHostFunc*", "cuStreamAddCallback*", NULL};

/* What another thread of the process ran for about as long as the streams waited; NULL where no
 * samples tell. The driver's thread has no name of its own. */
static const struct ws_usage_row *find_function(const struct ws_analysis *analysis, uint64_t waited)
{
	const struct ws_usage *usage = &analysis->usage;

	for (size_t i = 0; i < usage->count; i++) {
		const struct ws_usage_row *row = &usage->rows[i];
		const struct ws_thread_info *info =
			ws_find_thread(analysis->model->who, row->thread);

		if (info->process == analysis->model->process &&
		    row->thread != analysis->model->thread && row->place.users &&
		    row->ns >= waited / 2)
			return row;
	}
	return NULL;
}

/* Whether host functions were made part of graphs, which is done once, before the steps. */
static bool has_host_nodes(const struct ws_analysis *analysis)
{
	static const char *const makers[] = {"cudaLaunchHostFunc*", "cuLaunchHostFunc*",
					     "cudaGraphAddHostNode*", "cuGraphAddHostNode*", NULL};
	const struct ws_rows *rows = &analysis->model->calls.rows;
	uint32_t last = 0;

	for (size_t i = 0; analysis->facts.graph_ns && i < rows->rows; i++) {
		uint32_t name = (uint32_t)rows->col[ws_cuda_api_name][i];

		if (name != last && ws_is_call_named(analysis, name, makers))
			return true;
		last = name;
	}
	return false;
}

/* A graph whose kernels are not recorded one by one looks busy while its host nodes run: samples of
 * the driver's thread show them. */
static void check_graphs(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	uint64_t least = analysis->window / 10;
	const struct ws_usage_row *row;
	struct ws_finding *finding;
	struct ws_text place = {0};

	if (!has_host_nodes(analysis))
		return;
	row = find_function(analysis, 2 * least);
	if (!row)
		return;
	finding = ws_findings_add_fault(analysis, findings, &ws_rule_host_functions, row->ns,
					ws_min(row->ns,
					       analysis->breakdown.by_cause[WS_CAUSE_GPU_COMPUTE]));
	ws_put_at_place(analysis, &row->place, &place);
	finding->title = ws_format("CUDA graphs wait for functions of the host%s",
				   ws_text_or(place.text, ""));
	ws_point_at(finding, &row->place);
	finding->advice = ws_strdup(
		"Let the host node only wake another thread, which does the work while the graph "
		"goes on, or give it no successors in the graph.");
	finding->assumption = ws_strdup("the graph does not wait for them");
	ws_text_free(&place);
}

static void check_functions(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	uint64_t gaps = analysis->breakdown.by_cause[WS_CAUSE_GPU_DELAY],
		 usual = analysis->facts.kernel_instances * USUAL_GAP_NS, cost;
	const struct ws_usage_row *row;
	struct ws_call_fact calls;
	struct ws_finding *finding;
	struct ws_text place = {0};

	if (!ws_facts_sum_calls(analysis->model, &analysis->facts, calls_of_host, &calls) ||
	    calls.count < LEAST_CALLS) {
		check_graphs(analysis, findings);
		return;
	}
	cost = gaps - ws_min(gaps, usual);
	if (ws_analysis_share(analysis, cost) < 0.05)
		return;
	row = find_function(analysis, cost);
	if (row)
		ws_put_at_place(analysis, &row->place, &place);
	else
		ws_put_at_place(analysis, &calls.place, &place);
	finding = ws_findings_add_fault(analysis, findings, &ws_rule_host_functions, cost, cost);
	finding->title = ws_format("Streams wait for functions of the host: %llu of them%s",
				   (unsigned long long)calls.count, ws_text_or(place.text, ""));
	ws_point_at(finding, row ? &row->place : &calls.place);
	finding->advice = ws_strdup(
		"Let the function only wake another thread (a condition variable, a queue), which "
		"does the work while the stream goes on; or launch what does not depend on it on "
		"another stream.");
	finding->assumption = ws_strdup("the functions return at once");
	ws_finding_add_evidence(finding, "the longest of the calls that ask for them", NULL,
				calls.longest.start, calls.longest.end);
	ws_text_free(&place);
}

const struct ws_rule ws_rule_host_functions = {
	.name = "host-functions",
	.title = "Functions of the host that streams wait for",
	.about = "Functions of the host were put into streams (cudaLaunchHostFunc, "
		 "cudaStreamAddCallback), and pauses between pieces of GPU work take 5 % of the "
		 "critical path or more, 5 us for each kernel left out. Or they are nodes of CUDA "
		 "graphs, and run for 10 % of the time or more.",
	.find_obstacle = ws_need_cuda,
	.query = ws_proof_cuda_calls,
	.check = check_functions,
};
