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

static bool takes(const struct ws_format *f, const char *known)
{
	for (const char *const *a = f->args; *a; a++)
		if (!strcmp(*a, known))
			return true;
	return false;
}

/* A width: digits, or a dot for one that is found. */
static bool read_width(const struct ws_format *f, const char *s, size_t n,
		       struct ws_format_args *args)
{
	unsigned v = 0;

	if (!takes(f, "<width>") || !n || n > 4 || args->width_count == WS_WIDTHS)
		return false;
	for (size_t i = 0; i < n && *s != '.'; i++) {
		if (s[i] < '0' || s[i] > '9')
			return false;
		v = v * 10 + (unsigned)(s[i] - '0');
	}
	if (*s == '.' && n > 1)
		return false;
	args->widths[args->width_count++] = (uint16_t)(*s == '.' ? WS_WIDTH_AUTO : v);
	return true;
}

/* An address has colons of its own: those before a slash or a digit. */
static size_t arg_length(const char *s)
{
	size_t n = strcspn(s, ":");

	while (!strncmp(s, "css=", 4) && s[n] == ':' && strchr("/0123456789", s[n + 1]) && s[n + 1])
		n += 1 + strcspn(s + n + 1, ":");
	return n;
}

static int format_arg(const struct ws_format *f, const char *s, size_t n,
		      struct ws_format_args *args, struct ws_err *e)
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
		if (strlen(flags[i].name) == n && !memcmp(flags[i].name, s, n) &&
		    takes(f, flags[i].name)) {
			*flags[i].flag = true;
			return 0;
		}
	if (n >= 6 && !memcmp(s, "title=", 6) && takes(f, "title=<title>")) {
		args->title.s = s + 6;
		args->title.n = n - 6;
		return 0;
	}
	if (n >= 4 && !memcmp(s, "css=", 4) && takes(f, "css=<address>")) {
		args->css.s = s + 4;
		args->css.n = n - 4;
		return 0;
	}
	if (read_width(f, s, n, args))
		return 0;
	for (const char *const *a = f->args; *a; a++)
		ws_text_printf(&known, "%s%s", a == f->args ? "" : ", ", *a);
	ws_fail(e, "the format %s has no argument '%.*s'; it has %s", f->name, (int)n, s,
		known.len ? known.s : "none");
	ws_text_free(&known);
	return -1;
}

static const struct ws_format *format_named(const char *name, size_t n)
{
	for (const struct ws_format *f = ws_formats; f->name; f++)
		if ((strlen(f->name) == n && !memcmp(f->name, name, n)) ||
		    (f->alias && strlen(f->alias) == n && !memcmp(f->alias, name, n)))
			return f;
	return NULL;
}

const struct ws_format *ws_format_find(const char *spec, struct ws_format_args *args,
				       struct ws_err *e)
{
	size_t n = strcspn(spec, ":");
	const struct ws_format *f = format_named(spec, n);

	memset(args, 0, sizeof(*args));
	if (!f) {
		ws_fail(e,
			"there is no format '%s'; choose column, table, csv, tsv, json, html, "
			"htable or markdown",
			spec);
		return NULL;
	}
	for (const char *s = spec + n; *s; s += n) {
		n = arg_length(++s);
		if (n && format_arg(f, s, n, args, e) < 0)
			return NULL;
	}
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

		if (!strcmp(name, units[i].name) || !strcmp(name, units[i].sec) ||
		    (n >= 3 && !strncmp(name, units[i].word, n)))
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

void ws_print_flush(struct ws_printer *o)
{
	if (!o->f)
		return;
	if (o->line.len)
		fwrite(o->line.s, 1, o->line.len, o->f);
	o->line.len = 0;
}

void ws_lines_take(struct ws_printer *o, struct ws_printer *one)
{
	ws_print_flush(o);
	if (one->line.len)
		fwrite(one->line.s, 1, one->line.len, o->f);
}

struct maker {
	size_t (*make)(const void *ctx, size_t i, struct ws_cell *cells, struct ws_text *text);
	const void *ctx;
	uint64_t before; /* rows that the table has already */
};

static void make_rows(struct ws_printer *one, size_t from, size_t to, const void *ctx)
{
	const struct maker *m = ctx;
	struct ws_cell *cells = ws_calloc(one->column_count, sizeof(*cells));
	struct ws_text text = {0};

	for (size_t i = from; i < to; i++) {
		text.len = 0;
		one->same = m->make(m->ctx, i, cells, &text);
		one->rows = m->before + i + 1;
		one->format->row(one, cells);
	}
	ws_text_free(&text);
	free(cells);
}

void ws_print_rows(struct ws_printer *o, size_t count,
		   size_t (*make)(const void *ctx, size_t i, struct ws_cell *cells,
				  struct ws_text *text),
		   const void *ctx)
{
	struct maker m = {make, ctx, o->rows};

	ws_print_slices(o, count, make_rows,
			o->format->row == ws_kept_row ? ws_kept_take : ws_lines_take, &m);
	o->rows += count;
}

void ws_print_end(struct ws_printer *o)
{
	if (o->format->end)
		o->format->end(o);
	ws_text_free(&o->line);
	ws_text_free(&o->kept);
	free(o->ends);
	free(o->widths);
	o->ends = o->widths = NULL;
	o->ends_cap = o->ends_count = 0;
}

void ws_print_header(const struct ws_printer *o, size_t column, struct ws_text *t)
{
	const struct ws_column *c = &o->columns[column];

	ws_text_puts(t, c->name);
	if (c->kind == WS_KIND_PERCENT || c->kind == WS_KIND_SHARE)
		ws_text_puts(t, " (%)");
	else if (c->kind == WS_KIND_TIME || c->kind == WS_KIND_MEAN || c->kind == WS_KIND_AVERAGE)
		ws_text_printf(t, " (%s)", o->unit->name);
	else if (c->kind == WS_KIND_SIZE || c->kind == WS_KIND_RATE)
		ws_text_puts(t, c->kind == WS_KIND_SIZE ? " (MB)" : " (MB/s)");
}

/* Digits of v before `p`; returns where they begin. */
static inline char *digits_before(char *p, uint64_t v)
{
	static const char pairs[] = "00010203040506070809101112131415161718192021222324252627282930"
				    "313233343536373839404142434445464748"
				    "49505152535455565758596061626364656667686970717273747576777879"
				    "80818283848586878889909192939495969798"
				    "99";

	for (; v >= 100; v /= 100)
		memcpy(p -= 2, pairs + v % 100 * 2, 2);
	if (v >= 10)
		memcpy(p -= 2, pairs + v * 2, 2);
	else
		*--p = (char)('0' + v);
	return p;
}

static char *grouped_before(char *p, uint64_t v)
{
	unsigned digits = 0;

	do {
		if (digits && digits % 3 == 0)
			*--p = ',';
		*--p = (char)('0' + (unsigned)(v % 10));
		v /= 10;
		digits++;
	} while (v);
	return p;
}

/* `v` is the value times ten to the power of `decimals`. */
static void put_fixed(struct ws_text *t, uint64_t v, bool negative, unsigned decimals, bool grouped)
{
	enum { MOST = 48 }; /* with separators, a sign and a point */
	char buf[2 * MOST], *end = buf + MOST, *p = end;

	for (unsigned i = 0; i < decimals; i++, v /= 10)
		*--p = (char)('0' + (unsigned)(v % 10));
	if (decimals)
		*--p = '.';
	p = grouped ? grouped_before(p, v) : digits_before(p, v);
	if (negative)
		*--p = '-';
	ws_grow(t->s, t->cap, t->len + MOST + 1);
	memcpy(t->s + t->len, p,
	       MOST); /* more than there is: of a size that is known, it is no call */
	t->len += (size_t)(end - p);
	t->s[t->len] = 0;
}

/* Rounded half up; values are not negative, and none goes beyond 64 bits but by damage: it prints
 * as the largest. */
static uint64_t rounded(long double v)
{
	return v >= 0 && v < 1.8e19L ? (uint64_t)(v + 0.5L) : v > 0 ? UINT64_MAX : 0;
}

static long double real_of(const struct ws_cell *c)
{
	return c->type == WS_CELL_WHOLE ? (long double)c->i : c->r;
}

/* A real number times `by`, at most 1000. */
static uint64_t scaled(const struct ws_cell *c, unsigned by)
{
	return c->type == WS_CELL_WHOLE ? (uint64_t)c->i * by : rounded(c->r * by);
}

/* The shortest decimal that reads as the same double, with a point or exponent that says it is one.
 */
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

/* A share of a sum is below 0 where a part of it is: self time of what others' calls overlap in. */
static void put_share(struct ws_text *t, long double v, unsigned decimals, bool grouped)
{
	uint64_t magnitude = rounded((v < 0 ? -v : v) * (decimals == 9 ? 1e9L : 10));

	put_fixed(t, magnitude, v < 0 && magnitude, decimals, grouped);
}

void ws_print_number(const struct ws_printer *o, size_t column, const struct ws_cell *c,
		     bool grouped, struct ws_text *t)
{
	enum ws_kind kind = o->columns[column].kind;
	bool negative = c->type == WS_CELL_INT && c->i < 0;
	uint64_t magnitude = negative ? 0 - (uint64_t)c->i : (uint64_t)c->i;

	if (kind == WS_KIND_TIME && c->type != WS_CELL_INT)
		kind = WS_KIND_AVERAGE;
	if (kind == WS_KIND_ID || kind == WS_KIND_VALUE)
		grouped = false;
	if (kind == WS_KIND_VALUE && c->type != WS_CELL_INT) {
		put_real(t, (double)real_of(c));
		return;
	}
	if (kind == WS_KIND_SIZE || kind == WS_KIND_RATE)
		put_fixed(t,
			  rounded((c->type == WS_CELL_INT ? (long double)magnitude : real_of(c)) /
				  1000),
			  negative, 3, grouped);
	else if (c->type == WS_CELL_INT)
		put_fixed(t, magnitude, negative, kind == WS_KIND_TIME ? o->unit->power : 0,
			  grouped);
	else if (kind == WS_KIND_SHARE)
		put_share(t, real_of(c), o->format->exact ? 9 : 1, grouped);
	else if (kind == WS_KIND_AVERAGE && o->format->exact)
		put_fixed(t, scaled(c, 1000), false, o->unit->power + 3, grouped);
	else if ((kind == WS_KIND_MEAN || kind == WS_KIND_AVERAGE) && o->unit->power)
		put_fixed(t, scaled(c, 1), false, o->unit->power, grouped);
	else
		put_fixed(t, scaled(c, 10), false, 1, grouped);
}
