/*
 * cuda_kern_exec_trace.c - every kernel with its call, in order of the calls: when it was launched,
 * waited and ran.
 *
 * One pass over the kernels stores what each line needs; lines are sorted by call afterwards.
 * Kernels whose call was not recorded are left out; cuda_gpu_trace has them.
 */
#include <stdlib.h>
#include <string.h>

#include "stats/cuda.h"
#include "base/choose.h"
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

struct kernel_launch {
	uint64_t call_start, start, end;
	uint32_t call, device, name;
	uint32_t xyz[6]; /* grid, block */
};

struct launch_trace {
	struct ws_stats *stats;
	struct ws_launches *launches;
	bool with_ranges;
	int name_column;
	struct kernel_launch *lines;
	size_t line_count; /* several threads add lines */
	uint64_t unended, backwards;
};

static uint64_t get_call_value(const struct launch_trace *launch_trace, uint32_t call, int column)
{
	return launch_trace->launches->calls.rows.col[column][call];
}

static int collect_launches(void *context, const struct ws_batch *batch)
{
	struct launch_trace *launch_trace = context;

	for (size_t i = 0; i < batch->rows; i++) {
		uint64_t start = batch->col[ws_cuda_kernel_start][i],
			 end = batch->col[ws_cuda_kernel_end][i];
		uint32_t call = ws_find_launch_call(launch_trace->launches,
						    batch->col[ws_cuda_kernel_process][i],
						    batch->col[ws_cuda_kernel_correlation][i]);
		uint64_t name = ws_choose_kernel_name(batch->col[launch_trace->name_column][i],
						      batch->col[ws_cuda_kernel_demangled][i]);
		struct kernel_launch *line;

		if (call == WS_NO_CALL)
			continue;
		if (end == WS_NO_TIME || end < start) {
			ws_count_left_out_shared(end, &launch_trace->unended,
						 &launch_trace->backwards);
			continue;
		}
		line = &launch_trace->lines[__atomic_fetch_add(&launch_trace->line_count, 1,
							       __ATOMIC_RELAXED)];
		*line = (struct kernel_launch){
			.call_start = get_call_value(launch_trace, call, ws_cuda_api_start),
			.start = start,
			.end = end,
			.call = call,
			.device = (uint32_t)batch->col[ws_cuda_kernel_device][i],
			.name = (uint32_t)name,
		};
		for (int k = 0; k < 6; k++)
			line->xyz[k] = (uint32_t)batch->col[ws_cuda_kernel_grid_x + k][i];
	}
	return 0;
}

static int compare_launches(const void *first, const void *second)
{
	const struct kernel_launch *left = first, *right = second;

	if (left->call_start != right->call_start)
		return ws_compare(left->call_start, right->call_start);
	if (left->call != right->call)
		return ws_compare(left->call, right->call);
	if (left->start != right->start)
		return ws_compare(left->start, right->start);
	if (left->end != right->end)
		return ws_compare(left->end, right->end);
	return memcmp(&left->device, &right->device, 8 * sizeof(uint32_t));
}

static void print_launch(struct launch_trace *launch_trace, const struct kernel_launch *line)
{
	uint64_t call_end = get_call_value(launch_trace, line->call, ws_cuda_api_end),
		 zero = launch_trace->stats->zero, last = line->end;
	const struct ws_thread_info *thread = ws_find_thread(
		launch_trace->stats->who,
		(uint32_t)get_call_value(launch_trace, line->call, ws_cuda_api_thread));
	bool returned = call_end != WS_NO_TIME && call_end >= line->call_start,
	     waited = returned && line->start > call_end;
	size_t length, name_length;
	const char *function = ws_get_cuda_function_name(
		launch_trace->stats->report,
		(uint32_t)get_call_value(launch_trace, line->call, ws_cuda_api_name), &length);
	const char *kernel =
		ws_report_string(launch_trace->stats->report, line->name, &name_length);
	ws_range_key range = 0;
	char *name, *grid = ws_format_cuda_size(line->xyz[0], line->xyz[1], line->xyz[2]),
		    *block = ws_format_cuda_size(line->xyz[3], line->xyz[4], line->xyz[5]);

	if (launch_trace->with_ranges)
		range = ws_make_node_range_key(
			launch_trace->launches,
			launch_trace->launches->enclose.node_of_call[line->call]);
	name = ws_make_prefixed_name(launch_trace->launches, range, kernel, &name_length);
	if (returned)
		last = ws_max(call_end, last);
	launch_trace->stats->row(
		launch_trace->stats,
		(struct ws_cell[]){
			ws_cell_int((int64_t)(line->call_start - zero)),
			ws_cell_int_if(returned, (int64_t)(call_end - line->call_start)),
			ws_cell_int_if(waited, (int64_t)(call_end - zero)),
			ws_cell_int_if(waited, (int64_t)(line->start - call_end)),
			ws_cell_int((int64_t)(line->start - zero)),
			ws_cell_int((int64_t)(line->end - line->start)),
			ws_cell_int((int64_t)(last - line->call_start)),
			ws_cell_int(thread->pid),
			ws_cell_int(thread->tid),
			ws_cell_int(line->device),
			ws_cell_text(function, length),
			ws_cell_text(grid, strlen(grid)),
			ws_cell_text(block, strlen(block)),
			ws_cell_text(name, name_length),
		});
	free(name);
	free(grid);
	free(block);
}

static int make_cuda_kern_exec_trace_rows(struct ws_stats *stats, struct ws_err *err)
{
	struct launch_trace launch_trace = {.stats = stats,
					    .name_column = ws_choose_kernel_name_column(stats),
					    .with_ranges = ws_get_stats_arg(stats, "nvtx-name")};
	struct ws_scan scan = {
		.table = WS_TABLE_cuda_kernel,
		.columns =
			WS_COLUMN_BIT(cuda_kernel, start) | WS_COLUMN_BIT(cuda_kernel, end) |
			WS_COLUMN_BIT(cuda_kernel, device) | WS_COLUMN_BIT(cuda_kernel, process) |
			WS_COLUMN_BIT(cuda_kernel, correlation) |
			WS_COLUMN_BIT(cuda_kernel, demangled) | WS_COLUMN_BIT(cuda_kernel, grid_x) |
			WS_COLUMN_BIT(cuda_kernel, grid_y) | WS_COLUMN_BIT(cuda_kernel, grid_z) |
			WS_COLUMN_BIT(cuda_kernel, block_x) | WS_COLUMN_BIT(cuda_kernel, block_y) |
			WS_COLUMN_BIT(cuda_kernel, block_z) |
			UINT64_C(1) << launch_trace.name_column,
		.time_min = stats->time_min,
		.time_max = stats->time_max,
	};
	uint64_t damaged = 0;

	launch_trace.launches = ws_launches_open(stats, launch_trace.with_ranges, err);
	if (!launch_trace.launches)
		return -1;
	launch_trace.lines = ws_malloc(ws_report_count_rows(stats->report, WS_TABLE_cuda_kernel) *
				       sizeof(*launch_trace.lines));
	ws_run_scan(stats->report, &scan, collect_launches, &launch_trace, &damaged);
	stats->damaged += damaged;
	stats->unended += launch_trace.unended;
	stats->backwards += launch_trace.backwards;
	if (launch_trace.line_count)
		qsort(launch_trace.lines, launch_trace.line_count, sizeof(*launch_trace.lines),
		      compare_launches);
	for (size_t i = 0; i < launch_trace.line_count; i++)
		print_launch(&launch_trace, &launch_trace.lines[i]);
	free(launch_trace.lines);
	ws_launches_close(launch_trace.launches);
	return 0;
}

const struct ws_stats_report ws_stat_cuda_kern_exec_trace = {
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
	.run = make_cuda_kern_exec_trace_rows,
};
