/*
 * project.c - NVTX ranges as the GPU saw them: from the start of the first piece of work launched
 * inside a range to the end of the last.
 *
 * A range encloses a call when it belongs to the calling thread and spans the whole call, as in
 * query/enclose.h. Here levels are searched: on each level of the thread's ranges at most one range
 * can enclose the call, and as work comes roughly in the order of its calls, that range is found
 * near the previous one. Work that a helper thread launches (query/helpers.h) also counts in the
 * ranges of the thread that it works for. Calls are looked up in a hash by correlation id, in
 * mapped memory like the events (space.c), so that a report of any size does not use up the
 * server's memory.
 */
#include <stdlib.h>
#include <string.h>

#include "lanes/lane.h"
#include "base/choose.h"
#include "query/gpu.h"
#include "query/helpers.h"

struct call {
	uint64_t start;
	uint32_t dur, thread;
	uint32_t process, correlation; /* process 0: no call */
};

struct span {
	uint64_t first, last; /* last 0: no work */
};

/* One lane of NVTX and, for each device, the lane on which it may be shown. */
struct target {
	uint32_t nvtx, projected; /* lanes */
	uint32_t thread, device;
	struct span **span; /* by level and event */
	uint32_t *near;	    /* by level: where the last range was found */
};

struct project {
	struct ws_lanes *lanes;
	struct call *calls;
	size_t mask, bytes;
	struct target *target; /* by thread */
	size_t n, cap;
	struct ws_map first;	    /* thread: its first target */
	struct ws_helpers *helpers; /* NULL when there is too much to keep */
	const struct ws_cuda_columns *columns;
};

/* ---- which lanes there may be ---- */

void ws_project_lanes(struct ws_lanes *lanes)
{
	size_t n = lanes->n;

	for (size_t i = 0; i < n; i++) {
		const struct ws_lane *lane = lanes->lane[i];
		uint32_t process, api[4] = {lane->key[0]};
		bool calls = false;

		if (lane->kind != WS_LANE_NVTX || lane->key[2])
			continue;
		process = ws_find_thread(lanes->who, lane->key[0])->process;
		for (size_t k = 0; k < n && !calls; k++)
			calls = lanes->lane[k]->kind == WS_LANE_CUDA_API &&
				!memcmp(lanes->lane[k]->key, api, sizeof(api));
		for (size_t k = 0; k < n && calls; k++) {
			uint32_t key[4] = {process, lanes->lane[k]->key[1], lane->key[0],
					   lane->key[1]};

			if (lanes->lane[k]->kind == WS_LANE_KERNELS &&
			    lanes->lane[k]->key[0] == process)
				ws_make_lane(lanes, WS_LANE_PROJECTED, key);
		}
	}
}

/* ---- calls by correlation ---- */

static size_t find_slot(const struct project *project, uint32_t process, uint32_t correlation)
{
	uint64_t key = ((uint64_t)process << 32 | correlation) * UINT64_C(0x9e3779b97f4a7c15);
	size_t at = (key ^ key >> 29) & project->mask;

	while (project->calls[at].process && (project->calls[at].process != process ||
					      project->calls[at].correlation != correlation))
		at = (at + 1) & project->mask;
	return at;
}

static int add_calls(void *ctx, const struct ws_batch *batch)
{
	struct project *project = ctx;

	for (size_t i = 0; i < batch->rows; i++) {
		uint64_t start = batch->col[ws_cuda_api_start][i],
			 end = batch->col[ws_cuda_api_end][i],
			 id = batch->col[ws_cuda_api_correlation][i];
		uint32_t thread = (uint32_t)batch->col[ws_cuda_api_thread][i],
			 process = ws_find_thread(project->lanes->who, thread)->process;
		struct call *call;
		bool wanted;

		ws_map_get(&project->first, thread, &wanted);
		wanted |= project->helpers && ws_is_helper(project->helpers, thread);
		if (!wanted || id == WS_NO_U32 || !process || end < start || end == WS_NO_TIME)
			continue;
		call = &project->calls[find_slot(project, process, (uint32_t)id)];
		if (call->process && call->start <= start) /* a driver call inside of it */
			continue;
		*call = (struct call){
			start, end - start < UINT32_MAX ? (uint32_t)(end - start) : UINT32_MAX,
			thread, process, (uint32_t)id};
	}
	return __atomic_load_n(&project->lanes->stop, __ATOMIC_RELAXED);
}

static void load_calls(struct project *project)
{
	uint64_t rows = ws_report_count_rows(project->lanes->report, WS_TABLE_cuda_api);
	struct ws_scan scan = {
		.table = WS_TABLE_cuda_api,
		.columns = WS_COLUMN_BIT(cuda_api, start) | WS_COLUMN_BIT(cuda_api, end) |
			   WS_COLUMN_BIT(cuda_api, thread) | WS_COLUMN_BIT(cuda_api, correlation),
		.time_max = UINT64_MAX,
		.workers = 1};

	for (project->mask = 1024; project->mask < rows * 3 / 2; project->mask *= 2)
		;
	project->bytes = project->mask * sizeof(*project->calls);
	project->calls = ws_allocate_space(project->bytes);
	project->mask--;
	ws_run_scan(project->lanes->report, &scan, add_calls, project, NULL);
}

/* ---- work to ranges ---- */

/* The event of a level that spans the whole call, or UINT32_MAX. */
static uint32_t find_range_around(const struct ws_level *level, uint32_t *near,
				  const struct call *call)
{
	uint32_t from = *near < level->n && level->start[*near] <= call->start ? *near : 0,
		 i = ws_level_seek(level, from, level->n, call->start + 1);

	if (!i)
		return UINT32_MAX;
	*near = --i;
	return ws_level_end(level, i) >= call->start + call->dur &&
			       !(level->src[i] & WS_EVENT_MOMENT)
		       ? i
		       : UINT32_MAX;
}

static void widen_range(struct project *project, struct target *target, const struct call *call,
			uint64_t start, uint64_t end)
{
	const struct ws_lane *lane = project->lanes->lane[target->nvtx];

	for (uint32_t k = 0; k < lane->levels; k++) {
		uint32_t i = find_range_around(&lane->level[k], &target->near[k], call);
		struct span *span = i == UINT32_MAX ? NULL : &target->span[k][i];

		if (!span)
			continue;
		span->first = !span->last || start < span->first ? start : span->first;
		span->last = ws_max(end, span->last);
	}
}

/* Widen the ranges of a thread around a call by its work on a device. */
static void add_work_of_call(struct project *project, uint32_t thread, uint64_t device,
			     const struct call *call, uint64_t start, uint64_t end)
{
	bool known;

	for (size_t k = ws_map_get(&project->first, thread, &known);
	     known && k < project->n && project->target[k].thread == thread; k++)
		if (project->target[k].device == device)
			widen_range(project, &project->target[k], call, start, end);
}

/* Whether a thread has a range open from `start` to `end` on any projected lane. */
static bool has_range(void *context, uint32_t thread, uint64_t start, uint64_t end)
{
	struct project *project = context;
	struct call call = {.start = start,
			    .dur = (uint32_t)ws_min(end - start, (uint64_t)UINT32_MAX)};
	bool known;

	for (size_t i = ws_map_get(&project->first, thread, &known);
	     known && i < project->n && project->target[i].thread == thread; i++) {
		struct target *target = &project->target[i];
		const struct ws_lane *lane = project->lanes->lane[target->nvtx];

		for (uint32_t k = 0; k < lane->levels; k++)
			if (find_range_around(&lane->level[k], &target->near[k], &call) !=
			    UINT32_MAX)
				return true;
	}
	return false;
}

/* The thread that the caller worked for. 0 for none, and also where only a wait shows it and the
 * call is in a range of its own thread. */
static uint32_t find_helped_thread(struct project *project, const struct call *call)
{
	uint64_t end = call->start + call->dur;
	enum ws_helper_rule rule;
	uint32_t thread;

	if (!project->helpers)
		return 0;
	thread = ws_find_helped_thread(project->helpers, call->thread, call->start, end, &rule);
	if (rule == WS_HELPS_BY_WAIT && has_range(project, call->thread, call->start, end))
		return 0;
	return thread;
}

static int add_work(void *ctx, const struct ws_batch *batch)
{
	struct project *project = ctx;

	for (size_t i = 0; i < batch->rows; i++) {
		uint64_t start = batch->col[project->columns->start][i],
			 end = batch->col[project->columns->end][i],
			 device = batch->col[project->columns->device][i];
		const struct call *call;
		uint32_t helped;

		if (end == WS_NO_TIME || end < start || !end ||
		    batch->col[project->columns->correlation][i] == WS_NO_U32 ||
		    !batch->col[project->columns->process][i])
			continue;
		call = &project->calls[find_slot(
			project, (uint32_t)batch->col[project->columns->process][i],
			(uint32_t)batch->col[project->columns->correlation][i])];
		if (!call->process)
			continue;
		add_work_of_call(project, call->thread, device, call, start, end);
		helped = find_helped_thread(project, call);
		if (helped)
			add_work_of_call(project, helped, device, call, start, end);
	}
	return __atomic_load_n(&project->lanes->stop, __ATOMIC_RELAXED);
}

static void scan_work(struct project *project)
{
	for (int i = WS_CUDA_KERNEL; i < WS_CUDA_SOURCES; i++) {
		const struct ws_cuda_columns *columns = project->columns = &ws_cuda_columns[i];
		struct ws_scan scan = {.table = columns->table,
				       .columns = UINT64_C(1) << columns->start |
						  UINT64_C(1) << columns->end |
						  UINT64_C(1) << columns->process |
						  UINT64_C(1) << columns->correlation |
						  UINT64_C(1) << columns->device,
				       .time_max = UINT64_MAX,
				       .workers = 1};

		ws_run_scan(project->lanes->report, &scan, add_work, project, NULL);
	}
}

/* ---- lanes ---- */

static int compare_threads(const void *first, const void *second)
{
	const struct target *left = first, *right = second;

	return left->thread != right->thread ? (left->thread < right->thread ? -1 : 1)
					     : ws_compare(left->projected, right->projected);
}

static void find_targets(struct project *project)
{
	for (uint32_t i = 0; i < project->lanes->n; i++) {
		const struct ws_lane *lane_x = project->lanes->lane[i];
		uint32_t key[4] = {lane_x->key[2], lane_x->key[3]};
		struct target target = {
			.projected = i, .thread = lane_x->key[2], .device = lane_x->key[1]};

		if (lane_x->kind != WS_LANE_PROJECTED)
			continue;
		for (target.nvtx = 0; target.nvtx < project->lanes->n; target.nvtx++)
			if (project->lanes->lane[target.nvtx]->kind == WS_LANE_NVTX &&
			    !memcmp(project->lanes->lane[target.nvtx]->key, key, sizeof(key)))
				break;
		if (target.nvtx == project->lanes->n ||
		    !ws_lane_ready(project->lanes->lane[target.nvtx]))
			continue;
		ws_grow(project->target, project->cap, project->n + 1);
		project->target[project->n++] = target;
	}
	if (project->n)
		qsort(project->target, project->n, sizeof(*project->target), compare_threads);
	for (size_t i = project->n; i--;) {
		struct target *t = &project->target[i];
		const struct ws_lane *lane = project->lanes->lane[t->nvtx];

		ws_map_set(&project->first, t->thread, i);
		t->span = ws_calloc(lane->levels + 1, sizeof(*t->span));
		t->near = ws_calloc(lane->levels + 1, sizeof(*t->near));
		for (uint32_t k = 0; k < lane->levels; k++)
			t->span[k] = ws_allocate_space(lane->level[k].n * sizeof(struct span));
	}
}

/* The ranges that had work become the events of the projected lane. */
static void finish_target(struct project *project, struct target *target)
{
	const struct ws_lane *from = project->lanes->lane[target->nvtx];
	struct ws_lane *to = project->lanes->lane[target->projected];
	uint64_t n = 0;

	for (uint32_t k = 0; k < from->levels; k++)
		for (uint32_t i = 0; i < from->level[k].n; i++)
			n += target->span[k][i].last != 0;
	if (n) {
		to->raw = ws_allocate_space(n * sizeof(*to->raw));
		to->count = n;
	}
	for (uint32_t k = 0; n && k < from->levels; k++)
		for (uint32_t i = 0; i < from->level[k].n; i++)
			if (target->span[k][i].last)
				to->raw[to->filled++] =
					(struct ws_raw){target->span[k][i].first,
							target->span[k][i].last,
							from->level[k].name[i],
							from->level[k].ref[i],
							from->level[k].src[i] & WS_EVENT_SOURCE,
							from->level[k].paint[i],
							(uint8_t)k};
	for (uint32_t k = 0; k < from->levels; k++)
		ws_free_space(target->span[k], from->level[k].n * sizeof(struct span));
	free(target->span);
	free(target->near);
	to->placed = to->filled;
	if (n)
		ws_make_lane_levels(project->lanes, to);
}

/* Rows that the search for helpers keeps in memory for a while. */
static uint64_t count_helper_rows(const struct ws_report *report)
{
	static const enum ws_table tables[] = {WS_TABLE_op, WS_TABLE_nvtx, WS_TABLE_osrt,
					       WS_TABLE_sched, WS_TABLE_cuda_api};
	uint64_t rows = 0;

	for (size_t i = 0; i < WS_COUNT(tables); i++)
		rows += ws_report_count_rows(report, tables[i]);
	return rows;
}

static void find_helpers(struct project *project)
{
	enum { MOST_ROWS = 8 << 20 }; /* some 300 MiB; stats has no such limit */
	struct ws_helper_ranges ranges = {.has_range = has_range, .context = project};
	uint32_t *threads;

	if (count_helper_rows(project->lanes->report) > MOST_ROWS)
		return;
	threads = ws_malloc(project->n * sizeof(*threads));
	for (size_t i = 0; i < project->n; i++)
		if (!i || project->target[i].thread != project->target[i - 1].thread)
			threads[ranges.count++] = project->target[i].thread;
	ranges.threads = threads;
	project->helpers =
		ws_helpers_open(project->lanes->report, project->lanes->who, &ranges, NULL);
	free(threads);
}

void ws_project_ranges(struct ws_lanes *lanes)
{

	struct project project = {.lanes = lanes};

	find_targets(&project);
	if (project.n) {
		find_helpers(&project);
		load_calls(&project);
		scan_work(&project);
		ws_free_space(project.calls, project.bytes);
		ws_helpers_close(project.helpers);
	}
	for (size_t i = 0; i < project.n; i++)
		finish_target(&project, &project.target[i]);
	free(project.target);
	ws_map_free(&project.first);
}
