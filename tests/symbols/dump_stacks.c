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
	struct symbol *symbol;
	size_t n, cap;
};

static struct frame *frames;
static uint32_t *parent, *frame_of, frames_n, stacks_n;
static const char **modules;
static uint32_t modules_n;
static bool lines, addresses;

static const char *text_of(const struct ws_report *report, uint64_t id)
{
	return ws_report_string(report, (uint32_t)id, NULL);
}

static void load_frames(const struct ws_report *report)
{
	struct ws_cursor *cursor = ws_cursor_open(report, WS_TABLE_frame, 0, UINT64_MAX);
	const uint64_t *values;

	frames_n = (uint32_t)ws_report_count_rows(report, WS_TABLE_frame);
	frames = ws_calloc(frames_n + 1, sizeof(*frames));
	while (ws_cursor_next(cursor, &values)) {
		struct frame *frame = &frames[values[ws_frame_id]];

		frame->address = values[ws_frame_address];
		frame->module = (uint32_t)values[ws_frame_module];
		frame->name = text_of(report, values[ws_frame_name]);
	}
	ws_cursor_close(cursor);
	cursor = ws_cursor_open(report, WS_TABLE_symbol, 0, UINT64_MAX);
	while (ws_cursor_next(cursor, &values)) {
		struct frame *frame = &frames[values[ws_symbol_frame]];
		uint32_t set = (uint32_t)values[ws_symbol_set];

		if (frame->n && frame->symbol[0].set > set)
			continue;
		if (frame->n && frame->symbol[0].set < set)
			frame->n = 0;
		ws_grow(frame->symbol, frame->cap, frame->n + 1);
		frame->symbol[frame->n++] =
			(struct symbol){set, (uint32_t)values[ws_symbol_depth],
					(uint32_t)values[ws_symbol_line],
					text_of(report, values[ws_symbol_name]),
					text_of(report, values[ws_symbol_file])};
	}
	ws_cursor_close(cursor);
}

static void load_stacks(const struct ws_report *report)
{
	struct ws_cursor *cursor = ws_cursor_open(report, WS_TABLE_stack, 0, UINT64_MAX);
	const uint64_t *values;

	stacks_n = (uint32_t)ws_report_count_rows(report, WS_TABLE_stack);
	parent = ws_calloc(stacks_n + 1, sizeof(*parent));
	frame_of = ws_calloc(stacks_n + 1, sizeof(*frame_of));
	while (ws_cursor_next(cursor, &values)) {
		parent[values[ws_stack_id]] = (uint32_t)values[ws_stack_parent];
		frame_of[values[ws_stack_id]] = (uint32_t)values[ws_stack_frame];
	}
	ws_cursor_close(cursor);
	cursor = ws_cursor_open(report, WS_TABLE_module, 0, UINT64_MAX);
	modules_n = (uint32_t)ws_report_count_rows(report, WS_TABLE_module);
	modules = ws_calloc(modules_n + 1, sizeof(*modules));
	modules[0] = "";
	while (ws_cursor_next(cursor, &values))
		modules[values[ws_module_id]] = text_of(report, values[ws_module_path]);
	ws_cursor_close(cursor);
}

static void put_frame(uint32_t id)
{
	struct frame *frame = &frames[id];

	if (*frame->name)
		printf("%s", frame->name);
	for (uint32_t depth = 0; depth < frame->n; depth++)
		for (size_t i = 0; i < frame->n; i++) {
			struct symbol *symbol = &frame->symbol[i];
			const char *base = strrchr(symbol->file, '/');

			if (symbol->depth != depth)
				continue;
			printf("%s%s", depth ? "<" : "", *symbol->name ? symbol->name : "?");
			if (lines && symbol->line)
				printf("@%s:%u", base ? base + 1 : symbol->file, symbol->line);
		}
	if (!frame->n && !*frame->name)
		putchar('?');
	if (addresses && (!frame->n || !*frame->symbol[0].name))
		printf("[%s+%#" PRIx64 "]",
		       frame->module <= modules_n ? modules[frame->module] : "", frame->address);
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

static void put_rows(const struct ws_report *report, struct ws_names_by_id *who)
{
	struct ws_cursor *cursor = ws_cursor_open(report, WS_TABLE_osrt, 0, UINT64_MAX);
	const uint64_t *values;

	while (ws_cursor_next(cursor, &values)) {
		if (values[ws_osrt_callchain] == WS_NO_U32 && !values[ws_osrt_holder])
			continue;
		printf("osrt|%s|%u|%u|", text_of(report, values[ws_osrt_name]),
		       ws_find_thread(who, (uint32_t)values[ws_osrt_thread])->tid,
		       (uint32_t)values[ws_osrt_holder]);
		put_stack(values[ws_osrt_callchain] == WS_NO_U32 ? 0 : values[ws_osrt_callchain]);
	}
	ws_cursor_close(cursor);
	cursor = ws_cursor_open(report, WS_TABLE_cuda_api, 0, UINT64_MAX);
	while (ws_cursor_next(cursor, &values)) {
		if (values[ws_cuda_api_callchain] == WS_NO_U32)
			continue;
		printf("cuda|%s|%u|0|", text_of(report, values[ws_cuda_api_name]),
		       ws_find_thread(who, (uint32_t)values[ws_cuda_api_thread])->tid);
		put_stack(values[ws_cuda_api_callchain]);
	}
	ws_cursor_close(cursor);
}

int main(int argc, char **argv)
{
	struct ws_err err;
	struct ws_report *report;
	struct ws_names_by_id *who;
	struct ws_cursor *cursor;
	const uint64_t *values;
	int i = 1;

	for (; i < argc && argv[i][0] == '-'; i++) {
		lines |= !strcmp(argv[i], "-l");
		addresses |= !strcmp(argv[i], "-a");
	}
	report = i < argc ? ws_report_open(argv[i], &err) : NULL;
	if (!report)
		return 2;
	who = ws_who_open(report);
	load_frames(report);
	load_stacks(report);
	put_rows(report, who);
	cursor = ws_cursor_open(report, WS_TABLE_module, 0, UINT64_MAX);
	while (ws_cursor_next(cursor, &values))
		printf("module|%s|%u|%u\n", text_of(report, values[ws_module_path]),
		       (unsigned)values[ws_module_kind], (unsigned)values[ws_module_flags]);
	ws_cursor_close(cursor);
	ws_who_close(who);
	ws_report_close(report);
	return 0;
}
