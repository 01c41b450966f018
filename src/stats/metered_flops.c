/*
 * metered_flops.c - the floating-point operations of library calls as a metric of the GPUs that
 * carried them out. The operations of a call, which follow from its arguments, are spread over the
 * time of the work that it launched.
 */
#include <stdlib.h>

#include "base/choose.h"
#include "query/library_calls.h"
#include "query/work.h"
#include "stats/launch.h"
#include "stats/metered.h"
#include "text/json.h"

struct call_cost {
	double operations; /* 0: not known */
	uint64_t time;	   /* of all its work, ns */
};

/* From a point in time on, there are `rate` more operations a ns. */
struct change {
	uint64_t time;
	double rate;
};

struct changes {
	struct change *changes;
	size_t count, capacity;
};

struct operations {
	struct ws_stats *stats;
	struct ws_library_calls calls;
	struct ws_launches *launches;
	struct call_cost *costs; /* by call */
};

/* The member "flops" of a call's arguments; 0 when there is none. */
static double read_operations(const struct ws_report *report, uint32_t args)
{
	struct ws_json_value object = {0}, key, value;
	struct ws_json_walk walk;
	size_t length;
	const char *text = ws_report_string(report, args, &length);
	bool more, ok;

	if (!args || !ws_read_json_value(text, text + length, &object, &more) ||
	    object.type != WS_JSON_OBJECT)
		return 0;
	walk = ws_begin_json_walk(&object);
	while (ws_next_json_member(&walk, &key, &value))
		if (ws_is_json_string(&key, "flops"))
			return ws_max(ws_parse_json_double(&value, &ok), 0.0);
	return 0;
}

/* The cost of the call that launched this work, or NULL when its operations are not known. */
static struct call_cost *find_cost(const struct operations *operations, const struct ws_work_op *op)
{
	const struct ws_launches *launches = operations->launches;
	uint32_t row = ws_find_launch_call(launches, op->process, op->correlation);
	size_t call;

	if (row == WS_NO_CALL || op->end <= op->start)
		return NULL;
	call = ws_library_calls_find(&operations->calls,
				     (uint32_t)launches->calls.rows.col[ws_cuda_api_thread][row],
				     launches->calls.rows.col[ws_cuda_api_start][row]);
	if (call == WS_NO_LIBRARY_CALL || operations->costs[call].operations <= 0)
		return NULL;
	return &operations->costs[call];
}

static void add_up_time(const struct operations *operations, const struct ws_work *work)
{
	for (size_t i = 0; i < work->gpus; i++)
		for (size_t j = 0; j < work->gpu[i].count; j++) {
			const struct ws_work_op *op = &work->gpu[i].op[j];
			struct call_cost *cost = find_cost(operations, op);

			if (cost)
				cost->time += op->end - op->start;
		}
}

static void add_change(struct changes *changes, uint64_t time, double rate)
{
	ws_grow(changes->changes, changes->capacity, changes->count + 1);
	changes->changes[changes->count++] = (struct change){time, rate};
}

static int compare_changes(const void *first, const void *second)
{
	const struct change *left = first, *right = second;

	return ws_compare(left->time, right->time);
}

static void append_point(struct ws_metric_series *series, uint64_t time, double sum)
{
	series->time[series->count] = time;
	series->known[series->count] = time;
	series->sum[series->count++] = sum;
}

/* The rate is known at all times: outside of calls it is 0. */
static void make_series(struct changes *changes, struct ws_metric_series *series)
{
	uint64_t before = 0;
	double sum = 0, rate = 0;

	series->time = ws_calloc(changes->count + 2, sizeof(*series->time));
	series->sum = ws_calloc(changes->count + 2, sizeof(*series->sum));
	series->known = ws_calloc(changes->count + 2, sizeof(*series->known));
	qsort(changes->changes, changes->count, sizeof(*changes->changes), compare_changes);
	append_point(series, 0, 0);
	for (size_t i = 0; i < changes->count; i++) {
		const struct change *change = &changes->changes[i];

		sum += rate * (double)(change->time - before);
		rate += change->rate;
		before = change->time;
		if (i + 1 == changes->count || changes->changes[i + 1].time != before)
			append_point(series, before, sum);
	}
	append_point(series, UINT64_MAX / 2, sum);
}

static void add_gpu(const struct operations *operations, const struct ws_work_gpu *gpu,
		    struct ws_metered_gpu *metered)
{
	struct changes changes = {0};

	for (size_t i = 0; i < gpu->count; i++) {
		const struct ws_work_op *op = &gpu->op[i];
		const struct call_cost *cost = find_cost(operations, op);

		if (!cost)
			continue;
		add_change(&changes, op->start, cost->operations / (double)cost->time);
		add_change(&changes, op->end, -cost->operations / (double)cost->time);
	}
	if (changes.count)
		make_series(&changes, &metered->series[WS_GPU_FLOPS]);
	free(changes.changes);
}

static void add_gpus(const struct operations *operations, const struct ws_work *work,
		     const struct ws_gpu_metrics *metrics)
{
	add_up_time(operations, work);
	for (size_t i = 0; i < work->gpus; i++) {
		const struct ws_metered_gpu *found =
			ws_find_metered_gpu(metrics, work->gpu[i].uuid, work->gpu[i].device);

		if (found && !found->series[WS_GPU_FLOPS].count)
			add_gpu(operations, &work->gpu[i], &metrics->gpus[found - metrics->gpus]);
	}
}

static void read_costs(struct operations *operations)
{
	operations->costs = ws_calloc(operations->calls.count, sizeof(*operations->costs));
	for (size_t i = 0; i < operations->calls.count; i++)
		operations->costs[i].operations =
			read_operations(operations->stats->report, operations->calls.calls[i].args);
}

int ws_add_metered_flops(struct ws_stats *stats, struct ws_gpu_metrics *metrics, struct ws_err *err)
{
	struct operations operations = {.stats = stats};
	uint64_t damaged = stats->damaged; /* the reports count the same blocks */
	int status = ws_library_calls_load(stats->report, &operations.calls, err);
	struct ws_work work = {0};

	if (!status && operations.calls.count && metrics->count) {
		operations.launches = ws_launches_open(stats, false, err);
		status = operations.launches ? 0 : -1;
		if (!status)
			status = ws_work_load(stats->report, 0, UINT64_MAX, &work, err);
		if (!status) {
			read_costs(&operations);
			add_gpus(&operations, &work, metrics);
		}
		ws_work_free(&work);
	}
	ws_launches_close(operations.launches);
	ws_library_calls_free(&operations.calls);
	free(operations.costs);
	stats->damaged = damaged;
	return status;
}
