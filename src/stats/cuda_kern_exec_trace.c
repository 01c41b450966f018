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
	struct ws_stats *stats;
	struct ws_launches *launches;
	bool ranges;
	int name;
	struct line *lines;
	size_t n; /* taken by workers one after the other */
	uint64_t unended, backwards;
};

static uint64_t call_column(const struct trace *trace, uint32_t call, int column)
{
	return trace->launches->calls.rows.col[column][call];
}

static int scan(void *ctx, const struct ws_batch *batch)
{
	struct trace *trace = ctx;

	for (size_t i = 0; i < batch->rows; i++) {
		uint64_t start = batch->col[ws_cuda_kernel_start][i],
			 end = batch->col[ws_cuda_kernel_end][i];
		uint32_t call =
			ws_launches_find(trace->launches, batch->col[ws_cuda_kernel_process][i],
					 batch->col[ws_cuda_kernel_correlation][i]);
		uint64_t name = batch->col[trace->name][i];
		struct line *line;

		if (call == WS_NO_CALL)
			continue;
		if (end == WS_NO_TIME || end < start) {
			__atomic_fetch_add(end == WS_NO_TIME ? &trace->unended : &trace->backwards,
					   1, __ATOMIC_RELAXED);
			continue;
		}
		line = &trace->lines[__atomic_fetch_add(&trace->n, 1, __ATOMIC_RELAXED)];
		*line = (struct line){
			.call_start = call_column(trace, call, ws_cuda_api_start),
			.start = start,
			.end = end,
			.call = call,
			.device = (uint32_t)batch->col[ws_cuda_kernel_device][i],
			.name = (uint32_t)(name ? name : batch->col[ws_cuda_kernel_demangled][i]),
		};
		for (int k = 0; k < 6; k++)
			line->xyz[k] = (uint32_t)batch->col[ws_cuda_kernel_grid_x + k][i];
	}
	return 0;
}

static int by_call(const void *first, const void *second)
{
	const struct line *left = first, *right = second;

	if (left->call_start != right->call_start)
		return left->call_start < right->call_start ? -1 : 1;
	if (left->call != right->call)
		return left->call < right->call ? -1 : 1;
	if (left->start != right->start)
		return left->start < right->start ? -1 : 1;
	return left->end < right->end ? -1
	       : left->end > right->end
		       ? 1
		       : memcmp(&left->device, &right->device, 8 * sizeof(uint32_t));
}

static void print(struct trace *trace, const struct line *line)
{
	uint64_t call_end = call_column(trace, line->call, ws_cuda_api_end),
		 zero = trace->stats->zero, last;
	const struct ws_thread_info *thread = ws_who_thread(
		trace->stats->who, (uint32_t)call_column(trace, line->call, ws_cuda_api_thread));
	bool returned = call_end != WS_NO_TIME && call_end >= line->call_start,
	     waited = returned && line->start > call_end;
	size_t len, name_len;
	const char *function =
		ws_cuda_function(trace->stats->report,
				 (uint32_t)call_column(trace, line->call, ws_cuda_api_name), &len);
	const char *kernel = ws_report_string(trace->stats->report, line->name, &name_len);
	ws_range_key range = trace->ranges
				     ? ws_launches_node_key(trace->launches,
							    trace->launches->enclose.of[line->call])
				     : 0;
	char *name = ws_launches_prefixed(trace->launches, range, kernel, &name_len);
	char *grid = ws_cuda_xyz(line->xyz[0], line->xyz[1], line->xyz[2]),
	     *block = ws_cuda_xyz(line->xyz[3], line->xyz[4], line->xyz[5]);

	last = returned && call_end > line->end ? call_end : line->end;
	trace->stats->row(trace->stats,
			  (struct ws_cell[]){
				  ws_cell_int((int64_t)(line->call_start - zero)),
				  returned ? ws_cell_int((int64_t)(call_end - line->call_start))
					   : ws_cell_null(),
				  waited ? ws_cell_int((int64_t)(call_end - zero)) : ws_cell_null(),
				  waited ? ws_cell_int((int64_t)(line->start - call_end))
					 : ws_cell_null(),
				  ws_cell_int((int64_t)(line->start - zero)),
				  ws_cell_int((int64_t)(line->end - line->start)),
				  ws_cell_int((int64_t)(last - line->call_start)),
				  ws_cell_int(thread->pid),
				  ws_cell_int(thread->tid),
				  ws_cell_int(line->device),
				  ws_cell_text(function, len),
				  ws_cell_text(grid, strlen(grid)),
				  ws_cell_text(block, strlen(block)),
				  ws_cell_text(name, name_len),
			  });
	free(name);
	free(grid);
	free(block);
}

static int run(struct ws_stats *stats, struct ws_err *err)
{
	struct trace trace = {.stats = stats,
			      .name = ws_cuda_name_column(stats),
			      .ranges = ws_stats_arg(stats, "nvtx-name")};
	struct ws_scan sc = {
		.table = WS_TABLE_cuda_kernel,
		.columns = WS_COL(cuda_kernel, start) | WS_COL(cuda_kernel, end) |
			   WS_COL(cuda_kernel, device) | WS_COL(cuda_kernel, process) |
			   WS_COL(cuda_kernel, correlation) | WS_COL(cuda_kernel, demangled) |
			   WS_COL(cuda_kernel, grid_x) | WS_COL(cuda_kernel, grid_y) |
			   WS_COL(cuda_kernel, grid_z) | WS_COL(cuda_kernel, block_x) |
			   WS_COL(cuda_kernel, block_y) | WS_COL(cuda_kernel, block_z) |
			   UINT64_C(1) << trace.name,
		.time_min = stats->time_min,
		.time_max = stats->time_max,
	};
	uint64_t damaged = 0;

	trace.launches = ws_launches_open(stats, trace.ranges, err);
	if (!trace.launches)
		return -1;
	trace.lines = ws_malloc(ws_report_rows(stats->report, WS_TABLE_cuda_kernel) *
				sizeof(*trace.lines));
	ws_scan_run(stats->report, &sc, scan, &trace, &damaged);
	stats->damaged += damaged;
	stats->unended += trace.unended;
	stats->backwards += trace.backwards;
	if (trace.n)
		qsort(trace.lines, trace.n, sizeof(*trace.lines), by_call);
	for (size_t i = 0; i < trace.n; i++)
		print(&trace, &trace.lines[i]);
	free(trace.lines);
	ws_launches_close(trace.launches);
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
