/*
 * cuda_dlsym.c - profilers inside the program that look libcupti's functions up by name (XLA's,
 * those of Python's ctypes) get ours too.
 *
 * The library is preloaded, so this dlsym is everybody's. It gives the functions of cuda_inner.c in
 * place of libcupti's of the same name, those of cuda_profiler.c in place of cudaProfilerStart and
 * its like, and leaves all else to the C library's. That one looks at
 * its caller's address (RTLD_NEXT), so it must be reached by a jump, not by a call: the few
 * instructions are written out.
 */
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "base/gpu_tools.h"
#include "inject/cuda.h"

#if defined(__x86_64__)
#define OLDEST "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define OLDEST "GLIBC_2.17"
#endif
__asm__(".symver dlvsym, dlvsym@" OLDEST);
void *dlvsym(void *handle, const char *name, const char *version);

typedef void *lookup_fn(void *handle, const char *name);

static lookup_fn *real;

void *ws_cuda_find_symbol(void *handle, const char *name)
{
	if (!real)
		real = (lookup_fn *)dlvsym(RTLD_NEXT, "dlsym", OLDEST);
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
__attribute__((visibility("hidden"), used)) lookup_fn *ws_dlsym_whose(void *handle,
								      const char *name)
{
	if (name && !strncmp(name, "cupti", 5))
		return ws_dlsym_cupti;
	if (name && handle != RTLD_NEXT && ws_cuda_stands_before(name))
		return ws_dlsym_profiler;
	if (!real)
		real = (lookup_fn *)dlvsym(RTLD_NEXT, "dlsym", OLDEST);
	return real;
}

#if defined(__x86_64__)
__asm__(".text\n"
	".globl dlsym\n"
	".type dlsym, @function\n"
	"dlsym:\n"
	"	.cfi_startproc\n"
	"	endbr64\n"
	"	push %rdi\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	push %rsi\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	sub $8, %rsp\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	call ws_dlsym_whose\n"
	"	add $8, %rsp\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	pop %rsi\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	pop %rdi\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	jmp *%rax\n"
	"	.cfi_endproc\n"
	".size dlsym, .-dlsym\n");
#elif defined(__aarch64__)
__asm__(".text\n"
	".globl dlsym\n"
	".type dlsym, %function\n"
	"dlsym:\n"
	"	.cfi_startproc\n"
	"	hint #34\n" /* bti c */
	"	stp x29, x30, [sp, #-32]!\n"
	"	.cfi_adjust_cfa_offset 32\n"
	"	.cfi_rel_offset x29, 0\n"
	"	.cfi_rel_offset x30, 8\n"
	"	stp x0, x1, [sp, #16]\n"
	"	bl ws_dlsym_whose\n"
	"	mov x16, x0\n"
	"	ldp x0, x1, [sp, #16]\n"
	"	ldp x29, x30, [sp], #32\n"
	"	.cfi_adjust_cfa_offset -32\n"
	"	.cfi_restore x29\n"
	"	.cfi_restore x30\n"
	"	br x16\n"
	"	.cfi_endproc\n"
	".size dlsym, .-dlsym\n");
#endif
