/*
 * traced.c - what PyTorch's profiler knows of its events and its trace does not say, so that
 * figures are those that it shows.
 *
 * The trace is written from the same events as PyTorch's own table (torch/autograd/profiler.py),
 * but not from all of what is known of them. What follows from the trace is put back here, for
 * processes whose operators PyTorch recorded:
 *
 * - Calls of CUDA that are linked to no operator, and overheads of the profiling, count as events
 * of the thread that stopped the profiler. That is the thread of the steps, or else the process's
 * first.
 * - Annotations as the GPU saw them are written a nanosecond longer at both ends, so that a viewer
 * nests them around their work. Where work of the GPU begins and ends just inside, they are taken
 * back; traces of other versions are as they are.
 *
 * That c10d's works are asynchronous is found where events are nested: see tree.c.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "ops/ops.h"

/* ---- the thread that stopped the profiler ---- */

struct ws_ops_main {
	uint64_t start;
	uint32_t thread;
	int rank; /* how sure it is */
	bool traced;
};

enum { ANY_CALL = 1, ANY_OP, FIRST_THREAD, OF_STEPS };

static int rank_of(const struct ws_ops *ops, const struct ws_ops_event *ev)
{
	const struct ws_thread_info *info = ws_who_thread(ops->who, ev->thread);

	if (ev->kind == WS_OPS_ANNOTATION && ev->name == WS_OPS_STEP_NAME)
		return OF_STEPS;
	if (info->tid == info->pid)
		return FIRST_THREAD;
	return ev->kind == WS_OPS_CPU || ev->kind == WS_OPS_ANNOTATION ? ANY_OP : ANY_CALL;
}

static struct ws_ops_main *main_of(struct ws_ops *ops, uint32_t process)
{
	uint64_t at = ws_map_get(&ops->main_index, process, NULL);

	if (at)
		return &ops->mains[at - 1];
	ws_grow(ops->mains, ops->main_cap, ops->main_count + 1);
	ops->mains[ops->main_count++] = (struct ws_ops_main){.traced = false};
	ws_map_set(&ops->main_index, process, ops->main_count);
	return &ops->mains[ops->main_count - 1];
}

static void find_mains(struct ws_ops *ops)
{
	for (size_t i = 0; i < ops->count; i++) {
		const struct ws_ops_event *ev = &ops->events[i];
		struct ws_ops_main *main = main_of(ops, ev->process);
		int rank = rank_of(ops, ev);

		if (ev->kind != WS_OPS_CALL)
			main->traced = true;
		else if (!main->traced)
			ws_map_get(&ops->doubles.clocks, ev->process, &main->traced);
		if (rank < main->rank || (rank == main->rank && ev->start >= main->start))
			continue;
		main->rank = rank;
		main->start = ev->start;
		main->thread = ev->thread;
	}
}

/* A trace writes overheads without a thread. */
static int load_overheads(struct ws_ops *ops, struct ws_err *err)
{
	struct ws_scan scan = {.table = WS_TABLE_cuda_overhead,
			       .columns =
				       WS_COL(cuda_overhead, start) | WS_COL(cuda_overhead, end) |
				       WS_COL(cuda_overhead, thread) | WS_COL(cuda_overhead, name),
			       .time_max = UINT64_MAX};
	struct ws_rows rows;

	if (ws_rows_load(ops->report, &scan, &rows, err) < 0)
		return -1;
	ops->damaged += rows.damaged;
	for (size_t i = 0; i < rows.rows; i++) {
		const struct ws_thread_info *info =
			ws_who_thread(ops->who, (uint32_t)rows.col[ws_cuda_overhead_thread][i]);
		const struct ws_ops_main *main = main_of(ops, info->process);
		uint64_t start = rows.col[ws_cuda_overhead_start][i],
			 end = rows.col[ws_cuda_overhead_end][i];
		struct ws_ops_event *ev;

		if (!main->traced || info->tid || end == WS_NO_TIME || end < start ||
		    !ws_ops_in_steps(ops, info->process, start))
			continue;
		ev = ws_ops_add(ops);
		ev->start = start;
		ev->end = end;
		ev->thread = main->thread;
		ev->process = info->process;
		ev->name = ws_report_string_key(ops->report,
						(uint32_t)rows.col[ws_cuda_overhead_name][i]);
		ev->kind = WS_OPS_CALL;
		ev->device_own = WS_NO_U64;
	}
	ws_rows_free(&rows);
	return 0;
}

int ws_ops_load_traced(struct ws_ops *ops, struct ws_err *err)
{
	find_mains(ops);
	for (size_t i = 0; i < ops->count; i++) {
		struct ws_ops_event *ev = &ops->events[i];
		const struct ws_ops_main *main = ev->loose ? main_of(ops, ev->process) : NULL;

		if (main && main->traced)
			ev->thread = main->thread;
	}
	return load_overheads(ops, err);
}

/* ---- annotations as the GPU saw them ---- */

enum edge { NO_EDGE, WANTED, FOUND };

/* Nanoseconds tell processes and streams apart well enough: both ends must fit. */
static uint64_t edge_key(uint64_t at, bool end)
{
	return at << 1 | end;
}

static void add_annotation(struct ws_ops *ops, uint32_t process, uint64_t start, uint64_t end,
			   uint32_t id)
{
	struct ws_ops_event *ev = ws_ops_add(ops);

	ev->start = start;
	ev->end = end;
	ev->process = process;
	ev->kind = WS_OPS_GPU_ANNOTATION;
	ev->name = ws_ops_name_key(ops, ws_report_string(ops->report, id, NULL), id);
	ws_map_set(&ops->edges, edge_key(start + 1, false), WANTED);
	ws_map_set(&ops->edges, edge_key(end - 1, true), WANTED);
}

int ws_ops_load_gpu_annotations(struct ws_ops *ops, struct ws_err *err)
{
	struct ws_scan scan = {.table = WS_TABLE_slice,
			       .columns = WS_COL(slice, start) | WS_COL(slice, end) |
					  WS_COL(slice, name) | WS_COL(slice, category) |
					  WS_COL(slice, track),
			       .time_max = UINT64_MAX};
	struct ws_rows rows;
	struct ws_cursor *cursor;
	struct ws_map tracks = {0};
	const uint64_t *values;

	cursor = ws_cursor_open(ops->report, WS_TABLE_track, 0, UINT64_MAX);
	while (ws_cursor_next(cursor, &values))
		ws_map_set(&tracks, values[ws_track_id], values[ws_track_process]);
	ws_cursor_close(cursor);
	if (ws_rows_load(ops->report, &scan, &rows, err) < 0) {
		ws_map_free(&tracks);
		return -1;
	}
	for (size_t i = 0; i < rows.rows; i++) {
		const char *category = ws_report_string(
			ops->report, (uint32_t)rows.col[ws_slice_category][i], NULL);
		uint64_t start = rows.col[ws_slice_start][i], end = rows.col[ws_slice_end][i];
		uint32_t process = (uint32_t)ws_map_get(&tracks, rows.col[ws_slice_track][i], NULL);

		if (!strcmp(category, "gpu_user_annotation") && end != WS_NO_TIME && end >= start &&
		    ws_ops_in_steps(ops, process, start))
			add_annotation(ops, process, start, end,
				       (uint32_t)rows.col[ws_slice_name][i]);
	}
	ws_rows_free(&rows);
	ws_map_free(&tracks);
	return 0;
}

void ws_ops_gpu_edges(struct ws_ops *ops, uint64_t start, uint64_t end)
{
	uint64_t keys[] = {edge_key(start, false), edge_key(end, true)};

	for (size_t i = 0; i < WS_COUNT(keys); i++)
		if (ws_map_get(&ops->edges, keys[i], NULL) == WANTED)
			ws_map_set(&ops->edges, keys[i], FOUND);
}

void ws_ops_trim_gpu_annotations(struct ws_ops *ops)
{
	for (size_t i = ops->cpu_count; i < ops->count; i++) {
		struct ws_ops_event *ev = &ops->events[i];

		if (ev->kind != WS_OPS_GPU_ANNOTATION)
			continue;
		if (ev->end - ev->start >= 2 &&
		    ws_map_get(&ops->edges, edge_key(ev->start + 1, false), NULL) == FOUND &&
		    ws_map_get(&ops->edges, edge_key(ev->end - 1, true), NULL) == FOUND) {
			ev->start++;
			ev->end--;
		}
		ev->device_own = ev->device_total = (ev->end - ev->start) * WS_DOUBLES_PARTS;
	}
}
