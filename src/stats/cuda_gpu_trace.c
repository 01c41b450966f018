/*
 * cuda_gpu_trace.c - every kernel, copy, memset and whole graph in order of start: a merge of four
 * tables, each of which is read in order.
 */
#include <stdlib.h>
#include <string.h>

#include "stats/cuda.h"
#include "stats/launch.h"

static const struct ws_column columns[] = {
	{"Start", WS_KIND_TIME},    {"Duration", WS_KIND_TIME},	  {"CorrId", WS_KIND_ID},
	{"GrdX", WS_KIND_ID},	    {"GrdY", WS_KIND_ID},	  {"GrdZ", WS_KIND_ID},
	{"BlkX", WS_KIND_ID},	    {"BlkY", WS_KIND_ID},	  {"BlkZ", WS_KIND_ID},
	{"Reg/Trd", WS_KIND_ID},    {"StcSMem", WS_KIND_SIZE},	  {"DymSMem", WS_KIND_SIZE},
	{"Bytes", WS_KIND_SIZE},    {"Throughput", WS_KIND_RATE}, {"SrcMemKd", WS_KIND_TEXT},
	{"DstMemKd", WS_KIND_TEXT}, {"Device", WS_KIND_TEXT},	  {"Ctx", WS_KIND_ID},
	{"GreenCtx", WS_KIND_ID},   {"Strm", WS_KIND_ID},	  {"Name", WS_KIND_TEXT},
};

enum {
	START,
	DURATION,
	CORRELATION,
	GRID,
	REGISTERS = GRID + 6,
	STATIC,
	DYNAMIC,
	BYTES,
	RATE,
	SOURCE,
	TARGET,
	DEVICE,
	CONTEXT,
	GREEN,
	STREAM,
	NAME,
	COLUMNS
};

/* Columns that have different numbers in the four tables. */
static const struct {
	int context, green, stream;
} stream_columns[WS_CUDA_SOURCES] = {
	[WS_CUDA_KERNEL] = {ws_cuda_kernel_context, ws_cuda_kernel_green_context,
			    ws_cuda_kernel_stream},
	[WS_CUDA_MEMCPY] = {ws_cuda_memcpy_context, ws_cuda_memcpy_green_context,
			    ws_cuda_memcpy_stream},
	[WS_CUDA_MEMSET] = {ws_cuda_memset_context, ws_cuda_memset_green_context,
			    ws_cuda_memset_stream},
	[WS_CUDA_GRAPH] = {ws_cuda_graph_trace_context, ws_cuda_graph_trace_green_context,
			   ws_cuda_graph_trace_stream},
};

struct gpu_trace {
	struct ws_stats *stats;
	struct ws_launches *launches; /* with :nvtx-name */
	struct ws_cuda_devices *devices;
	struct ws_cursor *cursor[WS_CUDA_SOURCES];
	const uint64_t *current_row[WS_CUDA_SOURCES]; /* the next row of each; NULL at the end */
	char operation_name[64];		      /* name of the operation of the current row */
	char *prefixed; /* name of the kernel of the current row, after its range; or NULL */
};

static struct ws_cell make_number_cell(uint64_t value)
{
	return ws_cell_int((int64_t)value);
}

static struct ws_cell make_optional_number_cell(uint64_t value)
{
	return ws_cell_int_if(value != WS_NO_U32, (int64_t)value);
}

/* The green context, if any: exports of Nsight Systems have 0 for none. */
static struct ws_cell make_green_cell(uint64_t context)
{
	return ws_cell_int_if(context && context != WS_NO_U32, (int64_t)context);
}

static struct ws_cell make_trace_text_cell(const char *text)
{
	return ws_cell_text_if(*text, text, strlen(text));
}

static void put_kernel_cells(struct gpu_trace *gpu_trace, const uint64_t *values,
			     struct ws_cell *cell)
{
	uint64_t name =
		ws_choose_kernel_name(values[ws_choose_kernel_name_column(gpu_trace->stats)],
				      values[ws_cuda_kernel_demangled]);
	size_t length;
	const char *text = ws_report_string(gpu_trace->stats->report, (uint32_t)name, &length);

	for (int i = 0; i < 6; i++)
		cell[GRID + i] = make_number_cell(values[ws_cuda_kernel_grid_x + i]);
	cell[REGISTERS] = make_number_cell(values[ws_cuda_kernel_registers]);
	cell[STATIC] = make_number_cell(values[ws_cuda_kernel_static_shared]);
	cell[DYNAMIC] = make_number_cell(values[ws_cuda_kernel_dynamic_shared]);
	if (gpu_trace->launches) {
		uint32_t node =
			ws_find_launch_node(gpu_trace->launches, values[ws_cuda_kernel_process],
					    values[ws_cuda_kernel_correlation]);

		text = gpu_trace->prefixed =
			ws_make_prefixed_name(gpu_trace->launches,
					      ws_make_node_range_key(gpu_trace->launches, node),
					      text, &length);
	}
	cell[NAME] = ws_cell_text(text, length);
}

static void put_transfer_cells(uint64_t bytes, uint64_t start, uint64_t end, struct ws_cell *cell)
{
	cell[BYTES] = ws_cell_real(bytes);
	if (end != WS_NO_TIME && end > start)
		cell[RATE] = ws_cell_real((long double)bytes * 1000000000 / (end - start));
}

static void put_operation_cells(struct gpu_trace *gpu_trace, enum ws_cuda_source source,
				const uint64_t *values, struct ws_cell *cell)
{
	const struct ws_cuda_columns *columns = &ws_cuda_columns[source];
	uint64_t name = 0;

	if (columns->name >= 0)
		name = values[columns->name];
	if (columns->bytes >= 0)
		put_transfer_cells(values[columns->bytes], values[columns->start],
				   values[columns->end], cell);
	if (source == WS_CUDA_MEMCPY) {
		cell[SOURCE] = make_trace_text_cell(
			ws_get_cuda_memory_kind(values[ws_cuda_memcpy_src_kind]));
		cell[TARGET] = make_trace_text_cell(
			ws_get_cuda_memory_kind(values[ws_cuda_memcpy_dst_kind]));
	} else if (source == WS_CUDA_MEMSET) {
		cell[SOURCE] = make_trace_text_cell(
			ws_get_cuda_memory_kind(values[ws_cuda_memset_mem_kind]));
	}
	cell[NAME] = make_trace_text_cell(ws_format_cuda_op_name(
		source, name, gpu_trace->operation_name, sizeof(gpu_trace->operation_name)));
}

static void print_gpu_work(struct gpu_trace *gpu_trace, enum ws_cuda_source source,
			   const uint64_t *values)
{
	const struct ws_cuda_columns *columns = &ws_cuda_columns[source];
	struct ws_cell cells[COLUMNS] = {{0}};
	char device[128];

	if (values[columns->end] < values[columns->start]) {
		gpu_trace->stats->backwards++;
		return;
	}
	cells[START] = make_number_cell(values[columns->start] - gpu_trace->stats->zero);
	if (values[columns->end] != WS_NO_TIME)
		cells[DURATION] = make_number_cell(values[columns->end] - values[columns->start]);
	cells[CORRELATION] = make_optional_number_cell(values[columns->correlation]);
	ws_format_cuda_device(gpu_trace->devices, values[columns->process], values[columns->device],
			      device, sizeof(device));
	cells[DEVICE] = make_trace_text_cell(device);
	cells[CONTEXT] = make_number_cell(values[stream_columns[source].context]);
	cells[GREEN] = make_green_cell(values[stream_columns[source].green]);
	cells[STREAM] = make_number_cell(values[stream_columns[source].stream]);
	if (source == WS_CUDA_KERNEL)
		put_kernel_cells(gpu_trace, values, cells);
	else
		put_operation_cells(gpu_trace, source, values, cells);
	gpu_trace->stats->row(gpu_trace->stats, cells);
	free(gpu_trace->prefixed);
	gpu_trace->prefixed = NULL;
}

static void read_next_row(struct gpu_trace *gpu_trace, int source)
{
	if (!ws_cursor_next(gpu_trace->cursor[source], &gpu_trace->current_row[source]))
		gpu_trace->current_row[source] = NULL;
}

static void print_merged_rows(struct gpu_trace *gpu_trace)
{
	for (;;) {
		int first = -1;

		for (int source = WS_CUDA_KERNEL; source < WS_CUDA_SOURCES; source++)
			if (gpu_trace->current_row[source] &&
			    (first < 0 ||
			     gpu_trace->current_row[source][ws_cuda_columns[source].start] <
				     gpu_trace->current_row[first][ws_cuda_columns[first].start]))
				first = source;
		if (first < 0)
			return;
		print_gpu_work(gpu_trace, (enum ws_cuda_source)first,
			       gpu_trace->current_row[first]);
		read_next_row(gpu_trace, first);
	}
}

static int make_cuda_gpu_trace_rows(struct ws_stats *stats, struct ws_err *err)
{
	struct gpu_trace gpu_trace = {.stats = stats};

	if (ws_get_stats_arg(stats, "nvtx-name") &&
	    !(gpu_trace.launches = ws_launches_open(stats, true, err)))
		return -1;
	gpu_trace.devices = ws_cuda_devices_open(stats->report);
	for (int i = WS_CUDA_KERNEL; i < WS_CUDA_SOURCES; i++) {
		gpu_trace.cursor[i] = ws_cursor_open(stats->report, ws_cuda_columns[i].table,
						     stats->time_min, stats->time_max);
		read_next_row(&gpu_trace, i);
	}
	print_merged_rows(&gpu_trace);
	for (int i = WS_CUDA_KERNEL; i < WS_CUDA_SOURCES; i++)
		ws_cursor_close(gpu_trace.cursor[i]);
	ws_cuda_devices_close(gpu_trace.devices);
	ws_launches_close(gpu_trace.launches);
	return 0;
}

const struct ws_stats_report ws_stat_cuda_gpu_trace = {
	.name = "cuda_gpu_trace",
	.title = "CUDA GPU Trace",
	.about = "Every kernel, copy and memset by start, and graphs that were recorded whole. "
		 "Work without times has no duration; "
		 "arguments as for cuda_gpu_kern_sum",
	.what = "CUDA operations on GPUs",
	.args = ws_cuda_args,
	.columns = columns,
	.column_count = WS_COUNT(columns),
	.run = make_cuda_gpu_trace_rows,
};
