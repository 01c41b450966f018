/* kallsyms.c - see kallsyms.h. One pass: of all symbols, the one that begins closest below each
 * wanted address. */
#include "symbols/kallsyms.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/sort.h"

#define FARTHEST                                                                        \
	(UINT64_C(1) << 20) /* beyond the last function of a module lies something else \
			     */

struct best {
	uint64_t begin;
	const char *name;
	size_t len;
	bool code; /* the closest symbol may be data: then there is no name */
};

static const char *take_line(const char *at, const char *end, struct best *best)
{
	const char *stop = memchr(at, '\n', (size_t)(end - at));
	char type;

	stop = stop ? stop : end;
	best->begin = 0;
	best->len = 0;
	for (; at < stop && *at != ' '; at++) {
		int d = *at >= '0' && *at <= '9'   ? *at - '0'
			: *at >= 'a' && *at <= 'f' ? *at - 'a' + 10
						   : -1;

		if (d < 0)
			return stop + 1;
		best->begin = best->begin << 4 | (uint64_t)d;
	}
	if (stop - at < 4)
		return stop + 1;
	type = at[1];
	best->code = type == 't' || type == 'T' || type == 'w' || type == 'W';
	best->name = at + 3;
	best->len = (size_t)(stop - best->name);
	return stop + 1;
}

bool ws_kallsyms_find_text(const char *text, size_t size, const uint64_t *address, size_t n,
			   void (*found)(void *ctx, size_t i, const char *name, uint64_t begin),
			   void *ctx)
{
	struct best *top = ws_calloc(n + 1, sizeof(*top)), line, at = {0};
	const char *end = text + size;
	bool shown = false;

	for (const char *from = text; from < end;) {
		size_t i;

		from = take_line(from, end, &line);
		if (!line.len || !line.begin)
			continue;
		shown = true;
		i = ws_lower_bound(address, n, line.begin);
		/* Of several names of one place the first stays, a function's before a label's of
		 * data. */
		if (i < n && (!top[i].len || line.begin > top[i].begin ||
			      (line.begin == top[i].begin && line.code && !top[i].code)))
			top[i] = line;
	}
	for (size_t i = 0; i < n; i++) {
		char name[512], *tab;

		if (top[i].len)
			at = top[i];
		if (!at.len || !at.code || address[i] - at.begin > FARTHEST)
			continue;
		snprintf(name, sizeof(name), "%.*s",
			 (int)(at.len < sizeof(name) - 1 ? at.len : sizeof(name) - 1), at.name);
		tab = strchr(name, '\t'); /* before a module in brackets */
		if (tab)
			*tab = ' ';
		found(ctx, i, name, at.begin);
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
