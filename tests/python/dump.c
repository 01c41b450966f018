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

static const char *text(const struct ws_report *r, uint64_t id)
{
	return ws_report_string(r, (uint32_t)id, NULL);
}

static void load(const struct ws_report *r)
{
	struct ws_cursor *c;
	const uint64_t *v;

	frame_n = ws_report_rows(r, WS_TABLE_frame) + 1;
	stack_n = ws_report_rows(r, WS_TABLE_stack) + 1;
	frames = ws_calloc(frame_n, sizeof(*frames));
	stacks = ws_calloc(stack_n, sizeof(*stacks));
	modules = ws_calloc(ws_report_rows(r, WS_TABLE_module) + 1, sizeof(*modules));
	for (c = ws_cursor_open(r, WS_TABLE_module, 0, UINT64_MAX); ws_cursor_next(c, &v);)
		modules[v[ws_module_id]] = text(r, v[ws_module_path]);
	ws_cursor_close(c);
	for (c = ws_cursor_open(r, WS_TABLE_frame, 0, UINT64_MAX); ws_cursor_next(c, &v);)
		frames[v[ws_frame_id]] =
			(struct frame){(uint32_t)v[ws_frame_kind], (uint32_t)v[ws_frame_module],
				       v[ws_frame_address],	   text(r, v[ws_frame_name]),
				       text(r, v[ws_frame_file]),  ""};
	ws_cursor_close(c);
	for (c = ws_cursor_open(r, WS_TABLE_symbol, 0, UINT64_MAX); ws_cursor_next(c, &v);)
		if (v[ws_symbol_frame] < frame_n)
			frames[v[ws_symbol_frame]].symbol = text(r, v[ws_symbol_name]);
	ws_cursor_close(c);
	for (c = ws_cursor_open(r, WS_TABLE_stack, 0, UINT64_MAX); ws_cursor_next(c, &v);)
		stacks[v[ws_stack_id]] =
			(struct stack){(uint32_t)v[ws_stack_parent], (uint32_t)v[ws_stack_frame]};
	ws_cursor_close(c);
}

static void print_frame(uint32_t id)
{
	const struct frame *f = &frames[id];

	if (f->kind == WS_FRAME_PYTHON)
		printf("py:%s:%s:%" PRIu64, f->name, f->file, f->address);
	else if (f->symbol && *f->symbol)
		printf("%s", f->symbol);
	else
		printf("%s+%" PRIx64, f->module ? modules[f->module] : "?", f->address);
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

static struct ws_who *who;

static void print_thread(const char *what, uint64_t thread, uint64_t start)
{
	const struct ws_thread_info *t = ws_who_thread(who, (uint32_t)thread);

	printf("%s\t%u\t%u\t%" PRIu64 "\t", what, t->pid, t->tid, start);
}

static void print_row(const struct ws_report *r, enum ws_table t, const uint64_t *v)
{
	switch (t) {
	case WS_TABLE_sample:
		print_thread("sample", v[ws_sample_thread], v[ws_sample_start]);
		printf("%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t", v[ws_sample_weight],
		       v[ws_sample_gil], v[ws_sample_flags]);
		print_stack((uint32_t)v[ws_sample_callers], (uint32_t)v[ws_sample_frame]);
		break;
	case WS_TABLE_python_sample:
		print_thread("outside", v[ws_python_sample_thread], v[ws_python_sample_start]);
		printf("%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t", v[ws_python_sample_weight],
		       v[ws_python_sample_gil], v[ws_python_sample_flags]);
		print_stack((uint32_t)v[ws_python_sample_stack], 0);
		break;
	case WS_TABLE_gil:
		print_thread("gil", v[ws_gil_thread], v[ws_gil_start]);
		printf("%" PRIu64 "\t%" PRIu64 "\n", v[ws_gil_end], v[ws_gil_state]);
		break;
	case WS_TABLE_cuda_api:
		print_thread("call", v[ws_cuda_api_thread], v[ws_cuda_api_start]);
		printf("%s\t", text(r, v[ws_cuda_api_name]));
		print_stack(v[ws_cuda_api_callchain] == WS_NO_U32
				    ? 0
				    : (uint32_t)v[ws_cuda_api_callchain],
			    0);
		break;
	case WS_TABLE_slice:
		print_thread("slice", v[ws_slice_thread], v[ws_slice_start]);
		printf("%" PRIu64 "\t%s\t%s\t%s\n", v[ws_slice_end], text(r, v[ws_slice_name]),
		       text(r, v[ws_slice_category]), text(r, v[ws_slice_args]));
		break;
	case WS_TABLE_diagnostic:
		printf("diag\t%s\n", text(r, v[ws_diagnostic_text]));
		break;
	default:
		printf("lost\t%s\t%" PRIu64 "\n", text(r, v[ws_loss_kind]), v[ws_loss_events]);
	}
}

int main(int argc, char **argv)
{
	static const enum ws_table tables[] = {WS_TABLE_sample, WS_TABLE_python_sample,
					       WS_TABLE_gil,	WS_TABLE_cuda_api,
					       WS_TABLE_slice,	WS_TABLE_diagnostic,
					       WS_TABLE_loss};
	struct ws_err e;
	struct ws_report *r = argc == 2 ? ws_report_open(argv[1], &e) : NULL;
	const uint64_t *v;

	if (!r) {
		fprintf(stderr, "dump: %s\n", argc == 2 ? e.msg : "give one report");
		return 1;
	}
	load(r);
	who = ws_who_open(r);
	for (size_t i = 0; i < WS_COUNT(tables); i++) {
		struct ws_cursor *c = ws_cursor_open(r, tables[i], 0, UINT64_MAX);

		while (ws_cursor_next(c, &v))
			print_row(r, tables[i], v);
		ws_cursor_close(c);
	}
	ws_who_close(who);
	free(frames);
	free(stacks);
	free(modules);
	ws_report_close(r);
	return 0;
}
