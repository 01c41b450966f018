/*
 * graph.c - see graph.h. This file makes the nodes of GPU work and the edges, and orders the nodes;
 * graph_threads.c makes the nodes of threads, schedule.c schedules them.
 */
#include "analyze/graph.h"

#include <stdlib.h>
#include <string.h>

#include "analyze/graph_build.h"
#include "analyze/path.h"
#include "base/choose.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/search.h"
#include "base/sort.h"

#define LONGEST_NS (UINT64_C(1) << 50) /* 13 days: a damaged report may have any length */
enum { USUAL_LAUNCH_NS = 5000, USUAL_STREAM_NS = 800, MOST_LAGS = 4096, LEAST_LAGS = 16 };

/* ---- nodes and edges ---- */

struct ws_node *ws_build_node(struct ws_graph_build *build, struct ws_node node)
{
	struct ws_graph *graph = build->graph;

	ws_grow(graph->nodes, graph->cap, graph->count + 1);
	graph->nodes[graph->count] = node;
	return &graph->nodes[graph->count++];
}

static void add_pending(struct ws_graph_build *build, struct ws_pending_edge edge)
{
	edge.node = (uint32_t)(build->graph->count - 1);
	ws_grow(build->pending, build->pending_cap, build->pending_count + 1);
	build->pending[build->pending_count++] = edge;
}

void ws_build_edge_from_thread(struct ws_graph_build *build, uint32_t thread, uint64_t at,
			       enum ws_edge_kind kind, int64_t least)
{
	add_pending(build,
		    (struct ws_pending_edge){
			    .thread = thread, .at = at, .kind = (uint8_t)kind, .least = least});
}

void ws_build_edge_from_op(struct ws_graph_build *build, uint32_t gpu, uint32_t op,
			   enum ws_edge_kind kind, int64_t least)
{
	add_pending(build, (struct ws_pending_edge){
				   .gpu = gpu, .op = op, .kind = (uint8_t)kind, .least = least});
}

/* ---- cuts ---- */

static void add_cut(struct ws_graph_build *build, uint32_t thread, uint64_t at)
{
	if (at <= build->graph->from || at > build->graph->to)
		return;
	ws_grow(build->cuts, build->cut_cap, build->cut_count + 1);
	build->cuts[build->cut_count++] = (struct ws_moment){thread, at};
}

static int compare_moments(const void *first, const void *second)
{
	const struct ws_moment *left = first, *right = second;

	if (left->thread != right->thread)
		return ws_compare(left->thread, right->thread);
	return ws_compare(left->at, right->at);
}

/* Where threads woke others, or started them. */
static void find_cuts(struct ws_graph_build *build)
{
	const struct ws_model *model = build->model;

	for (uint32_t id = 1; id < model->thread_count; id++) {
		const struct ws_model_thread *thread = &model->threads[id];

		for (size_t i = 0; i < thread->count; i++) {
			const struct ws_model_state *state = &thread->states[i];

			if (state->doing != WS_DOING_WAIT || state->end <= build->graph->from ||
			    state->end > build->graph->to)
				continue;
			add_cut(build, ws_path_find_waker(model, id, state, state->end),
				state->end);
		}
		if (thread->count && thread->states[0].start > build->graph->from)
			add_cut(build, ws_path_find_starter(model, id, thread->states[0].start),
				thread->states[0].start);
	}
	if (build->cut_count)
		qsort(build->cuts, build->cut_count, sizeof(*build->cuts), compare_moments);
}

uint64_t ws_build_next_cut(const struct ws_graph_build *build, uint32_t thread, uint64_t at,
			   uint64_t until)
{
	size_t low = ws_find_first_not(0, build->cut_count, middle,
				       build->cuts[middle].thread < thread ||
					       (build->cuts[middle].thread == thread &&
						build->cuts[middle].at <= at));

	if (low == build->cut_count || build->cuts[low].thread != thread)
		return until;
	return ws_min(build->cuts[low].at, until);
}

/* ---- GPU work ---- */

uint64_t ws_find_launch_time(const struct ws_model *model, uint32_t call, uint64_t began)
{
	uint64_t start = model->calls.rows.col[ws_cuda_api_start][call],
		 end = model->calls.rows.col[ws_cuda_api_end][call];

	if (end == WS_NO_TIME || end < start)
		end = start;
	return ws_min(end, began);
}

struct op_times {
	uint64_t called; /* when its call had submitted it; 0 when not known */
	uint64_t ready;	 /* when its stream was free; 0 when it is the first */
	uint32_t call, before;
};

static struct op_times find_op_times(const struct ws_model *model, size_t gpu, size_t number)
{
	const struct ws_work_op *op = &model->work.gpu[gpu].op[number];
	struct op_times times = {.call = ws_calls_find(&model->calls, op->process, op->correlation),
				 .before = model->gpus[gpu].previous[number]};

	if (times.call != WS_NO_CALL)
		times.called = ws_find_launch_time(model, times.call, op->start);
	if (times.before != WS_NO_OP)
		times.ready = ws_min(model->work.gpu[gpu].op[times.before].end, op->start);
	return times;
}

static int compare_lags(const void *first, const void *second)
{
	return ws_compare(*(const int64_t *)first, *(const int64_t *)second);
}

static int64_t find_median(int64_t *lags, size_t count, int64_t usual)
{
	if (count < LEAST_LAGS)
		return usual;
	qsort(lags, count, sizeof(*lags), compare_lags);
	return ws_min(lags[count / 2], 4 * usual);
}

/* The usual time between a call and its work on an idle stream, and between two pieces of work that
 * had been launched long before. */
static void measure_lags(struct ws_graph_build *build)
{
	const struct ws_model *model = build->model;
	int64_t *launch = ws_malloc(MOST_LAGS * sizeof(*launch)),
		*stream = ws_malloc(MOST_LAGS * sizeof(*stream));
	size_t launches = 0, streams = 0;

	for (size_t gpu = 0; gpu < model->work.gpus; gpu++)
		for (size_t i = 0; i < model->work.gpu[gpu].count; i++) {
			const struct ws_work_op *op = &model->work.gpu[gpu].op[i];
			struct op_times times;

			if (op->start < build->graph->from || launches + streams >= MOST_LAGS)
				continue;
			times = find_op_times(model, gpu, i);
			if (!times.called || !times.ready)
				continue;
			if (times.called >= times.ready)
				launch[launches++] = (int64_t)(op->start - times.called);
			else if (times.called + 2 * USUAL_LAUNCH_NS < times.ready)
				stream[streams++] = (int64_t)(op->start - times.ready);
		}
	build->launch_lag = find_median(launch, launches, USUAL_LAUNCH_NS);
	build->stream_lag = find_median(stream, streams, USUAL_STREAM_NS);
	free(launch);
	free(stream);
}

/* Neither the launch nor the stream explains why the work began so late. Work of another stream
 * that ended in between does: it was waited for through an event, or because there was no room. */
static void await_other_stream(struct ws_graph_build *build, size_t gpu, size_t number,
			       const struct op_times *times)
{
	const struct ws_work_op *op = &build->model->work.gpu[gpu].op[number];
	uint64_t since = ws_max(times->called, times->ready);
	struct ws_path_end other;

	if (op->start < since + (uint64_t)(2 * ws_max(build->launch_lag, build->stream_lag)))
		return;
	if (!ws_path_find_last_op(build->model, op->process, since, op->start, &other) ||
	    (other.gpu == gpu && other.op == number))
		return;
	ws_build_edge_from_op(build, other.gpu, other.op, WS_EDGE_AWAIT, build->stream_lag);
}

static void add_op(struct ws_graph_build *build, size_t gpu, size_t number)
{
	const struct ws_model *model = build->model;
	const struct ws_work_op *op = &model->work.gpu[gpu].op[number];
	struct op_times times = find_op_times(model, gpu, number);
	struct ws_node node = {.kind = WS_NODE_OP,
			       .at = op->end,
			       .work = op->end - ws_max(op->start, build->graph->from),
			       .gpu = (uint32_t)gpu,
			       .op = (uint32_t)number,
			       .call = times.call};
	uint32_t launcher = 0;

	if (times.call != WS_NO_CALL)
		launcher = (uint32_t)model->calls.rows.col[ws_cuda_api_thread][times.call];
	if (launcher >= model->thread_count)
		launcher = 0;
	node.thread = launcher;
	ws_build_node(build, node);
	build->op_nodes[gpu][number] = (uint32_t)(build->graph->count - 1);
	if (op->start <= build->graph->from)
		return;
	if (launcher && times.called >= build->graph->from)
		ws_build_edge_from_thread(build, launcher, times.called, WS_EDGE_LAUNCH,
					  build->launch_lag);
	if (times.before != WS_NO_OP)
		ws_build_edge_from_op(build, (uint32_t)gpu, times.before, WS_EDGE_STREAM,
				      build->stream_lag);
	await_other_stream(build, gpu, number, &times);
}

/* Work that ran in the part, or was launched in it and ran later. */
static bool is_in_part(const struct ws_graph_build *build, size_t gpu, size_t number)
{
	const struct ws_model *model = build->model;
	const struct ws_work_op *op = &model->work.gpu[gpu].op[number];
	uint32_t call;

	if (op->end <= build->graph->from || op->end - build->graph->from > LONGEST_NS)
		return false;
	if (op->start < build->graph->to)
		return true;
	call = ws_calls_find(&model->calls, op->process, op->correlation);
	return call != WS_NO_CALL &&
	       model->calls.rows.col[ws_cuda_api_start][call] < build->graph->to;
}

static void add_ops(struct ws_graph_build *build)
{
	enum { MOST_LATER = 4096 }; /* consecutive pieces that were launched after the part */
	const struct ws_model *model = build->model;

	build->op_nodes = ws_calloc(model->work.gpus + 1, sizeof(*build->op_nodes));
	for (size_t gpu = 0; gpu < model->work.gpus; gpu++) {
		const struct ws_work_gpu *work = &model->work.gpu[gpu];
		size_t later = 0;

		build->op_nodes[gpu] = ws_malloc(work->count * sizeof(**build->op_nodes) + 1);
		memset(build->op_nodes[gpu], 0xff, work->count * sizeof(**build->op_nodes));
		for (size_t i = 0; i < work->count && later < MOST_LATER; i++) {
			if (is_in_part(build, gpu, i)) {
				add_op(build, gpu, i);
				later = 0;
			} else if (work->op[i].start >= build->graph->to) {
				later++;
			}
		}
	}
}

/* ---- edges ---- */

/* The last node of the thread that ends at or before `at`. */
static uint32_t find_thread_node(const struct ws_graph_build *build, uint32_t thread, uint64_t at)
{
	const struct ws_node *nodes = build->graph->nodes;
	uint32_t low, high;

	if (thread >= build->model->thread_count)
		return WS_NO_NODE;
	low = build->first_node[thread];
	high = build->first_node[thread + 1];
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (nodes[middle].at <= at)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == build->first_node[thread])
		return WS_NO_NODE;
	return low - 1;
}

static uint32_t find_origin(const struct ws_graph_build *build, const struct ws_pending_edge *edge)
{
	if (edge->thread)
		return find_thread_node(build, edge->thread, edge->at);
	return build->op_nodes[edge->gpu][edge->op];
}

static void add_edge(struct ws_graph *graph, struct ws_node *node, struct ws_edge edge)
{
	if (edge.from == WS_NO_NODE)
		return;
	ws_grow(graph->edges, graph->edge_cap, graph->edge_count + 1);
	graph->edges[graph->edge_count++] = edge;
	node->edge_count++;
}

static void make_edges(struct ws_graph_build *build)
{
	struct ws_graph *graph = build->graph;
	const struct ws_pending_edge *pending = build->pending,
				     *last = build->pending + build->pending_count;

	for (uint32_t i = 0; i < graph->count; i++) {
		struct ws_node *node = &graph->nodes[i];

		node->first_edge = (uint32_t)graph->edge_count;
		if (node->kind != WS_NODE_OP && node->kind != WS_NODE_START)
			add_edge(graph, node,
				 (struct ws_edge){.from = i - 1, .kind = WS_EDGE_ORDER});
		for (; pending < last && pending->node == i; pending++)
			add_edge(graph, node,
				 (struct ws_edge){.from = find_origin(build, pending),
						  .kind = pending->kind,
						  .least = pending->least});
	}
}

/* ---- order ---- */

struct visit {
	uint32_t node, edge;
};

/* Puts each node after all that it depends on. An edge that closes a cycle is left out: two threads
 * cannot have waited for each other, so one of the waits was not real. */
static void order_nodes(struct ws_graph *graph)
{
	enum { NEW, OPEN, DONE };
	uint8_t *state = ws_calloc(graph->count + 1, 1);
	struct visit *stack = ws_malloc(graph->count * sizeof(*stack) + 1);
	size_t ordered = 0, depth = 0;

	graph->order = ws_malloc(graph->count * sizeof(*graph->order) + 1);
	for (uint32_t i = 0; i < graph->count; i++) {
		if (state[i] == NEW) {
			stack[depth++] = (struct visit){.node = i};
			state[i] = OPEN;
		}
		while (depth) {
			struct visit *top = &stack[depth - 1];
			const struct ws_node *node = &graph->nodes[top->node];
			struct ws_edge *edge;

			if (top->edge == node->edge_count) {
				state[top->node] = DONE;
				graph->order[ordered++] = top->node;
				depth--;
				continue;
			}
			edge = &graph->edges[node->first_edge + top->edge++];
			if (state[edge->from] == OPEN) {
				edge->from = WS_NO_NODE;
			} else if (state[edge->from] == NEW) {
				state[edge->from] = OPEN;
				stack[depth++] = (struct visit){.node = edge->from};
			}
		}
	}
	free(state);
	free(stack);
}

/* ---- lags ---- */

/* The edge whose origin ended last gets the lag that was recorded; the others get the usual lag, if
 * they had that much. */
static void set_lags(struct ws_graph *graph, const struct ws_node *node)
{
	struct ws_edge *last = NULL;
	int64_t start = ws_graph_time(graph, node->at) - (int64_t)node->work, latest = INT64_MIN;

	for (uint32_t i = 0; i < node->edge_count; i++) {
		struct ws_edge *edge = &graph->edges[node->first_edge + i];
		int64_t over;

		if (edge->from == WS_NO_NODE)
			continue;
		over = ws_graph_time(graph, graph->nodes[edge->from].at);
		edge->lag = ws_min(edge->least, start - over);
		if (!last || over + edge->lag >= latest) {
			latest = over + edge->lag;
			last = edge;
		}
	}
	if (last)
		last->lag += start - latest;
}

/* ---- the part ---- */

/*
 * Estimates how many nodes the threads' states and calls and the GPU work from `from` to `to` make.
 */
static size_t estimate_nodes(const struct ws_model *model, uint64_t to)
{
	const uint64_t *start = model->calls.rows.col[ws_cuda_api_start];
	size_t count = 0;

	for (uint32_t id = 1; id < model->thread_count; id++) {
		const struct ws_model_thread *thread = &model->threads[id];
		const struct ws_model_state *first = ws_model_find_state(model, id, model->from),
					    *last = ws_model_find_state(model, id, to);
		size_t calls = thread->end_call - thread->first_call;

		if (last)
			count += (size_t)(last - thread->states) + 1;
		if (first)
			count -= (size_t)(first - thread->states);
		count += 3 * (ws_lower_bound(start + thread->first_call, calls, to) -
			      ws_lower_bound(start + thread->first_call, calls, model->from));
	}
	for (size_t gpu = 0; gpu < model->work.gpus; gpu++)
		count += ws_model_find_op_after(&model->work.gpu[gpu], to) -
			 ws_model_find_op_after(&model->work.gpu[gpu], model->from);
	return count;
}

/* All steps, or as many of the first steps as do not make too many nodes; without steps, a part of
 * the run. */
static void choose_part(const struct ws_model *model, struct ws_graph *graph)
{
	graph->from = model->from;
	graph->to = model->to;
	graph->steps = ws_model_count_steps(model);
	while (graph->to - graph->from > LONGEST_NS ||
	       (estimate_nodes(model, graph->to) > WS_GRAPH_NODES &&
		graph->to - graph->from > 1000)) {
		if (model->step_source == WS_STEPS_NONE) {
			graph->to = graph->from + (graph->to - graph->from) / 2;
			continue;
		}
		if (graph->steps == 1)
			break;
		graph->steps = (graph->steps + 1) / 2;
		graph->to = model->steps.steps[model->first_step + graph->steps - 1].end;
	}
}

static uint32_t find_end_node(const struct ws_graph_build *build)
{
	const struct ws_graph *graph = build->graph;
	struct ws_path_end end = ws_path_find_end(build->model);

	if (graph->to == build->model->to && end.op != WS_NO_OP)
		return build->op_nodes[end.gpu][end.op];
	return find_thread_node(build, build->model->thread, graph->to);
}

/* Where scheduling was not recorded: pairs of threads that are the only two of their process with
 * calls. */
static void find_partners(struct ws_graph_build *build)
{
	const struct ws_model *model = build->model;
	struct ws_map first = {0},
		      counts = {0}; /* by process: one of its threads, and how many there are */

	build->partners = ws_calloc(model->thread_count, sizeof(*build->partners));
	for (uint32_t id = 1; !model->has_scheduling && id < model->thread_count; id++) {
		uint32_t process = ws_find_thread(model->who, id)->process, other;
		uint64_t count;

		if (model->threads[id].end_call == model->threads[id].first_call)
			continue;
		count = ws_map_get(&counts, process, NULL) + 1;
		ws_map_set(&counts, process, count);
		other = (uint32_t)ws_map_get(&first, process, NULL);
		if (count == 1) {
			ws_map_set(&first, process, id);
		} else if (count == 2) {
			build->partners[id] = other;
			build->partners[other] = id;
		} else if (count == 3) {
			build->partners[build->partners[other]] = 0;
			build->partners[other] = 0;
		}
	}
	ws_map_free(&first);
	ws_map_free(&counts);
}

void ws_graph_build(const struct ws_model *model, struct ws_graph *graph)
{
	struct ws_graph_build build = {.model = model, .graph = graph};

	memset(graph, 0, sizeof(*graph));
	graph->model = model;
	graph->end = WS_NO_NODE;
	choose_part(model, graph);
	if (graph->to - graph->from > LONGEST_NS)
		return;
	measure_lags(&build);
	find_cuts(&build);
	find_partners(&build);
	build.first_node = ws_calloc(model->thread_count + 1, sizeof(*build.first_node));
	for (uint32_t id = 0; id < model->thread_count; id++) {
		build.first_node[id] = (uint32_t)graph->count;
		if (id)
			ws_build_thread(&build, id);
	}
	build.first_node[model->thread_count] = (uint32_t)graph->count;
	add_ops(&build);
	make_edges(&build);
	order_nodes(graph);
	for (size_t i = 0; i < graph->count; i++)
		set_lags(graph, &graph->nodes[i]);
	graph->end = find_end_node(&build);
	for (size_t gpu = 0; gpu < model->work.gpus; gpu++)
		free(build.op_nodes[gpu]);
	free(build.op_nodes);
	free(build.first_node);
	free(build.partners);
	free(build.pending);
	free(build.cuts);
}

void ws_graph_free(struct ws_graph *graph)
{
	free(graph->nodes);
	free(graph->edges);
	free(graph->order);
	memset(graph, 0, sizeof(*graph));
}
