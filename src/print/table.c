/*
 * table.c - headers, numbers and the list of formats; see table.h.
 *
 * Numbers are rounded half away from zero on the exact value, as SQLite's round() does, which the
 * scripts of the reference tool use: printf would turn 0.25 into 0.2. Times in units other than ns
 * keep every nanosecond (3, 6 or 9 decimals), so that no time turns into 0.
 */
#include "print/table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/choose.h"
#include "print/formats.h"
#include "text/suggest.h"

static const char *const no_args[] = {NULL};
static const char *const header_args[] = {"nohdr", NULL};
static const char *const tsv_args[] = {"nohdr", "esc", NULL};
static const char *const kept_args[] = {"nohdr", "nolimit", "nofmt", "<width>", NULL};
static const char *const html_args[] = {"nohdr", "nofmt", "title=<title>", "css=<address>", NULL};
static const char *const marked_args[] = {"nohdr", "nofmt", NULL};

#define WIDTHS                                                                                    \
	"Numbers are on the right, texts on the left. A column is as wide as what stands in it, " \
	"names at most 100 characters. On a terminal the table fits its width: names are cut in " \
	"the middle and, where that is not enough, columns left out, which the last line names. " \
	"With nolimit nothing is cut. Widths, one for each column from the left, say otherwise: " \
	"a "                                                                                      \
	"number cuts what is longer, and "                                                        \
	"marks it with an ellipsis; a dot leaves the column as it is; 0 leaves it out. nofmt "    \
	"writes numbers without separators."

const struct ws_format ws_formats[] = {
	{"column", NULL, "txt", "aligned columns for a terminal", true, false, kept_args, WIDTHS,
	 ws_column_begin, ws_keep_row, ws_column_end},
	{"table", NULL, "txt", "columns in a box", true, false, kept_args, WIDTHS, ws_keep_header,
	 ws_keep_row, ws_box_end},
	{"csv", NULL, "csv", "comma-separated values", false, true, header_args,
	 "A field is quoted when it has a comma, a quote or a line break in it; quotes inside are "
	 "doubled.",
	 ws_csv_begin, ws_csv_row, ws_end_lines},
	{"tsv", NULL, "tsv", "tab-separated values", false, true, tsv_args,
	 "Tabs and line breaks in names become blanks; with esc they are written as \\t, \\n and "
	 "\\r, and a backslash as two.",
	 ws_tsv_begin, ws_tsv_row, ws_end_lines},
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

static bool has_arg(const struct ws_format *format, const char *known)
{
	for (const char *const *arg = format->args; *arg; arg++)
		if (!strcmp(*arg, known))
			return true;
	return false;
}

/* Read a width: digits, or a dot for WS_WIDTH_AUTO. False when it is none, or none is expected. */
static bool read_width(const struct ws_format *format, const char *text, size_t length,
		       struct ws_format_args *args)
{
	unsigned value = 0;

	if (!has_arg(format, "<width>") || !length || length > 4 || args->width_count == WS_WIDTHS)
		return false;
	for (size_t i = 0; i < length && *text != '.'; i++) {
		if (text[i] < '0' || text[i] > '9')
			return false;
		value = value * 10 + (unsigned)(text[i] - '0');
	}
	if (*text == '.' && length > 1)
		return false;
	if (*text == '.')
		value = WS_WIDTH_AUTO;
	args->widths[args->width_count++] = (uint16_t)value;
	return true;
}

/* The length of an argument, which ends at a colon. An address has colons of its own: those before
 * a slash or a digit. */
static size_t get_arg_length(const char *text)
{
	size_t length = strcspn(text, ":");

	while (!strncmp(text, "css=", 4) && text[length] == ':' &&
	       strchr("/0123456789", text[length + 1]) && text[length + 1])
		length += 1 + strcspn(text + length + 1, ":");
	return length;
}

static int parse_format_arg(const struct ws_format *format, const char *text, size_t length,
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
		if (strlen(flags[i].name) == length && !memcmp(flags[i].name, text, length) &&
		    has_arg(format, flags[i].name)) {
			*flags[i].flag = true;
			return 0;
		}
	if (length >= 6 && !memcmp(text, "title=", 6) && has_arg(format, "title=<title>")) {
		args->title.text = text + 6;
		args->title.n = length - 6;
		return 0;
	}
	if (length >= 4 && !memcmp(text, "css=", 4) && has_arg(format, "css=<address>")) {
		args->css.text = text + 4;
		args->css.n = length - 4;
		return 0;
	}
	if (read_width(format, text, length, args))
		return 0;
	for (const char *const *arg = format->args; *arg; arg++) {
		if (arg != format->args)
			ws_text_puts(&known, ", ");
		ws_text_puts(&known, *arg);
	}
	ws_fail(err, "the format %s has no argument '%.*s'; it has %s", format->name, (int)length,
		text, ws_text_or(known.text, "none"));
	ws_text_free(&known);
	return -1;
}

static const struct ws_format *find_format_by_name(const char *name, size_t length)
{
	for (const struct ws_format *format = ws_formats; format->name; format++)
		if ((strlen(format->name) == length && !memcmp(format->name, name, length)) ||
		    (format->alias && strlen(format->alias) == length &&
		     !memcmp(format->alias, name, length)))
			return format;
	return NULL;
}

static void refuse_unknown_format(const char *spec, size_t length, struct ws_err *err)
{
	char *name = ws_strndup(spec, length);
	struct ws_nearest near = {.word = name};
	struct ws_text hint = {0};

	for (const struct ws_format *format = ws_formats; format->name; format++)
		ws_try_name(&near, format->name, strlen(format->name));
	if (ws_has_near_name(&near))
		ws_text_printf(&hint, "; did you mean %s?", near.best);
	ws_fail(err,
		"there is no format '%s'; choose column, table, csv, tsv, json, html, htable or "
		"markdown%s",
		spec, ws_text_or(hint.text, ""));
	ws_text_free(&hint);
	free(name);
}

const struct ws_format *ws_find_format(const char *spec, struct ws_format_args *args,
				       struct ws_err *err)
{
	size_t length = strcspn(spec, ":");
	const struct ws_format *format = find_format_by_name(spec, length);

	memset(args, 0, sizeof(*args));
	if (!format) {
		refuse_unknown_format(spec, length, err);
		return NULL;
	}
	for (const char *text = spec + length; *text; text += length) {
		length = get_arg_length(++text);
		if (length && parse_format_arg(format, text, length, args, err) < 0)
			return NULL;
	}
	return format;
}

const struct ws_timeunit *ws_find_timeunit(const char *name)
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
		size_t length = strlen(name);

		if (!strcmp(name, units[i].name) || !strcmp(name, units[i].sec) ||
		    (length >= 3 && !strncmp(name, units[i].word, length)))
			return &units[i].unit;
	}
	return NULL;
}

bool ws_print_wide;

/* The columns of the terminal that the table goes to; 0 when it goes elsewhere. */
static size_t find_terminal_width(const struct ws_printer *printer)
{
	struct winsize size;
	int fd = -1;

	if (printer->file)
		fd = fileno(printer->file);
	if (fd < 0 || ioctl(fd, TIOCGWINSZ, &size))
		return 0;
	return size.ws_col;
}

void ws_print_begin(struct ws_printer *printer)
{
	printer->rows = 0;
	printer->args.nolimit |= ws_print_wide;
	printer->fit = 0;
	if (!printer->args.nolimit && !printer->args.width_count)
		printer->fit = find_terminal_width(printer);
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

void ws_take_line_slice(struct ws_printer *printer, struct ws_printer *one)
{
	ws_print_flush(printer);
	if (one->line.len)
		fwrite(one->line.text, 1, one->line.len, printer->file);
}

struct row_maker {
	size_t (*make)(const void *ctx, size_t i, struct ws_cell *cells, struct ws_text *text);
	const void *ctx;
	uint64_t before; /* how many rows the table had before */
};

static void make_row_slice(struct ws_printer *one, size_t from, size_t to, const void *context)
{
	const struct row_maker *maker = context;
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
		   size_t (*make)(const void *context, size_t i, struct ws_cell *cells,
				  struct ws_text *text),
		   const void *context)
{
	struct row_maker maker = {make, context, printer->rows};

	if (printer->format->row == ws_keep_row)
		ws_print_slices(printer, count, make_row_slice, ws_take_kept_slice, &maker);
	else
		ws_print_slices(printer, count, make_row_slice, ws_take_line_slice, &maker);
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
	printer->end_capacity = printer->end_count = 0;
}

void ws_print_header(const struct ws_printer *printer, size_t column, struct ws_text *text)
{
	ws_text_puts(text, printer->columns[column].name);
	switch (printer->columns[column].kind) {
	case WS_KIND_PERCENT:
	case WS_KIND_SHARE:
		ws_text_puts(text, " (%)");
		break;
	case WS_KIND_TIME:
	case WS_KIND_SAMPLED:
	case WS_KIND_MEAN:
	case WS_KIND_AVERAGE:
		ws_text_printf(text, " (%s)", printer->unit->name);
		break;
	case WS_KIND_SIZE:
		ws_text_puts(text, " (MB)");
		break;
	case WS_KIND_RATE:
		ws_text_puts(text, " (MB/s)");
		break;
	default:
		break;
	}
}

/* Write the digits of a value before `at`; returns where they begin. */
static inline char *put_digits_before(char *at, uint64_t value)
{
	static const char pairs[] = "00010203040506070809101112131415161718192021222324252627282930"
				    "313233343536373839404142434445464748"
				    "49505152535455565758596061626364656667686970717273747576777879"
				    "80818283848586878889909192939495969798"
				    "99";

	for (; value >= 100; value /= 100)
		memcpy(at -= 2, pairs + value % 100 * 2, 2);
	if (value >= 10)
		memcpy(at -= 2, pairs + value * 2, 2);
	else
		*--at = (char)('0' + value);
	return at;
}

/* The same with thousands separators. */
static char *put_grouped_before(char *at, uint64_t value)
{
	unsigned digits = 0;

	do {
		if (digits && digits % 3 == 0)
			*--at = ',';
		*--at = (char)('0' + (unsigned)(value % 10));
		value /= 10;
		digits++;
	} while (value);
	return at;
}

/* Append a number with a fixed number of decimals; `value` is its magnitude times ten to the power
 * of `decimals`. */
static void put_fixed(struct ws_text *text, uint64_t value, bool negative, unsigned decimals,
		      bool grouped)
{
	enum { MOST = 48 }; /* with separators, a sign and a point */
	char buffer[2 * MOST], *end = buffer + MOST, *at = end;

	for (unsigned i = 0; i < decimals; i++, value /= 10)
		*--at = (char)('0' + (unsigned)(value % 10));
	if (decimals)
		*--at = '.';
	if (grouped)
		at = put_grouped_before(at, value);
	else
		at = put_digits_before(at, value);
	if (negative)
		*--at = '-';
	ws_grow(text->text, text->cap, text->len + MOST + 1);
	/* A copy of constant size, which is longer than needed, is not a call. */
	memcpy(text->text + text->len, at, MOST);
	text->len += (size_t)(end - at);
	text->text[text->len] = 0;
}

/* A value rounded half up. Values are not negative, and only damaged files have some beyond 64
 * bits: these become the largest number. */
static uint64_t round_half_up(long double value)
{
	if (value >= 0 && value < 1.8e19L)
		return (uint64_t)(value + 0.5L);
	if (value > 0)
		return UINT64_MAX;
	return 0;
}

static long double get_real(const struct ws_cell *cell)
{
	if (cell->type == WS_CELL_WHOLE)
		return (long double)cell->i;
	return cell->r;
}

/* A real number times `by`, which is at most 1000, rounded. */
static uint64_t scale_and_round(const struct ws_cell *cell, unsigned by)
{
	if (cell->type == WS_CELL_WHOLE)
		return (uint64_t)cell->i * by;
	return round_half_up(cell->r * by);
}

/* Append the shortest decimal that reads as the same double, with a point or an exponent, so that
 * it reads as a real number. */
static void put_real(struct ws_text *text, double value)
{
	char number[40];

	snprintf(number, sizeof(number), "%.15g", value);
	if (strtod(number, NULL) != value)
		snprintf(number, sizeof(number), "%.17g", value);
	ws_text_puts(text, number);
	if (!strpbrk(number, ".eEn"))
		ws_text_puts(text, ".0");
}

/* Append a percentage. It is negative where self time is: calls of other threads count in it. */
static void put_share(struct ws_text *text, long double value, unsigned decimals, bool grouped)
{
	long double factor = 10;
	uint64_t magnitude;

	if (decimals == 9)
		factor = 1e9L;
	magnitude = round_half_up(fabsl(value) * factor);
	put_fixed(text, magnitude, value < 0 && magnitude, decimals, grouped);
}

/* Append bytes in MB; those of an integer cell are given as `magnitude` and sign. */
static void put_megabytes(struct ws_text *text, const struct ws_cell *cell, uint64_t magnitude,
			  bool negative, bool grouped)
{
	long double bytes = (long double)magnitude;

	if (cell->type != WS_CELL_INT)
		bytes = get_real(cell);
	put_fixed(text, round_half_up(bytes / 1000), negative, 3, grouped);
}

/* Programs get microseconds. For people, digits beyond the precision of the samples are left out
 * after the point and are zeros before it. */
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
	uint64_t magnitude = (uint64_t)cell->i;
	unsigned time_power = 0;

	if (negative)
		magnitude = 0 - magnitude;
	if (kind == WS_KIND_TIME)
		time_power = printer->unit->power;
	if (kind == WS_KIND_TIME && cell->type != WS_CELL_INT)
		kind = WS_KIND_AVERAGE;
	if (kind == WS_KIND_ID || kind == WS_KIND_VALUE)
		grouped = false;
	if (kind == WS_KIND_VALUE && cell->type != WS_CELL_INT) {
		put_real(text, (double)get_real(cell));
		return;
	}
	if (kind == WS_KIND_SAMPLED)
		put_sampled(printer, magnitude, grouped, text);
	else if (kind == WS_KIND_SIZE || kind == WS_KIND_RATE)
		put_megabytes(text, cell, magnitude, negative, grouped);
	else if (cell->type == WS_CELL_INT)
		put_fixed(text, magnitude, negative, time_power, grouped);
	else if (kind == WS_KIND_SHARE && printer->format->exact)
		put_share(text, get_real(cell), 9, grouped);
	else if (kind == WS_KIND_SHARE)
		put_share(text, get_real(cell), 1, grouped);
	else if (kind == WS_KIND_AVERAGE && printer->format->exact)
		put_fixed(text, scale_and_round(cell, 1000), false, printer->unit->power + 3,
			  grouped);
	else if ((kind == WS_KIND_MEAN || kind == WS_KIND_AVERAGE) && printer->unit->power)
		put_fixed(text, scale_and_round(cell, 1), false, printer->unit->power, grouped);
	else
		put_fixed(text, scale_and_round(cell, 10), false, 1, grouped);
}
