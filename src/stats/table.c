/*
 * table.c - headers, numbers and the list of formats; see table.h.
 *
 * Rounding is half away from zero on the exact value, as SQLite's round() does, which the scripts of the reference tool use:
 * printf's would turn 0.25 into 0.2. Times of other units than ns keep every nanosecond (3, 6, 9 decimals), so that nothing turns
 * into 0.
 */
#include "stats/table.h"

#include <stdlib.h>
#include <string.h>

#include "stats/formats.h"

const struct ws_format ws_formats[] = {
    {"column", NULL, "txt", "aligned columns for a terminal", true, true, ws_column_begin, ws_kept_row, ws_column_end},
    {"table", NULL, "txt", "columns in a box", true, true, ws_kept_begin, ws_kept_row, ws_box_end},
    {"csv", NULL, "csv", "comma-separated values", false, false, ws_csv_begin, ws_csv_row, ws_lines_end},
    {"tsv", NULL, "tsv", "tab-separated values; tabs, newlines and backslashes in names are escaped", false, false, ws_tsv_begin,
     ws_tsv_row, ws_lines_end},
    {"json", NULL, "json", "an array of objects, one a row", false, false, ws_json_begin, ws_json_row, ws_json_end},
    {"html", "hdoc", "html", "an HTML document", true, true, ws_html_begin, ws_html_row, ws_html_end},
    {"htable", NULL, "html", "an HTML table without a document around it", false, true, ws_htable_begin, ws_html_row,
     ws_htable_end},
    {"markdown", "md", "md", "a Markdown table", true, true, ws_markdown_begin, ws_markdown_row, ws_markdown_end},
    {NULL},
};

static int format_arg(const struct ws_format *f, const char *arg, struct ws_format_args *args, struct ws_err *e)
{
	if (!strcmp(arg, "nohdr")) {
		args->nohdr = true;
		return 0;
	}
	if (f->args && !strcmp(arg, "nolimit")) {
		args->nolimit = true;
		return 0;
	}
	if (f->args && !strcmp(arg, "nofmt")) {
		args->nofmt = true;
		return 0;
	}
	return ws_fail(e, "the format %s has no argument '%s'; it has nohdr%s", f->name, arg, f->args ? ", nolimit, nofmt" : "");
}

const struct ws_format *ws_format_find(const char *spec, struct ws_format_args *args, struct ws_err *e)
{
	char *copy = ws_strdup(spec), *save, *name = strtok_r(copy, ":", &save), *arg;
	const struct ws_format *f = ws_formats;

	memset(args, 0, sizeof(*args));
	while (f->name && name && strcmp(f->name, name) && (!f->alias || strcmp(f->alias, name)))
		f++;
	if (!name || !f->name) {
		ws_fail(e, "there is no format '%s'; choose column, table, csv, tsv, json, html, htable or markdown", spec);
		f = NULL;
	}
	while (f && (arg = strtok_r(NULL, ":", &save)))
		if (format_arg(f, arg, args, e) < 0)
			f = NULL;
	free(copy);
	return f;
}

const struct ws_timeunit *ws_timeunit_find(const char *name)
{
	static const struct {
		const char *name, *word, *sec;
		struct ws_timeunit unit;
	} units[] = {
	    {"ns", "nanoseconds", "nsec", {"ns", 0}},
	    {"us", "microseconds", "usec", {"us", 3}},
	    {"ms", "milliseconds", "msec", {"ms", 6}},
	    {"s", "seconds", "sec", {"s", 9}},
	};

	for (size_t i = 0; i < WS_COUNT(units); i++) {
		size_t n = strlen(name);

		if (!strcmp(name, units[i].name) || !strcmp(name, units[i].sec) || (n >= 3 && !strncmp(name, units[i].word, n)))
			return &units[i].unit;
	}
	return NULL;
}

void ws_print_begin(struct ws_printer *o)
{
	o->rows = 0;
	o->format->begin(o);
}

void ws_print_row(struct ws_printer *o, const struct ws_cell *cells)
{
	o->rows++;
	o->format->row(o, cells);
}

void ws_print_end(struct ws_printer *o)
{
	if (o->format->end)
		o->format->end(o);
	ws_text_free(&o->line);
	ws_text_free(&o->kept);
	free(o->ends);
	o->ends = NULL;
	o->ends_cap = o->ends_count = 0;
}

void ws_print_header(const struct ws_printer *o, size_t column, struct ws_text *t)
{
	const struct ws_column *c = &o->columns[column];

	ws_text_puts(t, c->name);
	if (c->kind == WS_KIND_PERCENT)
		ws_text_puts(t, " (%)");
	else if (c->kind == WS_KIND_TIME || c->kind == WS_KIND_MEAN)
		ws_text_printf(t, " (%s)", o->unit->name);
	else if (c->kind == WS_KIND_SIZE || c->kind == WS_KIND_RATE)
		ws_text_puts(t, c->kind == WS_KIND_SIZE ? " (MB)" : " (MB/s)");
}

/* `v` is the value times ten to the power of `decimals`. */
static void put_fixed(struct ws_text *t, uint64_t v, bool negative, unsigned decimals, bool grouped)
{
	char buf[48], *p = buf + sizeof(buf);
	unsigned digits = 0;

	for (unsigned i = 0; i < decimals; i++, v /= 10)
		*--p = (char)('0' + (unsigned)(v % 10));
	if (decimals)
		*--p = '.';
	do {
		if (grouped && digits && digits % 3 == 0)
			*--p = ',';
		*--p = (char)('0' + (unsigned)(v % 10));
		v /= 10;
		digits++;
	} while (v);
	if (negative)
		*--p = '-';
	ws_text_add(t, p, (size_t)(buf + sizeof(buf) - p));
}

/* Rounded half up; values are not negative, and none goes beyond 64 bits but by damage: it prints as the largest. */
static uint64_t rounded(long double v)
{
	return v >= 0 && v < 1.8e19L ? (uint64_t)(v + 0.5L) : v > 0 ? UINT64_MAX : 0;
}

/* The shortest decimal that reads as the same double, with a point or exponent that says it is one. */
static void put_real(struct ws_text *t, double v)
{
	char s[40];

	snprintf(s, sizeof(s), "%.15g", v);
	if (strtod(s, NULL) != v)
		snprintf(s, sizeof(s), "%.17g", v);
	ws_text_puts(t, s);
	if (!strpbrk(s, ".eEn"))
		ws_text_puts(t, ".0");
}

void ws_print_number(const struct ws_printer *o, size_t column, const struct ws_cell *c, bool grouped, struct ws_text *t)
{
	enum ws_kind kind = o->columns[column].kind;
	bool negative = c->type == WS_CELL_INT && c->i < 0;
	uint64_t magnitude = negative ? 0 - (uint64_t)c->i : (uint64_t)c->i;

	if (kind == WS_KIND_ID || kind == WS_KIND_VALUE)
		grouped = false;
	if (kind == WS_KIND_VALUE && c->type == WS_CELL_REAL) {
		put_real(t, (double)c->r);
		return;
	}
	if (kind == WS_KIND_SIZE || kind == WS_KIND_RATE)
		put_fixed(t, rounded((c->type == WS_CELL_INT ? (long double)magnitude : c->r) / 1000), negative, 3, grouped);
	else if (c->type == WS_CELL_INT)
		put_fixed(t, magnitude, negative, kind == WS_KIND_TIME ? o->unit->power : 0, grouped);
	else if (kind == WS_KIND_MEAN && o->unit->power)
		put_fixed(t, rounded(c->r), false, o->unit->power, grouped);
	else
		put_fixed(t, rounded(c->r * 10), false, 1, grouped);
}
