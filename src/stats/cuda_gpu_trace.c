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
	struct ws_stats *s;
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

static struct ws_cell word(const char *s)
{
	return *s ? ws_cell_text(s, strlen(s)) : ws_cell_null();
}

static void put_kernel(struct trace *t, const uint64_t *v, struct ws_cell *c)
{
	uint64_t name = v[ws_cuda_name_column(t->s)];
	size_t len;
	const char *text = ws_report_string(
		t->s->r, (uint32_t)(name ? name : v[ws_cuda_kernel_demangled]), &len);

	for (int i = 0; i < 6; i++)
		c[GRID + i] = number(v[ws_cuda_kernel_grid_x + i]);
	c[REGISTERS] = number(v[ws_cuda_kernel_registers]);
	c[STATIC] = number(v[ws_cuda_kernel_static_shared]);
	c[DYNAMIC] = number(v[ws_cuda_kernel_dynamic_shared]);
	if (t->launches) {
		uint32_t node = ws_launches_node(t->launches, v[ws_cuda_kernel_process],
						 v[ws_cuda_kernel_correlation]);

		text = t->prefixed = ws_launches_prefixed(
			t->launches, ws_launches_node_key(t->launches, node), text, &len);
	}
	c[NAME] = ws_cell_text(text, len);
}

static void put_bytes(uint64_t bytes, uint64_t start, uint64_t end, struct ws_cell *c)
{
	c[BYTES] = ws_cell_real(bytes);
	if (end != WS_NO_TIME && end > start)
		c[RATE] = ws_cell_real((long double)bytes * 1000000000 / (end - start));
}

static void put_op(struct trace *t, enum ws_cuda_source source, const uint64_t *v,
		   struct ws_cell *c)
{
	const struct ws_cuda_columns *k = &ws_cuda_columns[source];

	if (k->bytes >= 0)
		put_bytes(v[k->bytes], v[k->start], v[k->end], c);
	if (source == WS_CUDA_MEMCPY) {
		c[SOURCE] = word(ws_cuda_mem_kind(v[ws_cuda_memcpy_src_kind]));
		c[TARGET] = word(ws_cuda_mem_kind(v[ws_cuda_memcpy_dst_kind]));
	} else if (source == WS_CUDA_MEMSET) {
		c[SOURCE] = word(ws_cuda_mem_kind(v[ws_cuda_memset_mem_kind]));
	}
	c[NAME] = word(ws_cuda_op_name(source, k->name < 0 ? 0 : v[k->name], t->op, sizeof(t->op)));
}

static void print(struct trace *t, enum ws_cuda_source source, const uint64_t *v)
{
	const struct ws_cuda_columns *k = &ws_cuda_columns[source];
	struct ws_cell c[COLUMNS] = {{0}};
	char device[128];

	if (v[k->end] < v[k->start]) {
		t->s->backwards++;
		return;
	}
	c[START] = number(v[k->start] - t->s->zero);
	if (v[k->end] != WS_NO_TIME)
		c[DURATION] = number(v[k->end] - v[k->start]);
	c[CORRELATION] = number_or_null(v[k->correlation]);
	ws_cuda_device_label(t->devices, v[k->process], v[k->device], device, sizeof(device));
	c[DEVICE] = word(device);
	c[CONTEXT] = number(v[more[source].context]);
	c[GREEN] = number_or_null(v[more[source].green]);
	c[STREAM] = number(v[more[source].stream]);
	if (source == WS_CUDA_KERNEL)
		put_kernel(t, v, c);
	else
		put_op(t, source, v, c);
	t->s->row(t->s, c);
	free(t->prefixed);
	t->prefixed = NULL;
}

static void next(struct trace *t, int i)
{
	if (!ws_cursor_next(t->cursor[i], &t->row[i]))
		t->row[i] = NULL;
}

static void merge(struct trace *t)
{
	for (;;) {
		int first = -1;

		for (int i = WS_CUDA_KERNEL; i < WS_CUDA_SOURCES; i++)
			if (t->row[i] &&
			    (first < 0 || t->row[i][ws_cuda_columns[i].start] <
						  t->row[first][ws_cuda_columns[first].start]))
				first = i;
		if (first < 0)
			return;
		print(t, (enum ws_cuda_source)first, t->row[first]);
		next(t, first);
	}
}

static int run(struct ws_stats *s, struct ws_err *e)
{
	struct trace t = {.s = s};

	if (ws_stats_arg(s, "nvtx-name") && !(t.launches = ws_launches_open(s, true, e)))
		return -1;
	t.devices = ws_cuda_devices_open(s->r);
	for (int i = WS_CUDA_KERNEL; i < WS_CUDA_SOURCES; i++) {
		t.cursor[i] =
			ws_cursor_open(s->r, ws_cuda_columns[i].table, s->time_min, s->time_max);
		next(&t, i);
	}
	merge(&t);
	for (int i = WS_CUDA_KERNEL; i < WS_CUDA_SOURCES; i++)
		ws_cursor_close(t.cursor[i]);
	ws_cuda_devices_close(t.devices);
	ws_launches_close(t.launches);
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
