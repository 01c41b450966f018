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

static void *check(void *p)
{
	if (!p) {
		fputs("warpsight: out of memory\n", stderr);
		abort();
	}
	return p;
}

void *ws_malloc(size_t n)
{
	return check(malloc(n ? n : 1));
}

void *ws_malloc_huge(size_t n)
{
	void *p = ws_malloc(n);
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = WS_ALIGN_UP((uintptr_t)p, page),
		  end = ((uintptr_t)p + n) & ~(page - 1);

	if (from < end)
		madvise((void *)from, end - from,
			MADV_HUGEPAGE); /* a hint: refused where there are none */
	return p;
}

void *ws_calloc(size_t n, size_t size)
{
	return check(calloc(n ? n : 1, size ? size : 1));
}

void *ws_realloc(void *p, size_t n)
{
	return check(realloc(p, n ? n : 1));
}

char *ws_strdup(const char *s)
{
	return check(strdup(s));
}

char *ws_strndup(const char *s, size_t n)
{
	return check(strndup(s, n));
}

char *ws_format(const char *fmt, ...)
{
	va_list ap;
	char *s;

	va_start(ap, fmt);
	if (vasprintf(&s, fmt, ap) < 0)
		s = NULL;
	va_end(ap);
	return check(s);
}

void ws_text_add(struct ws_text *t, const void *bytes, size_t n)
{
	ws_grow(t->s, t->cap, t->len + n + 1);
	if (n)
		memcpy(t->s + t->len, bytes, n);
	t->len += n;
	t->s[t->len] = 0;
}

void ws_text_puts(struct ws_text *t, const char *s)
{
	ws_text_add(t, s, strlen(s));
}

void ws_text_printf(struct ws_text *t, const char *fmt, ...)
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
		ws_text_add(t, small, (size_t)n);
		return;
	}
	ws_grow(t->s, t->cap, t->len + (size_t)n + 1);
	va_start(ap, fmt);
	vsnprintf(t->s + t->len, (size_t)n + 1, fmt, ap);
	va_end(ap);
	t->len += (size_t)n;
}

void ws_text_free(struct ws_text *t)
{
	free(t->s);
	t->s = NULL;
	t->len = t->cap = 0;
}
