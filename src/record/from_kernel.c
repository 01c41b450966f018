/*
 * from_kernel.c - converts the kernel hook's records into rows: measured launches, their metrics,
 * the devices. The hook numbers results per process; here they are numbered per report.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "record/convert.h"
#include "record/kernel_code.h"
#include "record/sink.h"
#include "ring/kernel_record.h"
#include "symbols/demangle.h"

enum { RESULTS_MOST = 1 << 20 };

struct kernel_process {
	uint32_t *ids; /* by the hook's numbers, + 1; 0: not known */
	size_t count;
};

static void free_process(void *arg)
{
	struct kernel_process *process = arg;

	free(process->ids);
	free(process);
}

static struct kernel_process *find_process(struct ws_stream *stream)
{
	void **slot = ws_proc_slot(stream->proc, WS_SLOT_KERNEL, free_process);

	if (!*slot)
		*slot = ws_calloc(1, sizeof(struct kernel_process));
	return *slot;
}

static uint32_t number_result(struct ws_stream *stream, uint32_t number)
{
	struct kernel_process *process = find_process(stream);
	uint32_t id = stream->sink->kernel_results++;

	if (number >= process->count && number < RESULTS_MOST) {
		size_t count = 2 * (size_t)number + 16;

		process->ids = ws_realloc(process->ids, count * sizeof(*process->ids));
		memset(process->ids + process->count, 0,
		       (count - process->count) * sizeof(*process->ids));
		process->count = count;
	}
	if (number < process->count)
		process->ids[number] = id + 1;
	return id;
}

static uint32_t intern(struct ws_stream *stream, char *text)
{
	uint32_t id = ws_stream_intern(stream, text, strlen(text));

	free(text);
	return id;
}

static void name_function(struct ws_stream *stream, struct ws_row_kernel_result *row,
			  const struct ws_rec_kernel_result *record)
{
	size_t length;
	const char *mangled = ws_stream_string_bytes(stream, record->mangled, &length);

	row->demangled = ws_stream_string(stream, record->demangled);
	row->name = ws_stream_string(stream, record->name);
	if (!mangled || !record->mangled)
		return;
	row->mangled = ws_stream_string(stream, record->mangled);
	row->demangled = intern(stream, ws_demangle(mangled));
	mangled = ws_stream_string_bytes(stream, record->mangled, &length);
	row->name = intern(stream, ws_demangle_short(mangled));
}

static void shape_row(struct ws_row_kernel_result *row, const struct ws_rec_kernel_result *record)
{
	row->grid_x = record->grid[0];
	row->grid_y = record->grid[1];
	row->grid_z = record->grid[2];
	row->block_x = record->block[0];
	row->block_y = record->block[1];
	row->block_z = record->block[2];
	row->cluster_x = record->cluster[0];
	row->cluster_y = record->cluster[1];
	row->cluster_z = record->cluster[2];
	row->registers = record->registers;
	row->static_shared = record->static_shared;
	row->dynamic_shared = record->dynamic_shared;
	row->executed_shared = ws_or(record->executed_shared, WS_NO_U32);
	row->shared_percent = record->shared_percent;
	row->local_thread = record->local_thread;
	row->constant_bytes = record->constant_bytes;
	row->cache_config = record->cache_config;
	row->cooperative = record->cooperative != 0;
}

void ws_convert_kernel_result(struct ws_stream *stream, const struct ws_rec *rec)
{
	const struct ws_rec_kernel_result *record = (const void *)rec;
	struct ws_row_kernel_result row = {.process = stream->process, .thread = stream->thread};

	if (ws_rec_bytes(rec) < sizeof(*record))
		return;
	if (record->thread)
		row.thread = ws_stream_thread(stream, record->thread);
	row.start = record->start;
	row.end = record->duration ? record->start + record->duration : WS_NO_TIME;
	row.id = number_result(stream, rec->value);
	row.device = record->device;
	row.context = record->context;
	row.stream = record->stream;
	row.correlation = record->correlation;
	row.launch = record->launch;
	row.instance = record->instance;
	row.graph = record->graph;
	row.graph_node = record->graph_node;
	row.passes = record->passes;
	shape_row(&row, record);
	name_function(stream, &row, record);
	row.replay = ws_stream_string(stream, record->replay);
	row.cache_control = ws_stream_string(stream, record->cache_control);
	row.clock_control = ws_stream_string(stream, record->clock_control);
	row.nvtx = ws_stream_string(stream, record->nvtx);
	row.sections = ws_stream_string(stream, record->sections);
	row.chip = ws_stream_string(stream, record->chip);
	row.tool = ws_stream_intern(stream, "warpsight", strlen("warpsight"));
	row.error = ws_stream_string(stream, record->error);
	ws_writer_add(stream->writer, WS_TABLE_kernel_result, &row);
}

void ws_convert_kernel_metrics(struct ws_stream *stream, const struct ws_rec *rec)
{
	const struct ws_rec_kernel_metrics *record = (const void *)rec;
	const struct kernel_process *process = find_process(stream);
	uint32_t bytes = ws_rec_bytes(rec);

	if (bytes < sizeof(*record) || record->result >= process->count ||
	    !process->ids[record->result] ||
	    record->count > (bytes - sizeof(*record)) / sizeof(record->values[0]))
		return;
	for (uint32_t i = 0; i < record->count; i++) {
		struct ws_row_kernel_metric row = {
			.result = process->ids[record->result] - 1,
			.name = ws_stream_string(stream, record->values[i].name),
			.unit = ws_stream_string(stream, record->values[i].unit),
			.value = record->values[i].value};

		ws_writer_add(stream->writer, WS_TABLE_kernel_metric, &row);
	}
}

/* Add where the instruction is, as far as its code was kept. */
static void place_value(struct ws_stream *stream, struct ws_row_kernel_source *row,
			const char *function)
{
	struct ws_kernel_instruction instruction;
	enum ws_severity severity;
	char *complaint;

	if (!stream->sink->code || !function)
		return;
	instruction = ws_kernel_code_find(stream->sink->code, stream->writer, row->cubin, function,
					  row->pc);
	complaint = ws_kernel_code_complaint(stream->sink->code, &severity);
	if (complaint)
		ws_stream_diagnostic(stream, severity, "kernel", "%s", complaint);
	free(complaint);
	row->sass = instruction.sass;
	row->file = instruction.file;
	row->line = instruction.line;
}

/* A function that values will follow of. */
static void expect_function(struct ws_stream *stream, uint64_t cubin, const char *function)
{
	struct ws_row_kernel_source row = {.cubin = cubin};

	place_value(stream, &row, function);
}

void ws_convert_kernel_source(struct ws_stream *stream, const struct ws_rec *rec)
{
	const struct ws_rec_kernel_source *record = (const void *)rec;
	const struct kernel_process *process = find_process(stream);
	uint32_t bytes = ws_rec_bytes(rec);
	const char *text;
	char *function;
	size_t length;

	if (bytes < sizeof(*record) ||
	    (record->count &&
	     (record->result >= process->count || !process->ids[record->result])) ||
	    record->count > (bytes - sizeof(*record)) / sizeof(record->values[0]))
		return;
	text = ws_stream_string_bytes(stream, record->function, &length);
	function = ws_strdup(text ? text : "");
	if (!record->count)
		expect_function(stream, record->cubin, function);
	for (uint32_t i = 0; i < record->count; i++) {
		struct ws_row_kernel_source row = {
			.result = process->ids[record->result] - 1,
			.cubin = record->cubin,
			.function = ws_stream_string(stream, record->function),
			.pc = record->values[i].pc,
			.metric = ws_stream_string(stream, record->values[i].metric),
			.value = record->values[i].value};

		place_value(stream, &row, function);
		ws_writer_add(stream->writer, WS_TABLE_kernel_source, &row);
	}
	free(function);
}

void ws_convert_kernel_samples(struct ws_stream *stream, const struct ws_rec *rec)
{
	const struct ws_rec_kernel_samples *record = (const void *)rec;
	const struct kernel_process *process = find_process(stream);
	uint32_t bytes = ws_rec_bytes(rec);

	if (bytes < sizeof(*record) || record->result >= process->count ||
	    !process->ids[record->result] ||
	    record->count > (bytes - sizeof(*record)) / sizeof(record->moments[0]))
		return;
	for (uint32_t i = 0; i < record->count; i++) {
		struct ws_row_kernel_sample row = {.result = process->ids[record->result] - 1,
						   .metric =
							   ws_stream_string(stream, record->metric),
						   .unit = ws_stream_string(stream, record->unit),
						   .start = record->moments[i].start,
						   .end = record->moments[i].end,
						   .value = record->moments[i].value};

		ws_writer_add(stream->writer, WS_TABLE_kernel_sample, &row);
	}
}

/* Convert the driver's units into those of the table: kHz, bits and threads. */
static void convert_units(struct ws_row_cuda_device *row, uint64_t memory_clock)
{
	uint64_t bus_bits = row->memory_bandwidth;

	row->clock_rate *= 1000;
	row->memory_bandwidth = 2 * memory_clock * 1000 * (bus_bits / 8);
	if (row->warp)
		row->warps_sm /= row->warp;
}

void ws_convert_kernel_device(struct ws_stream *stream, const struct ws_rec *rec)
{
	const struct ws_rec_kernel_device *record = (const void *)rec;
	struct ws_row_cuda_device row = {.process = stream->process};

	if (ws_rec_bytes(rec) < sizeof(*record))
		return;
	row.start = stream->clock->readings[0].raw;
	row.id = rec->value;
	row.visible = 1;
	row.memory_bytes = record->memory_bytes;
	row.name = ws_stream_string(stream, record->name);
	row.chip = ws_stream_string(stream, record->chip);
	row.bus = ws_stream_string(stream, record->bus);
	row.uuid = ws_stream_string(stream, record->uuid);
#define X(column, attribute) \
	row.column = (__typeof__(row.column))record->values[WS_KERNEL_DEVICE_##column];
	WS_KERNEL_DEVICE_ATTRIBUTES(X)
#undef X
	convert_units(&row, record->memory_clock);
	ws_writer_add(stream->writer, WS_TABLE_cuda_device, &row);
}
