/*
 * table.c - headers, numbers and the list of formats; see table.h.
 *
 * Rounding is half away from zero on the exact value, as SQLite's round() does, which the scripts
 * of the reference tool use: printf's would turn 0.25 into 0.2. Times of other units than ns keep
 * every nanosecond (3, 6, 9 decimals), so that nothing turns into 0.
 */
#include "print/table.h"

#include <stdlib.h>
#include <string.h>

#include "print/formats.h"

static const char *const no_args[] = {NULL};
static const char *const header_args[] = {"nohdr", NULL};
static const char *const tsv_args[] = {"nohdr", "esc", NULL};
static const char *const kept_args[] = {"nohdr", "nolimit", "nofmt", "<width>", NULL};
static const char *const html_args[] = {"nohdr", "nofmt", "title=<title>", "css=<address>", NULL};
static const char *const marked_args[] = {"nohdr", "nofmt", NULL};

#define WIDTHS                                                                                    \
	"Numbers are on the right, texts on the left. A column is as wide as what stands in it, " \
	"names at most 100 characters "                                                           \
	"unless nolimit is given. Widths, one for each column from the left, say otherwise: a "   \
	"number cuts what is longer, and "                                                        \
	"marks it with an ellipsis; a dot leaves the column as it is; 0 leaves it out. nofmt "    \
	"writes numbers without separators."

const struct ws_format ws_formats[] = {
	{"column", NULL, "txt", "aligned columns for a terminal", true, false, kept_args, WIDTHS,
	 ws_column_begin, ws_kept_row, ws_column_end},
	{"table", NULL, "txt", "columns in a box", true, false, kept_args, WIDTHS, ws_kept_begin,
	 ws_kept_row, ws_box_end},
	{"csv", NULL, "csv", "comma-separated values", false, true, header_args,
	 "A field is quoted when it has a comma, a quote or a line break in it; quotes inside are "
	 "doubled.",
	 ws_csv_begin, ws_csv_row, ws_lines_end},
	{"tsv", NULL, "tsv", "tab-separated values", false, true, tsv_args,
	 "Tabs and line breaks in names become blanks; with esc they are written as \\t, \\n and "
	 "\\r, and a backslash as two.",
	 ws_tsv_begin, ws_tsv_row, ws_lines_end},
	{"json", NULL, "json", "an array of objects, one a row", false, true, no_args,
	 "Names of columns are keys, as in the header of csv; the second of a name has \":1\" "
	 "behind it. What is empty there is an "
	 "empty text.",
	 ws_json_begin, ws_json_row, ws_json_end},
	{"html", "hdoc", "html", "an HTML document", true, false, html_args,
	 "title is that of the document, and css the address of a style sheet that it asks for.",
	 ws_html_begin, ws_html_row, ws_html_end},
	{"htable", NULL, "html", "an HTML table without a document around it", false, false,
	 marked_args, "To put into a page.", ws_htable_begin, ws_html_row, ws_htable_end},
	{"markdown", "md", "md", "a Markdown table", true, false, marked_args,
	 "Punctuation in names is escaped.", ws_markdown_begin, ws_markdown_row, ws_markdown_end},
	{NULL},
};

static bool takes(const struct ws_format *format, const char *known)
{
	for (const char *const *a = format->args; *a; a++)
		if (!strcmp(*a, known))
			return true;
	return false;
}

/* A width: digits, or a dot for one that is found. */
static bool read_width(const struct ws_format *format, const char *text, size_t n,
		       struct ws_format_args *args)
{
	unsigned v = 0;

	if (!takes(format, "<width>") || !n || n > 4 || args->width_count == WS_WIDTHS)
		return false;
	for (size_t i = 0; i < n && *text != '.'; i++) {
		if (text[i] < '0' || text[i] > '9')
			return false;
		v = v * 10 + (unsigned)(text[i] - '0');
	}
	if (*text == '.' && n > 1)
		return false;
	args->widths[args->width_count++] = (uint16_t)(*text == '.' ? WS_WIDTH_AUTO : v);
	return true;
}

/* An address has colons of its own: those before a slash or a digit. */
static size_t arg_length(const char *text)
{
	size_t n = strcspn(text, ":");

	while (!strncmp(text, "css=", 4) && text[n] == ':' && strchr("/0123456789", text[n + 1]) &&
	       text[n + 1])
		n += 1 + strcspn(text + n + 1, ":");
	return n;
}

static int format_arg(const struct ws_format *format, const char *text, size_t n,
		      struct ws_format_args *args, struct ws_err *err)
{
	struct ws_text known = {0};
	const struct {
		const char *name;
		bool *flag;
	} flags[] = {{"nohdr", &args->nohdr},
		     {"nolimit", &args->nolimit},
		     {"nofmt", &args->nofmt},
		     {"esc", &args->escape}};

	for (size_t i = 0; i < WS_COUNT(flags); i++)
		if (strlen(flags[i].name) == n && !memcmp(flags[i].name, text, n) &&
		    takes(format, flags[i].name)) {
			*flags[i].flag = true;
			return 0;
		}
	if (n >= 6 && !memcmp(text, "title=", 6) && takes(format, "title=<title>")) {
		args->title.text = text + 6;
		args->title.n = n - 6;
		return 0;
	}
	if (n >= 4 && !memcmp(text, "css=", 4) && takes(format, "css=<address>")) {
		args->css.text = text + 4;
		args->css.n = n - 4;
		return 0;
	}
	if (read_width(format, text, n, args))
		return 0;
	for (const char *const *a = format->args; *a; a++)
		ws_text_printf(&known, "%s%s", a == format->args ? "" : ", ", *a);
	ws_fail(err, "the format %s has no argument '%.*s'; it has %s", format->name, (int)n, text,
		known.len ? known.text : "none");
	ws_text_free(&known);
	return -1;
}

static const struct ws_format *format_named(const char *name, size_t n)
{
	for (const struct ws_format *format = ws_formats; format->name; format++)
		if ((strlen(format->name) == n && !memcmp(format->name, name, n)) ||
		    (format->alias && strlen(format->alias) == n &&
		     !memcmp(format->alias, name, n)))
			return format;
	return NULL;
}

const struct ws_format *ws_format_find(const char *spec, struct ws_format_args *args,
				       struct ws_err *err)
{
	size_t n = strcspn(spec, ":");
	const struct ws_format *format = format_named(spec, n);

	memset(args, 0, sizeof(*args));
	if (!format) {
		ws_fail(err,
			"there is no format '%s'; choose column, table, csv, tsv, json, html, "
			"htable or markdown",
			spec);
		return NULL;
	}
	for (const char *text = spec + n; *text; text += n) {
		n = arg_length(++text);
		if (n && format_arg(format, text, n, args, err) < 0)
			return NULL;
	}
	return format;
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

		if (!strcmp(name, units[i].name) || !strcmp(name, units[i].sec) ||
		    (n >= 3 && !strncmp(name, units[i].word, n)))
			return &units[i].unit;
	}
	return NULL;
}

void ws_print_begin(struct ws_printer *printer)
{
	printer->rows = 0;
	printer->format->begin(printer);
}

void ws_print_row(struct ws_printer *printer, const struct ws_cell *cells)
{
	printer->rows++;
	printer->format->row(printer, cells);
}

void ws_print_flush(struct ws_printer *printer)
{
	if (!printer->file)
		return;
	if (printer->line.len)
		fwrite(printer->line.text, 1, printer->line.len, printer->file);
	printer->line.len = 0;
}

void ws_lines_take(struct ws_printer *printer, struct ws_printer *one)
{
	ws_print_flush(printer);
	if (one->line.len)
		fwrite(one->line.text, 1, one->line.len, printer->file);
}

struct maker {
	size_t (*make)(const void *ctx, size_t i, struct ws_cell *cells, struct ws_text *text);
	const void *ctx;
	uint64_t before; /* rows that the table has already */
};

static void make_rows(struct ws_printer *one, size_t from, size_t to, const void *ctx)
{
	const struct maker *maker = ctx;
	struct ws_cell *cells = ws_calloc(one->column_count, sizeof(*cells));
	struct ws_text text = {0};

	for (size_t i = from; i < to; i++) {
		text.len = 0;
		one->same = maker->make(maker->ctx, i, cells, &text);
		one->rows = maker->before + i + 1;
		one->format->row(one, cells);
	}
	ws_text_free(&text);
	free(cells);
}

void ws_print_rows(struct ws_printer *printer, size_t count,
		   size_t (*make)(const void *ctx, size_t i, struct ws_cell *cells,
				  struct ws_text *text),
		   const void *ctx)
{
	struct maker maker = {make, ctx, printer->rows};

	ws_print_slices(printer, count, make_rows,
			printer->format->row == ws_kept_row ? ws_kept_take : ws_lines_take, &maker);
	printer->rows += count;
}

void ws_print_end(struct ws_printer *printer)
{
	if (printer->format->end)
		printer->format->end(printer);
	ws_text_free(&printer->line);
	ws_text_free(&printer->kept);
	free(printer->ends);
	free(printer->widths);
	printer->ends = printer->widths = NULL;
	printer->ends_cap = printer->ends_count = 0;
}

void ws_print_header(const struct ws_printer *printer, size_t column, struct ws_text *text)
{
	const struct ws_column *column_c = &printer->columns[column];

	ws_text_puts(text, column_c->name);
	if (column_c->kind == WS_KIND_PERCENT || column_c->kind == WS_KIND_SHARE)
		ws_text_puts(text, " (%)");
	else if (column_c->kind == WS_KIND_TIME || column_c->kind == WS_KIND_SAMPLED ||
		 column_c->kind == WS_KIND_MEAN || column_c->kind == WS_KIND_AVERAGE)
		ws_text_printf(text, " (%s)", printer->unit->name);
	else if (column_c->kind == WS_KIND_SIZE || column_c->kind == WS_KIND_RATE)
		ws_text_puts(text, column_c->kind == WS_KIND_SIZE ? " (MB)" : " (MB/s)");
}

/* Digits of v before `p`; returns where they begin. */
static inline char *digits_before(char *at, uint64_t v)
{
	static const char pairs[] = "00010203040506070809101112131415161718192021222324252627282930"
				    "313233343536373839404142434445464748"
				    "49505152535455565758596061626364656667686970717273747576777879"
				    "80818283848586878889909192939495969798"
				    "99";

	for (; v >= 100; v /= 100)
		memcpy(at -= 2, pairs + v % 100 * 2, 2);
	if (v >= 10)
		memcpy(at -= 2, pairs + v * 2, 2);
	else
		*--at = (char)('0' + v);
	return at;
}

static char *grouped_before(char *at, uint64_t v)
{
	unsigned digits = 0;

	do {
		if (digits && digits % 3 == 0)
			*--at = ',';
		*--at = (char)('0' + (unsigned)(v % 10));
		v /= 10;
		digits++;
	} while (v);
	return at;
}

/* `v` is the value times ten to the power of `decimals`. */
static void put_fixed(struct ws_text *text, uint64_t v, bool negative, unsigned decimals,
		      bool grouped)
{
	enum { MOST = 48 }; /* with separators, a sign and a point */
	char buf[2 * MOST], *end = buf + MOST, *at = end;

	for (unsigned i = 0; i < decimals; i++, v /= 10)
		*--at = (char)('0' + (unsigned)(v % 10));
	if (decimals)
		*--at = '.';
	at = grouped ? grouped_before(at, v) : digits_before(at, v);
	if (negative)
		*--at = '-';
	ws_grow(text->text, text->cap, text->len + MOST + 1);
	memcpy(text->text + text->len, at,
	       MOST); /* more than there is: of a size that is known, it is no call */
	text->len += (size_t)(end - at);
	text->text[text->len] = 0;
}

/* Rounded half up; values are not negative, and none goes beyond 64 bits but by damage: it prints
 * as the largest. */
static uint64_t rounded(long double v)
{
	return v >= 0 && v < 1.8e19L ? (uint64_t)(v + 0.5L) : v > 0 ? UINT64_MAX : 0;
}

static long double real_of(const struct ws_cell *cell)
{
	return cell->type == WS_CELL_WHOLE ? (long double)cell->i : cell->r;
}

/* A real number times `by`, at most 1000. */
static uint64_t scaled(const struct ws_cell *cell, unsigned by)
{
	return cell->type == WS_CELL_WHOLE ? (uint64_t)cell->i * by : rounded(cell->r * by);
}

/* The shortest decimal that reads as the same double, with a point or exponent that says it is one.
 */
static void put_real(struct ws_text *text, double v)
{
	char s[40];

	snprintf(s, sizeof(s), "%.15g", v);
	if (strtod(s, NULL) != v)
		snprintf(s, sizeof(s), "%.17g", v);
	ws_text_puts(text, s);
	if (!strpbrk(s, ".eEn"))
		ws_text_puts(text, ".0");
}

/* A share of a sum is below 0 where a part of it is: self time of what others' calls overlap in. */
static void put_share(struct ws_text *text, long double v, unsigned decimals, bool grouped)
{
	uint64_t magnitude = rounded((v < 0 ? -v : v) * (decimals == 9 ? 1e9L : 10));

	put_fixed(text, magnitude, v < 0 && magnitude, decimals, grouped);
}

/* Programs get microseconds; for people, digits that samples do not tell are no decimals, and zeros
 * before the point. */
static void put_sampled(const struct ws_printer *printer, uint64_t ns, bool grouped,
			struct ws_text *text)
{
	unsigned digits = printer->unit->power ? 3 : 0;
	uint64_t step = 1, v;

	if (printer->format->titled)
		digits = printer->sampled_digits;
	for (unsigned i = 0; i < digits; i++)
		step *= 10;
	v = ns / step + (ns % step >= step - step / 2);
	for (unsigned i = printer->unit->power; i < digits; i++)
		v *= 10;
	put_fixed(text, v, false, printer->unit->power > digits ? printer->unit->power - digits : 0,
		  grouped);
}

unsigned ws_print_sampled_digits(uint64_t total)
{
	unsigned digits = 0;

	for (total /= 1000; total >= 10 && digits < 15; total /= 10)
		digits++;
	return digits;
}

void ws_print_number(const struct ws_printer *printer, size_t column, const struct ws_cell *cell,
		     bool grouped, struct ws_text *text)
{
	enum ws_kind kind = printer->columns[column].kind;
	bool negative = cell->type == WS_CELL_INT && cell->i < 0;
	uint64_t magnitude = negative ? 0 - (uint64_t)cell->i : (uint64_t)cell->i;

	if (kind == WS_KIND_TIME && cell->type != WS_CELL_INT)
		kind = WS_KIND_AVERAGE;
	if (kind == WS_KIND_ID || kind == WS_KIND_VALUE)
		grouped = false;
	if (kind == WS_KIND_VALUE && cell->type != WS_CELL_INT) {
		put_real(text, (double)real_of(cell));
		return;
	}
	if (kind == WS_KIND_SAMPLED)
		put_sampled(printer, magnitude, grouped, text);
	else if (kind == WS_KIND_SIZE || kind == WS_KIND_RATE)
		put_fixed(text,
			  rounded((cell->type == WS_CELL_INT ? (long double)magnitude
							     : real_of(cell)) /
				  1000),
			  negative, 3, grouped);
	else if (cell->type == WS_CELL_INT)
		put_fixed(text, magnitude, negative,
			  kind == WS_KIND_TIME ? printer->unit->power : 0, grouped);
	else if (kind == WS_KIND_SHARE)
		put_share(text, real_of(cell), printer->format->exact ? 9 : 1, grouped);
	else if (kind == WS_KIND_AVERAGE && printer->format->exact)
		put_fixed(text, scaled(cell, 1000), false, printer->unit->power + 3, grouped);
	else if ((kind == WS_KIND_MEAN || kind == WS_KIND_AVERAGE) && printer->unit->power)
		put_fixed(text, scaled(cell, 1), false, printer->unit->power, grouped);
	else
		put_fixed(text, scaled(cell, 10), false, 1, grouped);
}
