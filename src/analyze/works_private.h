/* works_private.h - the kinds of work that works.c looks for. */
#ifndef WS_ANALYZE_WORKS_PRIVATE_H
#define WS_ANALYZE_WORKS_PRIVATE_H

#include "analyze/works.h"
#include "base/mem.h"

/* In Python's interpreter and its own modules only; they count before the others. */
extern const struct ws_work_kind ws_python_work_kinds[];
extern const uint8_t ws_python_work_kind_count;

extern const struct ws_work_kind ws_work_kinds[];
extern const uint8_t ws_work_kind_count;

#endif
