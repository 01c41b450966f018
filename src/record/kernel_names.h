/*
 * kernel_names.h - names of functions of the running kernel, obtained by a program in the kernel
 * (bpf/kernel_names.bpf.c).
 *
 * That takes about a microsecond per name, and a process that may load such programs may inspect
 * the kernel anyway. Everyone else reads /proc/kallsyms (symbols/kallsyms.h).
 */
#ifndef WS_RECORD_KERNEL_NAMES_H
#define WS_RECORD_KERNEL_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ws_kernel_names;

/* NULL when the kernel does not take the program. Freed by ws_kernel_names_close. */
struct ws_kernel_names *ws_kernel_names_open(void);
void ws_kernel_names_close(struct ws_kernel_names *names); /* NULL is fine */
/*
 * For each of address[0..n-1] that is in a function, call `found` with the function's name, which
 * ends with the kernel module in brackets, and where it begins. Texts are valid during the call.
 * `names` is a struct ws_kernel_names. False when the kernel refuses, at the first address.
 */
bool ws_kernel_names_find(void *names, const uint64_t *address, size_t n,
			  void (*found)(void *ctx, size_t i, const char *name, uint64_t begin),
			  void *ctx);

#endif
