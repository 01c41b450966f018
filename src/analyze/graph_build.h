/* graph_build.h - what the files that build a graph share. */
#ifndef WS_ANALYZE_GRAPH_BUILD_H
#define WS_ANALYZE_GRAPH_BUILD_H

#include "analyze/graph.h"

/* An edge whose origin is a place: a thread at a time, or a piece of GPU work. */
struct ws_pending_edge {
	uint32_t node;		  /* that waits */
	uint32_t thread, gpu, op; /* thread 0: the work */
	uint64_t at;
	int64_t least;
	uint8_t kind;
};

struct ws_moment {
	uint32_t thread;
	uint64_t at;
};

struct ws_graph_build {
	const struct ws_model *model;
	struct ws_graph *graph;
	/* Moments at which stretches of threads are cut because other nodes depend on them: by
	 * (thread, time). */
	struct ws_moment *cuts;
	size_t cut_count, cut_cap;
	struct ws_pending_edge *pending; /* by node */
	size_t pending_count, pending_cap;
	uint32_t *first_node; /* by thread, and one more: where its nodes begin */
	uint32_t *partners;   /* by thread: the thread that it takes turns with in launching; 0 for
				 none */
	uint32_t **op_nodes;  /* by GPU and operation; WS_NO_NODE for none */
	int64_t launch_lag, stream_lag; /* the usual lags, ns */
};

struct ws_node *ws_build_node(struct ws_graph_build *build, struct ws_node node);
void ws_build_edge_from_thread(struct ws_graph_build *build, uint32_t thread, uint64_t at,
			       enum ws_edge_kind kind, int64_t least);
void ws_build_edge_from_op(struct ws_graph_build *build, uint32_t gpu, uint32_t op,
			   enum ws_edge_kind kind, int64_t least);
/* The first such moment of the thread after `at`; `until` when there is none before it. */
uint64_t ws_build_next_cut(const struct ws_graph_build *build, uint32_t thread, uint64_t at,
			   uint64_t until);
/* All nodes of a thread within the part. */
void ws_build_thread(struct ws_graph_build *build, uint32_t thread);
/* When a call had submitted its work, which began at `began`: the call's return, or that moment if
 * it is earlier. */
uint64_t ws_find_launch_time(const struct ws_model *model, uint32_t call, uint64_t began);

#endif
