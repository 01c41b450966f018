/*
 * library_calls.h - the calls that a program made to traced libraries, and which of them a thread
 * was in at a given time: this finds the call that launched work on a GPU.
 *
 * Libraries call each other, and themselves: the call that counts is the outermost one of a thread,
 * the one that the program made. Calls are rows of `slice` whose category ends in _EVENTS.
 */
#ifndef WS_QUERY_LIBRARY_CALLS_H
#define WS_QUERY_LIBRARY_CALLS_H

#include "query/query.h"

struct ws_library_call {
	uint64_t start, end; /* session ns; the end of one that never returned is UINT64_MAX */
	uint32_t thread;
	uint32_t name, category, args; /* strings */
};

struct ws_library_calls {
	struct ws_library_call *calls; /* by thread and start; none inside another */
	size_t count, capacity;
	uint64_t damaged; /* blocks */
};

#define WS_NO_LIBRARY_CALL SIZE_MAX

/* Read all calls. 0, or -1 with a message. Free with ws_library_calls_free in any case. */
int ws_library_calls_load(const struct ws_report *report, struct ws_library_calls *calls,
			  struct ws_err *err);
void ws_library_calls_free(struct ws_library_calls *calls);
/* The call that the thread was in at `time`, or WS_NO_LIBRARY_CALL. Thread-safe. */
size_t ws_library_calls_find(const struct ws_library_calls *calls, uint32_t thread, uint64_t time);

#endif
