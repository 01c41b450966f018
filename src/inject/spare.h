/*
 * spare.h - memory for short texts that can be had even where the kernel gives none: in a program
 * whose address space is limited below what it already takes. Not memory of the program, and
 * without locks, so that it can be had anywhere. What is had is zeroed.
 */
#ifndef WS_INJECT_SPARE_H
#define WS_INJECT_SPARE_H

#include <stddef.h>

#pragma GCC visibility push(hidden)
/* NULL when there is none. */
void *ws_spare_take(size_t bytes);
void ws_spare_give(void *memory, size_t bytes);
#pragma GCC visibility pop

#endif
