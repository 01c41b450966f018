/*
 * cuda_dlsym.c - profilers inside the program that look libcupti's functions up by name (XLA's,
 * those of Python's ctypes) get ours too.
 *
 * The library is preloaded, so this dlsym is everybody's. It gives the functions of cuda_inner.c in
 * place of libcupti's of the same name, those of cuda_profiler.c in place of cudaProfilerStart and
 * its like, and leaves all else to the C library's.
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

/* Gives our function instead of libcupti's, but only where libcupti has one, and never where it
 * would get in the way of a tool that has the GPU to itself. */
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

/* The C library's dlsym, or one of the above for the names that they are about. What asks for the
 * next definition stands before such functions itself. */
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
