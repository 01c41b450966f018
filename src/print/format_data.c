/*
 * format_data.c - formats that programs read: csv, tsv, json.
 *
 * CSV quotes a field only when it must (comma, quote, line break), doubling quotes inside, as the
 * scripts of the reference tool and everybody's readers do. Numbers are the same text in all three.
 * Broken UTF-8 and NULs, which readers choke on, become U+FFFD. What is empty is an empty text in
 * the JSON of reports, as those scripts expect; a NULL of a query is null.
 */
#include <string.h>

#include "base/compiler.h"
#include "text/text.h"
#include "print/formats.h"

enum { GATHERED = 1 << 16 }; /* bytes of lines that are written together */

static void end_line(struct ws_printer *printer)
{
	if (printer->line.len >= GATHERED)
		ws_print_flush(printer);
}

/* Bytes of `v` that are `c`, each as a high bit; those after the lowest may be wrong. */
static inline uint64_t has_byte(uint64_t v, uint8_t c)
{
	v ^= c * UINT64_C(0x0101010101010101);
	return (v - UINT64_C(0x0101010101010101)) & ~v & UINT64_C(0x8080808080808080);
}

/* ASCII without NULs, and without what CSV (or with `tsv`, TSV) must mark: almost every name,
 * looked at eight bytes at a time. */
static bool is_plain(const char *text, size_t n, bool tsv)
{
	uint8_t a = tsv ? '\t' : '"', b = tsv ? '\\' : ',';
	uint64_t v, found = 0;

	for (; n >= 8; text += 8, n -= 8) {
		memcpy(&v, text, 8);
		found |= (v & UINT64_C(0x8080808080808080)) | has_byte(v, 0) | has_byte(v, a) |
			 has_byte(v, b) | has_byte(v, '\n') | has_byte(v, '\r');
	}
	if (n) {
		v = UINT64_C(0x2020202020202020);
		memcpy(&v, text, n);
		found |= (v & UINT64_C(0x8080808080808080)) | has_byte(v, 0) | has_byte(v, a) |
			 has_byte(v, b) | has_byte(v, '\n') | has_byte(v, '\r');
	}
	return !found;
}

/* ASCII without NULs. */
static bool is_ascii(const char *text, size_t n)
{
	uint64_t v, found = 0;

	for (; n >= 8; text += 8, n -= 8) {
		memcpy(&v, text, 8);
		found |= (v & UINT64_C(0x8080808080808080)) | has_byte(v, 0);
	}
	for (; n; text++, n--)
		found |= *text <= 0;
	return !found;
}

static void put_char(struct ws_text *text, char letter)
{
	if (ws_unlikely(text->len + 1 >= text->cap)) {
		ws_text_add(text, &letter, 1);
		return;
	}
	text->text[text->len++] = letter;
	text->text[text->len] = 0;
}

/* In quotes, with those inside doubled. */
static void put_quoted(struct ws_text *text, const char *word, size_t n)
{
	put_char(text, '"');
	for (size_t at = 0; at < n;) {
		const char *quote = memchr(word + at, '"', n - at);
		size_t k = quote ? (size_t)(quote - word) - at + 1 : n - at;

		ws_text_add(text, word + at, k);
		if (quote)
			put_char(text, '"');
		at += k;
	}
	put_char(text, '"');
}

static void csv_text(struct ws_text *text, const char *word, size_t n)
{
	struct ws_text clean = {0};

	if (is_plain(word, n, false)) {
		ws_text_add(text, word, n);
		return;
	}
	if (is_ascii(word, n)) {
		put_quoted(text, word, n);
		return;
	}
	if (!memchr(word, '"', n) && !memchr(word, ',', n) && !memchr(word, '\n', n) &&
	    !memchr(word, '\r', n)) {
		ws_text_utf8(text, word, n);
		return;
	}
	ws_text_utf8(&clean, word, n);
	put_quoted(text, clean.text, clean.len);
	ws_text_free(&clean);
}

/* Between the pieces of a name that TSV would break at, `marks` stands for a tab, a line feed, a
 * carriage return, a backslash. */
static void tsv_pieces(struct ws_text *text, const char *word, size_t n, const char *const marks[4])
{
	static const char special[] = "\t\n\r\\";

	for (size_t i = 0, run = 0; i <= n; i++) {
		const char *at = i < n ? memchr(special, word[i], 4) : NULL;

		if (i < n && !at)
			continue;
		ws_text_utf8(text, word + run, i - run);
		run = i + 1;
		if (at)
			ws_text_puts(text, marks[at - special]);
	}
}

static void tsv_text(struct ws_text *text, const char *word, size_t n)
{
	static const char *const blanks[] = {" ", " ", " ", "\\"};

	if (is_plain(word, n, true))
		ws_text_add(text, word, n);
	else
		tsv_pieces(text, word, n, blanks);
}

static void tsv_escaped(struct ws_text *text, const char *word, size_t n)
{
	static const char *const escapes[] = {"\\t", "\\n", "\\r", "\\\\"};

	if (is_plain(word, n, true))
		ws_text_add(text, word, n);
	else
		tsv_pieces(text, word, n, escapes);
}

static void header(struct ws_printer *printer, char separator)
{
	if (printer->args.nohdr)
		return;
	for (size_t i = 0; i < printer->column_count; i++) {
		if (i)
			ws_text_add(&printer->line, &separator, 1);
		ws_print_header(printer, i, &printer->line);
	}
	ws_text_add(&printer->line, "\n", 1);
	end_line(printer);
}

static size_t leading(const struct ws_printer *printer, const struct ws_cell *cells)
{
	size_t n = 0;

	while (n < printer->column_count && cells[n].type != WS_CELL_TEXT)
		n++;
	return n;
}

/* Figures of the row before are copied, not made again: ranges without repetition take the same few
 * times over and over. */
static void row(struct ws_printer *printer, const struct ws_cell *cells, char separator,
		void (*text)(struct ws_text *, const char *, size_t))
{
	size_t lead = leading(printer, cells), at = printer->line.len, i = 0;

	if (printer->same >= lead && printer->lead.cells == lead && lead) {
		ws_grow(printer->line.text, printer->line.cap, at + printer->lead.len + 1);
		memcpy(printer->line.text + at, printer->line.text + printer->lead.at,
		       printer->lead.len);
		printer->line.len += printer->lead.len;
		i = lead;
	}
	for (; i < printer->column_count; i++) {
		if (i == lead)
			printer->lead.len = printer->line.len - at;
		if (i)
			put_char(&printer->line, separator);
		if (cells[i].type == WS_CELL_TEXT)
			text(&printer->line, cells[i].t.text, cells[i].t.n);
		else if (cells[i].type != WS_CELL_NULL)
			ws_print_number(printer, i, &cells[i], false, &printer->line);
	}
	printer->lead.at = at;
	printer->lead.cells = lead < printer->column_count ? lead : 0;
	put_char(&printer->line, '\n');
	end_line(printer);
}

void ws_csv_begin(struct ws_printer *printer)
{
	header(printer, ',');
}

void ws_csv_row(struct ws_printer *printer, const struct ws_cell *cells)
{
	row(printer, cells, ',', csv_text);
}

void ws_tsv_begin(struct ws_printer *printer)
{
	header(printer, '\t');
}

void ws_tsv_row(struct ws_printer *printer, const struct ws_cell *cells)
{
	row(printer, cells, '\t', printer->args.escape ? tsv_escaped : tsv_text);
}

void ws_lines_end(struct ws_printer *printer)
{
	ws_print_flush(printer);
}

/* Columns before this one with its header. */
static size_t same_before(const struct ws_printer *printer, size_t column)
{
	size_t same = 0;

	for (size_t i = 0; i < column; i++)
		same += printer->columns[i].kind == printer->columns[column].kind &&
			!strcmp(printer->columns[i].name, printer->columns[column].name);
	return same;
}

void ws_json_begin(struct ws_printer *printer)
{
	printer->doubled = 0;
	for (size_t i = 0; i < printer->column_count && i < 64; i++)
		printer->doubled |= (uint64_t)(same_before(printer, i) > 0) << i;
	fputs("[", printer->file);
}

void ws_json_row(struct ws_printer *printer, const struct ws_cell *cells)
{
	struct ws_text name = {0};

	ws_text_puts(&printer->line, printer->rows > 1 ? ",\n{" : "\n{");
	for (size_t i = 0; i < printer->column_count; i++) {
		name.len = 0;
		ws_print_header(printer, i, &name);
		if (i < 64 &&
		    printer->doubled >> i &
			    1) /* members of one name would hide one another from who reads them */
			ws_text_printf(&name, ":%zu", same_before(printer, i));
		if (i)
			ws_text_add(&printer->line, ", ", 2);
		ws_text_json(&printer->line, name.text, name.len);
		ws_text_add(&printer->line, ": ", 2);
		if (cells[i].type == WS_CELL_TEXT)
			ws_text_json(&printer->line, cells[i].t.text, cells[i].t.n);
		else if (cells[i].type == WS_CELL_NULL)
			ws_text_puts(&printer->line,
				     printer->columns[i].kind == WS_KIND_VALUE ? "null" : "\"\"");
		else
			ws_print_number(printer, i, &cells[i], false, &printer->line);
	}
	ws_text_add(&printer->line, "}", 1);
	end_line(printer);
	ws_text_free(&name);
}

void ws_json_end(struct ws_printer *printer)
{
	ws_print_flush(printer);
	fputs("\n]\n", printer->file);
}
