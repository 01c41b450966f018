/*
 * graph.h - the recorded work as a graph of what waited for what, which can be scheduled again.
 *
 * Its nodes are stretches of threads (on a core, waiting for a core, waiting for something, inside
 * a call that waits for the GPU) and pieces of GPU work. Edges are the order of a thread's own
 * stretches, a launch, the order of a stream, and what ended a wait: another thread, GPU work. A
 * node is over when all that it depends on is over, each edge's lag has passed and the node's own
 * work is done.
 *
 * Lags are those of the recording for the dependency that came last; for the others the usual lag
 * of their kind, so that they take effect once the last one comes earlier. Scheduled without a
 * change, each node is over when it was recorded to be.
 */
#ifndef WS_ANALYZE_GRAPH_H
#define WS_ANALYZE_GRAPH_H

#include "analyze/model.h"

enum ws_node_kind {
	WS_NODE_START, /* a moment that does not move: the beginning of the part looked at */
	WS_NODE_RUN,   /* a thread on a core; in a call of CUDA where `call` says so */
	WS_NODE_QUEUE, /* a thread that waits for a core */
	WS_NODE_WAIT,  /* a thread that waits for `wait` */
	WS_NODE_SYNC,  /* a thread in a call that waits for GPU work */
	WS_NODE_OP,    /* work on a GPU */
};

enum ws_edge_kind { WS_EDGE_ORDER, WS_EDGE_LAUNCH, WS_EDGE_STREAM, WS_EDGE_AWAIT };

struct ws_edge {
	uint32_t from; /* number of the node that must be over; WS_NO_NODE: left out */
	uint8_t kind;
	int64_t lag, least; /* ns; `least` is what is usual for an edge of its kind */
};
#define WS_NO_NODE UINT32_MAX

struct ws_node {
	uint64_t at;   /* when it was over, session clock */
	uint64_t work; /* what it took itself, ns */
	uint32_t first_edge, edge_count;
	uint32_t thread;   /* of threads; of work the one that launched it; 0 for none */
	uint32_t call;	   /* row of the call of CUDA: around it, or that launched it; WS_NO_CALL */
	uint32_t gpu, op;  /* of work */
	uint32_t function; /* string: what a WAIT was called by; 0 for none */
	uint8_t kind, wait;
};

struct ws_graph {
	const struct ws_model *model;
	struct ws_node *nodes;
	size_t count, cap;
	struct ws_edge *edges;
	size_t edge_count, edge_cap;
	uint32_t *order;   /* of nodes, each after all that it depends on */
	uint64_t from, to; /* the part of the model's window that it describes */
	size_t steps;	   /* of the model's that lie in it, at least 1 */
	uint32_t end;	   /* the node at which the part ends */
};

/* How large a graph is made at most: of longer recordings it has the first steps, or the first
 * part.
 */
enum { WS_GRAPH_NODES = 400000 };

/* Times within the part are counted from its beginning. */
static inline int64_t ws_graph_time(const struct ws_graph *graph, uint64_t at)
{
	return (int64_t)(at - graph->from);
}

/* Build the graph of a model's window. Free with ws_graph_free. */
void ws_graph_build(const struct ws_model *model, struct ws_graph *graph);
void ws_graph_free(struct ws_graph *graph);

/* How much of its recorded cost each node, and each launch, takes: 1 for no change. */
struct ws_costs {
	const float *work;     /* by node; of waits the time that they wait */
	double launch_latency; /* of edges from a call to its work */
};

/* How long the part takes with these costs, ns. `times`, unless NULL, gets when each node is over,
 * from the beginning of the part: graph->count of them. */
uint64_t ws_graph_schedule(const struct ws_graph *graph, const struct ws_costs *costs,
			   int64_t *times);

#endif
