/*
 * scopes.h - what the program itself says that a thread does: the innermost operator, annotation or
 * NVTX range at any time. It is used where a thread was not sampled, as in imported traces.
 */
#ifndef WS_ANALYZE_SCOPES_H
#define WS_ANALYZE_SCOPES_H

#include "query/query.h"

struct ws_scope_change { /* from `at` on the innermost scope of the thread is `name` */
	uint64_t at;
	uint32_t thread;
	uint32_t name; /* string; 0 for none */
};

struct ws_scopes {
	struct ws_scope_change *changes; /* by (thread, at) */
	size_t count, cap;
};

/*
 * Read a framework's operators, annotations and Python calls of threads with ids below
 * `thread_count`; where there are none, NVTX ranges. If there are more than a million, changes are
 * a millionth of the recording apart, and names have their share of them. Free with ws_scopes_free.
 */
void ws_scopes_load(const struct ws_report *report, size_t thread_count, struct ws_scopes *scopes);
void ws_scopes_free(struct ws_scopes *scopes);
/* The last change of the thread at or before `at`: its number, or SIZE_MAX when there is none. */
size_t ws_scopes_find(const struct ws_scopes *scopes, uint32_t thread, uint64_t at);

#endif
