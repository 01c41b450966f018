/* kallsyms.c - see kallsyms.h. One pass over all symbols finds the one that begins closest below
 * each wanted address. */
#include "symbols/kallsyms.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "base/mem.h"
#include "base/sort.h"

/* Something else lies farther than this behind the last function of a module, in bytes. */
#define FARTHEST (UINT64_C(1) << 20)

struct kernel_symbol {
	uint64_t begin;
	const char *name;
	size_t length;
	bool is_code; /* the closest symbol may be data: then there is no name */
};

/* Read a line; returns where the next one begins. symbol->length is 0 when it has no symbol. */
static const char *parse_symbol_line(const char *at, const char *end, struct kernel_symbol *symbol)
{
	const char *stop = memchr(at, '\n', (size_t)(end - at));
	char type;

	if (!stop)
		stop = end;
	symbol->begin = 0;
	symbol->length = 0;
	for (; at < stop && *at != ' '; at++) {
		int digit;

		if (*at >= '0' && *at <= '9')
			digit = *at - '0';
		else if (*at >= 'a' && *at <= 'f')
			digit = *at - 'a' + 10;
		else
			return stop + 1;
		symbol->begin = symbol->begin << 4 | (uint64_t)digit;
	}
	if (stop - at < 4)
		return stop + 1;
	type = at[1];
	symbol->is_code = type == 't' || type == 'T' || type == 'w' || type == 'W';
	symbol->name = at + 3;
	symbol->length = (size_t)(stop - symbol->name);
	return stop + 1;
}

bool ws_kallsyms_find_text(const char *text, size_t size, const uint64_t *address, size_t n,
			   void (*found)(void *ctx, size_t i, const char *name, uint64_t begin),
			   void *ctx)
{
	struct kernel_symbol *top = ws_calloc(n + 1, sizeof(*top)), line, nearest = {0};
	const char *end = text + size;
	bool shown = false;

	for (const char *from = text; from < end;) {
		size_t i;

		from = parse_symbol_line(from, end, &line);
		if (!line.length || !line.begin)
			continue;
		shown = true;
		i = ws_lower_bound(address, n, line.begin);
		/* Of several names of one address the first is kept, but a function's replaces
		 * that of data. */
		if (i < n && (!top[i].length || line.begin > top[i].begin ||
			      (line.begin == top[i].begin && line.is_code && !top[i].is_code)))
			top[i] = line;
	}
	for (size_t i = 0; i < n; i++) {
		char name[512], *tab;

		if (top[i].length)
			nearest = top[i];
		if (!nearest.length || !nearest.is_code || address[i] - nearest.begin > FARTHEST)
			continue;
		snprintf(name, sizeof(name), "%.*s",
			 (int)(ws_min(nearest.length, sizeof(name) - 1)), nearest.name);
		tab = strchr(name, '\t'); /* before a module in brackets */
		if (tab)
			*tab = ' ';
		found(ctx, i, name, nearest.begin);
	}
	free(top);
	return shown;
}

bool ws_kallsyms_find(const uint64_t *address, size_t n,
		      void (*found)(void *ctx, size_t i, const char *name, uint64_t begin),
		      void *ctx)
{
	FILE *file = fopen("/proc/kallsyms", "re");
	struct ws_text text = {0};
	char buf[65536];
	bool shown = false;
	size_t got;

	if (!file)
		return false;
	while ((got = fread(buf, 1, sizeof(buf), file)))
		ws_text_add(&text, buf, got);
	fclose(file);
	if (text.len)
		shown = ws_kallsyms_find_text(text.text, text.len, address, n, found, ctx);
	ws_text_free(&text);
	return shown;
}
