/*
 * from_nccl.h - how NCCL's ranges and kernels become collectives: what from_nvtx.c and from_cuda*.c
 * pass to the joiner of their process (nccl/nccl.h), and when its rows are written.
 */
#ifndef WS_FROM_NCCL_H
#define WS_FROM_NCCL_H

#include "nccl/nccl.h"
#include "record/convert.h"

/* The joiner of the stream's process; NULL unless it has used NCCL. */
struct ws_nccl *ws_stream_nccl(struct ws_stream *stream);
/* The process uses NCCL: make its joiner. */
struct ws_nccl *ws_stream_begin_nccl(struct ws_stream *stream);
/* Put a diagnostic into the report if NCCL should have told its plug-in something and has not. */
void ws_nccl_say_absent(struct ws_sink *sink);
/* Write the rows that are complete; with `all`, at the end of the process or of a collection, all
 * of them. */
void ws_stream_put_collectives(struct ws_stream *stream, bool all);

#endif
