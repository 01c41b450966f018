/*
 * go.h - what is known of programs in Go: goroutines move from thread to thread, and the runtime
 * collects garbage on threads of the same kind.
 */
#ifndef WS_ANALYZE_GO_H
#define WS_ANALYZE_GO_H

#include "analyze/model.h"

/* Whether the program is one in Go of whose own code only one thread runs at a time: what works
 * beside it is the runtime. */
bool ws_is_lone_goroutine(const struct ws_model *model);

#endif
