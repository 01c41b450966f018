/*
 * source.h - metrics of single instructions of a measured kernel, by function.
 */
#ifndef WS_KERNEL_SOURCE_H
#define WS_KERNEL_SOURCE_H

#include "base/mem.h"
#include "kernel/result.h"

/* "sources" of a result, by its number, as a member of an object that the caller has begun: of each
 * function its metrics, and its instructions with a value of each. */
void ws_put_kernel_sources(struct ws_text *out, const struct ws_report *report, uint32_t result);

#endif
