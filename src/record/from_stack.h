/*
 * from_stack.h - stacks that hooks copied, for the converters of the calls that they belong to; private to record/.
 */
#ifndef WS_FROM_STACK_H
#define WS_FROM_STACK_H

#include "record/convert.h"

/* The stack of the OS-runtime call that began at `start` (ticks), whose record stands directly behind it in the ring; WS_NO_U32 for
 * none. */
uint32_t ws_stack_of_call(struct ws_stream *s, uint64_t start);
/* The stack of the CUDA call with that correlation in the process, once; WS_NO_U32 for none so far. */
uint32_t ws_stack_of_correlation(struct ws_stream *s, uint32_t correlation);
#endif
