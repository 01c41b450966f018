/*
 * dump.c - what a report knows of Python, for run.py, a line each and fields separated by tabs:
 *
 *   sample   pid tid start weight gil flags stack     stack: outermost first, separated by ';';
 * Python frames are py:NAME:FILE:LINE outside  the same of python_sample gil      pid tid start end
 * state call     pid tid start name stack                 CUDA calls slice    pid tid start end
 * name category args diag     text lost     kind events
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "query/query.h"

struct frame {
	uint32_t kind, module;
	uint64_t address;
	const char *name, *file, *symbol;
};

static struct frame *frames;
static const char **modules;
static size_t frame_n, stack_n;
static struct stack {
	uint32_t parent, frame;
} * stacks;

static const char *text_of(const struct ws_report *report, uint64_t id)
{
	return ws_report_string(report, (uint32_t)id, NULL);
}

static void load_frames(const struct ws_report *report)
{
	struct ws_cursor *cursor;
	const uint64_t *values;

	frame_n = ws_report_count_rows(report, WS_TABLE_frame) + 1;
	stack_n = ws_report_count_rows(report, WS_TABLE_stack) + 1;
	frames = ws_calloc(frame_n, sizeof(*frames));
	stacks = ws_calloc(stack_n, sizeof(*stacks));
	modules = ws_calloc(ws_report_count_rows(report, WS_TABLE_module) + 1, sizeof(*modules));
	for (cursor = ws_cursor_open(report, WS_TABLE_module, 0, UINT64_MAX);
	     ws_cursor_next(cursor, &values);)
		modules[values[ws_module_id]] = text_of(report, values[ws_module_path]);
	ws_cursor_close(cursor);
	for (cursor = ws_cursor_open(report, WS_TABLE_frame, 0, UINT64_MAX);
	     ws_cursor_next(cursor, &values);)
		frames[values[ws_frame_id]] = (struct frame){(uint32_t)values[ws_frame_kind],
							     (uint32_t)values[ws_frame_module],
							     values[ws_frame_address],
							     text_of(report, values[ws_frame_name]),
							     text_of(report, values[ws_frame_file]),
							     ""};
	ws_cursor_close(cursor);
	for (cursor = ws_cursor_open(report, WS_TABLE_symbol, 0, UINT64_MAX);
	     ws_cursor_next(cursor, &values);)
		if (values[ws_symbol_frame] < frame_n)
			frames[values[ws_symbol_frame]].symbol =
				text_of(report, values[ws_symbol_name]);
	ws_cursor_close(cursor);
	for (cursor = ws_cursor_open(report, WS_TABLE_stack, 0, UINT64_MAX);
	     ws_cursor_next(cursor, &values);)
		stacks[values[ws_stack_id]] = (struct stack){(uint32_t)values[ws_stack_parent],
							     (uint32_t)values[ws_stack_frame]};
	ws_cursor_close(cursor);
}

static void print_frame(uint32_t id)
{
	const struct frame *frame = &frames[id];

	if (frame->kind == WS_FRAME_PYTHON)
		printf("py:%s:%s:%" PRIu64, frame->name, frame->file, frame->address);
	else if (frame->symbol && *frame->symbol)
		printf("%s", frame->symbol);
	else
		printf("%s+%" PRIx64, frame->module ? modules[frame->module] : "?", frame->address);
}

static void print_stack(uint32_t stack, uint32_t leaf)
{
	uint32_t chain[4096];
	size_t n = 0;

	for (; stack && stack < stack_n && n < WS_COUNT(chain); stack = stacks[stack].parent)
		chain[n++] = stacks[stack].frame;
	while (n-- > 0) {
		print_frame(chain[n]);
		if (n || leaf)
			putchar(';');
	}
	if (leaf)
		print_frame(leaf);
	putchar('\n');
}

static struct ws_names_by_id *who;

static void print_thread(const char *what, uint64_t thread, uint64_t start)
{
	const struct ws_thread_info *info = ws_find_thread(who, (uint32_t)thread);

	printf("%s\t%u\t%u\t%" PRIu64 "\t", what, info->pid, info->tid, start);
}

static void print_row(const struct ws_report *report, enum ws_table table, const uint64_t *values)
{
	switch (table) {
	case WS_TABLE_sample:
		print_thread("sample", values[ws_sample_thread], values[ws_sample_start]);
		printf("%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t", values[ws_sample_weight],
		       values[ws_sample_gil], values[ws_sample_flags]);
		print_stack((uint32_t)values[ws_sample_callers], (uint32_t)values[ws_sample_frame]);
		break;
	case WS_TABLE_python_sample:
		print_thread("outside", values[ws_python_sample_thread],
			     values[ws_python_sample_start]);
		printf("%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t", values[ws_python_sample_weight],
		       values[ws_python_sample_gil], values[ws_python_sample_flags]);
		print_stack((uint32_t)values[ws_python_sample_stack], 0);
		break;
	case WS_TABLE_gil:
		print_thread("gil", values[ws_gil_thread], values[ws_gil_start]);
		printf("%" PRIu64 "\t%" PRIu64 "\n", values[ws_gil_end], values[ws_gil_state]);
		break;
	case WS_TABLE_cuda_api:
		print_thread("call", values[ws_cuda_api_thread], values[ws_cuda_api_start]);
		printf("%s\t", text_of(report, values[ws_cuda_api_name]));
		print_stack(values[ws_cuda_api_callchain] == WS_NO_U32
				    ? 0
				    : (uint32_t)values[ws_cuda_api_callchain],
			    0);
		break;
	case WS_TABLE_slice:
		print_thread("slice", values[ws_slice_thread], values[ws_slice_start]);
		printf("%" PRIu64 "\t%s\t%s\t%s\n", values[ws_slice_end],
		       text_of(report, values[ws_slice_name]),
		       text_of(report, values[ws_slice_category]),
		       text_of(report, values[ws_slice_args]));
		break;
	case WS_TABLE_diagnostic:
		printf("diag\t%s\n", text_of(report, values[ws_diagnostic_text]));
		break;
	default:
		printf("lost\t%s\t%" PRIu64 "\n", text_of(report, values[ws_loss_kind]),
		       values[ws_loss_events]);
	}
}

int main(int argc, char **argv)
{
	static const enum ws_table tables[] = {WS_TABLE_sample, WS_TABLE_python_sample,
					       WS_TABLE_gil,	WS_TABLE_cuda_api,
					       WS_TABLE_slice,	WS_TABLE_diagnostic,
					       WS_TABLE_loss};
	struct ws_err err;
	struct ws_report *report = argc == 2 ? ws_report_open(argv[1], &err) : NULL;
	const uint64_t *values;

	if (!report) {
		fprintf(stderr, "dump: %s\n", argc == 2 ? err.msg : "give one report");
		return 1;
	}
	load_frames(report);
	who = ws_who_open(report);
	for (size_t i = 0; i < WS_COUNT(tables); i++) {
		struct ws_cursor *cursor = ws_cursor_open(report, tables[i], 0, UINT64_MAX);

		while (ws_cursor_next(cursor, &values))
			print_row(report, tables[i], values);
		ws_cursor_close(cursor);
	}
	ws_who_close(who);
	free(frames);
	free(stacks);
	free(modules);
	ws_report_close(report);
	return 0;
}
