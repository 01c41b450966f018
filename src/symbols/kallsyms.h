/* kallsyms.h - names of kernel functions, for a batch of addresses, from /proc/kallsyms: only root
 * sees addresses there, as kernel.kptr_restrict says. */
#ifndef WS_SYMBOLS_KALLSYMS_H
#define WS_SYMBOLS_KALLSYMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * For each of address[0..n-1] (sorted) that lies in a function of the text at `text`, call `found`
 * with its name, which says the kernel module in brackets, and where it begins. Texts live for the
 * call. False when the addresses in the text are hidden.
 */
bool ws_kallsyms_find_text(const char *text, size_t size, const uint64_t *address, size_t n,
			   void (*found)(void *ctx, size_t i, const char *name, uint64_t begin),
			   void *ctx);
/* The same for the running kernel. False when it does not show its symbols. */
bool ws_kallsyms_find(const uint64_t *address, size_t n,
		      void (*found)(void *ctx, size_t i, const char *name, uint64_t begin),
		      void *ctx);

#endif
