/*
 * from_stack.h - stacks that hooks copied, for the converters of the calls that they belong to;
 * private to record/.
 */
#ifndef WS_FROM_STACK_H
#define WS_FROM_STACK_H

#include "record/convert.h"

/* The stack of the OS-runtime call that began at `start` (ticks), whose record follows it directly
 * in the ring; WS_NO_U32 for none. */
uint32_t ws_stack_of_call(struct ws_stream *stream, uint64_t start);
/* The stack of the CUDA call with that correlation in the process, returned only once; WS_NO_U32
 * when none has come yet. */
uint32_t ws_stack_of_correlation(struct ws_stream *stream, uint32_t correlation);
/*
 * What is at a code address of the process at that time: string id of the function, or of the
 * address in hexadecimal when the function is unknown. *library gets the string id of its file, or
 * 0. Each address is looked up once; there are a few hundred at most.
 */
uint32_t ws_stack_function(struct ws_stream *stream, uint64_t time, uint64_t address,
			   uint32_t *library);
/* The name of a string id that ws_stack_function returned for this process; "" when the id stands
 * for an address. */
const char *ws_stack_function_text(struct ws_stream *stream, uint32_t name);

#endif
