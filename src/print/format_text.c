/*
 * format_text.c - formats that people read: column, table, html, markdown.
 *
 * column and table need the widths of all rows first: cells are kept as text in one buffer (`kept`,
 * with their ends in `ends`) and laid out at the end. Names are cut at 100 columns, with an
 * ellipsis, unless the format has :nolimit or a width for the column. Lines are filled up with
 * blanks to the width of the last column, as the reference tool's are.
 */
#include <stdlib.h>
#include <string.h>

#include "text/text.h"
#include "print/formats.h"

enum { NAME_LIMIT = 100 };

static bool left_aligned(const struct ws_printer *o, size_t column)
{
	return o->columns[column].kind == WS_KIND_TEXT || (column < 64 && o->texts >> column & 1);
}

/* What `kept` got since the last cell is one, which takes so many columns. */
static void keep(struct ws_printer *o, size_t width)
{
	size_t column = o->ends_count % o->column_count;

	ws_grow(o->ends, o->ends_cap, o->ends_count + 1);
	o->ends[o->ends_count++] = o->kept.len;
	if (!o->widths)
		o->widths = ws_calloc(o->column_count, sizeof(*o->widths));
	if (width > o->widths[column])
		o->widths[column] = width;
}

/* What the user wants the column to be wide; WS_WIDTH_AUTO for as wide as need be. */
static size_t asked_width(const struct ws_printer *o, size_t column)
{
	return column < o->args.width_count ? o->args.widths[column] : WS_WIDTH_AUTO;
}

static void keep_name(struct ws_printer *o, size_t column, const char *s, size_t n)
{
	size_t from = o->kept.len, cut, width;

	ws_text_terminal(&o->kept, s, n);
	width = o->kept.len > from ? ws_utf8_width(o->kept.s + from, o->kept.len - from) : 0;
	if (!o->args.nolimit && asked_width(o, column) == WS_WIDTH_AUTO && width > NAME_LIMIT) {
		cut = ws_utf8_prefix(o->kept.s + from, o->kept.len - from, NAME_LIMIT - 1);
		o->kept.len = from + cut;
		ws_text_puts(&o->kept, "\xe2\x80\xa6");
		width = ws_utf8_width(o->kept.s + from, o->kept.len - from);
	}
	keep(o, width);
}

void ws_kept_begin(struct ws_printer *o)
{
	for (size_t i = 0; i < o->column_count; i++) {
		size_t from = o->kept.len;

		ws_print_header(o, i, &o->kept);
		keep(o, o->args.nohdr ? 0 : ws_utf8_width(o->kept.s + from, o->kept.len - from));
	}
}

void ws_kept_row(struct ws_printer *o, const struct ws_cell *cells)
{
	for (size_t i = 0; i < o->column_count; i++) {
		size_t from = o->kept.len;

		if (cells[i].type == WS_CELL_TEXT) {
			keep_name(o, i, cells[i].t.s, cells[i].t.n);
			o->texts |= i < 64 ? UINT64_C(1) << i : 0;
			continue;
		}
		if (cells[i].type != WS_CELL_NULL)
			ws_print_number(o, i, &cells[i], !o->args.nofmt, &o->kept);
		keep(o, o->kept.len - from);
	}
}

void ws_kept_take(struct ws_printer *o, struct ws_printer *one)
{
	size_t before = o->kept.len;

	ws_text_add(&o->kept, one->kept.s, one->kept.len);
	ws_grow(o->ends, o->ends_cap, o->ends_count + one->ends_count);
	for (size_t i = 0; i < one->ends_count; i++)
		o->ends[o->ends_count++] = before + one->ends[i];
	for (size_t i = 0; i < o->column_count; i++)
		if (one->widths[i] > o->widths[i])
			o->widths[i] = one->widths[i];
	o->texts |= one->texts;
}

/* Text of kept cell i; the header's cells come first. */
static const char *kept(const struct ws_printer *o, size_t i, size_t *len)
{
	size_t from = i ? o->ends[i - 1] : 0;

	*len = o->ends[i] - from;
	return o->kept.s ? o->kept.s + from : "";
}

/* All cells are kept: columns get the widths that the user wants. */
static void settle_widths(struct ws_printer *o)
{
	for (size_t i = 0; i < o->column_count; i++)
		if (asked_width(o, i) != WS_WIDTH_AUTO)
			o->widths[i] = asked_width(o, i);
}

static void pad(struct ws_text *t, size_t n, char c)
{
	ws_grow(t->s, t->cap, t->len + n + 1);
	memset(t->s + t->len, c, n);
	t->len += n;
	t->s[t->len] = 0;
}

/* A cell in its column: the header centred, numbers on the right, texts on the left, what is too
 * long cut. */
static void put_cell(const struct ws_printer *o, struct ws_text *line, size_t first, size_t column)
{
	size_t len, space, before, wide, width = o->widths[column];
	const char *s = kept(o, first + column, &len);

	wide = ws_utf8_width(s, len);
	if (wide > width) {
		size_t cut = ws_utf8_prefix(s, len, width - 1);

		ws_text_add(line, s, cut);
		ws_text_puts(line, "\xe2\x80\xa6");
		pad(line, width - 1 - ws_utf8_width(s, cut),
		    ' '); /* where half of a wide character would be */
		return;
	}
	space = width - wide;
	before = !first ? space / 2 : left_aligned(o, column) ? 0 : space;
	pad(line, before, ' ');
	ws_text_add(line, s, len);
	pad(line, space - before, ' ');
}

struct lines { /* how those of a table look */
	const struct ws_printer *o;
	const char *start, *gap, *end;
};

/* One line of kept cells from `first`. Columns whose width was given as 0 are not there. */
static void put_kept(const struct lines *l, struct ws_text *line, size_t first)
{
	bool any = false;

	ws_text_puts(line, l->start);
	for (size_t i = 0; i < l->o->column_count; i++) {
		if (!asked_width(l->o, i))
			continue;
		if (any)
			ws_text_puts(line, l->gap);
		put_cell(l->o, line, first, i);
		any = true;
	}
	ws_text_puts(line, l->end);
}

static void put_rows(struct ws_printer *one, size_t from, size_t to, const void *ctx)
{
	const struct lines *l = ctx;

	for (size_t i = from; i < to; i++) /* the header is before the first */
		put_kept(l, &one->line, (i + 1) * l->o->column_count);
}

static void title(struct ws_printer *o)
{
	if (o->title)
		fprintf(o->f, " ** %s (%s):\n\n", o->title, o->name);
}

void ws_column_begin(struct ws_printer *o)
{
	ws_kept_begin(o);
}

static void rule(struct ws_printer *o, const char *start, const char *gap, const char *end)
{
	bool any = false;

	ws_text_puts(&o->line, start);
	for (size_t i = 0; i < o->column_count; i++) {
		if (!asked_width(o, i))
			continue;
		if (any)
			ws_text_puts(&o->line, gap);
		pad(&o->line, o->widths[i], '-');
		any = true;
	}
	ws_text_puts(&o->line, end);
}

static void put_all(struct ws_printer *o, const struct lines *l)
{
	ws_print_slices(o, o->ends_count / o->column_count - 1, put_rows, ws_lines_take, l);
}

void ws_column_end(struct ws_printer *o)
{
	const struct lines l = {o, " ", "  ", "\n"};

	settle_widths(o);
	title(o);
	if (!o->args.nohdr) {
		put_kept(&l, &o->line, 0);
		rule(o, " ", "  ", "\n");
	}
	put_all(o, &l);
	ws_print_flush(o);
}

void ws_box_end(struct ws_printer *o)
{
	const struct lines l = {o, "| ", " | ", " |\n"};

	settle_widths(o);
	title(o);
	rule(o, "+-", "-+-", "-+\n");
	if (!o->args.nohdr) {
		put_kept(&l, &o->line, 0);
		rule(o, "+-", "-+-", "-+\n");
	}
	put_all(o, &l);
	if (o->rows)
		rule(o, "+-", "-+-", "-+\n");
	ws_print_flush(o);
}

/* ---- HTML ---- */

void ws_htable_begin(struct ws_printer *o)
{
	ws_text_puts(&o->line, "<table>\n");
	if (!o->args.nohdr) {
		ws_text_puts(&o->line, "<thead><tr>");
		for (size_t i = 0; i < o->column_count; i++) {
			ws_text_puts(&o->line, left_aligned(o, i) ? "<th class=\"t\">" : "<th>");
			ws_print_header(o, i, &o->line);
			ws_text_puts(&o->line, "</th>");
		}
		ws_text_puts(&o->line, "</tr></thead>\n");
	}
	ws_text_puts(&o->line, "<tbody>\n");
	ws_print_flush(o);
}

static void put_html(struct ws_printer *o, const char *before, const char *s, size_t n,
		     const char *after)
{
	ws_text_puts(&o->line, before);
	ws_text_html(&o->line, s, n);
	ws_text_puts(&o->line, after);
}

void ws_html_begin(struct ws_printer *o)
{
	const char *name = o->title ? o->title : o->name;
	bool asked = o->args.title.s;

	ws_text_puts(&o->line,
		     "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
	put_html(o, "<title>", asked ? o->args.title.s : name,
		 asked ? o->args.title.n : strlen(name), "</title>\n");
	ws_text_puts(
		&o->line,
		"<style>\nbody { font-family: sans-serif; }\ntable { border-collapse: collapse; }\n"
		"th, td { border: 1px solid #ccc; padding: 2px 8px; text-align: right; "
		"font-variant-numeric: tabular-nums; }\n"
		"th { background: #eee; }\n.t { text-align: left; white-space: pre-wrap; "
		"unicode-bidi: isolate; }\n</style>\n");
	if (o->args.css.s)
		put_html(o, "<link rel=\"stylesheet\" href=\"", o->args.css.s, o->args.css.n,
			 "\">\n");
	ws_text_puts(&o->line, "</head>\n<body>\n");
	if (o->title) {
		put_html(o, "<h1>", o->title, strlen(o->title), " (");
		put_html(o, "", o->name, strlen(o->name), ")</h1>\n");
	}
	ws_print_flush(o);
	ws_htable_begin(o);
}

void ws_html_row(struct ws_printer *o, const struct ws_cell *cells)
{
	ws_text_puts(&o->line, "<tr>");
	for (size_t i = 0; i < o->column_count; i++) {
		ws_text_puts(&o->line, cells[i].type == WS_CELL_TEXT || left_aligned(o, i)
					       ? "<td class=\"t\">"
					       : "<td>");
		if (cells[i].type == WS_CELL_TEXT)
			ws_text_html(&o->line, cells[i].t.s, cells[i].t.n);
		else if (cells[i].type != WS_CELL_NULL)
			ws_print_number(o, i, &cells[i], !o->args.nofmt, &o->line);
		ws_text_puts(&o->line, "</td>");
	}
	ws_text_puts(&o->line, "</tr>\n");
	ws_print_flush(o);
}

void ws_htable_end(struct ws_printer *o)
{
	fputs("</tbody>\n</table>\n", o->f);
}

void ws_html_end(struct ws_printer *o)
{
	ws_htable_end(o);
	fputs("</body>\n</html>\n", o->f);
}

/* ---- Markdown ---- */

void ws_markdown_begin(struct ws_printer *o)
{
	if (o->title)
		fprintf(o->f, "## %s (%s)\n\n", o->title, o->name);
	if (o->args.nohdr) /* a table without its header line is not a table to Markdown */
		return;
	for (size_t i = 0; i < o->column_count; i++) {
		ws_text_puts(&o->line, i ? " | " : "| ");
		ws_print_header(o, i, &o->line);
	}
	ws_text_puts(&o->line, " |\n");
	for (size_t i = 0; i < o->column_count; i++)
		ws_text_puts(&o->line, left_aligned(o, i)		     ? "|:---"
				       : o->columns[i].kind == WS_KIND_VALUE ? "|---"
									     : "|---:");
	ws_text_puts(&o->line, "|\n");
	ws_print_flush(o);
}

/* Punctuation that Markdown or the HTML in it would take for its own. */
static void markdown_text(struct ws_text *t, const char *s, size_t n)
{
	struct ws_text shown = {0};

	ws_text_terminal(&shown, s, n);
	for (size_t i = 0; i < shown.len; i++) {
		char c = shown.s[i];

		if (c == '&')
			ws_text_puts(t, "&amp;");
		else if (c == '<')
			ws_text_puts(t, "&lt;");
		else if (strchr("\\`*_[]>|~#$", c))
			ws_text_printf(t, "\\%c", c);
		else
			ws_text_add(t, &c, 1);
	}
	ws_text_free(&shown);
}

void ws_markdown_row(struct ws_printer *o, const struct ws_cell *cells)
{
	for (size_t i = 0; i < o->column_count; i++) {
		ws_text_puts(&o->line, i ? " | " : "| ");
		if (cells[i].type == WS_CELL_TEXT)
			markdown_text(&o->line, cells[i].t.s, cells[i].t.n);
		else if (cells[i].type != WS_CELL_NULL)
			ws_print_number(o, i, &cells[i], !o->args.nofmt, &o->line);
	}
	ws_text_puts(&o->line, " |\n");
	ws_print_flush(o);
}

void ws_markdown_end(struct ws_printer *o)
{
	(void)o;
}
