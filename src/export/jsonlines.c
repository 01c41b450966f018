/*
 * jsonlines.c - one JSON object a line: {"table":"NVTX_EVENTS","start":1,...}, with the columns of
 * the SQLite export by name.
 *
 * Columns that are null are left out. A column that points into StringIds (nameId) is followed by
 * the text itself under the name without "Id" (name), so that a line can be read alone; not with
 * --separate-strings. Bytes are written as lower-case hexadecimal text.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "export/formats.h"
#include "text/text.h"

struct jsonlines_writer {
	struct ws_xwriter writer;
	FILE *file;
	const char *name; /* of the file */
	const struct ws_xtable *table;
	bool numbers_only; /* texts are in StringIds alone */
	struct ws_text line,
		start; /* line: those of a batch; start: what every line of the table begins with */
};

static int table(struct ws_xwriter *writer, const struct ws_xtable *xtable, struct ws_err *err)
{
	struct jsonlines_writer *j = (struct jsonlines_writer *)writer;

	(void)err;
	j->table = xtable;
	j->start.len = 0;
	ws_text_printf(&j->start, "{\"table\":\"%s\"", xtable->name);
	return 0;
}

static void put_key(struct ws_text *text, const char *name, size_t n)
{
	ws_text_add(text, ",\"", 2);
	ws_text_add(text, name, n);
	ws_text_add(text, "\":", 2);
}

static void put_number(struct ws_text *text, uint64_t v, bool negative)
{
	char buf[24], *at = buf + sizeof(buf);

	if (negative)
		v = 0 - v;
	do {
		*--at = (char)('0' + v % 10);
		v /= 10;
	} while (v);
	if (negative)
		*--at = '-';
	ws_text_add(text, at, (size_t)(buf + sizeof(buf) - at));
}

static void put_hex(struct ws_text *text, const char *word, size_t n)
{
	static const char digits[] = "0123456789abcdef";

	ws_text_add(text, "\"", 1);
	for (size_t i = 0; i < n; i++) {
		ws_text_add(text, &digits[(unsigned char)word[i] >> 4], 1);
		ws_text_add(text, &digits[(unsigned char)word[i] & 15], 1);
	}
	ws_text_add(text, "\"", 1);
}

static void put_cell(struct ws_text *text, const char *name, const struct ws_xcell *cell,
		     bool numbers_only)
{
	size_t n = strlen(name);

	if (cell->kind == WS_X_NULL)
		return;
	put_key(text, name, n);
	switch (cell->kind) {
	case WS_X_INT:
	case WS_X_UINT:
		put_number(text, (uint64_t)cell->i, cell->kind == WS_X_INT && cell->i < 0);
		break;
	case WS_X_STRING:
		put_number(text, cell->id, false);
		if (!numbers_only && n > 2 && !strcmp(name + n - 2, "Id")) {
			put_key(text, name, n - 2);
			ws_text_json(text, cell->text, cell->n);
		}
		break;
	case WS_X_REAL:
		if (isfinite(cell->r))
			ws_text_printf(text, "%.17g", cell->r);
		else
			ws_text_puts(text, "null"); /* JSON has neither infinities nor NaN */
		break;
	case WS_X_TEXT:
		ws_text_json(text, cell->text, cell->n);
		break;
	case WS_X_BLOB:
		put_hex(text, cell->text, cell->n);
		break;
	case WS_X_NULL:
		break;
	}
}

static int rows(struct ws_xwriter *writer, const struct ws_xcell *cells, size_t count,
		struct ws_err *err)
{
	struct jsonlines_writer *j = (struct jsonlines_writer *)writer;

	j->line.len = 0;
	for (; count--; cells += j->table->column_count) {
		ws_text_add(&j->line, j->start.text, j->start.len);
		for (size_t i = 0; i < j->table->column_count; i++)
			put_cell(&j->line, j->table->columns[i].name, &cells[i], j->numbers_only);
		ws_text_add(&j->line, "}\n", 2);
	}
	if (fwrite(j->line.text, 1, j->line.len, j->file) != j->line.len)
		return ws_fail_errno(err, "cannot write %s", j->name);
	return 0;
}

static int finish(struct ws_xwriter *writer, bool keep, struct ws_err *err)
{
	struct jsonlines_writer *j = (struct jsonlines_writer *)writer;
	int rc = 0;

	if (keep && fflush(j->file))
		rc = ws_fail_errno(err, "cannot write %s", j->name);
	ws_text_free(&j->line);
	ws_text_free(&j->start);
	free(j);
	return rc;
}

struct ws_xwriter *ws_xformat_open_jsonlines(const struct ws_xtarget *target, struct ws_err *err)
{
	struct jsonlines_writer *writer = ws_calloc(1, sizeof(*writer));

	(void)err;
	writer->writer = (struct ws_xwriter){.table = table, .rows = rows, .close = finish};
	writer->file = target->file;
	writer->name = strcmp(target->name, "-") ? target->name : "standard output";
	writer->numbers_only = target->separate_strings;
	return &writer->writer;
}
