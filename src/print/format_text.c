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

static bool left_aligned(const struct ws_printer *printer, size_t column)
{
	return printer->columns[column].kind == WS_KIND_TEXT ||
	       (column < 64 && printer->texts >> column & 1);
}

/* What `kept` got since the last cell is one, which takes so many columns. */
static void keep(struct ws_printer *printer, size_t width)
{
	size_t column = printer->ends_count % printer->column_count;

	ws_grow(printer->ends, printer->ends_cap, printer->ends_count + 1);
	printer->ends[printer->ends_count++] = printer->kept.len;
	if (!printer->widths)
		printer->widths = ws_calloc(printer->column_count, sizeof(*printer->widths));
	if (width > printer->widths[column])
		printer->widths[column] = width;
}

/* What the user wants the column to be wide; WS_WIDTH_AUTO for as wide as need be. */
static size_t asked_width(const struct ws_printer *printer, size_t column)
{
	return column < printer->args.width_count ? printer->args.widths[column] : WS_WIDTH_AUTO;
}

static void keep_name(struct ws_printer *printer, size_t column, const char *text, size_t n)
{
	size_t from = printer->kept.len, cut, width;

	ws_text_terminal(&printer->kept, text, n);
	width = printer->kept.len > from
			? ws_utf8_width(printer->kept.text + from, printer->kept.len - from)
			: 0;
	if (!printer->args.nolimit && asked_width(printer, column) == WS_WIDTH_AUTO &&
	    width > NAME_LIMIT) {
		cut = ws_utf8_prefix(printer->kept.text + from, printer->kept.len - from,
				     NAME_LIMIT - 1);
		printer->kept.len = from + cut;
		ws_text_puts(&printer->kept, "\xe2\x80\xa6");
		width = ws_utf8_width(printer->kept.text + from, printer->kept.len - from);
	}
	keep(printer, width);
}

void ws_kept_begin(struct ws_printer *printer)
{
	for (size_t i = 0; i < printer->column_count; i++) {
		size_t from = printer->kept.len;

		ws_print_header(printer, i, &printer->kept);
		keep(printer, printer->args.nohdr ? 0
						  : ws_utf8_width(printer->kept.text + from,
								  printer->kept.len - from));
	}
}

void ws_kept_row(struct ws_printer *printer, const struct ws_cell *cells)
{
	for (size_t i = 0; i < printer->column_count; i++) {
		size_t from = printer->kept.len;

		if (cells[i].type == WS_CELL_TEXT) {
			keep_name(printer, i, cells[i].t.text, cells[i].t.n);
			printer->texts |= i < 64 ? UINT64_C(1) << i : 0;
			continue;
		}
		if (cells[i].type != WS_CELL_NULL)
			ws_print_number(printer, i, &cells[i], !printer->args.nofmt,
					&printer->kept);
		keep(printer, printer->kept.len - from);
	}
}

void ws_kept_take(struct ws_printer *printer, struct ws_printer *one)
{
	size_t before = printer->kept.len;

	ws_text_add(&printer->kept, one->kept.text, one->kept.len);
	ws_grow(printer->ends, printer->ends_cap, printer->ends_count + one->ends_count);
	for (size_t i = 0; i < one->ends_count; i++)
		printer->ends[printer->ends_count++] = before + one->ends[i];
	for (size_t i = 0; i < printer->column_count; i++)
		if (one->widths[i] > printer->widths[i])
			printer->widths[i] = one->widths[i];
	printer->texts |= one->texts;
}

/* Text of kept cell i; the header's cells come first. */
static const char *kept(const struct ws_printer *printer, size_t i, size_t *len)
{
	size_t from = i ? printer->ends[i - 1] : 0;

	*len = printer->ends[i] - from;
	return printer->kept.text ? printer->kept.text + from : "";
}

/* All cells are kept: columns get the widths that the user wants. */
static void settle_widths(struct ws_printer *printer)
{
	for (size_t i = 0; i < printer->column_count; i++)
		if (asked_width(printer, i) != WS_WIDTH_AUTO)
			printer->widths[i] = asked_width(printer, i);
}

static void pad(struct ws_text *text, size_t n, char letter)
{
	ws_grow(text->text, text->cap, text->len + n + 1);
	memset(text->text + text->len, letter, n);
	text->len += n;
	text->text[text->len] = 0;
}

/* A cell in its column: the header centred, numbers on the right, texts on the left, what is too
 * long cut. */
static void put_cell(const struct ws_printer *printer, struct ws_text *line, size_t first,
		     size_t column)
{
	size_t len, space, before, wide, width = printer->widths[column];
	const char *text = kept(printer, first + column, &len);

	wide = ws_utf8_width(text, len);
	if (wide > width) {
		size_t cut = ws_utf8_prefix(text, len, width - 1);

		ws_text_add(line, text, cut);
		ws_text_puts(line, "\xe2\x80\xa6");
		pad(line, width - 1 - ws_utf8_width(text, cut),
		    ' '); /* where half of a wide character would be */
		return;
	}
	space = width - wide;
	before = !first ? space / 2 : left_aligned(printer, column) ? 0 : space;
	pad(line, before, ' ');
	ws_text_add(line, text, len);
	pad(line, space - before, ' ');
}

struct lines { /* how those of a table look */
	const struct ws_printer *printer;
	const char *start, *gap, *end;
};

/* One line of kept cells from `first`. Columns whose width was given as 0 are not there. */
static void put_kept(const struct lines *lines, struct ws_text *line, size_t first)
{
	bool any = false;

	ws_text_puts(line, lines->start);
	for (size_t i = 0; i < lines->printer->column_count; i++) {
		if (!asked_width(lines->printer, i))
			continue;
		if (any)
			ws_text_puts(line, lines->gap);
		put_cell(lines->printer, line, first, i);
		any = true;
	}
	ws_text_puts(line, lines->end);
}

static void put_rows(struct ws_printer *one, size_t from, size_t to, const void *ctx)
{
	const struct lines *lines = ctx;

	for (size_t i = from; i < to; i++) /* the header is before the first */
		put_kept(lines, &one->line, (i + 1) * lines->printer->column_count);
}

static void title(struct ws_printer *printer)
{
	if (printer->title)
		fprintf(printer->file, " ** %s (%s):\n\n", printer->title, printer->name);
}

void ws_column_begin(struct ws_printer *printer)
{
	ws_kept_begin(printer);
}

static void rule(struct ws_printer *printer, const char *start, const char *gap, const char *end)
{
	bool any = false;

	ws_text_puts(&printer->line, start);
	for (size_t i = 0; i < printer->column_count; i++) {
		if (!asked_width(printer, i))
			continue;
		if (any)
			ws_text_puts(&printer->line, gap);
		pad(&printer->line, printer->widths[i], '-');
		any = true;
	}
	ws_text_puts(&printer->line, end);
}

static void put_all(struct ws_printer *printer, const struct lines *lines)
{
	ws_print_slices(printer, printer->ends_count / printer->column_count - 1, put_rows,
			ws_lines_take, lines);
}

void ws_column_end(struct ws_printer *printer)
{
	const struct lines lines = {printer, " ", "  ", "\n"};

	settle_widths(printer);
	title(printer);
	if (!printer->args.nohdr) {
		put_kept(&lines, &printer->line, 0);
		rule(printer, " ", "  ", "\n");
	}
	put_all(printer, &lines);
	ws_print_flush(printer);
}

void ws_box_end(struct ws_printer *printer)
{
	const struct lines lines = {printer, "| ", " | ", " |\n"};

	settle_widths(printer);
	title(printer);
	rule(printer, "+-", "-+-", "-+\n");
	if (!printer->args.nohdr) {
		put_kept(&lines, &printer->line, 0);
		rule(printer, "+-", "-+-", "-+\n");
	}
	put_all(printer, &lines);
	if (printer->rows)
		rule(printer, "+-", "-+-", "-+\n");
	ws_print_flush(printer);
}

/* ---- HTML ---- */

void ws_htable_begin(struct ws_printer *printer)
{
	ws_text_puts(&printer->line, "<table>\n");
	if (!printer->args.nohdr) {
		ws_text_puts(&printer->line, "<thead><tr>");
		for (size_t i = 0; i < printer->column_count; i++) {
			ws_text_puts(&printer->line,
				     left_aligned(printer, i) ? "<th class=\"t\">" : "<th>");
			ws_print_header(printer, i, &printer->line);
			ws_text_puts(&printer->line, "</th>");
		}
		ws_text_puts(&printer->line, "</tr></thead>\n");
	}
	ws_text_puts(&printer->line, "<tbody>\n");
	ws_print_flush(printer);
}

static void put_html(struct ws_printer *printer, const char *before, const char *text, size_t n,
		     const char *after)
{
	ws_text_puts(&printer->line, before);
	ws_text_html(&printer->line, text, n);
	ws_text_puts(&printer->line, after);
}

void ws_html_begin(struct ws_printer *printer)
{
	const char *name = printer->title ? printer->title : printer->name;
	bool asked = printer->args.title.text;

	ws_text_puts(&printer->line,
		     "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
	put_html(printer, "<title>", asked ? printer->args.title.text : name,
		 asked ? printer->args.title.n : strlen(name), "</title>\n");
	ws_text_puts(
		&printer->line,
		"<style>\nbody { font-family: sans-serif; }\ntable { border-collapse: collapse; }\n"
		"th, td { border: 1px solid #ccc; padding: 2px 8px; text-align: right; "
		"font-variant-numeric: tabular-nums; }\n"
		"th { background: #eee; }\n.t { text-align: left; white-space: pre-wrap; "
		"unicode-bidi: isolate; }\n</style>\n");
	if (printer->args.css.text)
		put_html(printer, "<link rel=\"stylesheet\" href=\"", printer->args.css.text,
			 printer->args.css.n, "\">\n");
	ws_text_puts(&printer->line, "</head>\n<body>\n");
	if (printer->title) {
		put_html(printer, "<h1>", printer->title, strlen(printer->title), " (");
		put_html(printer, "", printer->name, strlen(printer->name), ")</h1>\n");
	}
	ws_print_flush(printer);
	ws_htable_begin(printer);
}

void ws_html_row(struct ws_printer *printer, const struct ws_cell *cells)
{
	ws_text_puts(&printer->line, "<tr>");
	for (size_t i = 0; i < printer->column_count; i++) {
		ws_text_puts(&printer->line,
			     cells[i].type == WS_CELL_TEXT || left_aligned(printer, i)
				     ? "<td class=\"t\">"
				     : "<td>");
		if (cells[i].type == WS_CELL_TEXT)
			ws_text_html(&printer->line, cells[i].t.text, cells[i].t.n);
		else if (cells[i].type != WS_CELL_NULL)
			ws_print_number(printer, i, &cells[i], !printer->args.nofmt,
					&printer->line);
		ws_text_puts(&printer->line, "</td>");
	}
	ws_text_puts(&printer->line, "</tr>\n");
	ws_print_flush(printer);
}

void ws_htable_end(struct ws_printer *printer)
{
	fputs("</tbody>\n</table>\n", printer->file);
}

void ws_html_end(struct ws_printer *printer)
{
	ws_htable_end(printer);
	fputs("</body>\n</html>\n", printer->file);
}

/* ---- Markdown ---- */

void ws_markdown_begin(struct ws_printer *printer)
{
	if (printer->title)
		fprintf(printer->file, "## %s (%s)\n\n", printer->title, printer->name);
	if (printer->args.nohdr) /* a table without its header line is not a table to Markdown */
		return;
	for (size_t i = 0; i < printer->column_count; i++) {
		ws_text_puts(&printer->line, i ? " | " : "| ");
		ws_print_header(printer, i, &printer->line);
	}
	ws_text_puts(&printer->line, " |\n");
	for (size_t i = 0; i < printer->column_count; i++)
		ws_text_puts(&printer->line, left_aligned(printer, i)			 ? "|:---"
					     : printer->columns[i].kind == WS_KIND_VALUE ? "|---"
											 : "|---:");
	ws_text_puts(&printer->line, "|\n");
	ws_print_flush(printer);
}

/* Punctuation that Markdown or the HTML in it would take for its own. */
static void markdown_text(struct ws_text *text, const char *word, size_t n)
{
	struct ws_text shown = {0};

	ws_text_terminal(&shown, word, n);
	for (size_t i = 0; i < shown.len; i++) {
		char letter = shown.text[i];

		if (letter == '&')
			ws_text_puts(text, "&amp;");
		else if (letter == '<')
			ws_text_puts(text, "&lt;");
		else if (strchr("\\`*_[]>|~#$", letter))
			ws_text_printf(text, "\\%c", letter);
		else
			ws_text_add(text, &letter, 1);
	}
	ws_text_free(&shown);
}

void ws_markdown_row(struct ws_printer *printer, const struct ws_cell *cells)
{
	for (size_t i = 0; i < printer->column_count; i++) {
		ws_text_puts(&printer->line, i ? " | " : "| ");
		if (cells[i].type == WS_CELL_TEXT)
			markdown_text(&printer->line, cells[i].t.text, cells[i].t.n);
		else if (cells[i].type != WS_CELL_NULL)
			ws_print_number(printer, i, &cells[i], !printer->args.nofmt,
					&printer->line);
	}
	ws_text_puts(&printer->line, " |\n");
	ws_print_flush(printer);
}

void ws_markdown_end(struct ws_printer *printer)
{
	(void)printer;
}
