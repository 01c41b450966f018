/*
 * cuda_kern_exec_trace.c - every kernel with its call, in order of the calls: when each was made,
 * waited and ran.
 *
 * Kernels are read in one pass into what a line needs, and ordered by their calls afterwards. Those
 * whose call was not recorded are not here; cuda_gpu_trace has them.
 */
#include <stdlib.h>
#include <string.h>

#include "stats/cuda.h"
#include "stats/launch.h"

static const struct ws_column columns[] = {
	{"API Start", WS_KIND_TIME},
	{"API Dur", WS_KIND_TIME},
	{"Queue Start", WS_KIND_TIME},
	{"Queue Dur", WS_KIND_TIME},
	{"Kernel Start", WS_KIND_TIME},
	{"Kernel Dur", WS_KIND_TIME},
	{"Total Dur", WS_KIND_TIME},
	{"PID", WS_KIND_ID},
	{"TID", WS_KIND_ID},
	{"DevId", WS_KIND_ID},
	{"API Function", WS_KIND_TEXT},
	{"GridXYZ", WS_KIND_TEXT},
	{"BlockXYZ", WS_KIND_TEXT},
	{"Kernel Name", WS_KIND_TEXT},
};

struct line {
	uint64_t call_start, start, end;
	uint32_t call, device, name;
	uint32_t xyz[6]; /* grid, block */
};

struct trace {
	struct ws_stats *s;
	struct ws_launches *l;
	bool ranges;
	int name;
	struct line *lines;
	size_t n; /* taken by workers one after the other */
	uint64_t unended, backwards;
};

static uint64_t call_column(const struct trace *t, uint32_t call, int column)
{
	return t->l->calls.rows.col[column][call];
}

static int scan(void *ctx, const struct ws_batch *b)
{
	struct trace *t = ctx;

	for (size_t i = 0; i < b->rows; i++) {
		uint64_t start = b->col[ws_cuda_kernel_start][i],
			 end = b->col[ws_cuda_kernel_end][i];
		uint32_t call = ws_launches_find(t->l, b->col[ws_cuda_kernel_process][i],
						 b->col[ws_cuda_kernel_correlation][i]);
		uint64_t name = b->col[t->name][i];
		struct line *l;

		if (call == WS_NO_CALL)
			continue;
		if (end == WS_NO_TIME || end < start) {
			__atomic_fetch_add(end == WS_NO_TIME ? &t->unended : &t->backwards, 1,
					   __ATOMIC_RELAXED);
			continue;
		}
		l = &t->lines[__atomic_fetch_add(&t->n, 1, __ATOMIC_RELAXED)];
		*l = (struct line){
			.call_start = call_column(t, call, ws_cuda_api_start),
			.start = start,
			.end = end,
			.call = call,
			.device = (uint32_t)b->col[ws_cuda_kernel_device][i],
			.name = (uint32_t)(name ? name : b->col[ws_cuda_kernel_demangled][i]),
		};
		for (int k = 0; k < 6; k++)
			l->xyz[k] = (uint32_t)b->col[ws_cuda_kernel_grid_x + k][i];
	}
	return 0;
}

static int by_call(const void *a, const void *b)
{
	const struct line *x = a, *y = b;

	if (x->call_start != y->call_start)
		return x->call_start < y->call_start ? -1 : 1;
	if (x->call != y->call)
		return x->call < y->call ? -1 : 1;
	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return x->end < y->end	 ? -1
	       : x->end > y->end ? 1
				 : memcmp(&x->device, &y->device, 8 * sizeof(uint32_t));
}

static void print(struct trace *t, const struct line *l)
{
	uint64_t call_end = call_column(t, l->call, ws_cuda_api_end), zero = t->s->zero, last;
	const struct ws_thread_info *thread =
		ws_who_thread(t->s->who, (uint32_t)call_column(t, l->call, ws_cuda_api_thread));
	bool returned = call_end != WS_NO_TIME && call_end >= l->call_start,
	     waited = returned && l->start > call_end;
	size_t len, name_len;
	const char *function = ws_cuda_function(
		t->s->r, (uint32_t)call_column(t, l->call, ws_cuda_api_name), &len);
	const char *kernel = ws_report_string(t->s->r, l->name, &name_len);
	ws_range_key range = t->ranges ? ws_launches_node_key(t->l, t->l->enclose.of[l->call]) : 0;
	char *name = ws_launches_prefixed(t->l, range, kernel, &name_len);
	char *grid = ws_cuda_xyz(l->xyz[0], l->xyz[1], l->xyz[2]),
	     *block = ws_cuda_xyz(l->xyz[3], l->xyz[4], l->xyz[5]);

	last = returned && call_end > l->end ? call_end : l->end;
	t->s->row(t->s,
		  (struct ws_cell[]){
			  ws_cell_int((int64_t)(l->call_start - zero)),
			  returned ? ws_cell_int((int64_t)(call_end - l->call_start))
				   : ws_cell_null(),
			  waited ? ws_cell_int((int64_t)(call_end - zero)) : ws_cell_null(),
			  waited ? ws_cell_int((int64_t)(l->start - call_end)) : ws_cell_null(),
			  ws_cell_int((int64_t)(l->start - zero)),
			  ws_cell_int((int64_t)(l->end - l->start)),
			  ws_cell_int((int64_t)(last - l->call_start)),
			  ws_cell_int(thread->pid),
			  ws_cell_int(thread->tid),
			  ws_cell_int(l->device),
			  ws_cell_text(function, len),
			  ws_cell_text(grid, strlen(grid)),
			  ws_cell_text(block, strlen(block)),
			  ws_cell_text(name, name_len),
		  });
	free(name);
	free(grid);
	free(block);
}

static int run(struct ws_stats *s, struct ws_err *e)
{
	struct trace t = {
		.s = s, .name = ws_cuda_name_column(s), .ranges = ws_stats_arg(s, "nvtx-name")};
	struct ws_scan sc = {
		.table = WS_TABLE_cuda_kernel,
		.columns = WS_COL(cuda_kernel, start) | WS_COL(cuda_kernel, end) |
			   WS_COL(cuda_kernel, device) | WS_COL(cuda_kernel, process) |
			   WS_COL(cuda_kernel, correlation) | WS_COL(cuda_kernel, demangled) |
			   WS_COL(cuda_kernel, grid_x) | WS_COL(cuda_kernel, grid_y) |
			   WS_COL(cuda_kernel, grid_z) | WS_COL(cuda_kernel, block_x) |
			   WS_COL(cuda_kernel, block_y) | WS_COL(cuda_kernel, block_z) |
			   UINT64_C(1) << t.name,
		.time_min = s->time_min,
		.time_max = s->time_max,
	};
	uint64_t damaged = 0;

	t.l = ws_launches_open(s, t.ranges, e);
	if (!t.l)
		return -1;
	t.lines = ws_malloc(ws_report_rows(s->r, WS_TABLE_cuda_kernel) * sizeof(*t.lines));
	ws_scan_run(s->r, &sc, scan, &t, &damaged);
	s->damaged += damaged;
	s->unended += t.unended;
	s->backwards += t.backwards;
	if (t.n)
		qsort(t.lines, t.n, sizeof(*t.lines), by_call);
	for (size_t i = 0; i < t.n; i++)
		print(&t, &t.lines[i]);
	free(t.lines);
	ws_launches_close(t.l);
	return 0;
}

const struct ws_stat ws_stat_cuda_kern_exec_trace = {
	.name = "cuda_kern_exec_trace",
	.title = "CUDA Kernel Launch & Exec Time Trace",
	.about = "Every kernel with the call that launched it, by start of the call: the call, the "
		 "wait between its return and the "
		 "kernel where there was one, the kernel, and all together. Arguments as for "
		 "cuda_gpu_kern_sum",
	.what = "CUDA kernels with their calls",
	.unended = "had no times",
	.args = ws_cuda_args,
	.columns = columns,
	.column_count = WS_COUNT(columns),
	.run = run,
};
