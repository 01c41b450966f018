/*
 * nccl_channels.h - when channels of NCCL's kernels worked: what NCCL tells of that is held against
 * the times of the kernel.
 */
#ifndef WS_NCCL_CHANNELS_H
#define WS_NCCL_CHANNELS_H

#include "record/convert.h"

/* The row of a channel, with the times at which NCCL's thread saw it begin and end; gpu_start and
 * gpu_end as NCCL told them. It is written once its kernel is known. */
void ws_keep_nccl_channel(struct ws_stream *stream, const struct ws_row_nccl_event *row);
/* The kernel of an operation is known: `row` has its times, and the number of NCCL's event. */
void ws_note_nccl_kernel(struct ws_stream *stream, const struct ws_row_collective *row);
/* Write the rows whose kernels are known, or all of them. */
void ws_put_nccl_channels(struct ws_stream *stream, bool all);

#endif
