/*
 * graph.h - the recorded work as a graph of what waited for what, which can be scheduled again.
 *
 * Its nodes are stretches of threads (on a core, waiting for a core, waiting for something, inside
 * a call that waits for the GPU) and pieces of GPU work. Edges are the order of a thread's own
 * stretches, a launch, the order of a stream, and what ended a wait: another thread, GPU work. A
 * node ends when all that it depends on has ended, each edge's lag has passed and the node's own
 * work is done.
 *
 * The dependency that ended last has the lag that was recorded; the others have the usual lag of
 * their kind, so that they take effect once the last one ends earlier. Scheduled without a change,
 * each node ends when it was recorded to end.
 */
#ifndef WS_ANALYZE_GRAPH_H
#define WS_ANALYZE_GRAPH_H

#include "analyze/model.h"

enum ws_node_kind {
	WS_NODE_START, /* a fixed moment: the beginning of the part that is scheduled */
	WS_NODE_RUN,   /* a thread on a core; in a call of CUDA if `call` is set */
	WS_NODE_QUEUE, /* a thread that waits for a core */
	WS_NODE_WAIT,  /* a thread that waits for `wait` */
	WS_NODE_SYNC,  /* a thread in a call that waits for GPU work */
	WS_NODE_OP,    /* work on a GPU */
};

enum ws_edge_kind { WS_EDGE_ORDER, WS_EDGE_LAUNCH, WS_EDGE_STREAM, WS_EDGE_AWAIT };

struct ws_edge {
	uint32_t from; /* number of the node that must have ended; WS_NO_NODE: left out */
	uint8_t kind;
	int64_t lag, least; /* ns; `least` is the usual lag of an edge of its kind */
};
#define WS_NO_NODE UINT32_MAX

struct ws_node {
	uint64_t at;   /* when it ended, session clock */
	uint64_t work; /* its own time, ns */
	uint32_t first_edge, edge_count;
	uint32_t thread;   /* the thread; for GPU work the one that launched it; 0 for none */
	uint32_t call;	   /* row of the CUDA call around it, or that launched it; WS_NO_CALL */
	uint32_t gpu, op;  /* of GPU work */
	uint32_t function; /* string: the name of the call of a WAIT; 0 for none */
	uint8_t kind, wait;
};

struct ws_graph {
	const struct ws_model *model;
	struct ws_node *nodes;
	size_t count, cap;
	struct ws_edge *edges;
	size_t edge_count, edge_cap;
	uint32_t *order;   /* the nodes, each after all that it depends on */
	uint64_t from, to; /* the part of the model's window that it describes */
	size_t steps;	   /* number of the model's steps that lie in it, at least 1 */
	uint32_t end;	   /* the node at which the part ends */
};

/*
 * The largest graph that is made: for longer recordings it has the first steps, or the first part.
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

/* The share of its recorded cost that each node, and each launch, takes: 1 for no change. */
struct ws_costs {
	const float *work;     /* by node; for waits it scales the waiting time */
	double launch_latency; /* of edges from a call to its work */
};

/* How long the part takes with these costs, ns. `times`, unless NULL, gets the end of each node,
 * counted from the beginning of the part: graph->count of them. */
uint64_t ws_graph_schedule(const struct ws_graph *graph, const struct ws_costs *costs,
			   int64_t *times);

#endif
