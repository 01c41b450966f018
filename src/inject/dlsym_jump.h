/*
 * dlsym_jump.h - a dlsym for a preloaded hook library, which the whole process then uses. It asks
 * ws_dlsym_whose, which the library defines, for the function to use, and jumps there. The C
 * library's dlsym looks at its caller's address (RTLD_NEXT), so it must be reached by a jump, not
 * by a call; hence the assembly.
 */
#ifndef WS_DLSYM_JUMP_H
#define WS_DLSYM_JUMP_H

#include <dlfcn.h>

#if defined(__x86_64__)
#define WS_OLDEST_DLSYM "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define WS_OLDEST_DLSYM "GLIBC_2.17"
#endif
__asm__(".symver dlvsym, dlvsym@" WS_OLDEST_DLSYM);
void *dlvsym(void *handle, const char *name, const char *version);

typedef void *ws_dlsym_fn(void *handle, const char *name);

/* The dlsym behind ours: the C library's, or that of another hook. */
static inline ws_dlsym_fn *ws_find_next_dlsym(void)
{
	return (ws_dlsym_fn *)dlvsym(RTLD_NEXT, "dlsym", WS_OLDEST_DLSYM);
}

/* Must be defined wherever WS_DLSYM_JUMP is used, hidden and marked as used. */
ws_dlsym_fn *ws_dlsym_whose(void *handle, const char *name);

/* clang-format off */
#if defined(__x86_64__)
#define WS_DLSYM_JUMP \
	__asm__(".text\n" \
		".globl dlsym\n" \
		".type dlsym, @function\n" \
		"dlsym:\n" \
		"	.cfi_startproc\n" \
		"	endbr64\n" \
		"	push %rdi\n" \
		"	.cfi_adjust_cfa_offset 8\n" \
		"	push %rsi\n" \
		"	.cfi_adjust_cfa_offset 8\n" \
		"	sub $8, %rsp\n" \
		"	.cfi_adjust_cfa_offset 8\n" \
		"	call ws_dlsym_whose\n" \
		"	add $8, %rsp\n" \
		"	.cfi_adjust_cfa_offset -8\n" \
		"	pop %rsi\n" \
		"	.cfi_adjust_cfa_offset -8\n" \
		"	pop %rdi\n" \
		"	.cfi_adjust_cfa_offset -8\n" \
		"	jmp *%rax\n" \
		"	.cfi_endproc\n" \
		".size dlsym, .-dlsym\n");
#elif defined(__aarch64__)
#define WS_DLSYM_JUMP \
	__asm__(".text\n" \
		".globl dlsym\n" \
		".type dlsym, %function\n" \
		"dlsym:\n" \
		"	.cfi_startproc\n" \
		"	hint #34\n" \
		"	stp x29, x30, [sp, #-32]!\n" \
		"	.cfi_adjust_cfa_offset 32\n" \
		"	.cfi_rel_offset x29, 0\n" \
		"	.cfi_rel_offset x30, 8\n" \
		"	stp x0, x1, [sp, #16]\n" \
		"	bl ws_dlsym_whose\n" \
		"	mov x16, x0\n" \
		"	ldp x0, x1, [sp, #16]\n" \
		"	ldp x29, x30, [sp], #32\n" \
		"	.cfi_adjust_cfa_offset -32\n" \
		"	.cfi_restore x29\n" \
		"	.cfi_restore x30\n" \
		"	br x16\n" \
		"	.cfi_endproc\n" \
		".size dlsym, .-dlsym\n");
#endif
/* clang-format on */

#endif
