/*
 * mem.h - allocation for the tool side (never for hooks). Running out of memory
 * ends the program with one line: there is nothing a caller could do better.
 */
#ifndef WS_BASE_MEM_H
#define WS_BASE_MEM_H

#include <stddef.h>

void *ws_malloc(size_t n);
void *ws_calloc(size_t n, size_t size);
void *ws_realloc(void *memory, size_t n);
/*
 * Like ws_malloc, for many megabytes looked at all over: in huge pages where the kernel has them,
 * since a look at a page of 4 KiB among a hundred thousand misses the TLB too, and waits for that
 * even where the memory was asked ahead.
 */
void *ws_malloc_huge(size_t n);
char *ws_strdup(const char *text);
char *ws_strndup(const char *text, size_t n);
char *ws_format(const char *fmt, ...)
	__attribute__((format(printf, 1, 2))); /* owned by the caller */

/*
 * Grow array `a` (a pointer variable with a capacity variable) so that it holds at
 * least `need` elements; doubles, so that pushes are amortised constant.
 */
#define ws_grow(a, cap, need)                                       \
	do {                                                        \
		if ((size_t)(need) > (size_t)(cap)) {               \
			size_t ws_n = (cap) ? (size_t)(cap)*2 : 16; \
			if (ws_n < (size_t)(need))                  \
				ws_n = (size_t)(need);              \
			(a) = ws_realloc((a), ws_n * sizeof(*(a))); \
			(cap) = ws_n;                               \
		}                                                   \
	} while (0)

/* A text or byte buffer that grows. Zero-initialise; free with ws_text_free. Always NUL-terminated
 * once written to. */
struct ws_text {
	char *text;
	size_t len, cap;
};

void ws_text_add(struct ws_text *text, const void *bytes, size_t n);
void ws_text_puts(struct ws_text *text, const char *word);
void ws_text_printf(struct ws_text *text, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
void ws_text_free(struct ws_text *text);

#endif
