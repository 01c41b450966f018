/*
 * schedule.c - schedules a graph again with other costs.
 *
 * One pass goes over the nodes in their order. A wait takes no longer than until what it waits for
 * has ended; the cost of a wait scales the remaining waiting time.
 */
#include <stdlib.h>

#include "analyze/graph.h"
#include "base/choose.h"
#include "base/mem.h"

static int64_t scale_time(int64_t ns, double cost)
{
	if (cost == 1)
		return ns;
	return (int64_t)((double)ns * cost);
}

/* The gap between two pieces of work on a stream disappears with the second; a longer gap has
 * another reason. */
static int64_t find_lag(const struct ws_edge *edge, const struct ws_costs *costs, double cost)
{
	enum { LONGEST_GAP_NS = 5000 };

	if (edge->kind == WS_EDGE_STREAM && cost == 0 && edge->lag > 0 &&
	    edge->lag <= LONGEST_GAP_NS)
		return 0;
	if (edge->kind == WS_EDGE_LAUNCH && edge->lag > 0)
		return scale_time(edge->lag, costs->launch_latency);
	return edge->lag;
}

/* When all that the node depends on has ended: by edges that wait (`awaits`) or by the others. */
static int64_t find_latest(const struct ws_graph *graph, const struct ws_node *node,
			   const struct ws_costs *costs, const int64_t *times, bool awaits)
{
	double cost = costs->work[node - graph->nodes];
	int64_t latest = INT64_MIN;

	for (uint32_t i = 0; i < node->edge_count; i++) {
		const struct ws_edge *edge = &graph->edges[node->first_edge + i];

		if (edge->from == WS_NO_NODE || (edge->kind == WS_EDGE_AWAIT) != awaits)
			continue;
		latest = ws_max(latest, times[edge->from] + find_lag(edge, costs, cost));
	}
	return latest;
}

static int64_t schedule_node(const struct ws_graph *graph, uint32_t number,
			     const struct ws_costs *costs, const int64_t *times)
{
	const struct ws_node *node = &graph->nodes[number];
	double cost = costs->work[number];
	int64_t own = find_latest(graph, node, costs, times, false),
		awaited = find_latest(graph, node, costs, times, true), start;

	if (own == INT64_MIN && awaited == INT64_MIN) /* depends on nothing */
		own = ws_graph_time(graph, node->at) - (int64_t)node->work;
	start = ws_max(own, awaited);
	if (own != INT64_MIN && awaited > own &&
	    (node->kind == WS_NODE_WAIT || node->kind == WS_NODE_SYNC))
		start = own + scale_time(awaited - own, cost);
	return start + scale_time((int64_t)node->work, cost);
}

/* GPU work that was launched in the part and ends after it: it must not be delayed any further. */
static int64_t find_drain(const struct ws_graph *graph, const int64_t *times)
{
	int64_t latest = INT64_MIN;

	for (size_t i = 0; i < graph->count; i++) {
		const struct ws_node *node = &graph->nodes[i];
		int64_t after = (int64_t)(node->at - ws_min(node->at, graph->to));

		if (node->kind == WS_NODE_OP &&
		    graph->model->work.gpu[node->gpu].op[node->op].process == graph->model->process)
			latest = ws_max(latest, times[i] - after);
	}
	return latest;
}

uint64_t ws_graph_schedule(const struct ws_graph *graph, const struct ws_costs *costs,
			   int64_t *times)
{
	int64_t *own = NULL, end;

	if (graph->end == WS_NO_NODE)
		return graph->to - graph->from;
	if (!times)
		times = own = ws_malloc(graph->count * sizeof(*own) + 1);
	for (size_t i = 0; i < graph->count; i++)
		times[graph->order[i]] = schedule_node(graph, graph->order[i], costs, times);
	end = times[graph->end] + (int64_t)(graph->to - graph->nodes[graph->end].at);
	end = ws_max(end, find_drain(graph, times));
	free(own);
	return (uint64_t)ws_max(end, (int64_t)0);
}
