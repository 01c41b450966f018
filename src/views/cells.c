/* cells.c - makes cells from texts, threads and times, and keeps the state that this needs. */
#include "views/cells.h"
#include "base/choose.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "text/text.h"
#include "views/choose.h"
#include "views/tables.h"

/* ---- strings, threads, times ---- */

enum { STRING_CLEAN = 1, STRING_BROKEN = 2, STRING_USED = WS_STRING_USED };

/* Set the flags `what` of a text. The threads of export/columns.c do so at the same time. */
static void note_string(struct ws_cell_context *export, uint32_t id, uint8_t what)
{
	if (!(__atomic_load_n(&export->strings[id], __ATOMIC_RELAXED) & what))
		__atomic_fetch_or(&export->strings[id], what, __ATOMIC_RELAXED);
}

/* Ids beyond the dictionary are empty strings. */
const char *ws_find_valid_text(struct ws_cell_context *export, uint32_t id, size_t *length)
{
	const char *text = ws_report_string(export->report, id, length);
	struct ws_text repaired = {0};

	if (id > export->string_count || export->strings[id] & STRING_CLEAN)
		return text;
	if (!(export->strings[id] & STRING_BROKEN) && ws_is_valid_utf8(text, *length)) {
		note_string(export, id, STRING_CLEAN);
		return text;
	}
	note_string(export, id, STRING_BROKEN);
	if (!export->repaired)
		export->repaired = ws_calloc(export->string_count + 1, sizeof(*export->repaired));
	if (!export->repaired[id]) {
		ws_put_valid_utf8(&repaired, text, *length);
		export->repaired[id] = repaired.text; /* holds no NUL */
	}
	*length = strlen(export->repaired[id]);
	return export->repaired[id];
}

struct ws_view_cell ws_make_text_cell(struct ws_cell_context *export, uint32_t id)
{
	struct ws_view_cell cell = {.kind = WS_VIEW_NULL, .id = id};

	if (!id || id > export->string_count)
		return cell;
	cell.kind = WS_VIEW_TEXT;
	if (!export->ids_only)
		cell.text = ws_find_valid_text(export, id, &cell.n);
	return cell;
}

struct ws_view_cell ws_make_blob_cell(struct ws_cell_context *export, uint32_t id)
{
	struct ws_view_cell cell = {.kind = WS_VIEW_NULL, .id = id};

	if (!id || export->no_blobs)
		return cell;
	cell.kind = WS_VIEW_BLOB;
	if (!export->ids_only)
		cell.text = ws_report_string(export->report, id, &cell.n);
	return cell;
}

struct ws_view_cell ws_make_string_cell(struct ws_cell_context *export, uint32_t id)
{
	struct ws_view_cell cell = {.kind = WS_VIEW_NULL};

	if (!id || id > export->string_count)
		return cell;
	cell.kind = WS_VIEW_STRING;
	cell.id = ws_report_string_key(export->report, id);
	if (cell.id > export->string_count)
		cell.id = id;
	if (export->ids_only)
		return cell;
	cell.text = ws_find_valid_text(export, cell.id, &cell.n);
	note_string(export, cell.id, STRING_USED);
	return cell;
}

/* Fill export->texts. The first of several equal texts counts. */
static void index_texts(struct ws_cell_context *export)
{
	/* The text for ids that the report does not define. */
	const char *undefined = ws_report_string(export->report, 0, NULL);

	for (uint32_t id = export->string_count; id; id--) {
		size_t length;
		const char *text = ws_report_string(export->report, id, &length);

		if (text != undefined)
			ws_map_set(&export->texts, XXH3_64bits(text, length), id);
	}
}

/* The report's own id of a text, or 0. It keeps ids the same when an export is imported and
 * exported again. */
static uint32_t find_text_id(struct ws_cell_context *export, const char *text, size_t length)
{
	const char *found;
	uint32_t id;
	size_t found_length;

	if (!export->texts.count)
		index_texts(export);
	id = (uint32_t)ws_map_get(&export->texts, XXH3_64bits(text, length), NULL);
	if (!id)
		return 0;
	found = ws_report_string(export->report, id, &found_length);
	if (found_length != length || memcmp(found, text, length))
		return 0;
	return id;
}

/* A text that is not the report's: extra[index]. */
static struct ws_view_cell make_extra_cell(const struct ws_cell_context *export, size_t index)
{
	const struct ws_text *text = &export->extra_texts[index];

	return (struct ws_view_cell){.kind = WS_VIEW_STRING,
				     .id = export->string_count + (uint32_t)index + 1,
				     .text = text->text,
				     .n = text->len};
}

struct ws_view_cell ws_make_extra_string_cell(struct ws_cell_context *export, const char *text,
					      size_t length)
{
	struct ws_text valid = {0};
	size_t i = 0;
	uint32_t id = find_text_id(export, text, length);

	if (id)
		return ws_make_string_cell(export, id);
	ws_text_puts(&valid, "");
	ws_put_valid_utf8(&valid, text, length);
	while (i < export->extra_text_count &&
	       (export->extra_texts[i].len != valid.len ||
		memcmp(export->extra_texts[i].text, valid.text, valid.len)))
		i++; /* there are few of them */
	if (i < export->extra_text_count) {
		ws_text_free(&valid);
	} else {
		ws_grow(export->extra_texts, export->extra_text_capacity,
			export->extra_text_count + 1);
		export->extra_texts[export->extra_text_count++] = valid;
	}
	return make_extra_cell(export, i);
}

struct ws_view_cell ws_make_own_text_cell(struct ws_cell_context *export, const char *text)
{
	struct ws_text *out;

	ws_grow(export->own_texts, export->own_text_capacity, export->own_text_count + 1);
	out = &export->own_texts[export->own_text_count++];
	memset(out, 0, sizeof(*out));
	ws_text_puts(out, "");
	ws_put_valid_utf8(out, text, strlen(text));
	return (struct ws_view_cell){.kind = WS_VIEW_TEXT, .text = out->text, .n = out->len};
}

struct ws_view_cell ws_make_thread_cell(struct ws_cell_context *export, uint64_t id)
{
	if (!id)
		return ws_make_null_cell();
	return ws_make_int_cell((int64_t)ws_find_thread(export->who, (uint32_t)id)->global_tid);
}

struct ws_view_cell ws_make_process_cell(struct ws_cell_context *export, uint64_t id)
{
	if (!id)
		return ws_make_null_cell();
	return ws_make_int_cell((int64_t)ws_find_process(export->who, (uint32_t)id)->global_pid);
}

struct ws_view_cell ws_make_time_cell(struct ws_cell_context *export, uint64_t time)
{
	return ws_make_int_cell((int64_t)(time - export->base));
}

struct ws_view_cell ws_make_end_time_cell(struct ws_cell_context *export, uint64_t time)
{
	if (time == WS_NO_TIME)
		return ws_make_null_cell();
	return ws_make_time_cell(export, time);
}

/* ---- begin and end ---- */

void ws_open_cell_context(struct ws_cell_context *export, const struct ws_report *report)
{
	memset(export, 0, sizeof(*export));
	export->report = report;
	export->input = ws_report_path(report);
	export->who = ws_who_open(report);
	export->zero = export->base = ws_find_time_zero(report);
	export->last = ws_find_time_last(report);
	export->string_count = ws_report_string_count(report);
	export->strings = ws_calloc((size_t) export->string_count + 1, 1);
}

void ws_close_cell_context(struct ws_cell_context *export)
{
	for (uint32_t i = 0; export->repaired && i <= export->string_count; i++)
		free(export->repaired[i]);
	for (size_t i = 0; i < export->extra_text_count; i++)
		ws_text_free(&export->extra_texts[i]);
	free(export->repaired);
	for (size_t i = 0; i < export->own_text_count; i++)
		ws_text_free(&export->own_texts[i]);
	free(export->own_texts);
	free(export->extra_texts);
	ws_free_pending_rows(export);
	free(export->strings);
	ws_free_choice(export);
	ws_map_free(&export->texts);
	ws_free_foreign_tables(export);
	ws_who_close(export->who);
}
