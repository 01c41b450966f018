/*
 * graph_threads.c - the nodes of threads.
 *
 * A thread's time is cut at the beginnings and ends of its outermost calls of CUDA, at its states,
 * and at moments that others depend on. A call that waits for the GPU is one node, whatever states
 * the thread was in meanwhile.
 */
#include <string.h>

#include "analyze/graph_build.h"
#include "analyze/path.h"
#include "base/choose.h"
#include "base/search.h"
#include "base/sort.h"
#include "query/gpu.h"

enum { SLACK_NS = 2000, BLOCKED_LAUNCH_NS = 100000, USUAL_CALL_NS = 4000 };

struct thread_build {
	struct ws_graph_build *build;
	const struct ws_model *model;
	uint32_t thread;
	uint64_t at, end; /* the thread has nodes up to `at` */
};

static void add_node(struct thread_build *thread, struct ws_node node, uint64_t until)
{
	if (until <= thread->at)
		return;
	node.thread = thread->thread;
	node.at = until;
	if (node.kind == WS_NODE_RUN || node.kind == WS_NODE_QUEUE)
		node.work = until - thread->at;
	ws_build_node(thread->build, node);
	thread->at = until;
}

/* A stretch whose time passes evenly, so that it can be cut. */
static void add_run(struct thread_build *thread, uint8_t kind, uint32_t call, uint64_t until)
{
	while (thread->at < until)
		add_node(thread, (struct ws_node){.kind = kind, .call = call},
			 ws_build_next_cut(thread->build, thread->thread, thread->at, until));
}

/*
 * Whether a waker acted only on a timer. The wake-up's cause is followed back to the first wait
 * that nothing recorded ended. A helper that does something every few milliseconds, and holds a
 * lock meanwhile, waits with a time limit, and longer than the threads that it keeps waiting: how
 * long these wait does not depend on when they began to. Sleeps and I/O are work that takes its own
 * time, and a chain that comes back to the thread itself began with it.
 */
static bool is_ticking(const struct thread_build *thread, uint32_t waker, uint64_t until)
{
	enum { MOST_TRIES = 64 };
	uint64_t waited = until - thread->at;

	for (int tries = 0; tries < MOST_TRIES && waker != thread->thread; tries++) {
		const struct ws_model_state *state =
			ws_model_find_state(thread->model, waker, until);
		uint32_t next = 0;

		if (!state || state->end < until)
			return false;
		if (state->doing == WS_DOING_WAIT)
			next = ws_path_find_waker(thread->model, waker, state, until);
		if (next)
			waker = next;
		else if (state->doing == WS_DOING_WAIT)
			return state->wait != WS_WAIT_SLEEP && state->wait != WS_WAIT_IO &&
			       state->wait != WS_WAIT_FAULT && state->wait != WS_WAIT_CHILD &&
			       state->end - state->start >= waited;
		else
			until = state->start;
	}
	return false;
}

static void add_wait(struct thread_build *thread, const struct ws_model_state *state, uint32_t call,
		     uint64_t until)
{
	struct ws_node node = {.kind = WS_NODE_WAIT,
			       .wait = state->wait,
			       .function = ws_model_get_call(thread->model, state)->function,
			       .call = call};
	uint32_t waker = 0;

	if (until <= thread->at)
		return;
	if (until == state->end)
		waker = ws_path_find_waker(thread->model, thread->thread, state, until);
	if (waker && is_ticking(thread, waker, until))
		waker = 0;
	if (!waker)
		node.work = until - thread->at;
	add_node(thread, node, until);
	if (waker)
		ws_build_edge_from_thread(thread->build, waker, until, WS_EDGE_AWAIT, 0);
}

static void add_state(struct thread_build *thread, const struct ws_model_state *state,
		      uint32_t call, uint64_t until)
{
	bool in_call =
		call != WS_NO_CALL && (state->wait == WS_WAIT_CUDA || state->wait == WS_WAIT_GPU);

	if (state->doing == WS_DOING_WAIT && !in_call)
		add_wait(thread, state, call, until);
	else if (state->doing == WS_DOING_RUNNABLE)
		add_run(thread, WS_NODE_QUEUE, call, until);
	else
		add_run(thread, WS_NODE_RUN, call, until);
}

/* The first state of the thread that ends after `at`. */
static size_t find_state_after(const struct ws_model_thread *thread, uint64_t at)
{
	return ws_find_first_not(0, thread->count, middle, thread->states[middle].end <= at);
}

/* Adds nodes up to `until` by the thread's states; where it has none, by plain passing of time. */
static void add_states(struct thread_build *thread, uint32_t call, uint64_t until)
{
	const struct ws_model_thread *facts = &thread->model->threads[thread->thread];

	for (size_t i = find_state_after(facts, thread->at);
	     i < facts->count && facts->states[i].start < until && thread->at < until; i++) {
		const struct ws_model_state *state = &facts->states[i];

		add_run(thread, thread->model->has_scheduling ? WS_NODE_QUEUE : WS_NODE_RUN, call,
			ws_min(state->start, until));
		add_state(thread, state, call, ws_min(state->end, until));
	}
	add_run(thread, thread->model->has_scheduling ? WS_NODE_QUEUE : WS_NODE_RUN, call, until);
}

/* ---- calls ---- */

static bool is_named(const char *name, size_t length, const char *part)
{
	return memmem(name, length, part, strlen(part)) != NULL;
}

/* The work that the call launched itself and that began before it returned at `end`; false when
 * there is none. */
static bool find_own_work(const struct thread_build *thread, uint32_t call, uint64_t end,
			  struct ws_path_end *found)
{
	enum { MOST_TRIES = 64 };
	const struct ws_model *model = thread->model;
	uint64_t start = model->calls.rows.col[ws_cuda_api_start][call],
		 correlation = model->calls.rows.col[ws_cuda_api_correlation][call];
	uint32_t process = ws_find_thread(model->who, thread->thread)->process;

	for (size_t gpu = 0; gpu < model->work.gpus; gpu++) {
		const struct ws_work_gpu *work = &model->work.gpu[gpu];
		size_t first = ws_model_find_op_after(work, start);

		for (size_t i = first;
		     i < work->count && i < first + MOST_TRIES && work->op[i].start < end; i++)
			if (work->op[i].correlation == correlation &&
			    work->op[i].process == process) {
				*found = (struct ws_path_end){.gpu = (uint32_t)gpu,
							      .op = (uint32_t)i};
				return true;
			}
	}
	return false;
}

/* A copy that is done when its call returns, whatever was before it in its stream: mostly of a
 * number that a framework reads (.item()). */
static bool is_copy_waited_for(const struct ws_work_op *op, uint64_t end)
{
	return op->class == WS_WORK_MEMORY && !op->set && op->end <= end;
}

/*
 * Whether the call waits for what it launched itself: a copy that blocks, or that the driver stages
 * from memory that is not pinned; a launch under CUDA_LAUNCH_BLOCKING. Nearly all of the work lies
 * within the call, and takes most of the call's time since the work began.
 */
static bool waits_for_own_work(const struct thread_build *thread, uint64_t end,
			       const struct ws_path_end *own)
{
	const struct ws_work_op *op = &thread->model->work.gpu[own->gpu].op[own->op];
	uint64_t length = op->end - op->start;

	if (is_copy_waited_for(op, end))
		return true;
	return op->end <= end + length / 8 && length * 2 >= end - op->start;
}

static bool is_any_named(const char *name, size_t length, const char *const *parts)
{
	for (; *parts; parts++)
		if (is_named(name, length, *parts))
			return true;
	return false;
}

/* The GPU work that a call with this name waited for from its beginning, which ended last before
 * the call returned; false when the call waits for none. */
static bool find_awaited(const struct thread_build *thread, uint32_t call, uint64_t end,
			 struct ws_path_end *found)
{
	static const char *const blocking[] = {"Synchronize", "Memcpy", "Memset", "Free", NULL},
				 *const launching[] = {"Launch", "Async", NULL},
				 *const asynchronous[] = {"Async", NULL};
	const struct ws_model *model = thread->model;
	uint64_t start = model->calls.rows.col[ws_cuda_api_start][call];
	uint32_t process = ws_find_thread(model->who, thread->thread)->process;
	size_t length;
	const char *name = ws_get_cuda_function_name(
		model->report, (uint32_t)model->calls.rows.col[ws_cuda_api_name][call], &length);

	if (find_own_work(thread, call, end, found) && waits_for_own_work(thread, end, found))
		return true;
	if (is_any_named(name, length, blocking) && !is_any_named(name, length, asynchronous))
		return ws_path_find_last_op(model, process, start, end + SLACK_NS, found);
	return end - start >= BLOCKED_LAUNCH_NS && is_any_named(name, length, launching) &&
	       ws_path_find_last_op(model, process, start, end + SLACK_NS, found);
}

static bool is_synchronisation(const struct ws_model *model, uint32_t call)
{
	size_t length;
	const char *name = ws_get_cuda_function_name(
		model->report, (uint32_t)model->calls.rows.col[ws_cuda_api_name][call], &length);

	return is_named(name, length, "Synchronize");
}

static bool waits_for_all_streams(const struct ws_model *model, uint32_t call)
{
	size_t length;
	const char *name = ws_get_cuda_function_name(
		model->report, (uint32_t)model->calls.rows.col[ws_cuda_api_name][call], &length);

	return is_named(name, length, "DeviceSynchronize") ||
	       is_named(name, length, "CtxSynchronize") || is_named(name, length, "Free");
}

/* A call for the whole device waits for the last work launched into each stream. That is searched
 * for among the latest work that ended before the call. */
static void await_other_streams(struct thread_build *thread, const struct ws_path_end *last)
{
	enum { LOOKED_AT = 64, MOST_STREAMS = 16 };
	const struct ws_work_gpu *gpu = &thread->model->work.gpu[last->gpu];
	const uint32_t *by_end = thread->model->gpus[last->gpu].by_end;
	uint32_t streams[MOST_STREAMS] = {gpu->op[last->op].stream}, count = 1;
	size_t low = ws_find_first_not(0, gpu->count, middle,
				       gpu->op[by_end[middle]].end < gpu->op[last->op].end);

	for (size_t tries = 0; low-- > 0 && tries < LOOKED_AT && count < MOST_STREAMS; tries++) {
		const struct ws_work_op *op = &gpu->op[by_end[low]];
		uint32_t i = 0;

		while (i < count && streams[i] != op->stream)
			i++;
		if (i < count || op->process != gpu->op[last->op].process)
			continue;
		streams[count++] = op->stream;
		ws_build_edge_from_op(thread->build, last->gpu, by_end[low], WS_EDGE_AWAIT, 0);
	}
}

static void add_synchronisation(struct thread_build *thread, uint32_t call,
				const struct ws_path_end *awaited, uint64_t end)
{
	const struct ws_work_op *op = &thread->model->work.gpu[awaited->gpu].op[awaited->op];
	struct ws_node node = {.kind = WS_NODE_SYNC, .wait = WS_WAIT_GPU, .call = call};

	/* The time between the end of the work and the return of the call passes in any case. */
	if (end > op->end)
		node.work = end - ws_max(op->end, thread->at);
	add_node(thread, node, end);
	ws_build_edge_from_op(thread->build, awaited->gpu, awaited->op, WS_EDGE_AWAIT, 0);
	if (waits_for_all_streams(thread->model, call))
		await_other_streams(thread, awaited);
}

static void add_call(struct thread_build *thread, uint32_t call, uint64_t end)
{
	struct ws_node idle = {.kind = WS_NODE_SYNC, .wait = WS_WAIT_GPU, .call = call};
	struct ws_path_end awaited, own;

	/* Time before its own work begins, or can begin, is not waiting. */
	if (find_own_work(thread, call, end, &own)) {
		const struct ws_work_op *op = &thread->model->work.gpu[own.gpu].op[own.op];
		uint64_t handed_over = op->start;

		if (is_copy_waited_for(op, end))
			handed_over = ws_min(handed_over, thread->at + USUAL_CALL_NS);
		add_states(thread, call, ws_min(handed_over, end));
	}
	if (thread->at >= end)
		return;
	if (find_awaited(thread, call, end, &awaited)) {
		add_synchronisation(thread, call, &awaited, end);
	} else if (is_synchronisation(thread->model, call)) {
		idle.work = end - thread->at; /* there was nothing to wait for */
		add_node(thread, idle, end);
	} else {
		add_states(thread, call, end);
	}
}

/*
 * Where scheduling was not recorded, two threads that launch in turns (a training loop and its
 * autograd engine) are taken to wait for each other: a long stretch in which one makes no calls and
 * the other makes several ends after the last of these calls.
 */
static void add_gap(struct thread_build *thread, uint64_t until)
{
	enum { LONG_GAP_NS = 100000, LEAST_CALLS = 3 };
	const struct ws_model *model = thread->model;
	uint32_t other = thread->build->partners[thread->thread];
	const uint64_t *start = model->calls.rows.col[ws_cuda_api_start],
		       *end = model->calls.rows.col[ws_cuda_api_end];
	size_t first, last, calls;

	if (other && until > thread->at + LONG_GAP_NS) {
		first = model->threads[other].first_call;
		calls = model->threads[other].end_call - first;
		last = first + ws_lower_bound(start + first, calls, until);
		first += ws_lower_bound(start + first, calls, thread->at);
		if (last >= first + LEAST_CALLS && end[last - 1] <= until) {
			add_states(thread, WS_NO_CALL, start[first]);
			add_node(thread, (struct ws_node){.kind = WS_NODE_WAIT, .call = WS_NO_CALL},
				 end[last - 1]);
			ws_build_edge_from_thread(thread->build, other, end[last - 1],
						  WS_EDGE_AWAIT, 0);
		}
	}
	add_states(thread, WS_NO_CALL, until);
}

/* The first call that touches the part. */
static size_t find_first_call(const struct ws_model *model, uint32_t thread, uint64_t at)
{
	const uint64_t *start = model->calls.rows.col[ws_cuda_api_start];
	size_t first = model->threads[thread].first_call, last = model->threads[thread].end_call;
	uint32_t around = ws_model_find_call(model, thread, at + 1);

	if (around != WS_NO_CALL)
		return around;
	return first + ws_lower_bound(start + first, last - first, at);
}

static void add_thread_time(struct thread_build *thread)
{
	const struct ws_model *model = thread->model;
	const uint64_t *start = model->calls.rows.col[ws_cuda_api_start],
		       *end = model->calls.rows.col[ws_cuda_api_end];
	size_t last = model->threads[thread->thread].end_call;

	for (size_t call = find_first_call(model, thread->thread, thread->at);
	     call < last && start[call] < thread->end; call++) {
		if (end[call] == WS_NO_TIME || end[call] <= thread->at)
			continue;
		add_gap(thread, ws_max(start[call], thread->at));
		add_call(thread, (uint32_t)call, ws_min(end[call], thread->end));
	}
	add_gap(thread, thread->end);
}

/* When the thread first and last did something. */
static bool find_extent(const struct ws_model *model, uint32_t id, uint64_t *first, uint64_t *last)
{
	const struct ws_model_thread *thread = &model->threads[id];
	uint64_t *const *col = model->calls.rows.col;

	*first = UINT64_MAX;
	*last = 0;
	if (thread->count) {
		*first = thread->states[0].start;
		*last = thread->states[thread->count - 1].end;
	}
	if (thread->end_call > thread->first_call) {
		*first = ws_min(*first, col[ws_cuda_api_start][thread->first_call]);
		*last = ws_max(*last, col[ws_cuda_api_start][thread->end_call - 1]);
	}
	return *first < *last;
}

void ws_build_thread(struct ws_graph_build *build, uint32_t id)
{
	const struct ws_graph *graph = build->graph;
	struct thread_build thread = {.build = build, .model = build->model, .thread = id};
	uint64_t first, last;
	uint32_t starter = 0;

	if (!find_extent(build->model, id, &first, &last) || last <= graph->from ||
	    first >= graph->to)
		return;
	/* The thread whose steps are explained exists from beginning to end; a thread that takes
	 * turns with it waits for its first call. */
	if (id == build->model->thread || build->partners[id])
		first = graph->from;
	if (id == build->model->thread)
		last = graph->to;
	thread.at = ws_max(first, graph->from);
	thread.end = ws_min(last, graph->to);
	if (first > graph->from)
		starter = ws_path_find_starter(build->model, id, first);
	ws_build_node(build, (struct ws_node){.kind = WS_NODE_START,
					      .at = thread.at,
					      .thread = id,
					      .call = WS_NO_CALL});
	if (starter)
		ws_build_edge_from_thread(build, starter, thread.at, WS_EDGE_AWAIT, 0);
	add_thread_time(&thread);
}
