/* estimate.c - see estimate.h. */
#include "analyze/estimate.h"

#include <stdlib.h>

#include "base/choose.h"
#include "base/mem.h"
#include "query/gpu.h"

static const char *const copies[] = {"cudaMemcpy*", "cuMemcpy*", NULL};

uint64_t ws_estimate_gain(const struct ws_analysis *analysis, ws_cost_function *cost,
			  const void *context)
{
	struct ws_graph *graph = analysis->graph;
	struct ws_costs costs = {.launch_latency = 1};
	uint64_t part, then;
	float *work;

	if (!graph->model)
		ws_graph_build(analysis->model, graph);
	part = graph->to - graph->from;
	work = ws_malloc(graph->count * sizeof(*work) + 1);
	for (size_t i = 0; i < graph->count; i++)
		work[i] = (float)cost(analysis, &graph->nodes[i], context);
	costs.work = work;
	then = ws_graph_schedule(graph, &costs, NULL);
	free(work);
	if (then >= part)
		return 0;
	return (uint64_t)((double)(part - then) / (double)part * (double)analysis->window);
}

uint64_t ws_estimate_bound(const struct ws_analysis *analysis, uint64_t gain_ns,
			   ws_cost_function *cost, const void *context)
{
	if (!analysis->model->calls.rows.rows)
		return gain_ns;
	return ws_min(gain_ns, ws_estimate_gain(analysis, cost, context));
}

double ws_cost_without_cpu(const struct ws_analysis *analysis, const struct ws_node *node,
			   const void *context)
{
	const struct ws_model *model = analysis->model;

	(void)context;
	return node->kind != WS_NODE_RUN ||
	       ws_find_thread(model->who, node->thread)->process != model->process;
}

double ws_cost_without_syncs(const struct ws_analysis *analysis, const struct ws_node *node,
			     const void *context)
{
	(void)context;
	if (node->kind == WS_NODE_SYNC)
		return 0;
	return ws_cost_of_calls(analysis, node, &(struct ws_call_cost){copies, 0});
}

double ws_cost_without_copies(const struct ws_analysis *analysis, const struct ws_node *node,
			      const void *context)
{
	(void)context;
	return node->kind != WS_NODE_OP ||
	       analysis->model->work.gpu[node->gpu].op[node->op].class != WS_WORK_MEMORY;
}

static bool is_copy_call(const struct ws_analysis *analysis, const struct ws_node *node)
{
	return ws_cost_of_calls(analysis, node, &(struct ws_call_cost){copies, 0}) == 0;
}

double ws_cost_without_copy_loops(const struct ws_analysis *analysis, const struct ws_node *node,
				  const void *context)
{
	enum { SHORT_NS = 20000 };
	const struct ws_graph *graph = analysis->graph;

	(void)context;
	if (node->kind == WS_NODE_OP)
		return analysis->model->work.gpu[node->gpu].op[node->op].class != WS_WORK_MEMORY ||
		       node->work >= SHORT_NS;
	if (node->kind == WS_NODE_RUN && node->call == WS_NO_CALL && node->work < SHORT_NS &&
	    node > graph->nodes && node + 1 < graph->nodes + graph->count &&
	    node[1].thread == node->thread)
		return !is_copy_call(analysis, node - 1) || !is_copy_call(analysis, node + 1);
	return !is_copy_call(analysis, node);
}

double ws_cost_of_half_communication(const struct ws_analysis *analysis, const struct ws_node *node,
				     const void *context)
{
	(void)context;
	if (node->kind != WS_NODE_OP ||
	    analysis->model->work.gpu[node->gpu].op[node->op].class != WS_WORK_COMM)
		return 1;
	return 0.5;
}

double ws_cost_of_calls(const struct ws_analysis *analysis, const struct ws_node *node,
			const void *context)
{
	const struct ws_call_cost *calls = context;
	const struct ws_model *model = analysis->model;
	size_t length;
	const char *name;

	if (node->kind == WS_NODE_OP || node->call == WS_NO_CALL)
		return 1;
	name = ws_get_cuda_function_name(
		model->report, (uint32_t)model->calls.rows.col[ws_cuda_api_name][node->call],
		&length);
	if (ws_is_name_among(name, length, calls->names))
		return calls->factor;
	return 1;
}

double ws_cost_of_kernels(const struct ws_analysis *analysis, const struct ws_node *node,
			  const void *context)
{
	const struct ws_kernel_cost *kernels = context;
	const struct ws_model *model = analysis->model;
	uint32_t name;

	if (node->kind != WS_NODE_OP)
		return 1;
	name = ws_report_string_key(model->report, model->work.gpu[node->gpu].op[node->op].name);
	for (size_t i = 0; i < kernels->count; i++)
		if (kernels->names[i] == name)
			return kernels->factor;
	return 1;
}

double ws_cost_without_threads(const struct ws_analysis *analysis, const struct ws_node *node,
			       const void *context)
{
	const struct ws_thread_cost *threads = context;

	if (node->kind == WS_NODE_OP || node->kind == WS_NODE_START)
		return 1;
	return !threads->concerns(analysis, node->thread);
}
