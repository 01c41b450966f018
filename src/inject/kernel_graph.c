/*
 * kernel_graph.c - the nodes of CUDA graphs (--graph-profiling node). What a graph consists of is
 * read when it is instantiated or updated, since nothing can be asked of an executable graph. When
 * it is launched, its nodes are made one by one in an order that its edges allow, and each wanted
 * kernel is measured like a launch of its own. Then memory is restored, and the program's launch of
 * the whole graph follows. Kernels that would run side by side are measured one after the other.
 *
 * A graph with nodes that cannot be made one by one is measured as a whole.
 */
#include <stdio.h>
#include <stdlib.h>

#include "inject/kernel.h"

enum graph_call { NO_GRAPH_CALL, INSTANTIATE, UPDATE, DESTROY, SET_KERNEL, SET_OTHER, ENABLE };
enum node_type { KERNEL = 0, COPY = 1, SET = 2, CHILD = 4, EMPTY = 5, AWAIT = 6, RECORD = 7 };
enum { DEPTH_MOST = 16, PER_THREAD_STREAM = 2, ARRAY_MEMORY = 3, ATTRIBUTES = 3 };

static const struct {
	const char *name; /* the beginning */
	enum graph_call call;
} graph_calls[] = {
	{"cuGraphInstantiate", INSTANTIATE},
	{"cuGraphExecUpdate", UPDATE},
	{"cuGraphExecDestroy", DESTROY},
	{"cuGraphExecKernelNodeSetParams_v2", SET_KERNEL},
	{"cuGraphNodeSetEnabled", ENABLE},
	{"cuGraphExecKernelNodeSetParams", SET_OTHER},
	{"cuGraphExecMemcpyNodeSetParams", SET_OTHER},
	{"cuGraphExecMemsetNodeSetParams", SET_OTHER},
	{"cuGraphExecHostNodeSetParams", SET_OTHER},
	{"cuGraphExecChildGraphNodeSet", SET_OTHER},
	{"cuGraphExecNodeSetParams", SET_OTHER},
};

/* CUDA_KERNEL_NODE_PARAMS_v2 */
struct kernel_params {
	void *function;
	uint32_t grid[3], block[3], shared;
	void **arguments, **extra;
	void *kernel, *context;
};

/* CUDA_MEMSET_NODE_PARAMS */
struct set_params {
	ws_device_address to;
	size_t pitch;
	uint32_t value, width;
	size_t columns, rows;
};

/* CUDA_MEMCPY3D */
struct copy_params {
	uint64_t from[4];
	uint32_t from_type, pad;
	uint64_t from_place[6], to[4];
	uint32_t to_type, pad2;
	uint64_t to_place[6], extent[3];
};

struct operation {
	enum node_type type;
	bool disabled;
	void *node;
	uint64_t id;
	const char *symbol; /* the driver's */
	struct ws_kernel_launch launch;
	struct set_params set;
	struct copy_params copy;
};

struct graph {
	void *exec;
	struct operation *operations;
	size_t count, room;
	const char *why; /* not NULL: it is measured as a whole */
};

static struct graph *graphs;
static __thread bool has_lock __attribute__((tls_model("initial-exec")));
static size_t graph_count, graph_room;
static _Atomic uint32_t graphs_lock;

bool ws_kernel_follows_graphs(void)
{
	return !strcmp(ws_kernel_settings.graphs, "node");
}

int ws_kernel_find_graph_call(const char *name)
{
	for (size_t i = 0; i < WS_COUNT(graph_calls); i++)
		if (!strncmp(name, graph_calls[i].name, strlen(graph_calls[i].name)))
			return (int)graph_calls[i].call;
	return NO_GRAPH_CALL;
}

/* ---- nodes ---- */

static struct operation *add_operation(struct graph *graph)
{
	if (graph->count == graph->room) {
		size_t more = 2 * graph->room + 32;
		struct operation *grown = realloc(graph->operations, more * sizeof(*grown));

		if (!grown)
			return NULL;
		graph->operations = grown;
		graph->room = more;
	}
	memset(&graph->operations[graph->count], 0, sizeof(*graph->operations));
	return &graph->operations[graph->count++];
}

static const char *name_kernel(const struct kernel_params *params)
{
	const char *name = NULL;

	if (params->function && ws_kernel_driver.name_function &&
	    !ws_kernel_driver.name_function(&name, params->function) && name)
		return name;
	if (params->kernel && ws_kernel_driver.name_kernel &&
	    !ws_kernel_driver.name_kernel(&name, params->kernel) && name)
		return name;
	return "";
}

static void *find_function(const struct kernel_params *params)
{
	return params->function ? params->function : params->kernel;
}

/* Keep the launch of a kernel node. */
static bool fill_launch(struct operation *operation, const struct kernel_params *params,
			const struct ws_launch_attribute *attributes, uint32_t count)
{
	struct ws_launch_config config = {
		.shared = params->shared, .attributes = attributes, .attribute_count = count};
	struct ws_launch_ex_params extended = {.config = &config};
	struct ws_kernel_launch launch;
	struct cupti_callback callback = {.params = &extended};

	/* A graph that is measured as a whole: only the function's variables are of interest. */
	if (!ws_kernel_follows_graphs()) {
		operation->launch.function = find_function(params);
		return true;
	}
	memcpy(config.grid, params->grid, sizeof(config.grid));
	memcpy(config.block, params->block, sizeof(config.block));
	extended.function = find_function(params);
	extended.arguments = params->arguments;
	extended.extra = params->arguments ? NULL : params->extra;
	operation->symbol = callback.symbol = name_kernel(params);
	ws_kernel_read_launch(&launch, WS_KERNEL_LAUNCH_EX, false, &callback);
	return ws_kernel_copy_launch(&operation->launch, &launch);
}

static bool read_kernel(struct operation *operation)
{
	static const uint32_t ids[ATTRIBUTES] = {WS_LAUNCH_COOPERATIVE, WS_LAUNCH_CLUSTER,
						 WS_LAUNCH_CLUSTER + 1};
	struct ws_launch_attribute attributes[ATTRIBUTES] = {0};
	struct kernel_params params = {0};
	uint32_t count = 0;

	if (ws_kernel_driver.read_kernel_node(operation->node, &params))
		return false;
	for (size_t i = 0; i < ATTRIBUTES && ws_kernel_driver.read_node_attribute; i++) {
		struct ws_launch_attribute *attribute = &attributes[count];

		memset(attribute, 0, sizeof(*attribute));
		attribute->id = ids[i];
		if (!ws_kernel_driver.read_node_attribute(operation->node, (int)ids[i],
							  &attribute->value) &&
		    attribute->value.cluster[0])
			count++;
	}
	return fill_launch(operation, &params, attributes, count);
}

/* Why the node cannot be made alone; NULL when it can. */
static const char *read_node(struct operation *operation)
{
	switch ((int)operation->type) {
	case KERNEL:
		return read_kernel(operation) ? NULL : "a kernel whose arguments cannot be kept";
	case SET:
		return ws_kernel_driver.read_set_node(operation->node, &operation->set)
			       ? "a memory set that cannot be read"
			       : NULL;
	case COPY:
		if (ws_kernel_driver.read_copy_node(operation->node, &operation->copy))
			return "a copy that cannot be read";
		if (operation->copy.from_type == ARRAY_MEMORY ||
		    operation->copy.to_type == ARRAY_MEMORY)
			return "a copy of an array";
		return NULL;
	case EMPTY:
	case AWAIT:
	case RECORD:
		return NULL;
	default:
		return "a node that is no kernel, copy or memory set (the host's functions, "
		       "allocations, conditions)";
	}
}

/* ---- order ---- */

struct place {
	void *node;
	size_t at; /* among `nodes` */
};

struct edges {
	void **nodes, **from, **to;
	size_t node_count, edge_count;
	struct place *places;  /* sorted by node */
	size_t *waits, *queue; /* per node: for how many others; in the order that is found */
};

static bool list_edges(void *graph, struct edges *edges)
{
	size_t *m = &edges->edge_count;
	int rc;

	if (ws_kernel_driver.list_edges_v2) {
		char *data; /* CUgraphEdgeData, 8 bytes each */

		rc = ws_kernel_driver.list_edges_v2(graph, NULL, NULL, NULL, m);
		edges->from = calloc(*m + 1, sizeof(void *));
		edges->to = calloc(*m + 1, sizeof(void *));
		data = calloc(*m + 1, 8);
		if (!rc && *m && edges->from && edges->to && data)
			rc = ws_kernel_driver.list_edges_v2(graph, edges->from, edges->to, data, m);
		free(data);
		return !rc && edges->from && edges->to;
	}
	rc = ws_kernel_driver.list_edges(graph, NULL, NULL, m);
	edges->from = calloc(*m + 1, sizeof(void *));
	edges->to = calloc(*m + 1, sizeof(void *));
	if (!rc && *m && edges->from && edges->to)
		rc = ws_kernel_driver.list_edges(graph, edges->from, edges->to, m);
	return !rc && edges->from && edges->to;
}

static bool list_nodes(void *graph, struct edges *edges)
{
	if (ws_kernel_driver.list_nodes(graph, NULL, &edges->node_count))
		return false;
	edges->nodes = calloc(edges->node_count + 1, sizeof(void *));
	edges->places = calloc(edges->node_count + 1, sizeof(*edges->places));
	edges->waits = calloc(edges->node_count + 1, sizeof(*edges->waits));
	edges->queue = calloc(edges->node_count + 1, sizeof(*edges->queue));
	return edges->nodes && edges->places && edges->waits && edges->queue &&
	       (!edges->node_count ||
		!ws_kernel_driver.list_nodes(graph, edges->nodes, &edges->node_count)) &&
	       list_edges(graph, edges);
}

static void free_edges(struct edges *edges)
{
	free(edges->nodes);
	free(edges->from);
	free(edges->to);
	free(edges->places);
	free(edges->waits);
	free(edges->queue);
}

static int compare_places(const void *left, const void *right)
{
	return ws_compare((uintptr_t)((const struct place *)left)->node,
			  (uintptr_t)((const struct place *)right)->node);
}

static struct place *find_place(const struct edges *edges, void *node)
{
	struct place key = {.node = node};

	return bsearch(&key, edges->places, edges->node_count, sizeof(key), compare_places);
}

/* Count for each node how many it waits for. */
static bool count_waits(struct edges *edges)
{
	for (size_t i = 0; i < edges->node_count; i++)
		edges->places[i] = (struct place){edges->nodes[i], i};
	qsort(edges->places, edges->node_count, sizeof(*edges->places), compare_places);
	for (size_t i = 0; i < edges->edge_count; i++) {
		const struct place *to = find_place(edges, edges->to[i]);

		if (!to)
			return false;
		edges->waits[to->at]++;
	}
	return true;
}

/* A node has been made: the number of nodes in the queue after that. */
static size_t release_nodes(struct edges *edges, size_t node, size_t queued)
{
	for (size_t i = 0; i < edges->edge_count; i++) {
		size_t to;

		if (edges->from[i] != edges->nodes[node])
			continue;
		to = find_place(edges, edges->to[i])->at;
		if (!--edges->waits[to])
			edges->queue[queued++] = to;
	}
	return queued;
}

static const char *read_graph(struct graph *graph, void *source, int depth);

static const char *add_node(struct graph *graph, void *node, int depth)
{
	struct operation *operation;
	const char *why;
	void *child;
	int type = -1;

	if (ws_kernel_driver.type_node(node, &type))
		return "a node whose type is not known";
	if (type == CHILD) {
		if (!ws_kernel_driver.read_child || depth == DEPTH_MOST ||
		    ws_kernel_driver.read_child(node, &child))
			return "a child graph that cannot be read";
		return read_graph(graph, child, depth + 1);
	}
	operation = add_operation(graph);
	if (!operation)
		return "too many nodes";
	operation->type = (enum node_type)type;
	operation->node = node;
	if (ws_cupti.GetGraphNodeId)
		ws_cupti.GetGraphNodeId(node, &operation->id);
	why = read_node(operation);
	if (why)
		graph->count--;
	return why;
}

static const char *add_nodes(struct graph *graph, struct edges *edges, int depth)
{
	const char *first = NULL; /* kernels after it still have variables */
	size_t queued = 0;

	if (!count_waits(edges))
		return "nodes that cannot be listed";
	for (size_t i = 0; i < edges->node_count; i++)
		if (!edges->waits[i])
			edges->queue[queued++] = i;
	for (size_t i = 0; i < queued; i++) {
		const char *why = add_node(graph, edges->nodes[edges->queue[i]], depth);

		if (!first)
			first = why;
		queued = release_nodes(edges, edges->queue[i], queued);
	}
	return queued < edges->node_count ? "nodes without an order" : first;
}

/* Add the nodes of a graph in an order that its edges allow. NULL, or what it contains that cannot
 * be made alone. */
static const char *read_graph(struct graph *graph, void *source, int depth)
{
	struct edges edges = {0};
	const char *why = "nodes that cannot be listed";

	if (list_nodes(source, &edges))
		why = add_nodes(graph, &edges, depth);
	free_edges(&edges);
	return why;
}

/* ---- executable graphs ---- */

static bool can_follow(void)
{
	return ws_kernel_driver.list_nodes && ws_kernel_driver.list_edges &&
	       ws_kernel_driver.type_node && ws_kernel_driver.read_kernel_node &&
	       ws_kernel_driver.read_set_node && ws_kernel_driver.read_copy_node &&
	       ws_kernel_driver.copy_3d && ws_kernel_driver.set_2d_8 &&
	       ws_kernel_driver.set_2d_16 && ws_kernel_driver.set_2d_32 &&
	       ws_kernel_driver.launch_ex;
}

static struct graph *find_graph(const void *exec)
{
	for (size_t i = 0; i < graph_count; i++)
		if (graphs[i].exec == exec)
			return &graphs[i];
	return NULL;
}

static void empty_graph(struct graph *graph)
{
	for (size_t i = 0; i < graph->count; i++)
		if (graph->operations[i].type == KERNEL)
			ws_kernel_free_launch(&graph->operations[i].launch);
	free(graph->operations);
	memset(graph, 0, sizeof(*graph));
}

static struct graph *add_graph(void *exec)
{
	struct graph *graph = find_graph(exec);

	if (!graph)
		graph = find_graph(NULL);
	if (!graph && graph_count == graph_room) {
		size_t more = 2 * graph_room + 16;
		struct graph *grown = realloc(graphs, more * sizeof(*grown));

		if (!grown)
			return NULL;
		graphs = grown;
		graph_room = more;
	}
	if (!graph) {
		graph = &graphs[graph_count++];
		memset(graph, 0, sizeof(*graph));
	}
	empty_graph(graph);
	graph->exec = exec;
	return graph;
}

static void follow(void *exec, void *source)
{
	struct graph *graph = add_graph(exec);

	if (graph)
		graph->why = can_follow() ? read_graph(graph, source, 0)
					  : "nodes, which this driver does not describe";
}

static struct operation *find_operation(const struct graph *graph, const void *node)
{
	for (size_t i = 0; i < graph->count; i++)
		if (graph->operations[i].node == node)
			return &graph->operations[i];
	return NULL;
}

/* The kernel of a node has got other arguments or another shape. */
static void change_kernel(struct graph *graph, void *node, const struct kernel_params *params)
{
	struct operation *operation = find_operation(graph, node), changed;
	const struct ws_launch_ex_params *old;

	if (operation && operation->type == KERNEL) {
		changed = *operation;
		old = operation->launch.params;
		if (fill_launch(&changed, params, old ? old->config->attributes : NULL,
				old ? old->config->attribute_count : 0)) {
			ws_kernel_free_launch(&operation->launch);
			*operation = changed;
			return;
		}
	}
	graph->why = "a node that was changed in a way that cannot be followed";
}

static void note_call(enum graph_call call, void *const *params)
{
	struct graph *graph = call == INSTANTIATE ? NULL : find_graph(params[0]);
	struct operation *operation;

	if (call == INSTANTIATE)
		follow(*(void **)params[0], params[1]);
	else if (!graph)
		return;
	else if (call == UPDATE)
		follow(params[0], params[1]);
	else if (call == DESTROY)
		empty_graph(graph);
	else if (call == SET_KERNEL)
		change_kernel(graph, params[1], params[2]);
	else if (call == ENABLE && (operation = find_operation(graph, params[1])))
		operation->disabled = !(uint32_t)(uintptr_t)params[2];
	else
		graph->why = "a node that was changed in a way that cannot be followed";
}

void ws_kernel_note_graph_call(int call, const struct cupti_callback *callback)
{
	bool enter = callback->site == CUPTI_SITE_ENTER, was;
	const int *result = callback->result;
	int mode = WS_KERNEL_RELAXED;

	if (enter != (call == DESTROY) || (!enter && result && *result))
		return;
	was = ws_kernel_set_inside(true);
	ws_kernel_driver.exchange_mode(&mode);
	ws_kernel_lock(&graphs_lock);
	note_call((enum graph_call)call, callback->params);
	ws_kernel_unlock(&graphs_lock);
	ws_kernel_driver.exchange_mode(&mode);
	ws_kernel_set_inside(was);
}

void ws_kernel_add_graph_globals(struct ws_kernel_memories *memories, const void *exec)
{
	const struct graph *graph;

	if (!has_lock)
		ws_kernel_lock(&graphs_lock);
	graph = find_graph(exec);
	for (size_t i = 0; graph && i < graph->count; i++)
		if (graph->operations[i].type == KERNEL)
			ws_kernel_add_globals(memories, graph->operations[i].launch.function);
	if (!has_lock)
		ws_kernel_unlock(&graphs_lock);
}

/* ---- a launch ---- */

static int set_memory(const struct set_params *set, void *stream)
{
	switch (set->width) {
	case 1:
		return ws_kernel_driver.set_2d_8(set->to, set->pitch, (unsigned char)set->value,
						 set->columns, set->rows, stream);
	case 2:
		return ws_kernel_driver.set_2d_16(set->to, set->pitch, (unsigned short)set->value,
						  set->columns, set->rows, stream);
	default:
		return ws_kernel_driver.set_2d_32(set->to, set->pitch, set->value, set->columns,
						  set->rows, stream);
	}
}

static bool make_operation(const struct operation *operation, void *stream)
{
	struct set_params set = operation->set;
	int rc = 0;

	if (operation->type == KERNEL)
		rc = ws_kernel_launch_again(&operation->launch);
	else if (operation->type == COPY)
		rc = ws_kernel_driver.copy_3d(&operation->copy, stream);
	else if (operation->type == SET) {
		/* The pitch of a single row has no meaning. */
		set.pitch = ws_max(set.pitch, (size_t)set.width * set.columns);
		rc = set_memory(&set, stream);
	}
	return !rc && !ws_kernel_driver.wait_stream(stream);
}

/* The launch of a node as a part of this launch of its graph. */
static void place_launch(struct operation *operation, const struct ws_kernel_launch *whole,
			 void *stream)
{
	const struct ws_launch_ex_params *params = operation->launch.params;

	((struct ws_launch_config *)(uintptr_t)params->config)->stream = stream;
	operation->launch.stream = stream;
	operation->launch.context = whole->context;
	operation->launch.context_uid = whole->context_uid;
	operation->launch.correlation = whole->correlation;
	operation->launch.device = whole->device;
	operation->launch.stream_id = whole->stream_id;
	operation->launch.graph = whole->function;
	operation->launch.graph_node = operation->id;
	operation->launch.nvtx = NULL;
	operation->launch.thread = 0;
}

/* Count the nodes as launches and find out which are to be measured. */
static bool choose_nodes(struct graph *graph, const struct ws_kernel_launch *whole, void *stream,
			 bool *wanted)
{
	bool any = false;

	for (size_t i = 0; i < graph->count; i++) {
		struct operation *operation = &graph->operations[i];
		struct ws_kernel_function *function;

		if (operation->type != KERNEL || operation->disabled)
			continue;
		place_launch(operation, whole, stream);
		function = ws_kernel_find_function(operation->launch.function, operation->symbol);
		if (!function)
			continue;
		operation->launch.number = ws_kernel_count_launch();
		operation->launch.instance = atomic_fetch_add(&function->launches, 1);
		wanted[i] = ws_kernel_wants_launch(&operation->launch, function);
		any |= wanted[i];
	}
	return any;
}

static const char *make_nodes(struct graph *graph, const bool *wanted, void *stream)
{
	const char *why = NULL;

	for (size_t i = 0; i < graph->count; i++) {
		struct operation *operation = &graph->operations[i];

		if (wanted[i])
			ws_kernel_measure_node(&operation->launch, why);
		if (!why && !operation->disabled && !make_operation(operation, stream))
			why = "a node before it could not be made alone";
	}
	return why;
}

static void measure_nodes(struct graph *graph, const struct ws_kernel_launch *whole, void *stream,
			  const bool *wanted)
{
	const char *why = "work of the program before it failed";
	struct ws_kernel_saved *saved = NULL;

	if (ws_kernel_begin_measuring() && !ws_kernel_driver.synchronize())
		saved = ws_kernel_save(whole, &why);
	for (size_t i = 0; !saved && i < graph->count; i++)
		if (wanted[i])
			ws_kernel_measure_node(&graph->operations[i].launch, why);
	if (!saved)
		return;
	make_nodes(graph, wanted, stream);
	if (ws_kernel_driver.synchronize() || !ws_kernel_find_changes(saved, &why) ||
	    !ws_kernel_restore(saved, &why))
		ws_kernel_report(WS_ERROR,
				 "The memory that nodes of a graph changed could not be restored: "
				 "the program's results may be wrong.");
	ws_kernel_free_saved(saved);
}

bool ws_kernel_measure_graph(const struct ws_kernel_launch *whole)
{
	static _Atomic bool said;
	void *stream = whole->stream;
	struct graph *graph;
	bool *wanted = NULL;

	if (whole->per_thread && !stream)
		stream = (void *)(uintptr_t)PER_THREAD_STREAM;
	ws_kernel_lock(&graphs_lock);
	has_lock = true;
	graph = find_graph(whole->function);
	if (graph && !graph->why)
		wanted = calloc(graph->count + 1, sizeof(*wanted));
	if (wanted && choose_nodes(graph, whole, stream, wanted))
		measure_nodes(graph, whole, stream, wanted);
	if (!wanted && !atomic_exchange(&said, true))
		ws_kernel_report(WS_WARNING,
				 "A CUDA graph is measured as a whole, not by its nodes: it "
				 "contains %s.",
				 graph && graph->why ? graph->why
						     : "nodes that were not seen when it was made");
	has_lock = false;
	ws_kernel_unlock(&graphs_lock);
	free(wanted);
	return wanted != NULL;
}
