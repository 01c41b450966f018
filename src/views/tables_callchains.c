/*
 * tables_callchains.c - call stacks in the form that people know: a row for each frame, innermost
 * first (stackDepth 0).
 *
 * SAMPLING_CALLCHAINS repeats the frames of a stack for each sample, whose number in
 * COMPOSITE_EVENTS its id is. The stacks of calls are there once: OSRT_API.callchainId and
 * CUPTI_ACTIVITY_KIND_RUNTIME.callchainId are ids of them, which are also those of WARPSIGHT_STACK.
 * Inlined functions have rows of their own, with the address of the frame. Code without a name has
 * its address as symbol and 1 in `unresolved`.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "views/tables.h"
#include "query/stacks.h"

#define ID                                                          \
	{                                                           \
		"id", "INTEGER", true, false, "Number of the stack" \
	}
#define SYMBOL                                                                         \
	{"symbol", "INTEGER", true, false, "StringIds(id) of the function"},           \
	{                                                                              \
		"module", "INTEGER", true, false, "StringIds(id) of the file it is in" \
	}
#define UNRESOLVED                                                                   \
	{                                                                            \
		"unresolved", "INTEGER", false, false,                               \
			"1: the function's name is not known, symbol is its address" \
	}
#define ADDRESS                                                        \
	{                                                              \
		"originalIP", "INTEGER", false, false,                 \
			"Address, as the module's symbol table counts" \
	}
#define DEPTH                                                                        \
	{                                                                            \
		"stackDepth", "INTEGER", true, false, "0 for the innermost function" \
	}

static const struct ws_xcolumn native_columns[] = {
	ID,
	SYMBOL,
	{"kernelMode", "INTEGER", false, false, "1: code of the kernel"},
	{"thumbCode", "INTEGER", false, false, "0"},
	UNRESOLVED,
	{"specialEntry", "INTEGER", false, false, "0"},
	ADDRESS,
	{"unwindMethod", "INTEGER", false, false, "ENUM_STACK_UNWIND_METHOD(id)"},
	DEPTH,
};

static const struct ws_xcolumn cuda_columns[] = {ID, SYMBOL, UNRESOLVED, ADDRESS, DEPTH};

static const struct ws_xcolumn python_columns[] = {
	ID,
	SYMBOL,
	{"line", "INTEGER", false, false, "Line of the file"},
	DEPTH,
};

static const struct ws_xtable sampling_table = {
	"SAMPLING_CALLCHAINS", "Call stacks of CPU samples: id is that of COMPOSITE_EVENTS",
	native_columns, WS_COUNT(native_columns)};
static const struct ws_xtable osrt_table = {"OSRT_CALLCHAINS", "Call stacks of calls in OSRT_API",
					    native_columns, WS_COUNT(native_columns)};
static const struct ws_xtable cuda_table = {"CUDA_CALLCHAINS", "Call stacks of calls of CUDA",
					    cuda_columns, WS_COUNT(cuda_columns)};
static const struct ws_xtable python_table = {
	"PYTHON_CALLCHAINS", "Python functions of call stacks: id is that of WARPSIGHT_STACK",
	python_columns, WS_COUNT(python_columns)};

enum { FORM_NATIVE, FORM_CUDA, FORM_PYTHON };

struct texts { /* of a place, made when it is first met */
	struct ws_xcell symbol, module;
};

struct chains {
	struct ws_export *x;
	struct ws_stacks *stacks;
	struct texts *texts; /* by place */
	uint32_t places;
	int form;
	struct ws_err *e;
};

/* ---- cells ---- */

static struct ws_xcell literal(struct ws_export *x, const char *s)
{
	return ws_x_extra(x, s, strlen(s));
}

static void make_texts(struct chains *c, const struct ws_frame_info *f,
		       const struct ws_function *fn, struct texts *t)
{
	const struct ws_module_info *m = ws_stacks_module(c->stacks, fn->module);
	char address[32];

	snprintf(address, sizeof(address), "0x%" PRIx64, f->address);
	t->symbol = ws_x_string(c->x, fn->text);
	if (t->symbol.kind == WS_X_NULL)
		t->symbol = literal(c->x, f->address ? address : "[Unknown]");
	t->module = ws_x_string(c->x, fn->module		    ? m->text
				      : fn->kind == WS_FRAME_PYTHON ? fn->file
								    : 0);
	if (t->module.kind == WS_X_NULL)
		t->module = literal(c->x, "[Unknown]");
}

static const struct texts *texts_of(struct chains *c, const struct ws_frame_info *f, uint32_t i)
{
	uint32_t place = f->first + i;

	if (place >= c->places) {
		uint32_t more = place + 1 > c->places * 2 ? place + 1 : c->places * 2;

		c->texts = ws_realloc(c->texts, more * sizeof(*c->texts));
		memset(c->texts + c->places, 0, (more - c->places) * sizeof(*c->texts));
		c->places = more;
	}
	if (c->texts[place].symbol.kind == WS_X_NULL)
		make_texts(c, f,
			   ws_stacks_function(c->stacks,
					      ws_stacks_places(c->stacks, f)[i].function),
			   &c->texts[place]);
	return &c->texts[place];
}

static int put_row(struct chains *c, int64_t id, const struct ws_frame_info *f, uint32_t i,
		   int64_t depth)
{
	const struct ws_place *p = ws_stacks_places(c->stacks, f) + i;
	const struct texts *t = texts_of(c, f, i);
	struct ws_xcell unresolved =
				ws_x_int(ws_stacks_function(c->stacks, p->function)->unresolved),
			address = ws_x_int((int64_t)f->address);
	struct ws_xcell zero = ws_x_int(0), number = ws_x_int(id), at = ws_x_int(depth);

	if (c->form == FORM_PYTHON)
		return ws_export_row(c->x,
				     (struct ws_xcell[]){number, t->symbol, t->module,
							 p->line ? ws_x_int(p->line) : ws_x_null(),
							 at},
				     c->e);
	if (c->form == FORM_CUDA)
		return ws_export_row(c->x,
				     (struct ws_xcell[]){number, t->symbol, t->module, unresolved,
							 address, at},
				     c->e);
	return ws_export_row(c->x,
			     (struct ws_xcell[]){number, t->symbol, t->module,
						 ws_x_int(f->kind == WS_FRAME_KERNEL), zero,
						 unresolved, zero, address, ws_x_int(f->method),
						 at},
			     c->e);
}

static int put_stack(struct chains *c, int64_t id, uint32_t frame, uint32_t stack)
{
	uint32_t path[WS_STACKS_DEEPEST];
	size_t n = ws_stacks_walk(c->stacks, frame, stack, path, WS_STACKS_DEEPEST);
	int64_t depth = 0;

	for (size_t i = 0; i < n; i++) {
		const struct ws_frame_info *f = ws_stacks_frame(c->stacks, path[i]);

		if (c->form == FORM_PYTHON && f->kind != WS_FRAME_PYTHON)
			continue;
		for (uint32_t p = 0; p < f->count; p++)
			if (put_row(c, id, f, p, depth++) < 0)
				return -1;
	}
	return 0;
}

/* ---- tables ---- */

/* In the order of COMPOSITE_EVENTS, whose numbers count all samples, in time or not. */
static int export_samples(struct chains *c)
{
	struct ws_cursor *cursor;
	const uint64_t *v;
	int64_t number = 0;
	int rc = ws_export_table(c->x, &sampling_table, c->e);

	if (rc < 0 || !ws_export_wants(c->x, sampling_table.name))
		return rc;
	c->form = FORM_NATIVE;
	cursor = ws_cursor_open(c->x->r, WS_TABLE_sample, 0, UINT64_MAX);
	while (!rc && ws_cursor_next(cursor, &v)) {
		number++;
		if (ws_export_in_time(c->x, v[ws_sample_start], WS_NO_TIME))
			rc = put_stack(c, number, (uint32_t)v[ws_sample_frame],
				       (uint32_t)v[ws_sample_callers]);
	}
	ws_cursor_close(cursor);
	return rc;
}

/* The stacks that rows of a table name in `column`, each once, in order of their numbers. */
static int export_named(struct chains *c, const struct ws_xtable *t, int form, enum ws_table source,
			int column)
{
	uint32_t count = ws_stacks_count(c->stacks);
	int start = ws_table_start(source), end = ws_table_end(source),
	    rc = ws_export_table(c->x, t, c->e);
	struct ws_cursor *cursor;
	const uint64_t *v;
	bool *named;

	if (rc < 0 || !ws_export_wants(c->x, t->name))
		return rc;
	named = ws_calloc(count + (size_t)1, sizeof(*named));
	cursor = ws_cursor_open(c->x->r, source, 0, UINT64_MAX);
	while (ws_cursor_next(cursor, &v))
		if (v[column] <= count &&
		    ws_export_in_time(c->x, v[start], end < 0 ? WS_NO_TIME : v[end]))
			named[v[column]] = true;
	ws_cursor_close(cursor);
	c->form = form;
	for (uint32_t i = 1; i <= count && !rc; i++)
		if (named[i])
			rc = put_stack(c, i, 0, i);
	free(named);
	return rc;
}

int ws_export_callchains(struct ws_export *x, struct ws_err *e)
{
	struct chains c = {.x = x, .e = e, .stacks = ws_stacks_open(x->r, &x->damaged)};
	int rc = export_samples(&c);

	if (!rc)
		rc = export_named(&c, &osrt_table, FORM_NATIVE, WS_TABLE_osrt, ws_osrt_callchain);
	if (!rc)
		rc = export_named(&c, &cuda_table, FORM_CUDA, WS_TABLE_cuda_api,
				  ws_cuda_api_callchain);
	if (!rc)
		rc = export_named(&c, &python_table, FORM_PYTHON, WS_TABLE_python_sample,
				  ws_python_sample_stack);
	ws_stacks_close(c.stacks);
	free(c.texts);
	return rc;
}
