/*
 * from_osrt.c - converts OS-runtime records into rows.
 *
 * Most records are one row. Calls that never returned (the thread blocks for ever, the program was
 * killed) have no record, only a note in their ring, and give a row without an end.
 *
 * Records come from memory that the target can overwrite: sizes and function numbers are checked
 * here, handles where they are looked up.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "ring/osrt_record.h"
#include "record/from_stack.h"
#include "record/proc.h"

static const struct function {
	const char *name;
	uint8_t object;
} functions[WS_OSRT_COUNT] = {
#define WS_OSRT_ENTRY(symbol, shown, error, object) {#shown, WS_OSRT_OBJECT_##object},
#include "ring/osrt_functions.def"
};

/* String ids of the names, in the report that the process goes to; 0 for those not looked up yet.
 */
static uint32_t find_function_name(struct ws_stream *stream, unsigned fn)
{
	void **slot = ws_proc_slot(stream->proc, WS_SLOT_OSRT, free);
	uint32_t *ids = *slot;

	if (ws_unlikely(!ids))
		ids = *slot = ws_calloc(WS_OSRT_COUNT, sizeof(*ids));
	if (ws_unlikely(!ids[fn]))
		ids[fn] = ws_stream_intern(stream, functions[fn].name, strlen(functions[fn].name));
	return ids[fn];
}

/*
 * Start of the last call of the ring that has a row, in ticks. Without it, a kill between writing a
 * record and removing its note would show the call twice.
 */
static uint64_t get_last_start(const struct ws_stream *stream)
{
	return (uint64_t)(uintptr_t)stream->domain_state[WS_SLOT_OSRT];
}

static void set_last_start(struct ws_stream *stream, uint64_t start)
{
	stream->domain_state[WS_SLOT_OSRT] = (void *)(uintptr_t)start;
}

static void report_damage(struct ws_stream *stream)
{
	ws_stream_diagnostic(stream, WS_ERROR, "osrt",
			     "Records of traced calls were overwritten by the program itself (a "
			     "stray write into shared "
			     "memory); they are left out.");
}

/* What is known about a call besides its record. */
struct call_details {
	uint64_t object, position;
	uint32_t path, holder, item;
};

static void convert_osrt_record(struct ws_stream *stream, const struct ws_rec_osrt *record,
				const struct call_details *details)
{
	struct ws_row_osrt *row;
	uint32_t name, stack;

	if (record->rec.small >= WS_OSRT_COUNT || record->end < record->start) {
		report_damage(stream);
		return;
	}
	name = find_function_name(stream, record->rec.small);
	stack = ws_stack_of_call(stream, record->start);
	set_last_start(stream, record->start);
	if (!ws_stream_wants(stream, ws_stream_time(stream, record->start),
			     ws_stream_time(stream, record->end)))
		return;
	row = ws_writer_row(stream->writer, WS_TABLE_osrt, stream->stage[WS_TABLE_osrt]);
	row->start = ws_stream_time(stream, record->start);
	row->end = ws_stream_time(stream, record->end);
	row->thread = stream->thread;
	row->name = name;
	row->result = record->result;
	row->error = (int32_t)(record->rec.value >> 16);
	row->nesting = record->rec.value >> 8 & 0xff;
	row->object = details->object;
	row->path = details->path;
	row->callchain = stack;
	row->holder = details->holder;
	row->position = details->position;
	row->item = details->item;
}

void ws_convert_osrt(struct ws_stream *stream, const struct ws_rec *rec)
{
	if (ws_rec_bytes(rec) == sizeof(struct ws_rec_osrt))
		convert_osrt_record(stream, (const void *)rec,
				    &(struct call_details){.position = WS_NO_U64});
	else
		report_damage(stream);
}

static void convert_call(struct ws_stream *stream, const struct ws_rec_osrt_more *record,
			 uint64_t position, uint32_t item)
{
	struct call_details details = {.object = record->object,
				       .position = position,
				       .holder = record->holder,
				       .item = item};

	details.path = record->call.rec.value & WS_OSRT_LOCAL_PATH
			       ? ws_stream_text(stream, record->path, true)
			       : ws_stream_string(stream, record->path);
	convert_osrt_record(stream, &record->call, &details);
}

void ws_convert_osrt_more(struct ws_stream *stream, const struct ws_rec *rec)
{
	if (ws_rec_bytes(rec) == sizeof(struct ws_rec_osrt_more))
		convert_call(stream, (const void *)rec, WS_NO_U64, 0);
	else
		report_damage(stream);
}

void ws_convert_osrt_file(struct ws_stream *stream, const struct ws_rec *rec)
{
	const struct ws_rec_osrt_file *record = (const void *)rec;

	if (ws_rec_bytes(rec) == sizeof(*record))
		convert_call(stream, &record->more, record->position, record->item);
	else
		report_damage(stream);
}

static bool lasts_long_enough(struct ws_stream *stream, uint64_t start)
{
	uint64_t now = stream->clock->readings[stream->clock->n - 1].raw;
	double threshold = stream->proc->drain->ops.osrt_threshold * 1e9;

	return now >= start && (double)(now - start) >= threshold;
}

/* The object of an open call, as far as its note tells. */
static uint64_t find_object(const struct ws_open_call *call)
{
	uint8_t object = functions[call->function].object;
	bool has_descriptor = object == WS_OSRT_OBJECT_FD || object == WS_OSRT_OBJECT_FD_AT;

	if (object == WS_OSRT_OBJECT_VALUE)
		return call->object;
	if (has_descriptor && (int)call->object > 0)
		return (uint32_t)call->object;
	return 0;
}

void ws_convert_osrt_open(struct ws_stream *stream)
{
	const struct ws_ring *ring = stream->ring;
	uint32_t n;

	if (!ring || atomic_load_explicit(&ring->closed, memory_order_acquire))
		return;
	n = atomic_load_explicit(&ring->calls_open, memory_order_acquire);
	for (uint32_t i = 0; i < n && i < WS_OPEN_CALLS; i++) {
		struct ws_open_call call;
		struct ws_row_osrt row = {.end = WS_NO_TIME,
					  .thread = stream->thread,
					  .nesting = i,
					  .callchain = WS_NO_U32,
					  .position = WS_NO_U64};

		ws_copy_out(&call, &ring->calls[i], sizeof(call));
		if (call.function >= WS_OSRT_COUNT || !call.start ||
		    call.start == get_last_start(stream))
			continue;
		row.start = ws_stream_time(stream, call.start);
		if (!lasts_long_enough(stream, row.start) ||
		    !ws_stream_wants(stream, row.start, UINT64_MAX))
			continue;
		row.name = find_function_name(stream, call.function);
		row.object = find_object(&call);
		ws_writer_add(stream->writer, WS_TABLE_osrt, &row);
	}
}
