/*
 * cuda_dlsym.c - gives our functions to profilers inside the program that look libcupti's functions
 * up by name (XLA's profiler, users of Python's ctypes).
 *
 * The library is preloaded, so the whole process uses this dlsym. It returns the functions of
 * cuda_inner.c in place of libcupti's of the same name, those of cuda_profiler.c in place of
 * cudaProfilerStart and its like, and leaves all other names to the C library's dlsym.
 */
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "base/gpu_tools.h"
#include "inject/cuda.h"
#include "inject/dlsym_jump.h"

static ws_dlsym_fn *real;

void *ws_cuda_find_symbol(void *handle, const char *name)
{
	if (!real)
		real = ws_find_next_dlsym();
	return real(handle, name);
}

/* Returns our function instead of libcupti's, but only if libcupti has one, and never if that would
 * disturb a tool that has the GPU to itself. */
__attribute__((visibility("hidden"), used)) void *ws_dlsym_cupti(void *handle, const char *name)
{
	void *theirs = ws_cuda_find_symbol(handle, name),
	     *ours = theirs && !ws_find_gpu_tool(environ) ? ws_inner_find_function(name) : NULL;

	return ours ? ours : theirs;
}

__attribute__((visibility("hidden"), used)) void *ws_dlsym_profiler(void *handle, const char *name)
{
	return ws_cuda_stand_before(name, ws_cuda_find_symbol(handle, name));
}

/* The C library's dlsym, or one of the above for the names that they handle. A caller that asks for
 * the next definition interposes such functions itself. */
__attribute__((visibility("hidden"), used)) ws_dlsym_fn *ws_dlsym_whose(void *handle,
									const char *name)
{
	if (name && !strncmp(name, "cupti", 5))
		return ws_dlsym_cupti;
	if (name && handle != RTLD_NEXT && ws_cuda_stands_before(name))
		return ws_dlsym_profiler;
	if (!real)
		real = ws_find_next_dlsym();
	return real;
}

WS_DLSYM_JUMP
