/*
 * traced.c - what PyTorch's profiler knows of its events but does not write into traces, so that
 * figures here equal those that PyTorch shows.
 *
 * A trace is written from the same events as PyTorch's own table (torch/autograd/profiler.py), but
 * does not have everything that is known of them. For processes whose operators PyTorch recorded,
 * what follows from the trace is restored here:
 *
 * - Calls of CUDA that are linked to no operator, and overheads of profiling, count as events of
 * the thread that stopped the profiler. That is the thread of the steps or, without steps, the
 * first of the process.
 * - Annotations as the GPU saw them are written a nanosecond longer at both ends, so that viewers
 *   nest them around their work. Where GPU work begins and ends just inside, they are made shorter
 *   again; traces of other versions are left as they are.
 *
 * That work of c10d is asynchronous is found where events are nested: see tree.c.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "ops/ops.h"

/* ---- the thread that stopped the profiler ---- */

struct ws_ops_main {
	uint64_t start;
	uint32_t thread;
	int rank;    /* how likely it is this thread, see below */
	bool traced; /* PyTorch recorded operators of the process */
};

enum { ANY_CALL = 1, ANY_OP, FIRST_THREAD, OF_STEPS };

/* How likely the thread of an event is the one that stopped the profiler. */
static int rate_thread(const struct ws_ops *ops, const struct ws_ops_event *event)
{
	const struct ws_thread_info *info = ws_find_thread(ops->who, event->thread);

	if (event->kind == WS_OPS_ANNOTATION && event->name == WS_OPS_STEP_NAME)
		return OF_STEPS;
	if (info->tid == info->pid)
		return FIRST_THREAD;
	if (event->kind == WS_OPS_CPU || event->kind == WS_OPS_ANNOTATION)
		return ANY_OP;
	return ANY_CALL;
}

static struct ws_ops_main *find_main(struct ws_ops *ops, uint32_t process)
{
	uint64_t at = ws_map_get(&ops->main_index, process, NULL);

	if (at)
		return &ops->mains[at - 1];
	ws_grow(ops->mains, ops->main_capacity, ops->main_count + 1);
	ops->mains[ops->main_count++] = (struct ws_ops_main){.traced = false};
	ws_map_set(&ops->main_index, process, ops->main_count);
	return &ops->mains[ops->main_count - 1];
}

static void find_main_threads(struct ws_ops *ops)
{
	for (size_t i = 0; i < ops->event_count; i++) {
		const struct ws_ops_event *event = &ops->events[i];
		struct ws_ops_main *main = find_main(ops, event->process);
		int rank = rate_thread(ops, event);

		if (event->kind != WS_OPS_CALL)
			main->traced = true;
		else if (!main->traced)
			ws_map_get(&ops->doubles.clocks, event->process, &main->traced);
		if (rank < main->rank || (rank == main->rank && event->start >= main->start))
			continue;
		main->rank = rank;
		main->start = event->start;
		main->thread = event->thread;
	}
}

/* Add overheads of profiling, which a trace has without a thread. */
static int load_overheads(struct ws_ops *ops, struct ws_err *err)
{
	struct ws_scan scan = {.table = WS_TABLE_cuda_overhead,
			       .columns = WS_COLUMN_BIT(cuda_overhead, start) |
					  WS_COLUMN_BIT(cuda_overhead, end) |
					  WS_COLUMN_BIT(cuda_overhead, thread) |
					  WS_COLUMN_BIT(cuda_overhead, name),
			       .time_max = UINT64_MAX};
	struct ws_rows rows;

	if (ws_rows_load(ops->report, &scan, &rows, err) < 0)
		return -1;
	ops->damaged += rows.damaged;
	for (size_t i = 0; i < rows.rows; i++) {
		const struct ws_thread_info *info =
			ws_find_thread(ops->who, (uint32_t)rows.col[ws_cuda_overhead_thread][i]);
		const struct ws_ops_main *main = find_main(ops, info->process);
		uint64_t start = rows.col[ws_cuda_overhead_start][i],
			 end = rows.col[ws_cuda_overhead_end][i];
		struct ws_ops_event *event;

		if (!main->traced || info->tid || end == WS_NO_TIME || end < start ||
		    !ws_is_in_op_steps(ops, info->process, start))
			continue;
		event = ws_ops_add_event(ops);
		event->start = start;
		event->end = end;
		event->thread = main->thread;
		event->process = info->process;
		event->name = ws_report_string_key(ops->report,
						   (uint32_t)rows.col[ws_cuda_overhead_name][i]);
		event->kind = WS_OPS_CALL;
		event->device_own = WS_NO_U64;
	}
	ws_rows_free(&rows);
	return 0;
}

int ws_ops_load_traced(struct ws_ops *ops, struct ws_err *err)
{
	find_main_threads(ops);
	for (size_t i = 0; i < ops->event_count; i++) {
		struct ws_ops_event *event = &ops->events[i];
		const struct ws_ops_main *main;

		if (!event->loose)
			continue;
		main = find_main(ops, event->process);
		if (main->traced)
			event->thread = main->thread;
	}
	return load_overheads(ops, err);
}

/* ---- annotations as the GPU saw them ---- */

enum edge { NO_EDGE, WANTED, FOUND };

/* The key of a start or end of GPU work. It needs no process or stream: other work is unlikely to
 * match at both ends to the nanosecond. */
static uint64_t make_edge_key(uint64_t at, bool end)
{
	return at << 1 | end;
}

static void add_gpu_annotation(struct ws_ops *ops, uint32_t process, uint64_t start, uint64_t end,
			       uint32_t id)
{
	struct ws_ops_event *event = ws_ops_add_event(ops);

	event->start = start;
	event->end = end;
	event->process = process;
	event->kind = WS_OPS_GPU_ANNOTATION;
	event->name = ws_get_op_name_key(ops, ws_report_string(ops->report, id, NULL), id);
	ws_map_set(&ops->edges, make_edge_key(start + 1, false), WANTED);
	ws_map_set(&ops->edges, make_edge_key(end - 1, true), WANTED);
}

int ws_ops_load_gpu_annotations(struct ws_ops *ops, struct ws_err *err)
{
	struct ws_scan scan = {.table = WS_TABLE_slice,
			       .columns = WS_COLUMN_BIT(slice, start) | WS_COLUMN_BIT(slice, end) |
					  WS_COLUMN_BIT(slice, name) |
					  WS_COLUMN_BIT(slice, category) |
					  WS_COLUMN_BIT(slice, track),
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
		    ws_is_in_op_steps(ops, process, start))
			add_gpu_annotation(ops, process, start, end,
					   (uint32_t)rows.col[ws_slice_name][i]);
	}
	ws_rows_free(&rows);
	ws_map_free(&tracks);
	return 0;
}

void ws_note_gpu_edges(struct ws_ops *ops, uint64_t start, uint64_t end)
{
	uint64_t keys[] = {make_edge_key(start, false), make_edge_key(end, true)};

	for (size_t i = 0; i < WS_COUNT(keys); i++)
		if (ws_map_get(&ops->edges, keys[i], NULL) == WANTED)
			ws_map_set(&ops->edges, keys[i], FOUND);
}

void ws_ops_trim_gpu_annotations(struct ws_ops *ops)
{
	for (size_t i = ops->cpu_count; i < ops->event_count; i++) {
		struct ws_ops_event *event = &ops->events[i];

		if (event->kind != WS_OPS_GPU_ANNOTATION)
			continue;
		if (event->end - event->start >= 2 &&
		    ws_map_get(&ops->edges, make_edge_key(event->start + 1, false), NULL) ==
			    FOUND &&
		    ws_map_get(&ops->edges, make_edge_key(event->end - 1, true), NULL) == FOUND) {
			event->start++;
			event->end--;
		}
		event->device_own = event->device_total =
			(event->end - event->start) * WS_DOUBLES_PARTS;
	}
}
