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

static int rank_of(const struct ws_ops *o, const struct ws_ops_event *ev)
{
	const struct ws_thread_info *t = ws_who_thread(o->who, ev->thread);

	if (ev->kind == WS_OPS_ANNOTATION && ev->name == WS_OPS_STEP_NAME)
		return OF_STEPS;
	if (t->tid == t->pid)
		return FIRST_THREAD;
	return ev->kind == WS_OPS_CPU || ev->kind == WS_OPS_ANNOTATION ? ANY_OP : ANY_CALL;
}

static struct ws_ops_main *main_of(struct ws_ops *o, uint32_t process)
{
	uint64_t at = ws_map_get(&o->main_index, process, NULL);

	if (at)
		return &o->mains[at - 1];
	ws_grow(o->mains, o->main_cap, o->main_count + 1);
	o->mains[o->main_count++] = (struct ws_ops_main){.traced = false};
	ws_map_set(&o->main_index, process, o->main_count);
	return &o->mains[o->main_count - 1];
}

static void find_mains(struct ws_ops *o)
{
	for (size_t i = 0; i < o->count; i++) {
		const struct ws_ops_event *ev = &o->events[i];
		struct ws_ops_main *m = main_of(o, ev->process);
		int rank = rank_of(o, ev);

		if (ev->kind != WS_OPS_CALL)
			m->traced = true;
		else if (!m->traced)
			ws_map_get(&o->doubles.clocks, ev->process, &m->traced);
		if (rank < m->rank || (rank == m->rank && ev->start >= m->start))
			continue;
		m->rank = rank;
		m->start = ev->start;
		m->thread = ev->thread;
	}
}

/* A trace writes overheads without a thread. */
static int load_overheads(struct ws_ops *o, struct ws_err *e)
{
	struct ws_scan scan = {.table = WS_TABLE_cuda_overhead,
			       .columns =
				       WS_COL(cuda_overhead, start) | WS_COL(cuda_overhead, end) |
				       WS_COL(cuda_overhead, thread) | WS_COL(cuda_overhead, name),
			       .time_max = UINT64_MAX};
	struct ws_rows rows;

	if (ws_rows_load(o->r, &scan, &rows, e) < 0)
		return -1;
	o->damaged += rows.damaged;
	for (size_t i = 0; i < rows.rows; i++) {
		const struct ws_thread_info *t =
			ws_who_thread(o->who, (uint32_t)rows.col[ws_cuda_overhead_thread][i]);
		const struct ws_ops_main *m = main_of(o, t->process);
		uint64_t start = rows.col[ws_cuda_overhead_start][i],
			 end = rows.col[ws_cuda_overhead_end][i];
		struct ws_ops_event *ev;

		if (!m->traced || t->tid || end == WS_NO_TIME || end < start ||
		    !ws_ops_in_steps(o, t->process, start))
			continue;
		ev = ws_ops_add(o);
		ev->start = start;
		ev->end = end;
		ev->thread = m->thread;
		ev->process = t->process;
		ev->name = ws_report_string_key(o->r, (uint32_t)rows.col[ws_cuda_overhead_name][i]);
		ev->kind = WS_OPS_CALL;
		ev->device_own = WS_NO_U64;
	}
	ws_rows_free(&rows);
	return 0;
}

int ws_ops_load_traced(struct ws_ops *o, struct ws_err *e)
{
	find_mains(o);
	for (size_t i = 0; i < o->count; i++) {
		struct ws_ops_event *ev = &o->events[i];
		const struct ws_ops_main *m = ev->loose ? main_of(o, ev->process) : NULL;

		if (m && m->traced)
			ev->thread = m->thread;
	}
	return load_overheads(o, e);
}

/* ---- annotations as the GPU saw them ---- */

enum edge { NO_EDGE, WANTED, FOUND };

/* Nanoseconds tell processes and streams apart well enough: both ends must fit. */
static uint64_t edge_key(uint64_t at, bool end)
{
	return at << 1 | end;
}

static void add_annotation(struct ws_ops *o, uint32_t process, uint64_t start, uint64_t end,
			   uint32_t id)
{
	struct ws_ops_event *ev = ws_ops_add(o);

	ev->start = start;
	ev->end = end;
	ev->process = process;
	ev->kind = WS_OPS_GPU_ANNOTATION;
	ev->name = ws_ops_name_key(o, ws_report_string(o->r, id, NULL), id);
	ws_map_set(&o->edges, edge_key(start + 1, false), WANTED);
	ws_map_set(&o->edges, edge_key(end - 1, true), WANTED);
}

int ws_ops_load_gpu_annotations(struct ws_ops *o, struct ws_err *e)
{
	struct ws_scan scan = {.table = WS_TABLE_slice,
			       .columns = WS_COL(slice, start) | WS_COL(slice, end) |
					  WS_COL(slice, name) | WS_COL(slice, category) |
					  WS_COL(slice, track),
			       .time_max = UINT64_MAX};
	struct ws_rows rows;
	struct ws_cursor *c;
	struct ws_map tracks = {0};
	const uint64_t *v;

	c = ws_cursor_open(o->r, WS_TABLE_track, 0, UINT64_MAX);
	while (ws_cursor_next(c, &v))
		ws_map_set(&tracks, v[ws_track_id], v[ws_track_process]);
	ws_cursor_close(c);
	if (ws_rows_load(o->r, &scan, &rows, e) < 0) {
		ws_map_free(&tracks);
		return -1;
	}
	for (size_t i = 0; i < rows.rows; i++) {
		const char *category =
			ws_report_string(o->r, (uint32_t)rows.col[ws_slice_category][i], NULL);
		uint64_t start = rows.col[ws_slice_start][i], end = rows.col[ws_slice_end][i];
		uint32_t process = (uint32_t)ws_map_get(&tracks, rows.col[ws_slice_track][i], NULL);

		if (!strcmp(category, "gpu_user_annotation") && end != WS_NO_TIME && end >= start &&
		    ws_ops_in_steps(o, process, start))
			add_annotation(o, process, start, end,
				       (uint32_t)rows.col[ws_slice_name][i]);
	}
	ws_rows_free(&rows);
	ws_map_free(&tracks);
	return 0;
}

void ws_ops_gpu_edges(struct ws_ops *o, uint64_t start, uint64_t end)
{
	uint64_t keys[] = {edge_key(start, false), edge_key(end, true)};

	for (size_t i = 0; i < WS_COUNT(keys); i++)
		if (ws_map_get(&o->edges, keys[i], NULL) == WANTED)
			ws_map_set(&o->edges, keys[i], FOUND);
}

void ws_ops_trim_gpu_annotations(struct ws_ops *o)
{
	for (size_t i = o->cpu_count; i < o->count; i++) {
		struct ws_ops_event *ev = &o->events[i];

		if (ev->kind != WS_OPS_GPU_ANNOTATION)
			continue;
		if (ev->end - ev->start >= 2 &&
		    ws_map_get(&o->edges, edge_key(ev->start + 1, false), NULL) == FOUND &&
		    ws_map_get(&o->edges, edge_key(ev->end - 1, true), NULL) == FOUND) {
			ev->start++;
			ev->end--;
		}
		ev->device_own = ev->device_total = (ev->end - ev->start) * WS_DOUBLES_PARTS;
	}
}
