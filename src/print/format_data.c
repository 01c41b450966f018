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

static void end_line(struct ws_printer *o)
{
	if (o->line.len >= GATHERED)
		ws_print_flush(o);
}

/* Bytes of `v` that are `c`, each as a high bit; those after the lowest may be wrong. */
static inline uint64_t has_byte(uint64_t v, uint8_t c)
{
	v ^= c * UINT64_C(0x0101010101010101);
	return (v - UINT64_C(0x0101010101010101)) & ~v & UINT64_C(0x8080808080808080);
}

/* ASCII without NULs, and without what CSV (or with `tsv`, TSV) must mark: almost every name,
 * looked at eight bytes at a time. */
static bool is_plain(const char *s, size_t n, bool tsv)
{
	uint8_t a = tsv ? '\t' : '"', b = tsv ? '\\' : ',';
	uint64_t v, found = 0;

	for (; n >= 8; s += 8, n -= 8) {
		memcpy(&v, s, 8);
		found |= (v & UINT64_C(0x8080808080808080)) | has_byte(v, 0) | has_byte(v, a) |
			 has_byte(v, b) | has_byte(v, '\n') | has_byte(v, '\r');
	}
	if (n) {
		v = UINT64_C(0x2020202020202020);
		memcpy(&v, s, n);
		found |= (v & UINT64_C(0x8080808080808080)) | has_byte(v, 0) | has_byte(v, a) |
			 has_byte(v, b) | has_byte(v, '\n') | has_byte(v, '\r');
	}
	return !found;
}

/* ASCII without NULs. */
static bool is_ascii(const char *s, size_t n)
{
	uint64_t v, found = 0;

	for (; n >= 8; s += 8, n -= 8) {
		memcpy(&v, s, 8);
		found |= (v & UINT64_C(0x8080808080808080)) | has_byte(v, 0);
	}
	for (; n; s++, n--)
		found |= *s <= 0;
	return !found;
}

static void put_char(struct ws_text *t, char c)
{
	if (ws_unlikely(t->len + 1 >= t->cap)) {
		ws_text_add(t, &c, 1);
		return;
	}
	t->s[t->len++] = c;
	t->s[t->len] = 0;
}

/* In quotes, with those inside doubled. */
static void put_quoted(struct ws_text *t, const char *s, size_t n)
{
	put_char(t, '"');
	for (size_t at = 0; at < n;) {
		const char *quote = memchr(s + at, '"', n - at);
		size_t k = quote ? (size_t)(quote - s) - at + 1 : n - at;

		ws_text_add(t, s + at, k);
		if (quote)
			put_char(t, '"');
		at += k;
	}
	put_char(t, '"');
}

static void csv_text(struct ws_text *t, const char *s, size_t n)
{
	struct ws_text clean = {0};

	if (is_plain(s, n, false)) {
		ws_text_add(t, s, n);
		return;
	}
	if (is_ascii(s, n)) {
		put_quoted(t, s, n);
		return;
	}
	if (!memchr(s, '"', n) && !memchr(s, ',', n) && !memchr(s, '\n', n) &&
	    !memchr(s, '\r', n)) {
		ws_text_utf8(t, s, n);
		return;
	}
	ws_text_utf8(&clean, s, n);
	put_quoted(t, clean.s, clean.len);
	ws_text_free(&clean);
}

/* Between the pieces of a name that TSV would break at, `marks` stands for a tab, a line feed, a
 * carriage return, a backslash. */
static void tsv_pieces(struct ws_text *t, const char *s, size_t n, const char *const marks[4])
{
	static const char special[] = "\t\n\r\\";

	for (size_t i = 0, run = 0; i <= n; i++) {
		const char *at = i < n ? memchr(special, s[i], 4) : NULL;

		if (i < n && !at)
			continue;
		ws_text_utf8(t, s + run, i - run);
		run = i + 1;
		if (at)
			ws_text_puts(t, marks[at - special]);
	}
}

static void tsv_text(struct ws_text *t, const char *s, size_t n)
{
	static const char *const blanks[] = {" ", " ", " ", "\\"};

	if (is_plain(s, n, true))
		ws_text_add(t, s, n);
	else
		tsv_pieces(t, s, n, blanks);
}

static void tsv_escaped(struct ws_text *t, const char *s, size_t n)
{
	static const char *const escapes[] = {"\\t", "\\n", "\\r", "\\\\"};

	if (is_plain(s, n, true))
		ws_text_add(t, s, n);
	else
		tsv_pieces(t, s, n, escapes);
}

static void header(struct ws_printer *o, char separator)
{
	if (o->args.nohdr)
		return;
	for (size_t i = 0; i < o->column_count; i++) {
		if (i)
			ws_text_add(&o->line, &separator, 1);
		ws_print_header(o, i, &o->line);
	}
	ws_text_add(&o->line, "\n", 1);
	end_line(o);
}

static size_t leading(const struct ws_printer *o, const struct ws_cell *cells)
{
	size_t n = 0;

	while (n < o->column_count && cells[n].type != WS_CELL_TEXT)
		n++;
	return n;
}

/* Figures of the row before are copied, not made again: ranges without repetition take the same few
 * times over and over. */
static void row(struct ws_printer *o, const struct ws_cell *cells, char separator,
		void (*text)(struct ws_text *, const char *, size_t))
{
	size_t lead = leading(o, cells), at = o->line.len, i = 0;

	if (o->same >= lead && o->lead.cells == lead && lead) {
		ws_grow(o->line.s, o->line.cap, at + o->lead.len + 1);
		memcpy(o->line.s + at, o->line.s + o->lead.at, o->lead.len);
		o->line.len += o->lead.len;
		i = lead;
	}
	for (; i < o->column_count; i++) {
		if (i == lead)
			o->lead.len = o->line.len - at;
		if (i)
			put_char(&o->line, separator);
		if (cells[i].type == WS_CELL_TEXT)
			text(&o->line, cells[i].t.s, cells[i].t.n);
		else if (cells[i].type != WS_CELL_NULL)
			ws_print_number(o, i, &cells[i], false, &o->line);
	}
	o->lead.at = at;
	o->lead.cells = lead < o->column_count ? lead : 0;
	put_char(&o->line, '\n');
	end_line(o);
}

void ws_csv_begin(struct ws_printer *o)
{
	header(o, ',');
}

void ws_csv_row(struct ws_printer *o, const struct ws_cell *cells)
{
	row(o, cells, ',', csv_text);
}

void ws_tsv_begin(struct ws_printer *o)
{
	header(o, '\t');
}

void ws_tsv_row(struct ws_printer *o, const struct ws_cell *cells)
{
	row(o, cells, '\t', o->args.escape ? tsv_escaped : tsv_text);
}

void ws_lines_end(struct ws_printer *o)
{
	ws_print_flush(o);
}

/* Columns before this one with its header. */
static size_t same_before(const struct ws_printer *o, size_t column)
{
	size_t same = 0;

	for (size_t i = 0; i < column; i++)
		same += o->columns[i].kind == o->columns[column].kind &&
			!strcmp(o->columns[i].name, o->columns[column].name);
	return same;
}

void ws_json_begin(struct ws_printer *o)
{
	o->doubled = 0;
	for (size_t i = 0; i < o->column_count && i < 64; i++)
		o->doubled |= (uint64_t)(same_before(o, i) > 0) << i;
	fputs("[", o->f);
}

void ws_json_row(struct ws_printer *o, const struct ws_cell *cells)
{
	struct ws_text name = {0};

	ws_text_puts(&o->line, o->rows > 1 ? ",\n{" : "\n{");
	for (size_t i = 0; i < o->column_count; i++) {
		name.len = 0;
		ws_print_header(o, i, &name);
		if (i < 64 &&
		    o->doubled >> i &
			    1) /* members of one name would hide one another from who reads them */
			ws_text_printf(&name, ":%zu", same_before(o, i));
		if (i)
			ws_text_add(&o->line, ", ", 2);
		ws_text_json(&o->line, name.s, name.len);
		ws_text_add(&o->line, ": ", 2);
		if (cells[i].type == WS_CELL_TEXT)
			ws_text_json(&o->line, cells[i].t.s, cells[i].t.n);
		else if (cells[i].type == WS_CELL_NULL)
			ws_text_puts(&o->line,
				     o->columns[i].kind == WS_KIND_VALUE ? "null" : "\"\"");
		else
			ws_print_number(o, i, &cells[i], false, &o->line);
	}
	ws_text_add(&o->line, "}", 1);
	end_line(o);
	ws_text_free(&name);
}

void ws_json_end(struct ws_printer *o)
{
	ws_print_flush(o);
	fputs("\n]\n", o->f);
}
