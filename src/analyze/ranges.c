/*
 * ranges.c - see ranges.h.
 *
 * Calls are in order of thread and start, so the calls within a range are consecutive, and sums of
 * their work are differences of running sums.
 */
#include "analyze/ranges.h"

#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "base/map.h"
#include "base/search.h"
#include "query/fold.h"

enum { LAST_CALLS = 16 }; /* calls of a range whose work's end is looked up */

struct launched {
	uint64_t *sums; /* by call: ns of the work of all calls before it */
	uint64_t *ends; /* by call: when its work ended; 0 for none */
};

static void sum_work(const struct ws_model *model, struct launched *launched)
{
	size_t calls = model->calls.rows.rows;

	launched->sums = ws_calloc(calls + 1, sizeof(*launched->sums));
	launched->ends = ws_calloc(calls + 1, sizeof(*launched->ends));
	for (size_t gpu = 0; gpu < model->work.gpus; gpu++)
		for (size_t i = 0; i < model->work.gpu[gpu].count; i++) {
			const struct ws_work_op *op = &model->work.gpu[gpu].op[i];
			uint32_t call = ws_calls_find(&model->calls, op->process, op->correlation);

			if (call == WS_NO_CALL)
				continue;
			launched->sums[call + 1] += op->end - op->start;
			launched->ends[call] = ws_max(launched->ends[call], op->end);
		}
	for (size_t i = 0; i < calls; i++)
		launched->sums[i + 1] += launched->sums[i];
}

/* The first call of rows `low` to `high` that starts at `at` or later. Most are near `low`, so the
 * search goes from there in growing steps. */
static size_t find_call(const uint64_t *starts, size_t low, size_t high, uint64_t at)
{
	size_t stride = 1, probe = low;

	while (probe < high && starts[probe] < at) {
		low = probe + 1;
		probe += stride;
		stride *= 2;
	}
	high = ws_min(high, probe);
	low = ws_find_first_not(low, high, middle, starts[middle] < at);
	return low;
}

/* The first call of the range. The search begins at that of the range before, if that is of the
 * same thread and no later. */
static size_t find_first_call(const struct ws_model *model, const struct ws_model_thread *thread,
			      size_t before, uint64_t at)
{
	const uint64_t *starts = model->calls.rows.col[ws_cuda_api_start];
	size_t low = thread->first_call;

	if (before > low && before <= thread->end_call && starts[before - 1] < at)
		low = before;
	return find_call(starts, low, thread->end_call, at);
}

static uint64_t find_last_end(const struct launched *launched, size_t first, size_t end)
{
	uint64_t last = 0;

	for (size_t i = end, seen = 0; i > first && seen < LAST_CALLS; i--) {
		last = ws_max(last, launched->ends[i - 1]);
		seen += launched->ends[i - 1] != 0;
	}
	return last;
}

static struct ws_range_fact *find_fact(struct ws_range_facts *facts, struct ws_map *index,
				       uint32_t name)
{
	bool found;
	uint64_t at = ws_map_get(index, name, &found);

	if (!found) {
		ws_grow(facts->ranges, facts->cap, facts->count + 1);
		facts->ranges[facts->count] =
			(struct ws_range_fact){.name = name, .first_ns = UINT64_MAX};
		at = facts->count++;
		ws_map_set(index, name, at);
	}
	return &facts->ranges[at];
}

struct range_count {
	const struct ws_model *model;
	struct ws_range_facts *facts;
	struct launched launched;
	struct ws_map index;
	size_t last_first; /* call of the range before */
};

static void count_range(struct range_count *count, const uint64_t *values)
{
	const struct ws_model *model = count->model;
	uint64_t start = values[ws_nvtx_start], end = values[ws_nvtx_end];
	const struct ws_model_thread *thread;
	struct ws_range_fact *fact;
	size_t first, behind;
	uint64_t work, last;

	if (end == WS_NO_TIME || end <= start || !values[ws_nvtx_text] ||
	    values[ws_nvtx_thread] >= model->thread_count)
		return;
	thread = &model->threads[values[ws_nvtx_thread]];
	first = find_first_call(model, thread, count->last_first, start);
	behind = find_call(model->calls.rows.col[ws_cuda_api_start], first, thread->end_call, end);
	count->last_first = first;
	work = count->launched.sums[behind] - count->launched.sums[first];
	if (!work)
		return;
	last = find_last_end(&count->launched, first, behind);
	fact = find_fact(count->facts, &count->index,
			 ws_fold_key(count->facts->fold, model->report,
				     (uint32_t)values[ws_nvtx_text]));
	fact->count++;
	if (last <= end + work / 2)
		return;
	fact->early++;
	fact->host_ns += end - start;
	fact->gpu_ns += work;
	fact->first_ns = ws_min(fact->first_ns, start);
	fact->last_ns = ws_max(fact->last_ns, end);
}

void ws_range_facts_count(const struct ws_model *model, struct ws_range_facts *facts)
{
	struct range_count count = {.model = model, .facts = facts};
	struct ws_cursor *cursor;
	const uint64_t *values;

	memset(facts, 0, sizeof(*facts));
	facts->fold = ws_fold_open(model->report, WS_FOLD_YES);
	if (!model->work.gpus || !ws_report_count_rows(model->report, WS_TABLE_nvtx))
		return;
	sum_work(model, &count.launched);
	cursor = ws_cursor_open_columns(model->report, WS_TABLE_nvtx,
					WS_COLUMN_BIT(nvtx, start) | WS_COLUMN_BIT(nvtx, end) |
						WS_COLUMN_BIT(nvtx, thread) |
						WS_COLUMN_BIT(nvtx, text),
					0, UINT64_MAX);
	while (ws_cursor_next(cursor, &values))
		count_range(&count, values);
	ws_cursor_close(cursor);
	ws_map_free(&count.index);
	free(count.launched.sums);
	free(count.launched.ends);
}

void ws_range_facts_free(struct ws_range_facts *facts)
{
	ws_fold_close(facts->fold);
	free(facts->ranges);
	memset(facts, 0, sizeof(*facts));
}
