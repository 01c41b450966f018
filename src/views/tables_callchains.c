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
	struct ws_export *export;
	struct ws_stacks *stacks;
	struct texts *texts; /* by place */
	uint32_t places;
	int form;
	struct ws_err *err;
};

/* ---- cells ---- */

static struct ws_xcell literal(struct ws_export *export, const char *text)
{
	return ws_x_extra(export, text, strlen(text));
}

static void make_texts(struct chains *chains, const struct ws_frame_info *frame_info,
		       const struct ws_function *fn, struct texts *texts)
{
	const struct ws_module_info *module_info = ws_stacks_module(chains->stacks, fn->module);
	char address[32];

	snprintf(address, sizeof(address), "0x%" PRIx64, frame_info->address);
	texts->symbol = ws_x_string(chains->export, fn->text);
	if (texts->symbol.kind == WS_X_NULL)
		texts->symbol =
			literal(chains->export, frame_info->address ? address : "[Unknown]");
	texts->module = ws_x_string(chains->export, fn->module ? module_info->text
						    : fn->kind == WS_FRAME_PYTHON ? fn->file
										  : 0);
	if (texts->module.kind == WS_X_NULL)
		texts->module = literal(chains->export, "[Unknown]");
}

static const struct texts *texts_of(struct chains *chains, const struct ws_frame_info *frame_info,
				    uint32_t i)
{
	uint32_t place = frame_info->first + i;

	if (place >= chains->places) {
		uint32_t more = place + 1 > chains->places * 2 ? place + 1 : chains->places * 2;

		chains->texts = ws_realloc(chains->texts, more * sizeof(*chains->texts));
		memset(chains->texts + chains->places, 0,
		       (more - chains->places) * sizeof(*chains->texts));
		chains->places = more;
	}
	if (chains->texts[place].symbol.kind == WS_X_NULL)
		make_texts(chains, frame_info,
			   ws_stacks_function(
				   chains->stacks,
				   ws_stacks_places(chains->stacks, frame_info)[i].function),
			   &chains->texts[place]);
	return &chains->texts[place];
}

static int put_row(struct chains *chains, int64_t id, const struct ws_frame_info *frame_info,
		   uint32_t i, int64_t depth)
{
	const struct ws_place *place = ws_stacks_places(chains->stacks, frame_info) + i;
	const struct texts *texts = texts_of(chains, frame_info, i);
	struct ws_xcell unresolved = ws_x_int(
				ws_stacks_function(chains->stacks, place->function)->unresolved),
			address = ws_x_int((int64_t)frame_info->address);
	struct ws_xcell zero = ws_x_int(0), number = ws_x_int(id), at = ws_x_int(depth);

	if (chains->form == FORM_PYTHON)
		return ws_export_row(
			chains->export,
			(struct ws_xcell[]){number, texts->symbol, texts->module,
					    place->line ? ws_x_int(place->line) : ws_x_null(), at},
			chains->err);
	if (chains->form == FORM_CUDA)
		return ws_export_row(chains->export,
				     (struct ws_xcell[]){number, texts->symbol, texts->module,
							 unresolved, address, at},
				     chains->err);
	return ws_export_row(chains->export,
			     (struct ws_xcell[]){number, texts->symbol, texts->module,
						 ws_x_int(frame_info->kind == WS_FRAME_KERNEL),
						 zero, unresolved, zero, address,
						 ws_x_int(frame_info->method), at},
			     chains->err);
}

static int put_stack(struct chains *chains, int64_t id, uint32_t frame, uint32_t stack)
{
	uint32_t path[WS_STACKS_DEEPEST];
	size_t n = ws_stacks_walk(chains->stacks, frame, stack, path, WS_STACKS_DEEPEST);
	int64_t depth = 0;

	for (size_t i = 0; i < n; i++) {
		const struct ws_frame_info *frame_info = ws_stacks_frame(chains->stacks, path[i]);

		if (chains->form == FORM_PYTHON && frame_info->kind != WS_FRAME_PYTHON)
			continue;
		for (uint32_t p = 0; p < frame_info->count; p++)
			if (put_row(chains, id, frame_info, p, depth++) < 0)
				return -1;
	}
	return 0;
}

/* ---- tables ---- */

/* In the order of COMPOSITE_EVENTS, whose numbers count all samples, in time or not. */
static int export_samples(struct chains *chains)
{
	struct ws_cursor *cursor;
	const uint64_t *values;
	int64_t number = 0;
	int rc = ws_export_table(chains->export, &sampling_table, chains->err);

	if (rc < 0 || !ws_export_wants(chains->export, sampling_table.name))
		return rc;
	chains->form = FORM_NATIVE;
	cursor = ws_cursor_open(chains->export->report, WS_TABLE_sample, 0, UINT64_MAX);
	while (!rc && ws_cursor_next(cursor, &values)) {
		number++;
		if (ws_export_in_time(chains->export, values[ws_sample_start], WS_NO_TIME))
			rc = put_stack(chains, number, (uint32_t)values[ws_sample_frame],
				       (uint32_t)values[ws_sample_callers]);
	}
	ws_cursor_close(cursor);
	return rc;
}

/* The stacks that rows of a table name in `column`, each once, in order of their numbers. */
static int export_named(struct chains *chains, const struct ws_xtable *table, int form,
			enum ws_table source, int column)
{
	uint32_t count = ws_stacks_count(chains->stacks);
	int start = ws_table_start(source), end = ws_table_end(source),
	    rc = ws_export_table(chains->export, table, chains->err);
	struct ws_cursor *cursor;
	const uint64_t *values;
	bool *named;

	if (rc < 0 || !ws_export_wants(chains->export, table->name))
		return rc;
	named = ws_calloc(count + (size_t)1, sizeof(*named));
	cursor = ws_cursor_open(chains->export->report, source, 0, UINT64_MAX);
	while (ws_cursor_next(cursor, &values))
		if (values[column] <= count &&
		    ws_export_in_time(chains->export, values[start],
				      end < 0 ? WS_NO_TIME : values[end]))
			named[values[column]] = true;
	ws_cursor_close(cursor);
	chains->form = form;
	for (uint32_t i = 1; i <= count && !rc; i++)
		if (named[i])
			rc = put_stack(chains, i, 0, i);
	free(named);
	return rc;
}

int ws_export_callchains(struct ws_export *export, struct ws_err *err)
{
	struct chains chains = {.export = export,
				.err = err,
				.stacks = ws_stacks_open(export->report, &export->damaged)};
	int rc = export_samples(&chains);

	if (!rc)
		rc = export_named(&chains, &osrt_table, FORM_NATIVE, WS_TABLE_osrt,
				  ws_osrt_callchain);
	if (!rc)
		rc = export_named(&chains, &cuda_table, FORM_CUDA, WS_TABLE_cuda_api,
				  ws_cuda_api_callchain);
	if (!rc)
		rc = export_named(&chains, &python_table, FORM_PYTHON, WS_TABLE_python_sample,
				  ws_python_sample_stack);
	ws_stacks_close(chains.stacks);
	free(chains.texts);
	return rc;
}
