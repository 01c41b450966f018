/* from_nccl.c - see from_nccl.h. */
#include "record/from_nccl.h"

static void free_nccl_process(void *memory)
{
	ws_nccl_free(memory);
}

struct ws_nccl *ws_stream_nccl(struct ws_stream *stream)
{
	return *ws_proc_slot(stream->proc, WS_SLOT_NCCL, free_nccl_process);
}

struct ws_nccl *ws_stream_begin_nccl(struct ws_stream *stream)
{
	void **slot = ws_proc_slot(stream->proc, WS_SLOT_NCCL, free_nccl_process);

	if (!*slot)
		*slot = ws_nccl_new();
	return *slot;
}

static uint32_t intern_text(void *ctx, const char *text, size_t length)
{
	return ws_stream_intern(ctx, text, length);
}

static void put_row(void *ctx, struct ws_row_collective *row)
{
	struct ws_stream *stream = ctx;

	row->process = stream->process;
	ws_writer_add(stream->writer, WS_TABLE_collective, row);
}

void ws_stream_put_collectives(struct ws_stream *stream, bool all)
{
	const struct ws_nccl_out out = {.ctx = stream, .intern = intern_text, .put = put_row};
	struct ws_nccl *nccl = ws_stream_nccl(stream);

	if (nccl)
		ws_nccl_put_rows(nccl, &out, all);
}
