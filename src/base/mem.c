/* mem.c - see mem.h. */
#include "base/mem.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/choose.h"
#include "base/compiler.h"

void (*ws_out_of_memory)(void);

_Noreturn void ws_give_up_for_memory(void)
{
	if (ws_out_of_memory)
		ws_out_of_memory();
	fputs("warpsight: out of memory\n", stderr);
	abort();
}

static void *abort_if_null(void *memory)
{
	if (!memory)
		ws_give_up_for_memory();
	return memory;
}

void *ws_malloc(size_t size)
{
	return abort_if_null(malloc(ws_max(size, (size_t)1)));
}

void *ws_malloc_huge(size_t size)
{
	void *memory = ws_malloc(size);
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE),
		  from = WS_ALIGN_UP((uintptr_t)memory, page),
		  end = ((uintptr_t)memory + size) & ~(page - 1);

	if (from < end)
		madvise((void *)from, end - from,
			MADV_HUGEPAGE); /* only a hint: kernels without huge pages refuse it */
	return memory;
}

size_t ws_address_space(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_AS, &limit) || limit.rlim_cur == RLIM_INFINITY)
		return SIZE_MAX;
	return (size_t)limit.rlim_cur;
}

void *ws_calloc(size_t count, size_t size)
{
	return abort_if_null(calloc(ws_max(count, (size_t)1), ws_max(size, (size_t)1)));
}

void *ws_realloc(void *memory, size_t size)
{
	return abort_if_null(realloc(memory, ws_max(size, (size_t)1)));
}

char *ws_strdup(const char *text)
{
	return abort_if_null(strdup(text));
}

char *ws_strndup(const char *text, size_t length)
{
	return abort_if_null(strndup(text, length));
}

char *ws_format(const char *fmt, ...)
{
	va_list ap;
	char *text;

	va_start(ap, fmt);
	if (vasprintf(&text, fmt, ap) < 0)
		text = NULL;
	va_end(ap);
	return abort_if_null(text);
}

void ws_text_add(struct ws_text *text, const void *bytes, size_t size)
{
	ws_grow(text->text, text->cap, text->len + size + 1);
	if (size)
		memcpy(text->text + text->len, bytes, size);
	text->len += size;
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
	int length;

	va_start(ap, fmt);
	length = vsnprintf(small, sizeof(small), fmt, ap);
	va_end(ap);
	if (length < 0)
		return;
	if ((size_t)length < sizeof(small)) {
		ws_text_add(text, small, (size_t)length);
		return;
	}
	ws_grow(text->text, text->cap, text->len + (size_t)length + 1);
	va_start(ap, fmt);
	vsnprintf(text->text + text->len, (size_t)length + 1, fmt, ap);
	va_end(ap);
	text->len += (size_t)length;
}

void ws_text_free(struct ws_text *text)
{
	free(text->text);
	text->text = NULL;
	text->len = text->cap = 0;
}
