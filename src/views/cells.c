/* cells.c - cells of texts, threads and times, and the state that making them needs. */
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

/* Beside this thread, those of columns.c note which texts are used. */
static void note(struct ws_export *export, uint32_t id, uint8_t what)
{
	if (!(__atomic_load_n(&export->strings[id], __ATOMIC_RELAXED) & what))
		__atomic_fetch_or(&export->strings[id], what, __ATOMIC_RELAXED);
}

/* Valid text of a string id. Ids beyond the dictionary are empty strings. */
const char *ws_x_bytes(struct ws_export *export, uint32_t id, size_t *len)
{
	const char *text = ws_report_string(export->report, id, len);
	struct ws_text out = {0};

	if (id > export->string_count || export->strings[id] & STRING_CLEAN)
		return text;
	if (!(export->strings[id] & STRING_BROKEN) && ws_utf8_valid(text, *len)) {
		note(export, id, STRING_CLEAN);
		return text;
	}
	note(export, id, STRING_BROKEN);
	if (!export->repaired)
		export->repaired = ws_calloc(export->string_count + 1, sizeof(*export->repaired));
	if (!export->repaired[id]) {
		ws_text_utf8(&out, text, *len);
		export->repaired[id] = out.text; /* holds no NUL */
	}
	*len = strlen(export->repaired[id]);
	return export->repaired[id];
}

struct ws_xcell ws_x_text(struct ws_export *export, uint32_t id)
{
	struct ws_xcell cell = {.kind = id && id <= export->string_count ? WS_X_TEXT : WS_X_NULL,
				.id = id};

	if (cell.kind == WS_X_TEXT && !export->ids_only)
		cell.text = ws_x_bytes(export, id, &cell.n);
	return cell;
}

struct ws_xcell ws_x_blob(struct ws_export *export, uint32_t id)
{
	struct ws_xcell cell = {.kind = id && !export->no_blobs ? WS_X_BLOB : WS_X_NULL, .id = id};

	if (cell.kind == WS_X_BLOB && !export->ids_only)
		cell.text = ws_report_string(export->report, id, &cell.n);
	return cell;
}

struct ws_xcell ws_x_string(struct ws_export *export, uint32_t id)
{
	struct ws_xcell cell = {.kind = WS_X_NULL};

	if (!id || id > export->string_count)
		return cell;
	cell.kind = WS_X_STRING;
	cell.id = ws_report_string_key(export->report, id);
	if (cell.id > export->string_count)
		cell.id = id;
	if (export->ids_only)
		return cell;
	cell.text = ws_x_bytes(export, cell.id, &cell.n);
	note(export, cell.id, STRING_USED);
	return cell;
}

/* The report's own number of a text, or 0: so that an export's import, exported again, has the same
 * numbers. */
static uint32_t text_id(struct ws_export *export, const char *word, size_t n)
{
	const char *none = ws_report_string(
		export->report, 0,
		NULL); /* what is read of numbers that the report does not define */
	uint32_t id;
	size_t len;

	for (uint32_t i = export->texts.n ? 0 : export->string_count; i;
	     i--) { /* of equal ones the first counts */
		const char *text = ws_report_string(export->report, i, &len);

		if (text != none)
			ws_map_set(&export->texts, XXH3_64bits(text, len), i);
	}
	id = (uint32_t)ws_map_get(&export->texts, XXH3_64bits(word, n), NULL);
	if (!id)
		return 0;
	word = memcmp(ws_report_string(export->report, id, &len), word, ws_min(len, n)) ? NULL
											: word;
	return word && len == n ? id : 0;
}

struct ws_xcell ws_x_extra(struct ws_export *export, const char *text, size_t n)
{
	struct ws_text *out, made = {0};
	size_t i = 0;
	uint32_t id = text_id(export, text, n);

	if (id)
		return ws_x_string(export, id);
	ws_text_puts(&made, "");
	ws_text_utf8(&made, text, n);
	while (i < export->extra_count && (export->extra[i].len != made.len ||
					   memcmp(export->extra[i].text, made.text, made.len)))
		i++; /* there are few */
	if (i < export->extra_count) {
		out = &export->extra[i];
		ws_text_free(&made);
		return (struct ws_xcell){.kind = WS_X_STRING,
					 .id = export->string_count + (uint32_t)i + 1,
					 .text = out->text,
					 .n = out->len};
	}
	ws_grow(export->extra, export->extra_cap, export->extra_count + 1);
	out = &export->extra[export->extra_count++];
	*out = made;
	return (struct ws_xcell){.kind = WS_X_STRING,
				 .id = export->string_count + (uint32_t) export->extra_count,
				 .text = out->text,
				 .n = out->len};
}

struct ws_xcell ws_x_own(struct ws_export *export, const char *text)
{
	struct ws_text *out;

	ws_grow(export->own, export->own_cap, export->own_count + 1);
	out = &export->own[export->own_count++];
	memset(out, 0, sizeof(*out));
	ws_text_puts(out, "");
	ws_text_utf8(out, text, strlen(text));
	return (struct ws_xcell){.kind = WS_X_TEXT, .text = out->text, .n = out->len};
}

struct ws_xcell ws_x_thread(struct ws_export *export, uint64_t id)
{
	return id ? ws_x_int((int64_t)ws_who_thread(export->who, (uint32_t)id)->global_tid)
		  : ws_x_null();
}

struct ws_xcell ws_x_process(struct ws_export *export, uint64_t id)
{
	return id ? ws_x_int((int64_t)ws_who_process(export->who, (uint32_t)id)->global_pid)
		  : ws_x_null();
}

struct ws_xcell ws_x_time(struct ws_export *export, uint64_t t)
{
	return ws_x_int((int64_t)(t - export->base));
}

struct ws_xcell ws_x_ntime(struct ws_export *export, uint64_t t)
{
	return t == WS_NO_TIME ? ws_x_null() : ws_x_time(export, t);
}

/* ---- begin and end ---- */

void ws_export_begin(struct ws_export *export, const struct ws_report *report)
{
	memset(export, 0, sizeof(*export));
	export->report = report;
	export->input = ws_report_path(report);
	export->who = ws_who_open(report);
	export->zero = export->base = ws_time_zero(report);
	export->last = ws_time_last(report);
	export->string_count = ws_report_string_count(report);
	export->strings = ws_calloc((size_t) export->string_count + 1, 1);
}

void ws_export_end(struct ws_export *export)
{
	for (uint32_t i = 0; export->repaired && i <= export->string_count; i++)
		free(export->repaired[i]);
	for (size_t i = 0; i < export->extra_count; i++)
		ws_text_free(&export->extra[i]);
	free(export->repaired);
	for (size_t i = 0; i < export->own_count; i++)
		ws_text_free(&export->own[i]);
	free(export->own);
	free(export->extra);
	ws_export_free_pile(export);
	free(export->strings);
	ws_choose_free(export);
	ws_map_free(&export->texts);
	ws_export_foreign_free(export);
	ws_who_close(export->who);
}
