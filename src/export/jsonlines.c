/*
 * jsonlines.c - one JSON object per line: {"table":"NVTX_EVENTS","start":1,...}, with the columns
 * of the SQLite export by name.
 *
 * Columns that are null are left out. Without --separate-strings, a column that refers to StringIds
 * (nameId) is followed by the text itself under the name without "Id" (name), so that a line can be
 * read alone. Bytes are written as lower-case hexadecimal text.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "export/formats.h"
#include "text/text.h"

struct jsonlines_writer {
	struct ws_table_writer writer;
	FILE *file;
	const char *name; /* of the file */
	const struct ws_view_table *table;
	bool numbers_only;    /* texts are only in StringIds */
	struct ws_text lines; /* of a batch */
	struct ws_text start; /* what every line of the table begins with */
};

static int begin_json_table(struct ws_table_writer *writer, const struct ws_view_table *xtable,
			    struct ws_err *err)
{
	struct jsonlines_writer *json = (struct jsonlines_writer *)writer;

	(void)err;
	json->table = xtable;
	json->start.len = 0;
	ws_text_printf(&json->start, "{\"table\":\"%s\"", xtable->name);
	return 0;
}

static void put_member_name(struct ws_text *text, const char *name, size_t length)
{
	ws_text_add(text, ",\"", 2);
	ws_text_add(text, name, length);
	ws_text_add(text, "\":", 2);
}

static void put_integer(struct ws_text *text, uint64_t number, bool negative)
{
	char digits[24], *first = digits + sizeof(digits);

	if (negative)
		number = 0 - number;
	do {
		*--first = (char)('0' + number % 10);
		number /= 10;
	} while (number);
	if (negative)
		*--first = '-';
	ws_text_add(text, first, (size_t)(digits + sizeof(digits) - first));
}

static void put_hex_bytes(struct ws_text *text, const char *bytes, size_t length)
{
	static const char digits[] = "0123456789abcdef";

	ws_text_add(text, "\"", 1);
	for (size_t i = 0; i < length; i++) {
		ws_text_add(text, &digits[(unsigned char)bytes[i] >> 4], 1);
		ws_text_add(text, &digits[(unsigned char)bytes[i] & 15], 1);
	}
	ws_text_add(text, "\"", 1);
}

static void put_member(struct ws_text *text, const char *name, const struct ws_view_cell *cell,
		       bool numbers_only)
{
	size_t length = strlen(name);

	if (cell->kind == WS_VIEW_NULL)
		return;
	put_member_name(text, name, length);
	switch (cell->kind) {
	case WS_VIEW_INT:
	case WS_VIEW_UINT:
		put_integer(text, (uint64_t)cell->i, cell->kind == WS_VIEW_INT && cell->i < 0);
		break;
	case WS_VIEW_STRING:
		put_integer(text, cell->id, false);
		if (!numbers_only && length > 2 && !strcmp(name + length - 2, "Id")) {
			put_member_name(text, name, length - 2);
			ws_put_quoted_json(text, cell->text, cell->n);
		}
		break;
	case WS_VIEW_REAL:
		if (isfinite(cell->r))
			ws_text_printf(text, "%.17g", cell->r);
		else
			ws_text_puts(text, "null"); /* JSON has neither infinities nor NaN */
		break;
	case WS_VIEW_TEXT:
		ws_put_quoted_json(text, cell->text, cell->n);
		break;
	case WS_VIEW_BLOB:
		put_hex_bytes(text, cell->text, cell->n);
		break;
	case WS_VIEW_NULL:
		break;
	}
}

static int write_json_rows(struct ws_table_writer *writer, const struct ws_view_cell *cells,
			   size_t count, struct ws_err *err)
{
	struct jsonlines_writer *json = (struct jsonlines_writer *)writer;

	json->lines.len = 0;
	for (; count--; cells += json->table->column_count) {
		ws_text_add(&json->lines, json->start.text, json->start.len);
		for (size_t i = 0; i < json->table->column_count; i++)
			put_member(&json->lines, json->table->columns[i].name, &cells[i],
				   json->numbers_only);
		ws_text_add(&json->lines, "}\n", 2);
	}
	if (fwrite(json->lines.text, 1, json->lines.len, json->file) != json->lines.len)
		return ws_fail_errno(err, "cannot write %s", json->name);
	return 0;
}

static int close_json(struct ws_table_writer *writer, bool keep, struct ws_err *err)
{
	struct jsonlines_writer *json = (struct jsonlines_writer *)writer;
	int rc = 0;

	if (keep && fflush(json->file))
		rc = ws_fail_errno(err, "cannot write %s", json->name);
	ws_text_free(&json->lines);
	ws_text_free(&json->start);
	free(json);
	return rc;
}

struct ws_table_writer *ws_open_format_jsonlines(const struct ws_export_target *target,
						 struct ws_err *err)
{
	struct jsonlines_writer *writer = ws_calloc(1, sizeof(*writer));

	(void)err;
	writer->writer = (struct ws_table_writer){.begin_table = begin_json_table,
						  .write_rows = write_json_rows,
						  .close_writer = close_json};
	writer->file = target->file;
	writer->name = ws_name_target(target);
	writer->numbers_only = target->separate_strings;
	return &writer->writer;
}
