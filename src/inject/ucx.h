/*
 * ucx.h - what the wrappers of UCX's functions keep of their arguments; used by
 * libraries/ucx.calls. No header of UCX is needed: what is read of its structures has been the same
 * in all versions that have them. tests/libraries compares it with the header if that is installed.
 */
#ifndef WS_INJECT_UCX_H
#define WS_INJECT_UCX_H

#include "inject/library.h"

#pragma GCC visibility push(hidden)

/* The type of data that a ucp_request_param_t names: single bytes if it names none. */
uint64_t ws_ucx_type(const void *param);
/* The bytes of `count` pieces of data of a type at `buffer`; not known for types with functions of
 * their own. */
int64_t ws_ucx_size(const void *buffer, size_t count, uint64_t type);
/* The error that a call returned, as a status or instead of a request. */
static inline int64_t ws_ucx_error(intptr_t result)
{
	return result < 0 && result >= -100 ? result : WS_LIBRARY_NONE;
}
/* A row of UCP_WORKERS. */
void ws_ucx_note_worker(int result, void **worker);

#pragma GCC visibility pop
#endif
