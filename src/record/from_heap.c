/* from_heap.c - converts records of sampled blocks of memory into rows. */
#include "record/from_stack.h"
#include "record/proc.h"
#include "ring/heap_record.h"

void ws_convert_heap(struct ws_stream *stream, const struct ws_rec *rec)
{
	const struct ws_rec_heap *record = (const void *)rec;
	bool freed = rec->small != 0;
	struct ws_row_heap row = {.thread = stream->thread, .callchain = WS_NO_U32};

	if (ws_rec_bytes(rec) != sizeof(*record) || record->bytes > INT64_MAX) {
		ws_stream_diagnostic(stream, WS_ERROR, "malloc",
				     "Records of memory were overwritten by the program itself (a "
				     "stray write into shared memory); they are left out.");
		return;
	}
	if (!freed)
		row.callchain = ws_stack_of_call(stream, record->time);
	row.start = ws_stream_time(stream, record->time);
	row.born = ws_stream_time(stream, record->born);
	if (!ws_stream_wants(stream, row.start, row.start))
		return;
	row.address = record->address;
	row.bytes = (int64_t)record->bytes;
	if (freed)
		row.bytes = -row.bytes;
	*(struct ws_row_heap *)ws_writer_row(stream->writer, WS_TABLE_heap,
					     stream->stage[WS_TABLE_heap]) = row;
}
