/* kallsyms.c - see kallsyms.h. One pass over all symbols finds the one that begins closest below
 * each wanted address. */
#include "symbols/kallsyms.h"

#include <pthread.h>
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

struct ws_kallsyms {
	pthread_t thread;
	bool threaded;
	struct ws_text text;
	struct ws_text modules; /* what was loaded before the symbols were read */
};

static void read_whole(const char *path, struct ws_text *text)
{
	FILE *file = fopen(path, "re");
	char buf[65536];
	size_t got;

	while (file && (got = fread(buf, 1, sizeof(buf), file)))
		ws_text_add(text, buf, got);
	if (file)
		fclose(file);
}

/* /proc/modules without the counts of users, which change all the time. */
static void read_modules(struct ws_text *text)
{
	FILE *file = fopen("/proc/modules", "re");
	char name[64], address[32];

	while (file && fscanf(file, "%63s %*s %*s %*s %*s %31s%*[^\n]", name, address) == 2)
		ws_text_printf(text, "%s %s\n", name, address);
	if (file)
		fclose(file);
}

static void *read_kallsyms(void *arg)
{
	struct ws_kallsyms *symbols = arg;

	read_modules(&symbols->modules);
	read_whole("/proc/kallsyms", &symbols->text);
	return NULL;
}

/* Read the symbols again when a kernel module was loaded or removed since. */
static void update_kallsyms(struct ws_kallsyms *symbols)
{
	struct ws_text now = {0};

	read_modules(&now);
	if (now.len != symbols->modules.len ||
	    (now.len && memcmp(now.text, symbols->modules.text, now.len) != 0)) {
		symbols->text.len = symbols->modules.len = 0;
		read_kallsyms(symbols);
	}
	ws_text_free(&now);
}

struct ws_kallsyms *ws_kallsyms_start_reading(void)
{
	struct ws_kallsyms *symbols = ws_calloc(1, sizeof(*symbols));

	symbols->threaded = !pthread_create(&symbols->thread, NULL, read_kallsyms, symbols);
	if (!symbols->threaded)
		read_kallsyms(symbols);
	return symbols;
}

static void await_kallsyms(struct ws_kallsyms *symbols)
{
	if (symbols->threaded)
		pthread_join(symbols->thread, NULL);
	symbols->threaded = false;
}

void ws_kallsyms_free(struct ws_kallsyms *symbols)
{
	if (!symbols)
		return;
	await_kallsyms(symbols);
	ws_text_free(&symbols->text);
	ws_text_free(&symbols->modules);
	free(symbols);
}

bool ws_kallsyms_find(struct ws_kallsyms *symbols, const uint64_t *address, size_t n,
		      void (*found)(void *ctx, size_t i, const char *name, uint64_t begin),
		      void *ctx)
{
	await_kallsyms(symbols);
	update_kallsyms(symbols);
	return symbols->text.len &&
	       ws_kallsyms_find_text(symbols->text.text, symbols->text.len, address, n, found, ctx);
}
