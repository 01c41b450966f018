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
	struct ws_xwriter w;
	FILE *f;
	const char *name; /* of the file */
	const struct ws_xtable *t;
	bool numbers_only; /* texts are in StringIds alone */
	struct ws_text line,
		start; /* line: those of a batch; start: what every line of the table begins with */
};

static int table(struct ws_xwriter *w, const struct ws_xtable *t, struct ws_err *e)
{
	struct jsonlines_writer *j = (struct jsonlines_writer *)w;

	(void)e;
	j->t = t;
	j->start.len = 0;
	ws_text_printf(&j->start, "{\"table\":\"%s\"", t->name);
	return 0;
}

static void put_key(struct ws_text *t, const char *name, size_t n)
{
	ws_text_add(t, ",\"", 2);
	ws_text_add(t, name, n);
	ws_text_add(t, "\":", 2);
}

static void put_number(struct ws_text *t, uint64_t v, bool negative)
{
	char buf[24], *p = buf + sizeof(buf);

	if (negative)
		v = 0 - v;
	do {
		*--p = (char)('0' + v % 10);
		v /= 10;
	} while (v);
	if (negative)
		*--p = '-';
	ws_text_add(t, p, (size_t)(buf + sizeof(buf) - p));
}

static void put_hex(struct ws_text *t, const char *s, size_t n)
{
	static const char digits[] = "0123456789abcdef";

	ws_text_add(t, "\"", 1);
	for (size_t i = 0; i < n; i++) {
		ws_text_add(t, &digits[(unsigned char)s[i] >> 4], 1);
		ws_text_add(t, &digits[(unsigned char)s[i] & 15], 1);
	}
	ws_text_add(t, "\"", 1);
}

static void put_cell(struct ws_text *t, const char *name, const struct ws_xcell *c,
		     bool numbers_only)
{
	size_t n = strlen(name);

	if (c->kind == WS_X_NULL)
		return;
	put_key(t, name, n);
	switch (c->kind) {
	case WS_X_INT:
	case WS_X_UINT:
		put_number(t, (uint64_t)c->i, c->kind == WS_X_INT && c->i < 0);
		break;
	case WS_X_STRING:
		put_number(t, c->id, false);
		if (!numbers_only && n > 2 && !strcmp(name + n - 2, "Id")) {
			put_key(t, name, n - 2);
			ws_text_json(t, c->s, c->n);
		}
		break;
	case WS_X_REAL:
		if (isfinite(c->r))
			ws_text_printf(t, "%.17g", c->r);
		else
			ws_text_puts(t, "null"); /* JSON has neither infinities nor NaN */
		break;
	case WS_X_TEXT:
		ws_text_json(t, c->s, c->n);
		break;
	case WS_X_BLOB:
		put_hex(t, c->s, c->n);
		break;
	case WS_X_NULL:
		break;
	}
}

static int rows(struct ws_xwriter *w, const struct ws_xcell *cells, size_t count, struct ws_err *e)
{
	struct jsonlines_writer *j = (struct jsonlines_writer *)w;

	j->line.len = 0;
	for (; count--; cells += j->t->column_count) {
		ws_text_add(&j->line, j->start.s, j->start.len);
		for (size_t i = 0; i < j->t->column_count; i++)
			put_cell(&j->line, j->t->columns[i].name, &cells[i], j->numbers_only);
		ws_text_add(&j->line, "}\n", 2);
	}
	if (fwrite(j->line.s, 1, j->line.len, j->f) != j->line.len)
		return ws_fail_errno(e, "cannot write %s", j->name);
	return 0;
}

static int finish(struct ws_xwriter *w, bool keep, struct ws_err *e)
{
	struct jsonlines_writer *j = (struct jsonlines_writer *)w;
	int rc = 0;

	if (keep && fflush(j->f))
		rc = ws_fail_errno(e, "cannot write %s", j->name);
	ws_text_free(&j->line);
	ws_text_free(&j->start);
	free(j);
	return rc;
}

struct ws_xwriter *ws_xformat_open_jsonlines(const struct ws_xtarget *t, struct ws_err *e)
{
	struct jsonlines_writer *j = ws_calloc(1, sizeof(*j));

	(void)e;
	j->w = (struct ws_xwriter){.table = table, .rows = rows, .close = finish};
	j->f = t->f;
	j->name = strcmp(t->name, "-") ? t->name : "standard output";
	j->numbers_only = t->separate_strings;
	return &j->w;
}
