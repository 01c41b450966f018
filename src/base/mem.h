/*
 * mem.h - allocation for the tool side (never for hooks). Running out of memory ends the program
 * with a one-line message, since a caller could do nothing better. The caller owns what is returned
 * and frees it with free.
 */
#ifndef WS_BASE_MEM_H
#define WS_BASE_MEM_H

#include <stddef.h>

#include "base/choose.h"

/* Called when memory runs out, on the thread that asked for it; must neither allocate nor return.
 * If NULL, the program aborts. */
extern void (*ws_out_of_memory)(void);

/* What the functions below do when there is no memory. Also for use with libraries that report a
 * failed allocation. */
_Noreturn void ws_give_up_for_memory(void);
void *ws_malloc(size_t size);
void *ws_calloc(size_t count, size_t size);
void *ws_realloc(void *memory, size_t size);
/*
 * Like ws_malloc, for many megabytes that are read in no particular order: in huge pages where the
 * kernel has them, since touching one 4 KiB page among a hundred thousand misses the TLB as well,
 * and even a prefetch waits for that.
 */
void *ws_malloc_huge(size_t size);
/* How much address space this process may have (ulimit -v); SIZE_MAX where there is no limit. */
size_t ws_address_space(void);
char *ws_strdup(const char *text);
char *ws_strndup(const char *text, size_t length);
char *ws_format(const char *fmt, ...)
	__attribute__((format(printf, 1, 2))); /* owned by the caller */

/*
 * Grow array `a` (a pointer variable with a capacity variable) so that it holds at least `need`
 * elements; the capacity doubles, so that the cost of an append is constant on average.
 */
#define ws_grow(a, cap, need)                                                     \
	do {                                                                      \
		if ((size_t)(need) > (size_t)(cap)) {                             \
			size_t ws_capacity = ws_max((size_t)(cap)*2, (size_t)16); \
			ws_capacity = ws_max(ws_capacity, (size_t)(need));        \
			(a) = ws_realloc((a), ws_capacity * sizeof(*(a)));        \
			(cap) = ws_capacity;                                      \
		}                                                                 \
	} while (0)

/* A text or byte buffer that grows. Zero-initialise; free with ws_text_free. Always
 * NUL-terminated once written to. */
struct ws_text {
	char *text;
	size_t len, cap;
};

void ws_text_add(struct ws_text *text, const void *bytes, size_t size);
void ws_text_puts(struct ws_text *text, const char *word);
void ws_text_printf(struct ws_text *text, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
void ws_text_free(struct ws_text *text);

#endif
