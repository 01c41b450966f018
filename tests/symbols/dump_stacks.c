/*
 * dump_stacks.c - the call stacks of a report as text, for tests: a line a row that has one,
 *
 *     osrt|NAME|TID|HOLDER|frame;frame;...
 *
 * innermost first, a frame being its functions from the innermost inlined one outwards, joined by
 * '<', each as name@file:line with -l; "?" for what has no name. Then "module|PATH|KIND|FLAGS" for
 * each module. With -a, frames without a name show [module+address].
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "query/query.h"

struct symbol {
	uint32_t set, depth, line;
	const char *name, *file;
};

struct frame {
	uint64_t address;
	uint32_t module;
	const char *name;
	struct symbol *s;
	size_t n, cap;
};

static struct frame *frames;
static uint32_t *parent, *frame_of, frames_n, stacks_n;
static const char **modules;
static uint32_t modules_n;
static bool lines, addresses;

static const char *text(const struct ws_report *r, uint64_t id)
{
	return ws_report_string(r, (uint32_t)id, NULL);
}

static void load_frames(const struct ws_report *r)
{
	struct ws_cursor *c = ws_cursor_open(r, WS_TABLE_frame, 0, UINT64_MAX);
	const uint64_t *v;

	frames_n = (uint32_t)ws_report_rows(r, WS_TABLE_frame);
	frames = ws_calloc(frames_n + 1, sizeof(*frames));
	while (ws_cursor_next(c, &v)) {
		struct frame *f = &frames[v[ws_frame_id]];

		f->address = v[ws_frame_address];
		f->module = (uint32_t)v[ws_frame_module];
		f->name = text(r, v[ws_frame_name]);
	}
	ws_cursor_close(c);
	c = ws_cursor_open(r, WS_TABLE_symbol, 0, UINT64_MAX);
	while (ws_cursor_next(c, &v)) {
		struct frame *f = &frames[v[ws_symbol_frame]];
		uint32_t set = (uint32_t)v[ws_symbol_set];

		if (f->n && f->s[0].set > set)
			continue;
		if (f->n && f->s[0].set < set)
			f->n = 0;
		ws_grow(f->s, f->cap, f->n + 1);
		f->s[f->n++] =
			(struct symbol){set, (uint32_t)v[ws_symbol_depth],
					(uint32_t)v[ws_symbol_line], text(r, v[ws_symbol_name]),
					text(r, v[ws_symbol_file])};
	}
	ws_cursor_close(c);
}

static void load_stacks(const struct ws_report *r)
{
	struct ws_cursor *c = ws_cursor_open(r, WS_TABLE_stack, 0, UINT64_MAX);
	const uint64_t *v;

	stacks_n = (uint32_t)ws_report_rows(r, WS_TABLE_stack);
	parent = ws_calloc(stacks_n + 1, sizeof(*parent));
	frame_of = ws_calloc(stacks_n + 1, sizeof(*frame_of));
	while (ws_cursor_next(c, &v)) {
		parent[v[ws_stack_id]] = (uint32_t)v[ws_stack_parent];
		frame_of[v[ws_stack_id]] = (uint32_t)v[ws_stack_frame];
	}
	ws_cursor_close(c);
	c = ws_cursor_open(r, WS_TABLE_module, 0, UINT64_MAX);
	modules_n = (uint32_t)ws_report_rows(r, WS_TABLE_module);
	modules = ws_calloc(modules_n + 1, sizeof(*modules));
	modules[0] = "";
	while (ws_cursor_next(c, &v))
		modules[v[ws_module_id]] = text(r, v[ws_module_path]);
	ws_cursor_close(c);
}

static void put_frame(uint32_t id)
{
	struct frame *f = &frames[id];

	if (*f->name)
		printf("%s", f->name);
	for (uint32_t depth = 0; depth < f->n; depth++)
		for (size_t i = 0; i < f->n; i++) {
			struct symbol *s = &f->s[i];
			const char *base = strrchr(s->file, '/');

			if (s->depth != depth)
				continue;
			printf("%s%s", depth ? "<" : "", *s->name ? s->name : "?");
			if (lines && s->line)
				printf("@%s:%u", base ? base + 1 : s->file, s->line);
		}
	if (!f->n && !*f->name)
		putchar('?');
	if (addresses && (!f->n || !*f->s[0].name))
		printf("[%s+%#" PRIx64 "]", f->module <= modules_n ? modules[f->module] : "",
		       f->address);
}

static void put_stack(uint64_t stack)
{
	for (uint32_t s = (uint32_t)stack, n = 0; s && s <= stacks_n; s = parent[s]) {
		if (n++)
			putchar(';');
		put_frame(frame_of[s]);
	}
	putchar('\n');
}

static void put_rows(const struct ws_report *r, struct ws_who *who)
{
	struct ws_cursor *c = ws_cursor_open(r, WS_TABLE_osrt, 0, UINT64_MAX);
	const uint64_t *v;

	while (ws_cursor_next(c, &v)) {
		if (v[ws_osrt_callchain] == WS_NO_U32 && !v[ws_osrt_holder])
			continue;
		printf("osrt|%s|%u|%u|", text(r, v[ws_osrt_name]),
		       ws_who_thread(who, (uint32_t)v[ws_osrt_thread])->tid,
		       (uint32_t)v[ws_osrt_holder]);
		put_stack(v[ws_osrt_callchain] == WS_NO_U32 ? 0 : v[ws_osrt_callchain]);
	}
	ws_cursor_close(c);
	c = ws_cursor_open(r, WS_TABLE_cuda_api, 0, UINT64_MAX);
	while (ws_cursor_next(c, &v)) {
		if (v[ws_cuda_api_callchain] == WS_NO_U32)
			continue;
		printf("cuda|%s|%u|0|", text(r, v[ws_cuda_api_name]),
		       ws_who_thread(who, (uint32_t)v[ws_cuda_api_thread])->tid);
		put_stack(v[ws_cuda_api_callchain]);
	}
	ws_cursor_close(c);
}

int main(int argc, char **argv)
{
	struct ws_err e;
	struct ws_report *r;
	struct ws_who *who;
	struct ws_cursor *c;
	const uint64_t *v;
	int i = 1;

	for (; i < argc && argv[i][0] == '-'; i++) {
		lines |= !strcmp(argv[i], "-l");
		addresses |= !strcmp(argv[i], "-a");
	}
	r = i < argc ? ws_report_open(argv[i], &e) : NULL;
	if (!r)
		return 2;
	who = ws_who_open(r);
	load_frames(r);
	load_stacks(r);
	put_rows(r, who);
	c = ws_cursor_open(r, WS_TABLE_module, 0, UINT64_MAX);
	while (ws_cursor_next(c, &v))
		printf("module|%s|%u|%u\n", text(r, v[ws_module_path]), (unsigned)v[ws_module_kind],
		       (unsigned)v[ws_module_flags]);
	ws_cursor_close(c);
	ws_who_close(who);
	ws_report_close(r);
	return 0;
}
