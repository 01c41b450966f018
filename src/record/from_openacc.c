/* from_openacc.c - converts records of the OpenACC hook into rows. */
#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "base/mem.h"
#include "record/proc.h"
#include "ring/openacc_record.h"
#include "schema/openacc.h"

static const struct {
	const char *text;
	uint8_t sort;
} events[WS_OPENACC_EVENTS] = {
#define WS_OPENACC(start, end, sort, text) [start] = {text, WS_OPENACC_##sort},
#include "schema/openacc.def"
#undef WS_OPENACC
};

/* The name of an event, with the place of its directive: "Enqueue launch at solve.c:24". */
static uint32_t make_event_name(struct ws_stream *stream, const struct ws_rec_openacc *record)
{
	const char *what = events[record->rec.small].text, *file, *base;
	size_t length = 0;
	char *text;
	uint32_t id;

	file = record->file ? ws_stream_string_bytes(stream, record->file, &length) : NULL;
	if (!file || !length)
		return ws_stream_intern(stream, what, strlen(what));
	base = strrchr(file, '/');
	text = ws_format("%s at %s:%u", what, base ? base + 1 : file, record->rec.value);
	id = ws_stream_intern(stream, text, strlen(text));
	free(text);
	return id;
}

static void fill_sizes(const struct ws_rec_openacc *record, struct ws_row_openacc *row)
{
	row->bytes = row->gangs = row->workers = row->vector_length = WS_NO_U64;
	if (row->sort == WS_OPENACC_DATA)
		row->bytes = record->bytes;
	if (row->sort != WS_OPENACC_LAUNCH)
		return;
	row->gangs = record->gangs;
	row->workers = record->workers;
	row->vector_length = record->vector_length;
}

void ws_convert_openacc(struct ws_stream *stream, const struct ws_rec *rec)
{
	const struct ws_rec_openacc *record = (const void *)rec;
	struct ws_row_openacc *row, filled = {.thread = stream->thread};

	if (ws_rec_bytes(rec) != sizeof(*record) || rec->small >= WS_OPENACC_EVENTS ||
	    !events[rec->small].text || record->end < record->start) {
		ws_stream_diagnostic(stream, WS_ERROR, "openacc",
				     "Records of OpenACC were overwritten by the program itself (a "
				     "stray write into shared memory); they are left out.");
		return;
	}
	filled.start = ws_stream_time(stream, record->start);
	filled.end = ws_stream_time(stream, record->end);
	if (!ws_stream_wants(stream, filled.start, filled.end))
		return;
	stream->sink->openacc_seen = true;
	filled.sort = events[rec->small].sort;
	filled.event = rec->small;
	filled.name = make_event_name(stream, record);
	filled.device_type = record->device_type;
	filled.device = record->device;
	filled.line = rec->value;
	filled.queue = record->queue;
	filled.construct = record->construct;
	filled.implicit = record->implicit != 0;
	filled.file = ws_stream_string(stream, record->file);
	filled.function = ws_stream_string(stream, record->function);
	filled.item = ws_stream_string(stream, record->item);
	fill_sizes(record, &filled);
	row = ws_writer_row(stream->writer, WS_TABLE_openacc, stream->stage[WS_TABLE_openacc]);
	*row = filled;
}
