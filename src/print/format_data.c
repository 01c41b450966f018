/*
 * format_data.c - formats that programs read: csv, tsv, json.
 *
 * CSV quotes a field only when it must (comma, quote, line break) and doubles quotes inside, as the
 * scripts of the reference tool and all common readers do. Numbers are the same text in all three
 * formats. Invalid UTF-8 and NULs, which many readers refuse, become U+FFFD. In JSON, an empty cell
 * of a report is an empty text, as those scripts expect; a NULL of a query is null.
 */
#include <string.h>

#include "base/compiler.h"
#include "text/text.h"
#include "print/formats.h"

enum { GATHERED = 1 << 16 }; /* how many bytes of lines are written at once */

static void flush_if_full(struct ws_printer *printer)
{
	if (printer->line.len >= GATHERED)
		ws_print_flush(printer);
}

/* The `bytes` that equal `wanted`, each as its high bit; bits above the lowest may be wrong. */
static inline uint64_t find_byte(uint64_t bytes, uint8_t wanted)
{
	bytes ^= wanted * UINT64_C(0x0101010101010101);
	return (bytes - UINT64_C(0x0101010101010101)) & ~bytes & UINT64_C(0x8080808080808080);
}

/* The `bytes` that are not plain: NULs, line breaks, beyond ASCII, or one of `special`. */
static inline uint64_t find_special_bytes(uint64_t bytes, const char special[2])
{
	return (bytes & UINT64_C(0x8080808080808080)) | find_byte(bytes, 0) |
	       find_byte(bytes, (uint8_t)special[0]) | find_byte(bytes, (uint8_t)special[1]) |
	       find_byte(bytes, '\n') | find_byte(bytes, '\r');
}

/* Whether a text can be written as it is: ASCII without NULs, line breaks and the two letters in
 * `special`. Almost every name is; eight bytes are examined at a time. */
static inline bool is_plain(const char *text, size_t length, const char special[2])
{
	uint64_t bytes, found = 0;

	for (; length >= 8; text += 8, length -= 8) {
		memcpy(&bytes, text, 8);
		found |= find_special_bytes(bytes, special);
	}
	if (length) {
		bytes = UINT64_C(0x2020202020202020);
		memcpy(&bytes, text, length);
		found |= find_special_bytes(bytes, special);
	}
	return !found;
}

/* Whether a text is ASCII without NULs. */
static bool is_ascii(const char *text, size_t length)
{
	uint64_t bytes, found = 0;

	for (; length >= 8; text += 8, length -= 8) {
		memcpy(&bytes, text, 8);
		found |= (bytes & UINT64_C(0x8080808080808080)) | find_byte(bytes, 0);
	}
	for (; length; text++, length--)
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

/* Append a text in quotes, with quotes inside doubled. */
static void put_quoted(struct ws_text *text, const char *word, size_t word_length)
{
	put_char(text, '"');
	for (size_t at = 0; at < word_length;) {
		const char *quote = memchr(word + at, '"', word_length - at);
		size_t length = word_length - at;

		if (quote)
			length = (size_t)(quote - word) - at + 1;
		ws_text_add(text, word + at, length);
		if (quote)
			put_char(text, '"');
		at += length;
	}
	put_char(text, '"');
}

static void put_csv_text(struct ws_text *text, const char *word, size_t length)
{
	struct ws_text clean = {0};

	if (is_plain(word, length, "\",")) {
		ws_text_add(text, word, length);
		return;
	}
	if (is_ascii(word, length)) {
		put_quoted(text, word, length);
		return;
	}
	if (!memchr(word, '"', length) && !memchr(word, ',', length) &&
	    !memchr(word, '\n', length) && !memchr(word, '\r', length)) {
		ws_put_valid_utf8(text, word, length);
		return;
	}
	ws_put_valid_utf8(&clean, word, length);
	put_quoted(text, clean.text, clean.len);
	ws_text_free(&clean);
}

/* Append a text with `marks` in place of tabs, line feeds, carriage returns and backslashes. */
static void put_tsv_pieces(struct ws_text *text, const char *word, size_t length,
			   const char *const marks[4])
{
	static const char special[] = "\t\n\r\\";

	for (size_t i = 0, run = 0; i <= length; i++) {
		const char *at = NULL;

		if (i < length)
			at = memchr(special, word[i], 4);
		if (i < length && !at)
			continue;
		ws_put_valid_utf8(text, word + run, i - run);
		run = i + 1;
		if (at)
			ws_text_puts(text, marks[at - special]);
	}
}

static void put_tsv_text(struct ws_text *text, const char *word, size_t length)
{
	static const char *const blanks[] = {" ", " ", " ", "\\"};

	if (is_plain(word, length, "\t\\"))
		ws_text_add(text, word, length);
	else
		put_tsv_pieces(text, word, length, blanks);
}

static void put_tsv_escaped(struct ws_text *text, const char *word, size_t length)
{
	static const char *const escapes[] = {"\\t", "\\n", "\\r", "\\\\"};

	if (is_plain(word, length, "\t\\"))
		ws_text_add(text, word, length);
	else
		put_tsv_pieces(text, word, length, escapes);
}

static void put_header(struct ws_printer *printer, char separator)
{
	if (printer->args.nohdr)
		return;
	for (size_t i = 0; i < printer->column_count; i++) {
		if (i)
			ws_text_add(&printer->line, &separator, 1);
		ws_print_header(printer, i, &printer->line);
	}
	ws_text_add(&printer->line, "\n", 1);
	flush_if_full(printer);
}

/* How many cells come before the first text. */
static size_t count_leading_numbers(const struct ws_printer *printer, const struct ws_cell *cells)
{
	size_t count = 0;

	while (count < printer->column_count && cells[count].type != WS_CELL_TEXT)
		count++;
	return count;
}

/* Leading figures that equal those of the row before are copied, not converted again: in tables of
 * names that never repeat, the same few figures come again and again. */
static void put_row(struct ws_printer *printer, const struct ws_cell *cells, char separator,
		    void (*text)(struct ws_text *, const char *, size_t))
{
	size_t lead = count_leading_numbers(printer, cells), at = printer->line.len, i = 0;

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
	printer->lead.cells = 0;
	if (lead < printer->column_count)
		printer->lead.cells = lead;
	put_char(&printer->line, '\n');
	flush_if_full(printer);
}

void ws_csv_begin(struct ws_printer *printer)
{
	put_header(printer, ',');
}

void ws_csv_row(struct ws_printer *printer, const struct ws_cell *cells)
{
	put_row(printer, cells, ',', put_csv_text);
}

void ws_tsv_begin(struct ws_printer *printer)
{
	put_header(printer, '\t');
}

void ws_tsv_row(struct ws_printer *printer, const struct ws_cell *cells)
{
	if (printer->args.escape)
		put_row(printer, cells, '\t', put_tsv_escaped);
	else
		put_row(printer, cells, '\t', put_tsv_text);
}

void ws_end_lines(struct ws_printer *printer)
{
	ws_print_flush(printer);
}

/* How many columns before this one have its header. */
static size_t count_same_headers(const struct ws_printer *printer, size_t column)
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
		printer->doubled |= (uint64_t)(count_same_headers(printer, i) > 0) << i;
	fputs("[", printer->file);
}

void ws_json_row(struct ws_printer *printer, const struct ws_cell *cells)
{
	struct ws_text name = {0};

	if (printer->rows > 1)
		ws_text_add(&printer->line, ",", 1);
	ws_text_add(&printer->line, "\n{", 2);
	for (size_t i = 0; i < printer->column_count; i++) {
		name.len = 0;
		ws_print_header(printer, i, &name);
		if (i < 64 && printer->doubled >> i & 1) /* readers keep one member of a name */
			ws_text_printf(&name, ":%zu", count_same_headers(printer, i));
		if (i)
			ws_text_add(&printer->line, ", ", 2);
		ws_put_quoted_json(&printer->line, name.text, name.len);
		ws_text_add(&printer->line, ": ", 2);
		if (cells[i].type == WS_CELL_TEXT)
			ws_put_quoted_json(&printer->line, cells[i].t.text, cells[i].t.n);
		else if (cells[i].type != WS_CELL_NULL)
			ws_print_number(printer, i, &cells[i], false, &printer->line);
		else if (printer->columns[i].kind == WS_KIND_VALUE)
			ws_text_puts(&printer->line, "null");
		else
			ws_text_puts(&printer->line, "\"\"");
	}
	ws_text_add(&printer->line, "}", 1);
	flush_if_full(printer);
	ws_text_free(&name);
}

void ws_json_end(struct ws_printer *printer)
{
	ws_print_flush(printer);
	fputs("\n]\n", printer->file);
}
