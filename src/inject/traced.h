/*
 * traced.h - how follow.c, which interposes the functions that start processes, reports them as
 * OS-runtime calls: through a function of the OS-runtime library when that is loaded.
 */
#ifndef WS_TRACED_H
#define WS_TRACED_H

#include <stdbool.h>
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

/* Set by the OS-runtime library when it is loaded; NULL without it. start and end in ticks; error
 * is errno or 0. Keeps errno. */
typedef void ws_traced_fn(enum ws_traced fn, uint64_t start, uint64_t end, int64_t result,
			  int error);
WS_EXPORT extern ws_traced_fn *ws_traced_hook;

#define ws_traced_call(fn, start, end, result, error)                             \
	do {                                                                      \
		if (ws_traced_hook)                                               \
			ws_traced_hook(fn, start, end, (int64_t)(result), error); \
	} while (0)

/*
 * Set by the Python hook when an interpreter is there: records a sample of the calling thread,
 * which a signal has interrupted, with its Python frames. `weight` is nanoseconds of CPU time.
 * False when it has not: the thread runs no Python, or cannot be inspected now.
 */
typedef bool ws_sample_fn(uint64_t time, uint64_t weight, const void *context);
WS_EXPORT extern ws_sample_fn *ws_sample_hook;
/*
 * Set by the Python hook when stacks of CUDA calls are to have Python's frames: records the calling
 * thread's stack for the call with that correlation, at most `bytes` of it. False when it has not.
 */
typedef bool ws_stack_fn(uint32_t correlation, uint32_t bytes);
WS_EXPORT extern ws_stack_fn *ws_stack_hook;
/*
 * Set by the Python hook when stacks of calls of the OS runtime are to have Python's frames: writes
 * the calling thread's, if it runs Python, directly before its stack. Between enter and leave.
 */
typedef void ws_frames_fn(struct ws_thread *thread);
WS_EXPORT extern ws_frames_fn *ws_frames_hook;

#endif
