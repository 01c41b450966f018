/*
 * format_text.c - formats that people read: column, table, html, markdown.
 *
 * The formats column and table need the widths of all rows first: cells are kept as text in one
 * buffer (`kept`, with their ends in `ends`) and laid out at the end. Names longer than 100 columns
 * are cut and end in an ellipsis, unless the format has :nolimit or a width for the column. Lines
 * are padded with blanks to the width of the last column, as those of the reference tool are.
 *
 * On a terminal, a table is made to fit: names are cut in the middle, since functions and files
 * differ at both ends; where the numbers alone are too wide, those at the right are left out.
 */
#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "text/text.h"
#include "print/formats.h"

enum {
	NAME_LIMIT = 100,
	NAME_LEAST = 20, /* a name is not cut below this to make a table fit */
	NUMBERS_KEPT = 3 /* columns at the left that are never left out */
};

static bool is_left_aligned(const struct ws_printer *printer, size_t column)
{
	return printer->columns[column].kind == WS_KIND_TEXT ||
	       (column < 64 && printer->texts >> column & 1);
}

/* End a cell: it is what `kept` got since the last one, and as wide as `width`. */
static void end_cell(struct ws_printer *printer, size_t width)
{
	size_t column = printer->end_count % printer->column_count;

	ws_grow(printer->ends, printer->end_capacity, printer->end_count + 1);
	printer->ends[printer->end_count++] = printer->kept.len;
	if (!printer->widths)
		printer->widths = ws_calloc(printer->column_count, sizeof(*printer->widths));
	if (width > printer->widths[column])
		printer->widths[column] = width;
}

/* The width that the user gave for a column; WS_WIDTH_AUTO for that of its widest cell. */
static size_t get_asked_width(const struct ws_printer *printer, size_t column)
{
	if (column >= printer->args.width_count)
		return WS_WIDTH_AUTO;
	return printer->args.widths[column];
}

/* The width of what `kept` has from `from` on. */
static size_t get_kept_width(const struct ws_printer *printer, size_t from)
{
	if (printer->kept.len == from)
		return 0;
	return ws_measure_utf8_width(printer->kept.text + from, printer->kept.len - from);
}

static void keep_text_cell(struct ws_printer *printer, size_t column, const char *text,
			   size_t length)
{
	size_t from = printer->kept.len, cut, width;

	ws_put_terminal_text(&printer->kept, text, length);
	width = get_kept_width(printer, from);
	if (!printer->args.nolimit && !printer->fit &&
	    get_asked_width(printer, column) == WS_WIDTH_AUTO && width > NAME_LIMIT) {
		cut = ws_find_utf8_prefix(printer->kept.text + from, printer->kept.len - from,
					  NAME_LIMIT - 1);
		printer->kept.len = from + cut;
		ws_text_puts(&printer->kept, "\xe2\x80\xa6");
		width = get_kept_width(printer, from);
	}
	end_cell(printer, width);
}

void ws_keep_header(struct ws_printer *printer)
{
	for (size_t i = 0; i < printer->column_count; i++) {
		size_t from = printer->kept.len, width = 0;

		ws_print_header(printer, i, &printer->kept);
		if (!printer->args.nohdr)
			width = get_kept_width(printer, from);
		end_cell(printer, width);
	}
}

void ws_keep_row(struct ws_printer *printer, const struct ws_cell *cells)
{
	for (size_t i = 0; i < printer->column_count; i++) {
		size_t from = printer->kept.len;

		if (cells[i].type == WS_CELL_TEXT) {
			keep_text_cell(printer, i, cells[i].t.text, cells[i].t.n);
			if (i < 64)
				printer->texts |= UINT64_C(1) << i;
			continue;
		}
		if (cells[i].type != WS_CELL_NULL)
			ws_print_number(printer, i, &cells[i], !printer->args.nofmt,
					&printer->kept);
		end_cell(printer, printer->kept.len - from);
	}
}

void ws_take_kept_slice(struct ws_printer *printer, struct ws_printer *one)
{
	size_t before = printer->kept.len;

	ws_text_add(&printer->kept, one->kept.text, one->kept.len);
	ws_grow(printer->ends, printer->end_capacity, printer->end_count + one->end_count);
	for (size_t i = 0; i < one->end_count; i++)
		printer->ends[printer->end_count++] = before + one->ends[i];
	for (size_t i = 0; i < printer->column_count; i++)
		if (one->widths[i] > printer->widths[i])
			printer->widths[i] = one->widths[i];
	printer->texts |= one->texts;
}

/* The text of kept cell i; the cells of the header come first. */
static const char *get_kept_cell(const struct ws_printer *printer, size_t i, size_t *length)
{
	size_t from = 0;

	if (i)
		from = printer->ends[i - 1];
	*length = printer->ends[i] - from;
	if (!printer->kept.text)
		return "";
	return printer->kept.text + from;
}

/* Now that all cells are kept, give columns the widths that the user asked for. */
static void settle_widths(struct ws_printer *printer)
{
	for (size_t i = 0; i < printer->column_count; i++)
		if (get_asked_width(printer, i) != WS_WIDTH_AUTO)
			printer->widths[i] = get_asked_width(printer, i);
}

struct line_frame { /* what begins, separates and ends the cells of a line */
	const struct ws_printer *printer;
	const char *start, *gap, *end;
};

static bool is_name_column(const struct ws_printer *printer, size_t column)
{
	return get_asked_width(printer, column) && is_left_aligned(printer, column);
}

/* How wide a line is with names cut to `limit`. */
static size_t measure_line(const struct line_frame *frame, size_t limit)
{
	const struct ws_printer *printer = frame->printer;
	size_t gap = strlen(frame->gap), width = strlen(frame->start) + strlen(frame->end) - 1;

	for (size_t i = 0; i < printer->column_count; i++) {
		size_t cell = printer->widths[i];

		if (!get_asked_width(printer, i))
			continue;
		if (is_name_column(printer, i))
			cell = ws_min(cell, limit);
		width += cell + gap;
	}
	return width - gap;
}

/* Leave out the number furthest to the right; false when none can be left out. */
static bool leave_number_out(struct ws_printer *printer, struct ws_text *left_out)
{
	size_t from = printer->column_count;

	while (from-- > NUMBERS_KEPT) {
		const char *name;
		size_t length;

		if (is_left_aligned(printer, from) || !get_asked_width(printer, from))
			continue;
		while (printer->args.width_count < printer->column_count)
			printer->args.widths[printer->args.width_count++] = WS_WIDTH_AUTO;
		printer->args.widths[from] = 0;
		name = get_kept_cell(printer, from, &length);
		if (left_out->len)
			ws_text_puts(left_out, ", ");
		ws_text_add(left_out, name, length);
		return true;
	}
	return false;
}

/* Make the table as wide as the terminal at most. *left_out gets the headers of columns that found
 * no room. */
static void fit_widths(struct ws_printer *printer, const struct line_frame *frame,
		       struct ws_text *left_out)
{
	size_t limit = printer->fit;

	if (!printer->fit || printer->column_count > WS_WIDTHS)
		return;
	while (measure_line(frame, NAME_LEAST) > printer->fit &&
	       leave_number_out(printer, left_out))
		;
	while (limit > NAME_LEAST && measure_line(frame, limit) > printer->fit)
		limit--;
	for (size_t i = 0; i < printer->column_count; i++)
		if (is_name_column(printer, i))
			printer->widths[i] = ws_min(printer->widths[i], limit);
}

static void put_left_out(struct ws_printer *printer, struct ws_text *left_out)
{
	if (left_out->len)
		ws_text_printf(&printer->line,
			       " (no room for %s: a wider terminal or --wide shows them)\n",
			       left_out->text);
	ws_text_free(left_out);
}

static void put_padding(struct ws_text *text, size_t count, char letter)
{
	ws_grow(text->text, text->cap, text->len + count + 1);
	memset(text->text + text->len, letter, count);
	text->len += count;
	text->text[text->len] = 0;
}

/* Append the beginning and the end of a text, with an ellipsis between, `width` columns wide. */
static void put_cut_middle(struct ws_text *line, const char *text, size_t length, size_t width)
{
	size_t tail = (width - 1) / 2, head = width - 1 - tail;
	size_t cut = ws_find_utf8_prefix(text, length, head),
	       skipped = ws_measure_utf8_width(text, length) - tail,
	       from = ws_find_utf8_prefix(text, length, skipped), written;

	while (ws_measure_utf8_width(text + from, length - from) > tail) /* half a wide letter */
		from = ws_find_utf8_prefix(text, length, ++skipped);
	written = ws_measure_utf8_width(text, cut) + 1 +
		  ws_measure_utf8_width(text + from, length - from);
	ws_text_add(line, text, cut);
	ws_text_puts(line, "\xe2\x80\xa6");
	ws_text_add(line, text + from, length - from);
	put_padding(line, width - written, ' ');
}

/* Append a cell as wide as its column: headers centred, numbers on the right, texts on the left;
 * cut what is too long. */
static void put_padded_cell(const struct ws_printer *printer, struct ws_text *line, size_t first,
			    size_t column)
{
	size_t length, space, before, wide, width = printer->widths[column];
	const char *text = get_kept_cell(printer, first + column, &length);

	wide = ws_measure_utf8_width(text, length);
	if (wide > width && printer->fit && width > 2) {
		put_cut_middle(line, text, length, width);
		return;
	}
	if (wide > width) {
		size_t cut = ws_find_utf8_prefix(text, length, width - 1);

		ws_text_add(line, text, cut);
		ws_text_puts(line, "\xe2\x80\xa6");
		put_padding(line, width - 1 - ws_measure_utf8_width(text, cut),
			    ' '); /* half a wide character */
		return;
	}
	space = width - wide;
	before = space;
	if (!first)
		before = space / 2;
	else if (is_left_aligned(printer, column))
		before = 0;
	put_padding(line, before, ' ');
	ws_text_add(line, text, length);
	put_padding(line, space - before, ' ');
}

/* Append a line of the kept cells from `first` on. Columns with a width of 0 are left out. */
static void put_kept_line(const struct line_frame *frame, struct ws_text *line, size_t first)
{
	bool any = false;

	ws_text_puts(line, frame->start);
	for (size_t i = 0; i < frame->printer->column_count; i++) {
		if (!get_asked_width(frame->printer, i))
			continue;
		if (any)
			ws_text_puts(line, frame->gap);
		put_padded_cell(frame->printer, line, first, i);
		any = true;
	}
	ws_text_puts(line, frame->end);
}

static void put_kept_rows(struct ws_printer *one, size_t from, size_t to, const void *context)
{
	const struct line_frame *frame = context;

	for (size_t i = from; i < to; i++) /* cells of the header come before row 0 */
		put_kept_line(frame, &one->line, (i + 1) * frame->printer->column_count);
}

static void write_title(struct ws_printer *printer)
{
	if (printer->title)
		fprintf(printer->file, " ** %s (%s):\n\n", printer->title, printer->name);
}

void ws_column_begin(struct ws_printer *printer)
{
	ws_keep_header(printer);
}

static void put_rule(struct ws_printer *printer, const char *start, const char *gap,
		     const char *end)
{
	bool any = false;

	ws_text_puts(&printer->line, start);
	for (size_t i = 0; i < printer->column_count; i++) {
		if (!get_asked_width(printer, i))
			continue;
		if (any)
			ws_text_puts(&printer->line, gap);
		put_padding(&printer->line, printer->widths[i], '-');
		any = true;
	}
	ws_text_puts(&printer->line, end);
}

static void put_all_rows(struct ws_printer *printer, const struct line_frame *frame)
{
	ws_print_slices(printer, printer->end_count / printer->column_count - 1, put_kept_rows,
			ws_take_line_slice, frame);
}

void ws_column_end(struct ws_printer *printer)
{
	const struct line_frame frame = {printer, " ", "  ", "\n"};
	struct ws_text left_out = {0};

	settle_widths(printer);
	fit_widths(printer, &frame, &left_out);
	write_title(printer);
	if (!printer->args.nohdr) {
		put_kept_line(&frame, &printer->line, 0);
		put_rule(printer, " ", "  ", "\n");
	}
	put_all_rows(printer, &frame);
	put_left_out(printer, &left_out);
	ws_print_flush(printer);
}

void ws_box_end(struct ws_printer *printer)
{
	const struct line_frame frame = {printer, "| ", " | ", " |\n"};
	struct ws_text left_out = {0};

	settle_widths(printer);
	fit_widths(printer, &frame, &left_out);
	write_title(printer);
	put_rule(printer, "+-", "-+-", "-+\n");
	if (!printer->args.nohdr) {
		put_kept_line(&frame, &printer->line, 0);
		put_rule(printer, "+-", "-+-", "-+\n");
	}
	put_all_rows(printer, &frame);
	if (printer->rows)
		put_rule(printer, "+-", "-+-", "-+\n");
	put_left_out(printer, &left_out);
	ws_print_flush(printer);
}

/* ---- HTML ---- */

/* Append the start tag of a cell. */
static void put_cell_tag(struct ws_text *line, const char *tag, bool left)
{
	ws_text_puts(line, "<");
	ws_text_puts(line, tag);
	if (left)
		ws_text_puts(line, " class=\"t\"");
	ws_text_puts(line, ">");
}

void ws_htable_begin(struct ws_printer *printer)
{
	ws_text_puts(&printer->line, "<table>\n");
	if (!printer->args.nohdr) {
		ws_text_puts(&printer->line, "<thead><tr>");
		for (size_t i = 0; i < printer->column_count; i++) {
			put_cell_tag(&printer->line, "th", is_left_aligned(printer, i));
			ws_print_header(printer, i, &printer->line);
			ws_text_puts(&printer->line, "</th>");
		}
		ws_text_puts(&printer->line, "</tr></thead>\n");
	}
	ws_text_puts(&printer->line, "<tbody>\n");
	ws_print_flush(printer);
}

static void put_html(struct ws_printer *printer, const char *before, const char *text,
		     size_t length, const char *after)
{
	ws_text_puts(&printer->line, before);
	ws_put_html_text(&printer->line, text, length);
	ws_text_puts(&printer->line, after);
}

void ws_html_begin(struct ws_printer *printer)
{
	const char *title = ws_text_or(printer->title, printer->name);
	size_t title_len = strlen(title);

	if (printer->args.title.text) {
		title = printer->args.title.text;
		title_len = printer->args.title.n;
	}
	ws_text_puts(&printer->line,
		     "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
	put_html(printer, "<title>", title, title_len, "</title>\n");
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
		put_cell_tag(&printer->line, "td",
			     cells[i].type == WS_CELL_TEXT || is_left_aligned(printer, i));
		if (cells[i].type == WS_CELL_TEXT)
			ws_put_html_text(&printer->line, cells[i].t.text, cells[i].t.n);
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

/* The line below the header of a column: texts are on the left, values of queries anywhere. */
static const char *get_alignment(const struct ws_printer *printer, size_t column)
{
	if (is_left_aligned(printer, column))
		return "|:---";
	if (printer->columns[column].kind == WS_KIND_VALUE)
		return "|---";
	return "|---:";
}

/* Append what precedes the cell of a column. */
static void put_separator(struct ws_printer *printer, size_t column)
{
	if (column)
		ws_text_puts(&printer->line, " ");
	ws_text_puts(&printer->line, "| ");
}

void ws_markdown_begin(struct ws_printer *printer)
{
	if (printer->title)
		fprintf(printer->file, "## %s (%s)\n\n", printer->title, printer->name);
	if (printer->args.nohdr) /* to Markdown, this is no table without a header */
		return;
	for (size_t i = 0; i < printer->column_count; i++) {
		put_separator(printer, i);
		ws_print_header(printer, i, &printer->line);
	}
	ws_text_puts(&printer->line, " |\n");
	for (size_t i = 0; i < printer->column_count; i++)
		ws_text_puts(&printer->line, get_alignment(printer, i));
	ws_text_puts(&printer->line, "|\n");
	ws_print_flush(printer);
}

/* Append a text with escapes for the punctuation that Markdown or HTML would interpret. */
static void put_markdown_text(struct ws_text *text, const char *word, size_t length)
{
	struct ws_text shown = {0};

	ws_put_terminal_text(&shown, word, length);
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
		put_separator(printer, i);
		if (cells[i].type == WS_CELL_TEXT)
			put_markdown_text(&printer->line, cells[i].t.text, cells[i].t.n);
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
