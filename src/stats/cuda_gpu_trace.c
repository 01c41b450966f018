/*
 * cuda_gpu_trace.c - every kernel, copy, memset and whole graph in order of start: four tables,
 * each read in order, merged.
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

/* Columns that the four tables hold under numbers of their own. */
static const struct {
	int context, green, stream;
} more[WS_CUDA_SOURCES] = {
	[WS_CUDA_KERNEL] = {ws_cuda_kernel_context, ws_cuda_kernel_green_context,
			    ws_cuda_kernel_stream},
	[WS_CUDA_MEMCPY] = {ws_cuda_memcpy_context, ws_cuda_memcpy_green_context,
			    ws_cuda_memcpy_stream},
	[WS_CUDA_MEMSET] = {ws_cuda_memset_context, ws_cuda_memset_green_context,
			    ws_cuda_memset_stream},
	[WS_CUDA_GRAPH] = {ws_cuda_graph_trace_context, ws_cuda_graph_trace_green_context,
			   ws_cuda_graph_trace_stream},
};

struct trace {
	struct ws_stats *stats;
	struct ws_launches *launches; /* with :nvtx-name */
	struct ws_cuda_devices *devices;
	struct ws_cursor *cursor[WS_CUDA_SOURCES];
	const uint64_t *row[WS_CUDA_SOURCES]; /* NULL: no more */
	char op[64];
	char *prefixed;
};

static struct ws_cell number(uint64_t v)
{
	return ws_cell_int((int64_t)v);
}

static struct ws_cell number_or_null(uint64_t v)
{
	return v == WS_NO_U32 ? ws_cell_null() : number(v);
}

static struct ws_cell word(const char *text)
{
	return *text ? ws_cell_text(text, strlen(text)) : ws_cell_null();
}

static void put_kernel(struct trace *trace, const uint64_t *values, struct ws_cell *cell)
{
	uint64_t name = values[ws_cuda_name_column(trace->stats)];
	size_t len;
	const char *text =
		ws_report_string(trace->stats->report,
				 (uint32_t)(name ? name : values[ws_cuda_kernel_demangled]), &len);

	for (int i = 0; i < 6; i++)
		cell[GRID + i] = number(values[ws_cuda_kernel_grid_x + i]);
	cell[REGISTERS] = number(values[ws_cuda_kernel_registers]);
	cell[STATIC] = number(values[ws_cuda_kernel_static_shared]);
	cell[DYNAMIC] = number(values[ws_cuda_kernel_dynamic_shared]);
	if (trace->launches) {
		uint32_t node = ws_launches_node(trace->launches, values[ws_cuda_kernel_process],
						 values[ws_cuda_kernel_correlation]);

		text = trace->prefixed = ws_launches_prefixed(
			trace->launches, ws_launches_node_key(trace->launches, node), text, &len);
	}
	cell[NAME] = ws_cell_text(text, len);
}

static void put_bytes(uint64_t bytes, uint64_t start, uint64_t end, struct ws_cell *cell)
{
	cell[BYTES] = ws_cell_real(bytes);
	if (end != WS_NO_TIME && end > start)
		cell[RATE] = ws_cell_real((long double)bytes * 1000000000 / (end - start));
}

static void put_op(struct trace *trace, enum ws_cuda_source source, const uint64_t *values,
		   struct ws_cell *cell)
{
	const struct ws_cuda_columns *columns = &ws_cuda_columns[source];

	if (columns->bytes >= 0)
		put_bytes(values[columns->bytes], values[columns->start], values[columns->end],
			  cell);
	if (source == WS_CUDA_MEMCPY) {
		cell[SOURCE] = word(ws_cuda_mem_kind(values[ws_cuda_memcpy_src_kind]));
		cell[TARGET] = word(ws_cuda_mem_kind(values[ws_cuda_memcpy_dst_kind]));
	} else if (source == WS_CUDA_MEMSET) {
		cell[SOURCE] = word(ws_cuda_mem_kind(values[ws_cuda_memset_mem_kind]));
	}
	cell[NAME] = word(ws_cuda_op_name(source, columns->name < 0 ? 0 : values[columns->name],
					  trace->op, sizeof(trace->op)));
}

static void print(struct trace *trace, enum ws_cuda_source source, const uint64_t *values)
{
	const struct ws_cuda_columns *columns = &ws_cuda_columns[source];
	struct ws_cell cells[COLUMNS] = {{0}};
	char device[128];

	if (values[columns->end] < values[columns->start]) {
		trace->stats->backwards++;
		return;
	}
	cells[START] = number(values[columns->start] - trace->stats->zero);
	if (values[columns->end] != WS_NO_TIME)
		cells[DURATION] = number(values[columns->end] - values[columns->start]);
	cells[CORRELATION] = number_or_null(values[columns->correlation]);
	ws_cuda_device_label(trace->devices, values[columns->process], values[columns->device],
			     device, sizeof(device));
	cells[DEVICE] = word(device);
	cells[CONTEXT] = number(values[more[source].context]);
	cells[GREEN] = number_or_null(values[more[source].green]);
	cells[STREAM] = number(values[more[source].stream]);
	if (source == WS_CUDA_KERNEL)
		put_kernel(trace, values, cells);
	else
		put_op(trace, source, values, cells);
	trace->stats->row(trace->stats, cells);
	free(trace->prefixed);
	trace->prefixed = NULL;
}

static void next(struct trace *trace, int i)
{
	if (!ws_cursor_next(trace->cursor[i], &trace->row[i]))
		trace->row[i] = NULL;
}

static void merge(struct trace *trace)
{
	for (;;) {
		int first = -1;

		for (int i = WS_CUDA_KERNEL; i < WS_CUDA_SOURCES; i++)
			if (trace->row[i] &&
			    (first < 0 || trace->row[i][ws_cuda_columns[i].start] <
						  trace->row[first][ws_cuda_columns[first].start]))
				first = i;
		if (first < 0)
			return;
		print(trace, (enum ws_cuda_source)first, trace->row[first]);
		next(trace, first);
	}
}

static int run(struct ws_stats *stats, struct ws_err *err)
{
	struct trace trace = {.stats = stats};

	if (ws_stats_arg(stats, "nvtx-name") &&
	    !(trace.launches = ws_launches_open(stats, true, err)))
		return -1;
	trace.devices = ws_cuda_devices_open(stats->report);
	for (int i = WS_CUDA_KERNEL; i < WS_CUDA_SOURCES; i++) {
		trace.cursor[i] = ws_cursor_open(stats->report, ws_cuda_columns[i].table,
						 stats->time_min, stats->time_max);
		next(&trace, i);
	}
	merge(&trace);
	for (int i = WS_CUDA_KERNEL; i < WS_CUDA_SOURCES; i++)
		ws_cursor_close(trace.cursor[i]);
	ws_cuda_devices_close(trace.devices);
	ws_launches_close(trace.launches);
	return 0;
}

const struct ws_stat ws_stat_cuda_gpu_trace = {
	.name = "cuda_gpu_trace",
	.title = "CUDA GPU Trace",
	.about = "Every kernel, copy and memset by start, and graphs that were recorded whole. "
		 "Work without times has no duration; "
		 "arguments as for cuda_gpu_kern_sum",
	.what = "CUDA work on GPUs",
	.args = ws_cuda_args,
	.columns = columns,
	.column_count = WS_COUNT(columns),
	.run = run,
};
