/*
 * launches.c - see launches.h.
 *
 * Launches and beginnings of work, in order of time, are steps up and down of each stream's depth.
 */
#include "analyze/launches.h"

#include <stdlib.h>
#include <string.h>

#include "analyze/facts.h"
#include "base/choose.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/sort.h"

const uint64_t ws_queue_bands[WS_QUEUE_BANDS] = {0, 1, 2, 10, 100, 1024};

/* ---- the part ---- */

static size_t count_work(const struct ws_model *model, uint64_t until)
{
	size_t work = 0;

	for (size_t gpu = 0; gpu < model->work.gpus; gpu++)
		work += ws_model_find_op_after(&model->work.gpu[gpu], until) -
			ws_model_find_op_after(&model->work.gpu[gpu], model->from);
	return work;
}

uint64_t ws_model_choose_part(const struct ws_model *model, size_t most, size_t *steps)
{
	size_t count = ws_model_count_steps(model);
	uint64_t to = model->to;

	*steps = 0;
	if (model->step_source == WS_STEPS_NONE) {
		while (count_work(model, to) > most && to - model->from > 1000)
			to = model->from + (to - model->from) / 2;
		return to;
	}
	*steps = count;
	if (count_work(model, to) <= most)
		return to;
	do {
		count = (count + 1) / 2;
		to = ws_min(model->steps.steps[model->first_step + count - 1].end, model->to);
	} while (count > 1 && count_work(model, to) > most);
	*steps = count;
	return to;
}

/* ---- queues ---- */

struct counting {
	const struct ws_model *model;
	struct ws_launches *launches;
	struct ws_map queues;		/* gpu << 32 | stream: queue + 1 */
	struct ws_map kernels;		/* name: kernel + 1 */
	struct ws_keyed_value *changes; /* value: queue << 1 | 1 for a beginning */
	size_t change_count, change_cap;
};

static size_t find_queue(struct counting *counting, uint32_t gpu, uint32_t stream)
{
	struct ws_launches *launches = counting->launches;
	uint64_t key = (uint64_t)gpu << 32 | stream, at = ws_map_get(&counting->queues, key, NULL);

	if (!at) {
		ws_grow(launches->queues, launches->queue_cap, launches->queue_count + 1);
		launches->queues[launches->queue_count] = (struct ws_queue){
			.gpu = gpu, .stream = stream, .process = counting->model->process};
		at = ++launches->queue_count;
		ws_map_set(&counting->queues, key, at);
	}
	return at - 1;
}

static void add_change(struct counting *counting, uint64_t at, size_t queue, bool begins)
{
	ws_grow(counting->changes, counting->change_cap, counting->change_count + 1);
	counting->changes[counting->change_count++] =
		(struct ws_keyed_value){at, (uint64_t)queue << 1 | begins};
}

static void count_short_kernel(struct counting *counting, const struct ws_work_op *op,
			       uint64_t launch_ns)
{
	struct ws_launches *launches = counting->launches;
	uint64_t name = ws_report_string_key(counting->model->report, op->name),
		 at = ws_map_get(&counting->kernels, name, NULL);
	struct ws_short_kernel *rows[2] = {&launches->all_short, NULL};

	if (!at) {
		ws_grow(launches->kernels, launches->kernel_cap, launches->kernel_count + 1);
		launches->kernels[launches->kernel_count] =
			(struct ws_short_kernel){.name = (uint32_t)name};
		at = ++launches->kernel_count;
		ws_map_set(&counting->kernels, name, at);
	}
	rows[1] = &launches->kernels[at - 1];
	for (size_t i = 0; i < WS_COUNT(rows); i++) {
		rows[i]->count++;
		rows[i]->kernel_ns += op->end - op->start;
		rows[i]->launch_ns += launch_ns;
	}
}

static void count_op(struct counting *counting, uint32_t gpu, const struct ws_work_op *op)
{
	const struct ws_model *model = counting->model;
	struct ws_launches *launches = counting->launches;
	uint32_t call = ws_calls_find(&model->calls, op->process, op->correlation);
	uint64_t start, end;
	size_t queue;

	if (op->process != model->process || call == WS_NO_CALL || op->start < launches->from)
		return;
	start = model->calls.rows.col[ws_cuda_api_start][call];
	end = model->calls.rows.col[ws_cuda_api_end][call];
	if (end == WS_NO_TIME || end < start || start >= launches->to || start > op->start)
		return;
	queue = find_queue(counting, gpu, op->stream);
	add_change(counting, ws_max(start, launches->from), queue, false);
	if (op->start >= launches->to)
		return;
	add_change(counting, op->start, queue, true);
	launches->queues[queue].launches++;
	launches->queues[queue].lead_ns += op->start - ws_min(end, op->start);
	if (op->class == WS_WORK_MEMORY)
		return;
	launches->all_kernels++;
	if (op->end - op->start < WS_SHORT_KERNEL_NS)
		count_short_kernel(counting, op, end - start);
}

static void walk_work(struct counting *counting)
{
	enum { MOST_LATER = 4096 }; /* that may have been launched in the part and run after it */
	const struct ws_model *model = counting->model;

	for (size_t gpu = 0; gpu < model->work.gpus; gpu++) {
		const struct ws_work_gpu *work = &model->work.gpu[gpu];
		size_t last = ws_model_find_op_after(work, counting->launches->to) + MOST_LATER;

		last = ws_min(last, work->count);
		for (size_t i = ws_model_find_op_after(work, counting->launches->from - 1);
		     i < last; i++)
			count_op(counting, (uint32_t)gpu, &work->op[i]);
	}
}

static size_t find_band(uint64_t depth)
{
	size_t band = WS_QUEUE_BANDS - 1;

	while (ws_queue_bands[band] > depth)
		band--;
	return band;
}

struct depth {
	uint64_t now, since;
};

static void spend_time(struct ws_queue *queue, struct depth *depth, uint64_t until)
{
	queue->ns[find_band(depth->now)] += until - depth->since;
	queue->depth_ns += depth->now * (until - depth->since);
	depth->since = until;
}

static void follow_depths(struct counting *counting)
{
	struct ws_launches *launches = counting->launches;
	struct depth *depths = ws_calloc(launches->queue_count + 1, sizeof(*depths));

	for (size_t i = 0; i < launches->queue_count; i++)
		depths[i].since = launches->from;
	if (counting->change_count)
		counting->changes = ws_sort_by_key(counting->changes, counting->change_count);
	for (size_t i = 0; i < counting->change_count; i++) {
		size_t number = counting->changes[i].value >> 1;
		struct ws_queue *queue = &launches->queues[number];

		spend_time(queue, &depths[number], counting->changes[i].key);
		if (!(counting->changes[i].value & 1))
			depths[number].now++;
		else if (depths[number].now)
			depths[number].now--;
		queue->most = ws_max(queue->most, depths[number].now);
	}
	for (size_t i = 0; i < launches->queue_count; i++)
		spend_time(&launches->queues[i], &depths[i], launches->to);
	free(depths);
}

/* ---- order ---- */

static int compare_queues(const void *first, const void *second)
{
	const struct ws_queue *left = first, *right = second;

	if (left->launches != right->launches)
		return ws_compare(right->launches, left->launches);
	if (left->gpu != right->gpu)
		return ws_compare(left->gpu, right->gpu);
	return ws_compare(left->stream, right->stream);
}

static int compare_kernels(const void *first, const void *second)
{
	const struct ws_short_kernel *left = first, *right = second;

	if (left->launch_ns != right->launch_ns)
		return ws_compare(right->launch_ns, left->launch_ns);
	return ws_compare(left->name, right->name);
}

void ws_launches_count(const struct ws_model *model, struct ws_launches *launches)
{
	struct counting counting = {.model = model, .launches = launches};
	size_t steps;

	memset(launches, 0, sizeof(*launches));
	launches->from = model->from;
	launches->to = ws_model_choose_part(model, WS_LAUNCHES_WORK, &steps);
	walk_work(&counting);
	follow_depths(&counting);
	if (launches->queue_count)
		qsort(launches->queues, launches->queue_count, sizeof(*launches->queues),
		      compare_queues);
	if (launches->kernel_count)
		qsort(launches->kernels, launches->kernel_count, sizeof(*launches->kernels),
		      compare_kernels);
	ws_map_free(&counting.queues);
	ws_map_free(&counting.kernels);
	free(counting.changes);
}

void ws_launches_free(struct ws_launches *launches)
{
	free(launches->queues);
	free(launches->kernels);
	memset(launches, 0, sizeof(*launches));
}
