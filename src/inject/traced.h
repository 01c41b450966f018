/*
 * traced.h - how follow.c, which interposes the functions that start processes, reports them as OS-runtime calls: through a function of
 * the OS-runtime library when that is loaded.
 */
#ifndef WS_TRACED_H
#define WS_TRACED_H

#include <stdint.h>

#include "base/compiler.h"

enum ws_traced {
	WS_TRACED_fork,
	WS_TRACED_vfork,
	WS_TRACED_posix_spawn,
	WS_TRACED_posix_spawnp,
	WS_TRACED_system,
	WS_TRACED_popen,
	WS_TRACED_forkpty,
	WS_TRACED_COUNT
};

/* Set by the OS-runtime library when it is loaded; NULL without it. start and end in ticks; error is errno or 0. Keeps errno. */
typedef void ws_traced_fn(enum ws_traced fn, uint64_t start, uint64_t end, int64_t result, int error);
WS_EXPORT extern ws_traced_fn *ws_traced_hook;

#define ws_traced_call(fn, start, end, result, error)                                  \
	do {                                                                           \
		if (ws_traced_hook)                                                    \
			ws_traced_hook(fn, start, end, (int64_t)(result), error);      \
	} while (0)

#endif
