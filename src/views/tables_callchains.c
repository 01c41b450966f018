/*
 * tables_callchains.c - call stacks in Nsight Systems' form: a row for each frame, innermost first
 * (stackDepth 0).
 *
 * SAMPLING_CALLCHAINS repeats the frames of a stack for each sample; its id is the sample's number
 * in COMPOSITE_EVENTS. The stacks of calls are written once each: OSRT_API.callchainId and
 * CUPTI_ACTIVITY_KIND_RUNTIME.callchainId refer to them by the ids of WARPSIGHT_STACK. Inlined
 * functions have rows of their own, with the address of the frame. Code without a name has its
 * address as symbol and 1 in `unresolved`.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
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

static const struct ws_view_column native_columns[] = {
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

static const struct ws_view_column cuda_columns[] = {ID, SYMBOL, UNRESOLVED, ADDRESS, DEPTH};

static const struct ws_view_column python_columns[] = {
	ID,
	SYMBOL,
	{"line", "INTEGER", false, false, "Line of the file"},
	DEPTH,
};

static const struct ws_view_table sampling_table = {
	"SAMPLING_CALLCHAINS", "Call stacks of CPU samples: id is that of COMPOSITE_EVENTS",
	native_columns, WS_COUNT(native_columns)};
static const struct ws_view_table osrt_table = {"OSRT_CALLCHAINS",
						"Call stacks of calls in OSRT_API", native_columns,
						WS_COUNT(native_columns)};
static const struct ws_view_table cuda_table = {"CUDA_CALLCHAINS", "Call stacks of calls of CUDA",
						cuda_columns, WS_COUNT(cuda_columns)};
static const struct ws_view_table python_table = {
	"PYTHON_CALLCHAINS", "Python functions of call stacks: id is that of WARPSIGHT_STACK",
	python_columns, WS_COUNT(python_columns)};

enum { FORM_NATIVE, FORM_CUDA, FORM_PYTHON };

struct place_texts { /* of a place, made when it is first needed */
	struct ws_view_cell symbol, module;
};

struct chain_writer {
	struct ws_cell_context *export;
	struct ws_stacks *stacks;
	struct place_texts *texts; /* by place */
	uint32_t places;
	int form;
	struct ws_err *err;
};

/* ---- cells ---- */

static struct ws_view_cell make_literal_cell(struct ws_cell_context *export, const char *text)
{
	return ws_make_extra_string_cell(export, text, strlen(text));
}

static void make_place_texts(struct chain_writer *writer, const struct ws_frame_info *frame,
			     const struct ws_function *function, struct place_texts *texts)
{
	const struct ws_module_info *module =
		ws_stacks_get_module(writer->stacks, function->module);
	uint32_t file = 0;
	char address[32] = "[Unknown]";

	if (frame->address)
		snprintf(address, sizeof(address), "0x%" PRIx64, frame->address);
	if (function->module)
		file = module->text;
	else if (function->kind == WS_FRAME_PYTHON)
		file = function->file;
	texts->symbol = ws_make_string_cell(writer->export, function->text);
	if (texts->symbol.kind == WS_VIEW_NULL)
		texts->symbol = make_literal_cell(writer->export, address);
	texts->module = ws_make_string_cell(writer->export, file);
	if (texts->module.kind == WS_VIEW_NULL)
		texts->module = make_literal_cell(writer->export, "[Unknown]");
}

static const struct place_texts *find_place_texts(struct chain_writer *writer,
						  const struct ws_frame_info *frame, uint32_t index)
{
	uint32_t place = frame->first + index;

	if (place >= writer->places) {
		uint32_t capacity = ws_max(place + 1, writer->places * 2);

		writer->texts = ws_realloc(writer->texts, capacity * sizeof(*writer->texts));
		memset(writer->texts + writer->places, 0,
		       (capacity - writer->places) * sizeof(*writer->texts));
		writer->places = capacity;
	}
	if (writer->texts[place].symbol.kind == WS_VIEW_NULL)
		make_place_texts(
			writer, frame,
			ws_stacks_get_function(
				writer->stacks,
				ws_stacks_get_places(writer->stacks, frame)[index].function),
			&writer->texts[place]);
	return &writer->texts[place];
}

static int put_frame_row(struct chain_writer *writer, int64_t id, const struct ws_frame_info *frame,
			 uint32_t index, int64_t depth)
{
	const struct ws_place *place = ws_stacks_get_places(writer->stacks, frame) + index;
	const struct place_texts *texts = find_place_texts(writer, frame, index);
	struct ws_view_cell unresolved = ws_make_int_cell(
		ws_stacks_get_function(writer->stacks, place->function)->unresolved);
	struct ws_view_cell address = ws_make_int_cell((int64_t)frame->address);
	struct ws_view_cell zero = ws_make_int_cell(0), number = ws_make_int_cell(id),
			    depth_cell = ws_make_int_cell(depth);

	if (writer->form == FORM_PYTHON)
		return ws_add_table_row(
			writer->export,
			(struct ws_view_cell[]){number, texts->symbol, texts->module,
						ws_make_id_cell(place->line), depth_cell},
			writer->err);
	if (writer->form == FORM_CUDA)
		return ws_add_table_row(writer->export,
					(struct ws_view_cell[]){number, texts->symbol,
								texts->module, unresolved, address,
								depth_cell},
					writer->err);
	return ws_add_table_row(
		writer->export,
		(struct ws_view_cell[]){number, texts->symbol, texts->module,
					ws_make_int_cell(frame->kind == WS_FRAME_KERNEL), zero,
					unresolved, zero, address, ws_make_int_cell(frame->method),
					depth_cell},
		writer->err);
}

static int put_stack_rows(struct chain_writer *writer, int64_t id, uint32_t innermost,
			  uint32_t stack)
{
	uint32_t path[WS_STACKS_DEEPEST];
	size_t count =
		ws_stacks_list_frames(writer->stacks, innermost, stack, path, WS_STACKS_DEEPEST);
	int64_t depth = 0;

	for (size_t i = 0; i < count; i++) {
		const struct ws_frame_info *frame_info =
			ws_stacks_get_frame(writer->stacks, path[i]);

		if (writer->form == FORM_PYTHON && frame_info->kind != WS_FRAME_PYTHON)
			continue;
		for (uint32_t place = 0; place < frame_info->count; place++)
			if (put_frame_row(writer, id, frame_info, place, depth++) < 0)
				return -1;
	}
	return 0;
}

/* ---- tables ---- */

/* In the order of COMPOSITE_EVENTS, whose numbers count all samples regardless of --times. */
static int export_sample_stacks(struct chain_writer *writer)
{
	struct ws_cursor *cursor;
	const uint64_t *values;
	int64_t number = 0;
	int rc = ws_begin_table(writer->export, &sampling_table, writer->err);

	if (rc < 0 || !ws_is_table_wanted(writer->export, sampling_table.name))
		return rc;
	writer->form = FORM_NATIVE;
	cursor = ws_cursor_open(writer->export->report, WS_TABLE_sample, 0, UINT64_MAX);
	while (!rc && ws_cursor_next(cursor, &values)) {
		number++;
		if (ws_is_in_time(writer->export, values[ws_sample_start], WS_NO_TIME))
			rc = put_stack_rows(writer, number, (uint32_t)values[ws_sample_frame],
					    (uint32_t)values[ws_sample_callers]);
	}
	ws_cursor_close(cursor);
	return rc;
}

/* Mark the stacks that rows of a table refer to in `column`. */
static void mark_named_stacks(struct chain_writer *writer, enum ws_table source, int column,
			      bool *named)
{
	int start = ws_table_start(source), end = ws_table_end(source);
	struct ws_cursor *cursor = ws_cursor_open(writer->export->report, source, 0, UINT64_MAX);
	uint32_t count = ws_stacks_highest_id(writer->stacks);
	const uint64_t *values;

	while (ws_cursor_next(cursor, &values)) {
		uint64_t end_time = WS_NO_TIME;

		if (end >= 0)
			end_time = values[end];
		if (values[column] <= count &&
		    ws_is_in_time(writer->export, values[start], end_time))
			named[values[column]] = true;
	}
	ws_cursor_close(cursor);
}

/* Write the stacks that rows of a table refer to in `column`, each once, in order of their ids. */
static int export_named_stacks(struct chain_writer *writer, const struct ws_view_table *table,
			       int form, enum ws_table source, int column)
{
	uint32_t count = ws_stacks_highest_id(writer->stacks);
	int rc = ws_begin_table(writer->export, table, writer->err);
	bool *named;

	if (rc < 0 || !ws_is_table_wanted(writer->export, table->name))
		return rc;
	named = ws_calloc(count + (size_t)1, sizeof(*named));
	mark_named_stacks(writer, source, column, named);
	writer->form = form;
	for (uint32_t i = 1; i <= count && !rc; i++)
		if (named[i])
			rc = put_stack_rows(writer, i, 0, i);
	free(named);
	return rc;
}

int ws_write_callchain_tables(struct ws_cell_context *export, struct ws_err *err)
{
	struct chain_writer writer = {.export = export,
				      .err = err,
				      .stacks = ws_stacks_open(export->report, &export->damaged)};
	int rc = export_sample_stacks(&writer);

	if (!rc)
		rc = export_named_stacks(&writer, &osrt_table, FORM_NATIVE, WS_TABLE_osrt,
					 ws_osrt_callchain);
	if (!rc)
		rc = export_named_stacks(&writer, &cuda_table, FORM_CUDA, WS_TABLE_cuda_api,
					 ws_cuda_api_callchain);
	if (!rc)
		rc = export_named_stacks(&writer, &python_table, FORM_PYTHON,
					 WS_TABLE_python_sample, ws_python_sample_stack);
	ws_stacks_close(writer.stacks);
	free(writer.texts);
	return rc;
}
