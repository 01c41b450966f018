/* kallsyms.h - names of kernel functions, for a batch of addresses, from /proc/kallsyms. Whether it
 * shows addresses to users other than root depends on kernel.kptr_restrict. */
#ifndef WS_SYMBOLS_KALLSYMS_H
#define WS_SYMBOLS_KALLSYMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * For each of address[0..n-1], which are sorted, that is in a function listed in the text, call
 * `found` with the function's name, which ends with the kernel module in brackets, and where it
 * begins. Texts are valid during the call. False when the addresses in the text are hidden.
 */
bool ws_kallsyms_find_text(const char *text, size_t size, const uint64_t *address, size_t n,
			   void (*found)(void *ctx, size_t i, const char *name, uint64_t begin),
			   void *ctx);
/* The same for the running kernel. False when it does not show its symbols. */
bool ws_kallsyms_find(const uint64_t *address, size_t n,
		      void (*found)(void *ctx, size_t i, const char *name, uint64_t begin),
		      void *ctx);

#endif
