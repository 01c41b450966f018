/* mem.c - see mem.h. */
#include "base/mem.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/compiler.h"

static void *check(void *memory)
{
	if (!memory) {
		fputs("warpsight: out of memory\n", stderr);
		abort();
	}
	return memory;
}

void *ws_malloc(size_t n)
{
	return check(malloc(n ? n : 1));
}

void *ws_malloc_huge(size_t n)
{
	void *memory = ws_malloc(n);
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE),
		  from = WS_ALIGN_UP((uintptr_t)memory, page),
		  end = ((uintptr_t)memory + n) & ~(page - 1);

	if (from < end)
		madvise((void *)from, end - from,
			MADV_HUGEPAGE); /* a hint: refused where there are none */
	return memory;
}

void *ws_calloc(size_t n, size_t size)
{
	return check(calloc(n ? n : 1, size ? size : 1));
}

void *ws_realloc(void *memory, size_t n)
{
	return check(realloc(memory, n ? n : 1));
}

char *ws_strdup(const char *text)
{
	return check(strdup(text));
}

char *ws_strndup(const char *text, size_t n)
{
	return check(strndup(text, n));
}

char *ws_format(const char *fmt, ...)
{
	va_list ap;
	char *text;

	va_start(ap, fmt);
	if (vasprintf(&text, fmt, ap) < 0)
		text = NULL;
	va_end(ap);
	return check(text);
}

void ws_text_add(struct ws_text *text, const void *bytes, size_t n)
{
	ws_grow(text->text, text->cap, text->len + n + 1);
	if (n)
		memcpy(text->text + text->len, bytes, n);
	text->len += n;
	text->text[text->len] = 0;
}

void ws_text_puts(struct ws_text *text, const char *word)
{
	ws_text_add(text, word, strlen(word));
}

void ws_text_printf(struct ws_text *text, const char *fmt, ...)
{
	char small[256];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(small, sizeof(small), fmt, ap);
	va_end(ap);
	if (n < 0)
		return;
	if ((size_t)n < sizeof(small)) {
		ws_text_add(text, small, (size_t)n);
		return;
	}
	ws_grow(text->text, text->cap, text->len + (size_t)n + 1);
	va_start(ap, fmt);
	vsnprintf(text->text + text->len, (size_t)n + 1, fmt, ap);
	va_end(ap);
	text->len += (size_t)n;
}

void ws_text_free(struct ws_text *text)
{
	free(text->text);
	text->text = NULL;
	text->len = text->cap = 0;
}
