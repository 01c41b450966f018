/*
 * model.c - see model.h.
 *
 * States come from several workers, but those of one thread from one at a time, so that each
 * thread's array has one writer.
 */
#include "analyze/model.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/code.h"
#include "analyze/repeat.h"
#include "analyze/senders.h"
#include "base/choose.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/parallel.h"
#include "base/search.h"
#include "base/sort.h"

/* ---- threads ---- */

/* What the workers that read states fill. */
struct state_reader {
	struct ws_model *model;
	pthread_mutex_t lock;
	struct calls_worker {
		struct ws_wait_call *chunk;
		uint32_t base, used, room; /* of its chunk */
	} * workers;
};

static void begin_chunk(struct state_reader *reader, struct calls_worker *worker)
{
	struct ws_model *model = reader->model;

	worker->chunk = ws_calloc(WS_CALLS_CHUNK, sizeof(*worker->chunk));
	worker->used = 0;
	worker->room = WS_CALLS_CHUNK;
	pthread_mutex_lock(&reader->lock);
	ws_grow(model->wait_calls, model->wait_cap, model->wait_chunks + 1);
	worker->base = (uint32_t)(model->wait_chunks * WS_CALLS_CHUNK);
	model->wait_calls[model->wait_chunks++] = worker->chunk;
	pthread_mutex_unlock(&reader->lock);
}

static uint32_t keep_call(struct state_reader *reader, struct calls_worker *worker,
			  const struct ws_state *state)
{
	if (!state->function && !state->path && !state->holder && !state->callchain)
		return 0;
	if (worker->used == worker->room)
		begin_chunk(reader, worker);
	worker->chunk[worker->used] = (struct ws_wait_call){.function = state->function,
							    .path = state->path,
							    .holder = state->holder,
							    .callchain = state->callchain};
	return worker->base + worker->used++;
}

static void add_state(void *context, uint32_t number, const struct ws_state *state)
{
	struct state_reader *reader = context;
	struct ws_model *model = reader->model;
	struct ws_model_thread *thread;
	uint32_t waker = state->waker;

	if (state->thread >= model->thread_count)
		return;
	if (waker >= WS_MOST_THREADS)
		waker = 0;
	thread = &model->threads[state->thread];
	if (state->doing == WS_DOING_WAIT)
		thread->waits |= 1u << state->wait;
	ws_grow(thread->states, thread->cap, thread->count + 1);
	thread->states[thread->count++] =
		(struct ws_model_state){.start = state->start,
					.end = state->end,
					.call = keep_call(reader, &reader->workers[number], state),
					.waker = waker,
					.doing = state->doing,
					.wait = state->wait,
					.lost = state->lost};
}

/* Room that is not used costs nothing, and growing would move what is there. */
static void reserve_states(struct ws_model *model, const struct ws_states *states)
{
	for (uint32_t id = 0; id < model->thread_count; id++) {
		struct ws_model_thread *thread = &model->threads[id];
		size_t spans = ws_states_count_spans(states, id);

		if (spans)
			ws_grow(thread->states, thread->cap, spans * 5 / 2);
	}
}

static void read_states(struct ws_model *model)
{
	struct ws_states_part all = {
		.to = UINT64_MAX, .coreless = true, .once = true, .calls = &model->calls.rows};
	struct ws_states *states =
		ws_states_open_part(model->report, model->who, &all, &model->damaged);
	struct state_reader reader = {.model = model, .lock = PTHREAD_MUTEX_INITIALIZER};
	struct calls_worker none = {0};

	reader.workers = ws_calloc(ws_count_state_workers(states), sizeof(*reader.workers));
	begin_chunk(&reader, &none);
	reserve_states(model, states);
	model->has_scheduling = ws_states_has_scheduling(states);
	model->damaged += ws_walk_states_once(states, add_state, &reader);
	ws_states_close(states);
	free(model->calls.rows.col[ws_cuda_api_callchain]); /* only states have use for it */
	model->calls.rows.col[ws_cuda_api_callchain] = NULL;
	free(reader.workers);
}

/* Where the calls of each thread begin and end; they are sorted by thread. */
static void find_thread_calls(struct ws_model *model)
{
	const uint64_t *thread = model->calls.rows.col[ws_cuda_api_thread];

	for (size_t i = 0, end; i < model->calls.rows.rows; i = end) {
		for (end = i + 1; end < model->calls.rows.rows && thread[end] == thread[i];)
			end++;
		if (thread[i] < model->thread_count) {
			model->threads[thread[i]].first_call = i;
			model->threads[thread[i]].end_call = end;
		}
	}
}

static void place_samples(void *context, uint32_t thread, size_t first, size_t end)
{
	struct ws_model *model = context;

	model->threads[thread].first_sample = first;
	model->threads[thread].end_sample = end;
}

static void read_samples(struct ws_model *model)
{
	ws_samples_load(model->report, model->thread_count, place_samples, model, &model->samples);
	model->damaged += model->samples.damaged;
	model->has_samples = model->samples.rows > 0;
}

/* ---- GPUs ---- */

struct end_order {
	uint64_t end;
	uint32_t op;
};

static int compare_ends(const void *first, const void *second)
{
	const struct end_order *left = first, *right = second;

	if (left->end != right->end)
		return ws_compare(left->end, right->end);
	return ws_compare(left->op, right->op);
}

static void sort_by_end(const struct ws_work_gpu *gpu, struct ws_model_gpu *order)
{
	struct end_order *ends = ws_malloc(gpu->count * sizeof(*ends) + 1);

	for (size_t i = 0; i < gpu->count; i++)
		ends[i] = (struct end_order){gpu->op[i].end, (uint32_t)i};
	if (gpu->count)
		qsort(ends, gpu->count, sizeof(*ends), compare_ends);
	for (size_t i = 0; i < gpu->count; i++)
		order->by_end[i] = ends[i].op;
	free(ends);
}

/* Work comes in order of start and mostly ends in that order too; sorting is expensive only where
 * it does not. */
static void order_by_end(const struct ws_work_gpu *gpu, struct ws_model_gpu *order)
{
	bool sorted = true;

	order->by_end = ws_malloc(gpu->count * sizeof(*order->by_end) + 1);
	for (size_t i = 0; i < gpu->count; i++) {
		order->by_end[i] = (uint32_t)i;
		sorted &= !i || gpu->op[i - 1].end <= gpu->op[i].end;
	}
	if (!sorted)
		sort_by_end(gpu, order);
}

static void link_streams(const struct ws_work_gpu *gpu, struct ws_model_gpu *order)
{
	struct ws_map last = {0};

	order->previous = ws_malloc(gpu->count * sizeof(*order->previous) + 1);
	for (size_t i = 0; i < gpu->count; i++) {
		const struct ws_work_op *op = &gpu->op[i];
		uint64_t key = (uint64_t)op->process << 32 | op->stream;
		bool found;
		uint64_t before = ws_map_get(&last, key, &found);

		order->previous[i] = WS_NO_OP;
		if (found)
			order->previous[i] = (uint32_t)before;
		ws_map_set(&last, key, i);
	}
	ws_map_free(&last);
}

static void read_work(struct ws_model *model, struct ws_err *err, int *error)
{
	*error = ws_work_load(model->report, 0, UINT64_MAX, &model->work, err);
	if (*error)
		return;
	model->gpus = ws_calloc(model->work.gpus + 1, sizeof(*model->gpus));
	for (size_t i = 0; i < model->work.gpus; i++) {
		order_by_end(&model->work.gpu[i], &model->gpus[i]);
		link_streams(&model->work.gpu[i], &model->gpus[i]);
	}
}

static void read_calls(struct ws_model *model, struct ws_err *err, int *error)
{
	*error = ws_calls_load(model->report, model->who, WS_COLUMN_BIT(cuda_api, callchain),
			       &model->calls, err);
	if (!*error)
		find_thread_calls(model);
}

/* The calls and the work are read in parallel: neither needs the other. */
struct gpu_reading {
	struct ws_model *model;
	struct ws_err err[2];
	int error[2];
};

static void read_half(void *ctx, unsigned worker, size_t i)
{
	struct gpu_reading *reading = ctx;

	(void)worker;
	(i ? read_calls : read_work)(reading->model, &reading->err[i], &reading->error[i]);
}

static int read_gpus(struct ws_model *model, struct ws_err *err)
{
	struct gpu_reading reading = {.model = model};

	ws_run_parallel(ws_min(ws_count_workers(), 2u), 2, read_half, &reading);
	for (size_t i = 0; i < 2; i++)
		if (reading.error[i])
			return ws_fail(err, "%s", reading.err[i].msg);
	model->damaged += model->work.damaged;
	model->has_cuda = model->work.gpus > 0;
	return 0;
}

/* ---- the window ---- */

/* The process that launched the most work on GPUs; 0 when there was none. */
static uint32_t find_gpu_process(const struct ws_model *model)
{
	struct ws_map counts = {0};
	uint32_t best = 0;
	uint64_t most = 0;

	for (size_t gpu = 0; gpu < model->work.gpus; gpu++)
		for (size_t i = 0; i < model->work.gpu[gpu].count; i++) {
			uint32_t process = model->work.gpu[gpu].op[i].process;
			uint64_t count = ws_map_get(&counts, process, NULL) + 1;

			ws_map_set(&counts, process, count);
			if (count > most || (count == most && process < best)) {
				most = count;
				best = process;
			}
		}
	ws_map_free(&counts);
	return best;
}

/* The process that the recorder started, else the first. Where several images replaced each other
 * by exec, the last, which is the one that the user means. */
static uint32_t find_target(const struct ws_model *model)
{
	struct ws_cursor *cursor = ws_cursor_open(model->report, WS_TABLE_process, 0, UINT64_MAX);
	const uint64_t *values;
	uint32_t first = 0, target = 0, last;

	while (ws_cursor_next(cursor, &values)) {
		if (!first)
			first = (uint32_t)values[ws_process_id];
		if (!target && values[ws_process_origin] == WS_ORIGIN_TARGET)
			target = (uint32_t)values[ws_process_id];
	}
	ws_cursor_close(cursor);
	target = last = ws_or(target, first);
	for (uint32_t id = target + 1; id <= ws_highest_process_id(model->who); id++) {
		const struct ws_process_info *info = ws_find_process(model->who, id);

		if (info->pid == ws_find_process(model->who, target)->pid && info->parent == last)
			last = id;
	}
	return last;
}

/* The thread whose number is that of its process, else the first thread of the process. */
static uint32_t find_main_thread(const struct ws_model *model, uint32_t process)
{
	uint32_t first = 0;

	for (uint32_t id = 1; id < model->thread_count; id++) {
		const struct ws_thread_info *info = ws_find_thread(model->who, id);

		if (info->process != process)
			continue;
		if (info->tid == info->pid)
			return id;
		first = ws_or(first, id);
	}
	return first;
}

/* Keeps only the steps of the process that has the most. */
static void keep_one_process(struct ws_model *model)
{
	struct ws_steps *steps = &model->steps;
	uint32_t best = 0;
	size_t most = 0, kept = 0;

	for (size_t i = 0, end; i < steps->count; i = end) {
		for (end = i + 1;
		     end < steps->count && steps->steps[end].process == steps->steps[i].process;)
			end++;
		if (end - i > most) {
			most = end - i;
			best = steps->steps[i].process;
		}
	}
	for (size_t i = 0; i < steps->count; i++)
		if (steps->steps[i].process == best)
			steps->steps[kept++] = steps->steps[i];
	steps->count = kept;
	model->process = best;
}

static int compare_lengths(const void *first, const void *second)
{
	return ws_compare(*(const uint64_t *)first, *(const uint64_t *)second);
}

static uint64_t compute_median_step(const struct ws_steps *steps, size_t first)
{
	size_t count = steps->count - first;
	uint64_t *lengths = ws_malloc(count * sizeof(*lengths) + 1), median;

	for (size_t i = 0; i < count; i++)
		lengths[i] = steps->steps[first + i].end - steps->steps[first + i].start;
	qsort(lengths, count, sizeof(*lengths), compare_lengths);
	median = lengths[count / 2];
	free(lengths);
	return median;
}

/*
 * The first steps compile, allocate and fill caches. Steps before the first one that takes no more
 * than 1.5 times the median of the later half count as warming up; at most a third of all do.
 */
static size_t count_warm_up(const struct ws_steps *steps)
{
	size_t first = 0;
	uint64_t usual;

	if (steps->count < 4)
		return steps->count > 2;
	usual = compute_median_step(steps, steps->count / 2);
	while (first < steps->count / 3 &&
	       (double)(steps->steps[first].end - steps->steps[first].start) > 1.5 * (double)usual)
		first++;
	return first;
}

static int find_steps(struct ws_model *model, const struct ws_model_options *options,
		      struct ws_err *err)
{
	if (ws_steps_load(model->report, model->who, options->step_name, &model->steps, err))
		return -1;
	model->damaged += model->steps.damaged;
	keep_one_process(model);
	if (options->whole)
		model->steps.count = 0;
	if (model->steps.count >= 2) {
		model->step_source = WS_STEPS_MARKED;
		return 0;
	}
	model->steps.count = 0;
	if (options->step_name && !options->whole)
		return ws_fail(err, "no NVTX range is called '%s', or only one",
			       options->step_name);
	model->process = find_gpu_process(model);
	if (model->process && !options->whole && ws_find_repeated_steps(model, &model->steps))
		model->step_source = WS_STEPS_REPEATED;
	return 0;
}

/* GPU work that was launched within the last step and ends after it is part of the step. */
static uint64_t find_end_of_work(const struct ws_model *model, uint64_t since, uint64_t until)
{
	uint64_t last = until;

	for (size_t gpu = 0; gpu < model->work.gpus; gpu++)
		for (size_t i = 0; i < model->work.gpu[gpu].count; i++) {
			const struct ws_work_op *op = &model->work.gpu[gpu].op[i];
			uint32_t call;

			if (op->process != model->process || op->end <= last)
				continue;
			call = ws_calls_find(&model->calls, op->process, op->correlation);
			if (call == WS_NO_CALL)
				continue;
			if (model->calls.rows.col[ws_cuda_api_start][call] >= since &&
			    model->calls.rows.col[ws_cuda_api_start][call] < until)
				last = op->end;
		}
	return last;
}

/* From the start of the first collection to the end of the last or, where that is not known because
 * the recorder died or another tool made the trace, to the last event. */
static void find_recorded_span(const struct ws_model *model, uint64_t *first, uint64_t *last)
{
	struct ws_cursor *cursor =
		ws_cursor_open(model->report, WS_TABLE_collection, 0, UINT64_MAX);
	uint64_t start = UINT64_MAX, end = 0;
	const uint64_t *values;

	if (!ws_find_event_span(model->report, first, last))
		*first = *last = ws_find_time_zero(model->report);
	while (ws_cursor_next(cursor, &values)) {
		start = ws_min(start, values[ws_collection_start]);
		if (values[ws_collection_end] != WS_NO_TIME)
			end = ws_max(end, values[ws_collection_end]);
	}
	ws_cursor_close(cursor);
	if (start == UINT64_MAX || end <= start)
		return;
	*first = start;
	*last = end;
}

/* Whether the program's process first ran others, such as a shell that chooses a version of it, for
 * the smaller part of the run: the program is what is looked at. */
static bool is_started_by_script(const struct ws_process_info *info, uint64_t first, uint64_t last)
{
	return info->start > first && info->start - first < (last - first) / 2;
}

static void choose_window(struct ws_model *model, const struct ws_model_options *options)
{
	uint64_t first, last;

	if (model->step_source != WS_STEPS_NONE) {
		const struct ws_step *steps = model->steps.steps;

		model->first_step = count_warm_up(&model->steps);
		model->thread = steps[model->first_step].thread;
		model->from = steps[model->first_step].start;
		model->to = steps[model->steps.count - 1].end;
		model->to = find_end_of_work(model, steps[model->steps.count - 1].start, model->to);
	} else {
		const struct ws_process_info *info;

		if (!model->process)
			model->process = find_target(model);
		model->thread = find_main_thread(model, model->process);
		info = ws_find_process(model->who, model->process);
		find_recorded_span(model, &first, &last);
		model->from = first;
		if (model->has_cuda || is_started_by_script(info, first, last))
			model->from = ws_max(first, info->start);
		model->to = last;
		if (info->end != WS_NO_TIME && info->end > model->from)
			model->to = ws_min(info->end, last);
	}
	model->from = ws_max(model->from, options->from);
	model->to = ws_min(model->to, options->to);
	model->to = ws_max(model->to, model->from);
	if (model->thread >= model->thread_count)
		model->thread = 0;
}

static void sum_thread(void *ctx, unsigned worker, size_t id)
{
	const struct ws_model *model = ctx;
	struct ws_model_thread *thread = &model->threads[id];

	(void)worker;
	for (size_t i = 0; i < thread->count; i++) {
		uint64_t start = ws_max(thread->states[i].start, model->from),
			 end = ws_min(thread->states[i].end, model->to);

		if (end <= start)
			continue;
		if (thread->states[i].doing == WS_DOING_RUN)
			thread->running += end - start;
		else if (thread->states[i].doing == WS_DOING_RUNNABLE)
			thread->runnable += end - start;
	}
}

static void sum_running(struct ws_model *model)
{
	ws_run_parallel(ws_count_workers(), model->thread_count, sum_thread, model);
}

static bool runs_python(const struct ws_model *model)
{
	const char *name = ws_find_process(model->who, model->process)->name;

	return !strncmp(name, "python", 6) || !strncmp(name, "pt_main", 7);
}

static void index_threads(struct ws_model *model)
{
	for (uint32_t id = model->thread_count; id-- > 1;) {
		const struct ws_thread_info *info = ws_find_thread(model->who, id);

		if (info->tid)
			ws_map_set(&model->by_tid, (uint64_t)info->process << 32 | info->tid, id);
	}
}

static int compare_thread_ends(const void *first, const void *second)
{
	const struct ws_thread_end *left = first, *right = second;

	if (left->at != right->at)
		return ws_compare(left->at, right->at);
	return ws_compare(left->thread, right->thread);
}

static void order_ends_of_threads(struct ws_model *model)
{
	model->ended = ws_malloc(model->thread_count * sizeof(*model->ended));
	for (uint32_t id = 1; id < model->thread_count; id++) {
		const struct ws_model_thread *thread = &model->threads[id];

		if (thread->count)
			model->ended[model->ended_count++] =
				(struct ws_thread_end){thread->states[thread->count - 1].end, id};
	}
	qsort(model->ended, model->ended_count, sizeof(*model->ended), compare_thread_ends);
}

/* ---- the interface ---- */

struct ws_model *ws_model_open(const struct ws_report *report,
			       const struct ws_model_options *options, struct ws_err *err)
{
	struct ws_model *model = ws_calloc(1, sizeof(*model));

	model->report = report;
	model->is_cancelled = options->is_cancelled;
	model->context = options->context;
	model->who = ws_who_open(report);
	model->thread_count =
		ws_min(ws_highest_thread_id(model->who), (uint32_t)WS_MOST_THREADS - 1) + 1;
	model->threads = ws_calloc(model->thread_count, sizeof(*model->threads));
	index_threads(model);
	model->stacks = ws_stacks_open(report, &model->damaged);
	model->marks = ws_calloc(ws_stacks_count_functions(model->stacks) + (size_t)1, 1);
	model->headers = ws_calloc(ws_report_string_count(report) + (size_t)1, 1);
	model->works = ws_calloc(ws_stacks_count_functions(model->stacks) + (size_t)1,
				 sizeof(*model->works));
	if (read_gpus(model, err) || ws_model_check_cancelled(model, err) ||
	    find_steps(model, options, err) || ws_model_check_cancelled(model, err)) {
		ws_model_close(model);
		return NULL;
	}
	ws_code_pass_over_stubs(model);
	read_states(model); /* first, since it needs most memory while it reads */
	read_samples(model);
	if (!model->has_samples)
		ws_scopes_load(report, model->thread_count, &model->scopes);
	ws_find_senders(model);
	order_ends_of_threads(model);
	choose_window(model, options);
	sum_running(model);
	model->python = runs_python(model);
	return model;
}

int ws_model_check_cancelled(const struct ws_model *model, struct ws_err *err)
{
	if (model->is_cancelled && model->is_cancelled(model->context))
		return ws_fail(err, "the analysis was cancelled");
	return 0;
}

void ws_model_close(struct ws_model *model)
{
	if (!model)
		return;
	for (uint32_t id = 0; id < model->thread_count; id++)
		free(model->threads[id].states);
	for (size_t i = 0; i < model->wait_chunks; i++)
		free(model->wait_calls[i]);
	free(model->wait_calls);
	free(model->threads);
	for (size_t i = 0; model->gpus && i < model->work.gpus; i++) {
		free(model->gpus[i].by_end);
		free(model->gpus[i].previous);
	}
	free(model->gpus);
	ws_map_free(&model->by_tid);
	free(model->ended);
	ws_steps_free(&model->steps);
	ws_samples_free(&model->samples);
	ws_scopes_free(&model->scopes);
	ws_calls_free(&model->calls);
	ws_work_free(&model->work);
	ws_stacks_close(model->stacks);
	free(model->marks);
	free(model->works);
	free(model->headers);
	ws_who_close(model->who);
	free(model);
}

const struct ws_model_state *ws_model_find_state(const struct ws_model *model, uint32_t id,
						 uint64_t at)
{
	const struct ws_model_thread *thread;
	size_t low = 0, high;

	if (id >= model->thread_count)
		return NULL;
	thread = &model->threads[id];
	high = thread->count;
	low = ws_find_first_not(low, high, middle, thread->states[middle].start < at);
	if (!low)
		return NULL;
	return &thread->states[low - 1];
}

uint32_t ws_model_find_call(const struct ws_model *model, uint32_t id, uint64_t at)
{
	const uint64_t *start = model->calls.rows.col[ws_cuda_api_start],
		       *end = model->calls.rows.col[ws_cuda_api_end];
	size_t low, high, first;

	if (id >= model->thread_count)
		return WS_NO_CALL;
	first = low = model->threads[id].first_call;
	high = model->threads[id].end_call;
	low = ws_find_first_not(low, high, middle, start[middle] < at);
	/* A runtime call encloses driver calls: this is the innermost that is still open, a few
	 * rows back. */
	for (size_t back = 0; back < 8 && low > first; back++, low--)
		if (end[low - 1] >= at)
			return (uint32_t)(low - 1);
	return WS_NO_CALL;
}

uint32_t ws_model_find_thread(const struct ws_model *model, uint32_t near, uint32_t tid)
{
	uint64_t process = ws_find_thread(model->who, near)->process;

	return (uint32_t)ws_map_get(&model->by_tid, process << 32 | tid, NULL);
}

size_t ws_model_find_op_after(const struct ws_work_gpu *gpu, uint64_t at)
{
	return ws_find_first_not(0, gpu->count, middle, gpu->op[middle].start <= at);
}

size_t ws_model_count_steps(const struct ws_model *model)
{
	if (model->step_source == WS_STEPS_NONE)
		return 1;
	return model->steps.count - model->first_step;
}
