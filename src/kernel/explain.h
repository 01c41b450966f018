/*
 * explain.h - what a metric counts, in words: made of what the parts of its name mean
 * (glossary.def).
 */
#ifndef WS_KERNEL_EXPLAIN_H
#define WS_KERNEL_EXPLAIN_H

#include "base/mem.h"

enum ws_kernel_language { WS_ENGLISH, WS_CHINESE };

/* Append the explanation of a metric. Returns false, with nothing appended, when no part of its
 * name is known. */
bool ws_kernel_explain(const char *metric, enum ws_kernel_language language, struct ws_text *text);

#endif
