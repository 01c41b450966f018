/*
 * source.h - metrics of single instructions of a measured kernel, by function.
 */
#ifndef WS_KERNEL_SOURCE_H
#define WS_KERNEL_SOURCE_H

#include "base/mem.h"
#include "kernel/result.h"

/* Append "sources" of a result, given by its number, as a member of an object that the caller has
 * begun. Each function has its metrics, and its instructions with a value for each metric. */
void ws_put_kernel_sources(struct ws_text *out, const struct ws_report *report, uint32_t result);

#endif
