/*
 * parallel.c - see parallel.h.
 *
 * Each thread's states become stretches of work. Waits shorter than SHORT_WAIT_NS do not interrupt
 * a stretch: a thread that briefly takes a lock or reads a file continues its work, and programs
 * that switch all the time do not make too many stretches.
 */
#include "analyze/parallel.h"

#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/search.h"

#define SHORT_WAIT_NS 500000

struct edge { /* a thread begins or ends a stretch of work */
	uint64_t at;
	uint32_t thread;
	int8_t step; /* 1 or -1 */
};

struct edges {
	struct edge *edges;
	size_t count, cap;
};

bool ws_is_explained(const struct ws_model *model, uint32_t process)
{
	enum { MOST_GENERATIONS = 64 };

	for (unsigned i = 0; process && i < MOST_GENERATIONS; i++) {
		if (process == model->process)
			return true;
		process = ws_find_process(model->who, process)->parent;
	}
	return false;
}

static void add_stretch(struct edges *edges, uint32_t thread, uint64_t start, uint64_t end)
{
	if (end <= start)
		return;
	ws_grow(edges->edges, edges->cap, edges->count + 2);
	edges->edges[edges->count++] = (struct edge){start, thread, 1};
	edges->edges[edges->count++] = (struct edge){end, thread, -1};
}

static void add_thread(const struct ws_model *model, uint32_t id, struct edges *edges)
{
	const struct ws_model_thread *thread = &model->threads[id];
	uint64_t start = 0, end = 0;

	for (size_t i = 0; i < thread->count; i++) {
		const struct ws_model_state *state = &thread->states[i];
		uint64_t from = ws_max(state->start, model->from),
			 to = ws_min(state->end, model->to);

		if (to <= from ||
		    (state->doing != WS_DOING_RUN && state->doing != WS_DOING_RUNNABLE))
			continue;
		if (end && from - end < SHORT_WAIT_NS) {
			end = to;
			continue;
		}
		add_stretch(edges, id, start, end);
		start = from;
		end = to;
	}
	add_stretch(edges, id, start, end);
}

static int compare_edges(const void *first, const void *second)
{
	const struct edge *left = first, *right = second;

	if (left->at != right->at)
		return ws_compare(left->at, right->at);
	return ws_compare(left->step, right->step);
}

/* ---- who worked alone ---- */

struct sweep {
	const struct ws_model *model;
	struct ws_parallel *parallel;
	uint64_t *alone; /* by thread */
	struct ws_span *longest;
	struct edges spans; /* one edge for each stretch of lone work, at its start; */
	uint64_t *ends;	    /* and one at its end */
	size_t end_cap;
};

/* How long a thread ran from `start` to `end`: on a busy machine it takes longer than that. */
static uint64_t sum_running_in(const struct ws_model *model, uint32_t id, uint64_t start,
			       uint64_t end)
{
	const struct ws_model_thread *thread = &model->threads[id];
	const struct ws_model_state *state = ws_model_find_state(model, id, start + 1);
	uint64_t sum = 0;

	for (size_t i = state ? (size_t)(state - thread->states) : 0;
	     i < thread->count && thread->states[i].start < end; i++)
		if (thread->states[i].doing == WS_DOING_RUN && thread->states[i].end > start)
			sum += ws_min(thread->states[i].end, end) -
			       ws_max(thread->states[i].start, start);
	return sum;
}

static void note_alone(struct sweep *sweep, uint32_t thread, uint64_t start, uint64_t end)
{
	struct ws_span *longest = &sweep->longest[thread];
	uint64_t ran = sum_running_in(sweep->model, thread, start, end);

	sweep->parallel->alone_ns += ran;
	sweep->alone[thread] += ran;
	if (end - start > longest->end - longest->start)
		*longest = (struct ws_span){start, end};
	ws_grow(sweep->spans.edges, sweep->spans.cap, sweep->spans.count + 1);
	ws_grow(sweep->ends, sweep->end_cap, sweep->spans.count + 1);
	sweep->ends[sweep->spans.count] = end;
	sweep->spans.edges[sweep->spans.count++] = (struct edge){start, thread, 1};
}

/* The sum of the numbers of the threads that work: when only one does, this is its number. */
static void sweep_edges(struct sweep *sweep, const struct edges *edges)
{
	uint64_t working = 0, sum = 0, since = 0;

	for (size_t i = 0; i < edges->count; i++) {
		const struct edge *edge = &edges->edges[i];

		if (working == 1 && edge->at > since)
			note_alone(sweep, (uint32_t)sum, since, edge->at);
		else if (working > 1)
			sweep->parallel->together_ns += edge->at - since;
		since = edge->at;
		if (edge->step > 0) {
			working++;
			sum += edge->thread;
		} else {
			working--;
			sum -= edge->thread;
		}
	}
}

static bool is_alone(const struct sweep *sweep, uint32_t thread, uint64_t at)
{
	size_t low = ws_find_first_not(0, sweep->spans.count, middle, sweep->ends[middle] <= at);

	return low < sweep->spans.count && sweep->spans.edges[low].at <= at &&
	       sweep->spans.edges[low].thread == thread;
}

/* The function in which the lone thread was sampled most while it worked alone. */
static void find_lone_place(const struct ws_model *model, const struct sweep *sweep)
{
	struct ws_parallel *parallel = sweep->parallel;
	const struct ws_model_thread *thread = &model->threads[parallel->lone];
	const struct ws_samples *samples = &model->samples;
	struct ws_map weights = {0};
	uint64_t most = 0;

	for (size_t i = thread->first_sample; i < thread->end_sample; i++) {
		struct ws_code_place place;
		uint64_t weight;

		if (!samples->frame[i] || !is_alone(sweep, parallel->lone, samples->start[i]))
			continue;
		place = ws_code_find_place(model, samples->frame[i], samples->callers[i]);
		weight = ws_map_get(&weights, place.function, NULL) +
			 ws_max(ws_samples_get_time(samples, i), (uint64_t)1);
		ws_map_set(&weights, place.function, weight);
		if (weight <= most)
			continue;
		most = weight;
		parallel->place = place;
		parallel->place.leaf = place.function;
	}
	ws_map_free(&weights);
}

static void find_lone(const struct ws_model *model, const struct edges *edges,
		      struct ws_parallel *parallel)
{
	struct sweep sweep = {.model = model, .parallel = parallel};

	sweep.alone = ws_calloc(model->thread_count, sizeof(*sweep.alone));
	sweep.longest = ws_calloc(model->thread_count, sizeof(*sweep.longest));
	sweep_edges(&sweep, edges);
	for (uint32_t id = 1; id < model->thread_count; id++)
		if (sweep.alone[id] > parallel->lone_ns) {
			parallel->lone = id;
			parallel->lone_ns = sweep.alone[id];
			parallel->longest = sweep.longest[id];
		}
	if (parallel->lone)
		find_lone_place(model, &sweep);
	free(sweep.alone);
	free(sweep.longest);
	free(sweep.spans.edges);
	free(sweep.ends);
}

/* ---- lives and waits ---- */

struct wait_sum {
	struct ws_parallel *parallel;
	struct ws_map functions; /* string: waits */
	struct ws_map stacks;	 /* string << 32 | stack that called it: waits */
};

/* Whether another thread or process of the program ended a wait. Wake-ups show this; without them,
 * the kind of the wait does: disks and timers do not count. */
static bool is_wait_for_others(const struct ws_model *model, const struct ws_model_state *state,
			       uint32_t file)
{
	const char *path;

	if (state->doing != WS_DOING_WAIT)
		return false;
	if (state->waker)
		return ws_is_explained(model, ws_find_thread(model->who, state->waker)->process);
	switch (state->wait) {
	case WS_WAIT_LOCK:
	case WS_WAIT_CONDITION:
	case WS_WAIT_SEMAPHORE:
	case WS_WAIT_BARRIER:
	case WS_WAIT_FUTEX:
	case WS_WAIT_GIL:
	case WS_WAIT_POLL:
		return true;
	case WS_WAIT_IO:
		path = ws_report_string(model->report, file, NULL);
		return !strncmp(path, "pipe:", 5) || !strncmp(path, "socket:", 7) ||
		       !strncmp(path, "anon_inode:", 11);
	default:
		return false;
	}
}

static void count_wait(struct wait_sum *sum, uint32_t function, uint32_t stack)
{
	sum->parallel->waits++;
	if (!function)
		return;
	ws_map_set(&sum->functions, function, ws_map_get(&sum->functions, function, NULL) + 1);
	if (stack && stack != WS_NO_U32) {
		uint64_t key = (uint64_t)function << 32 | stack;

		ws_map_set(&sum->stacks, key, ws_map_get(&sum->stacks, key, NULL) + 1);
	}
}

/* The stack with most waits in a function; 0 for none. */
static uint32_t find_wait_stack(const struct ws_map *stacks, uint32_t function)
{
	const struct ws_map_slot *most = NULL;

	for (size_t i = 0; i < stacks->size; i++)
		if (stacks->used[i] && stacks->slots[i].key >> 32 == function &&
		    (!most || stacks->slots[i].value > most->value))
			most = &stacks->slots[i];
	return most ? (uint32_t)most->key : 0;
}

static void count_waits(const struct ws_model *model, uint32_t id, struct wait_sum *sum)
{
	const struct ws_model_thread *thread = &model->threads[id];

	for (size_t i = 0; i < thread->count; i++) {
		const struct ws_model_state *state = &thread->states[i];
		const struct ws_wait_call *call = ws_model_get_call(model, state);
		uint64_t start = ws_max(state->start, model->from),
			 end = ws_min(state->end, model->to);

		if (end <= start)
			continue;
		if (state->lost)
			sum->parallel->lost += end - start;
		else if (is_wait_for_others(model, state, call->path))
			count_wait(sum, call->function, call->callchain);
	}
}

/* Programs that switch all the time are the ones whose records of switches are lost. Then the calls
 * in which they wait are counted, which are recorded by other means. */
static void count_calls(const struct ws_model *model, struct wait_sum *sum)
{
	struct ws_cursor *cursor =
		ws_cursor_open(model->report, WS_TABLE_osrt, model->from, model->to);
	const uint64_t *values;

	while (ws_cursor_next(cursor, &values)) {
		struct ws_model_state state = {.doing = WS_DOING_WAIT};
		uint32_t thread = (uint32_t)values[ws_osrt_thread],
			 name = (uint32_t)values[ws_osrt_name];

		state.wait = ws_classify_osrt_call(ws_report_string(model->report, name, NULL));
		if (values[ws_osrt_nesting] ||
		    !is_wait_for_others(model, &state, (uint32_t)values[ws_osrt_path]) ||
		    !ws_is_explained(model, ws_find_thread(model->who, thread)->process))
			continue;
		count_wait(sum, name, (uint32_t)values[ws_osrt_callchain]);
	}
	ws_cursor_close(cursor);
}

/* How long a thread ran in all. On a busy machine it may exist for long and yet do little. */
static uint64_t sum_run(const struct ws_model_thread *thread)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < thread->count && sum < WS_BRIEF_RUN_NS; i++)
		if (thread->states[i].doing == WS_DOING_RUN)
			sum += thread->states[i].end - thread->states[i].start;
	return sum;
}

static void count_life(const struct ws_model *model, uint32_t id, struct ws_parallel *parallel)
{
	const uint64_t longest = 1000000000;
	const struct ws_model_thread *thread = &model->threads[id];
	const struct ws_thread_info *info = ws_find_thread(model->who, id);
	uint64_t first, last;

	if (!thread->count)
		return;
	first = thread->states[0].start;
	last = thread->states[thread->count - 1].end;
	if (last <= model->from || first >= model->to)
		return;
	parallel->threads++;
	parallel->running += thread->running;
	parallel->brief_threads += info->tid != info->pid && last - first < longest &&
				   sum_run(thread) < WS_BRIEF_RUN_NS;
}

static void find_wait_function(const struct ws_model *model, struct wait_sum *sum)
{
	struct ws_parallel *parallel = sum->parallel;

	for (size_t i = 0; i < sum->functions.size; i++) {
		const struct ws_map_slot *slot = &sum->functions.slots[i];

		if (sum->functions.used[i] && slot->value > parallel->wait_function_waits) {
			parallel->wait_function_waits = slot->value;
			parallel->wait_function = (uint32_t)slot->key;
		}
	}
	if (parallel->wait_function) {
		uint32_t stack = find_wait_stack(&sum->stacks, parallel->wait_function);

		if (stack)
			parallel->wait_place = ws_code_find_place(model, 0, stack);
	}
}

void ws_parallel_measure(const struct ws_model *model, struct ws_parallel *parallel)
{
	struct wait_sum waits = {.parallel = parallel};
	struct edges edges = {0};

	memset(parallel, 0, sizeof(*parallel));
	if (!model->has_scheduling)
		return;
	for (uint32_t id = 1; id < model->thread_count; id++) {
		if (!ws_is_explained(model, ws_find_thread(model->who, id)->process))
			continue;
		add_thread(model, id, &edges);
		count_waits(model, id, &waits);
		count_life(model, id, parallel);
	}
	if (edges.count) {
		qsort(edges.edges, edges.count, sizeof(*edges.edges), compare_edges);
		find_lone(model, &edges, parallel);
	}
	if (parallel->lost > (model->to - model->from) / 10) {
		parallel->waits = 0;
		count_calls(model, &waits);
	}
	find_wait_function(model, &waits);
	free(edges.edges);
	ws_map_free(&waits.functions);
	ws_map_free(&waits.stacks);
}
