/* kallsyms.h - names of kernel functions, for a batch of addresses, from /proc/kallsyms. Whether it
 * shows addresses to users other than root depends on kernel.kptr_restrict. */
#ifndef WS_SYMBOLS_KALLSYMS_H
#define WS_SYMBOLS_KALLSYMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ws_kallsyms;

/*
 * For each of address[0..n-1], which are sorted, that is in a function listed in the text, call
 * `found` with the function's name, which ends with the kernel module in brackets, and where it
 * begins. Texts are valid during the call. False when the addresses in the text are hidden.
 */
bool ws_kallsyms_find_text(const char *text, size_t size, const uint64_t *address, size_t n,
			   void (*found)(void *ctx, size_t i, const char *name, uint64_t begin),
			   void *ctx);
/*
 * The symbols of the running kernel, read by a thread of its own: the kernel takes some 50 ms to
 * print them. They are read again if kernel modules were loaded or removed before they are needed.
 * Never NULL; freed by ws_kallsyms_free, which waits for the thread.
 */
struct ws_kallsyms *ws_kallsyms_start_reading(void);
void ws_kallsyms_free(struct ws_kallsyms *symbols);
/* Like ws_kallsyms_find_text, for the text that was read. False when the kernel does not show its
 * symbols. */
bool ws_kallsyms_find(struct ws_kallsyms *symbols, const uint64_t *address, size_t n,
		      void (*found)(void *ctx, size_t i, const char *name, uint64_t begin),
		      void *ctx);

#endif
