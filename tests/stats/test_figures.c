/*
 * test_figures.c - medians, deviations and grouping, against a plain sort in long double; texts and
 * numbers of every format.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>

#include <cmocka.h>

#include "text/text.h"
#include "base/choose.h"
#include "stats/group.h"
#include "stats/summary_rows.h"
#include "print/table.h"
#include "../random.h"

/* ---- distributions ---- */

static uint64_t random_state = RANDOM_SEED;

static uint64_t next_random(void)
{
	return random_next(&random_state);
}

static int compare_ascending(const void *first, const void *second)
{
	uint64_t x = *(const uint64_t *)first, y = *(const uint64_t *)second;

	return ws_compare(x, y);
}

/* Spread `n` values over `parts` distributions and compare the summary with one computed from the
 * sorted values. */
static void check_values(uint64_t *values, size_t n, size_t parts)
{
	struct ws_dist *dist = calloc(parts, sizeof(*dist));
	struct ws_dist **p = calloc(parts, sizeof(*p));
	unsigned __int128 total = 0;
	long double squares = 0, mean, median;
	struct ws_summary summary;

	for (size_t i = 0; i < n; i++) {
		ws_dist_add(&dist[(next_random() >> 33) % parts], values[i]);
		total += values[i];
	}
	for (size_t i = 0; i < parts; i++)
		p[i] = &dist[i];
	summary = ws_summarise_dists(p, parts);
	qsort(values, n, sizeof(*values), compare_ascending);
	mean = (long double)total / n;
	for (size_t i = 0; i < n; i++)
		squares += (values[i] - mean) * (values[i] - mean);
	median = n % 2 ? values[n / 2] : ((long double)values[n / 2 - 1] + values[n / 2]) / 2;
	assert_int_equal(summary.count, n);
	assert_true(summary.total == total);
	assert_int_equal(summary.min, values[0]);
	assert_int_equal(summary.max, values[n - 1]);
	assert_true(ws_compute_summary_median(&summary) == median);
	assert_true(fabsl(ws_compute_summary_mean(&summary) - mean) <= mean * 1e-15L);
	if (n == 1)
		assert_true(summary.stddev == 0);
	else
		assert_true(fabsl(summary.stddev - sqrtl(squares / (n - 1))) <=
			    1e-9L * (1 + sqrtl(squares / (n - 1))));
	for (size_t i = 0; i < parts; i++)
		ws_dist_free(&dist[i]);
	free(dist);
	free(p);
}

typedef uint64_t value_fn(size_t i);

static uint64_t same_value(size_t i)
{
	(void)i;
	return 42;
}
static uint64_t small_value(size_t i)
{
	(void)i;
	return next_random() % 300;
}
static uint64_t edge_value(size_t i)
{
	return 65530 + next_random() % 12 + (i % 1000 == 0) * 100000;
}
static uint64_t narrow_value(size_t i)
{
	(void)i;
	return next_random() >> 32;
}
static uint64_t wide_value(size_t i)
{
	(void)i;
	return next_random() >> 4;
}
static uint64_t mixed_value(size_t i)
{
	return i % 3 == 0   ? next_random() % 1000
	       : i % 3 == 1 ? next_random() >> 32
			    : next_random() >> 8;
}
static uint64_t tail_value(size_t i) /* a storm with a few long ones, as real durations are */
{
	return i % 997 ? 20 + next_random() % 15 : 5000000 + next_random() % 100000;
}

static void test_distributions(void **state)
{
	static value_fn *const kinds[] = {same_value, small_value, edge_value, narrow_value,
					  wide_value, mixed_value, tail_value};
	static const size_t counts[] = {1,    2,    3,	   4,	  5,	 17,	 4096,
					4097, 8193, 65536, 65537, 65538, 200001, 300000};

	(void)state;
	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
		for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
			uint64_t *values = malloc(counts[c] * sizeof(*values));

			for (size_t i = 0; i < counts[c]; i++)
				values[i] = kinds[k](i);
			check_values(values, counts[c], 1);
			check_values(values, counts[c], 2);
			check_values(values, counts[c], 5);
			free(values);
		}
	}
}

static void test_extremes(void **state)
{
	uint64_t v[] = {0, 0, UINT32_MAX, (uint64_t)UINT32_MAX + 1, INT64_MAX, 65535, 65536};

	(void)state;
	check_values(v, 7, 1);
	check_values(v, 7, 3);
}

/* A distribution that became a table of counts together with one that did not. */
static void test_counted_and_not(void **state)
{
	struct ws_dist left = {0}, right = {0}, *both[] = {&left, &right};
	struct ws_summary summary;

	(void)state;
	for (int i = 0; i < 200000; i++)
		ws_dist_add(&left, 10);
	assert_non_null(left.counts);
	ws_dist_add(&right, 9);
	ws_dist_add(&right, 70000);
	assert_null(right.counts);
	summary = ws_summarise_dists(both, 2);
	assert_int_equal(summary.count, 200002);
	assert_int_equal(summary.min, 9);
	assert_int_equal(summary.max, 70000);
	assert_true(ws_compute_summary_median(&summary) == 10);
	ws_dist_free(&left);
	ws_dist_free(&right);
}

/* Values of which few are small stay an array: a table of counts would only cost. */
static void test_no_useless_counts(void **state)
{
	struct ws_dist dist = {0};

	(void)state;
	for (int i = 0; i < 300000; i++)
		ws_dist_add(&dist, 1000000 + (uint64_t)i);
	assert_null(dist.counts);
	ws_dist_free(&dist);
}

static uint64_t halve_key(void *ctx, size_t table, uint64_t key)
{
	assert_ptr_equal(ctx, &random_state);
	return (key - table * 1000) / 2;
}

static void test_groups(void **state)
{
	struct ws_groups groups[2] = {{0}};
	struct ws_group_sum *sums;
	size_t count, seen = 0;

	(void)state;
	for (uint64_t i = 0; i < 30000; i++)
		for (int w = 0; w < 2; w++)
			ws_dist_add(ws_groups_get(&groups[w], i % 500 + (uint64_t)w * 1000),
				    i % 500 / 2);
	sums = ws_groups_merge(groups, 2, halve_key, &random_state, &count);
	assert_int_equal(count, 250);
	for (size_t i = 0; i < count; i++) {
		assert_int_equal(sums[i].summary.count, 240);
		assert_int_equal(sums[i].summary.min, sums[i].key);
		assert_int_equal(sums[i].summary.max, sums[i].key);
		seen += sums[i].summary.count;
	}
	assert_int_equal(seen, 60000);
	free(sums);
	ws_groups_free(&groups[0]);
	ws_groups_free(&groups[1]);
	sums = ws_groups_merge(groups, 2, halve_key, &random_state, &count);
	assert_int_equal(count, 0);
	free(sums);
}

/* ---- texts ---- */

typedef void text_fn(struct ws_text *text, const char *word, size_t n);

static void check_text(text_fn *fn, const char *in, size_t n, const char *want)
{
	struct ws_text text = {0};

	fn(&text, in, n);
	if (text.len != strlen(want) || memcmp(text.text, want, text.len))
		fail_msg("got '%s', wanted '%s'", text.text, want);
	ws_text_free(&text);
}

#define CHECK_TEXT(fn, in, want) check_text(fn, in, sizeof(in) - 1, want)

static void test_utf8(void **state)
{
	(void)state;
	CHECK_TEXT(ws_put_valid_utf8, "plain", "plain");
	CHECK_TEXT(ws_put_valid_utf8, "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x9a\x80",
		   "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x9a\x80");
	CHECK_TEXT(ws_put_valid_utf8, "a\0b",
		   "a\xef\xbf\xbd"
		   "b");
	CHECK_TEXT(ws_put_valid_utf8, "\xff", "\xef\xbf\xbd");
	CHECK_TEXT(ws_put_valid_utf8, "\xc3", "\xef\xbf\xbd");		       /* cut short */
	CHECK_TEXT(ws_put_valid_utf8, "\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd"); /* overlong */
	CHECK_TEXT(ws_put_valid_utf8, "\xe0\x80\xaf", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
	CHECK_TEXT(ws_put_valid_utf8, "\xed\xa0\x80",
		   "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"); /* surrogate */
	CHECK_TEXT(ws_put_valid_utf8, "\xf5\x80\x80\x80",
		   "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
	CHECK_TEXT(ws_put_valid_utf8, "\xf0\x9f\x9a", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
	assert_false(ws_is_valid_utf8("a\0b", 3));
	assert_true(ws_is_valid_utf8("", 0));
	assert_true(ws_is_valid_utf8("a\nb\x1b", 4));
}

static void test_json(void **state)
{
	(void)state;
	CHECK_TEXT(ws_put_quoted_json, "", "\"\"");
	CHECK_TEXT(ws_put_quoted_json, "say \"hi\" \\ there", "\"say \\\"hi\\\" \\\\ there\"");
	CHECK_TEXT(ws_put_quoted_json, "\b\t\n\v\f\r", "\"\\b\\t\\n\\u000b\\f\\r\"");
	CHECK_TEXT(ws_put_quoted_json, "\x1b[31m\x7f", "\"\\u001b[31m\\u007f\"");
	CHECK_TEXT(ws_put_quoted_json, "a\0b", "\"a\\u0000b\"");
	CHECK_TEXT(ws_put_quoted_json, "\xe2\x80\xa8",
		   "\"\\u2028\""); /* ends a line of JavaScript */
	CHECK_TEXT(ws_put_quoted_json,
		   "\xff"
		   "x",
		   "\"\xef\xbf\xbdx\"");
	CHECK_TEXT(ws_put_quoted_json, "</script>", "\"</script>\"");
}

static void test_html(void **state)
{
	(void)state;
	CHECK_TEXT(ws_put_html_text, "<b onx='y' z=\"w\">&amp;",
		   "&lt;b onx=&#39;y&#39; z=&quot;w&quot;&gt;&amp;amp;");
	CHECK_TEXT(ws_put_html_text,
		   "a\xe2\x80\xae"
		   "b",
		   "a\\u202eb");
}

static void test_terminal(void **state)
{
	(void)state;
	CHECK_TEXT(ws_put_terminal_text, "a\nb\tc\rd", "a\\nb\\tc\\rd");
	CHECK_TEXT(ws_put_terminal_text, "\x1b]0;title\x07", "\\x1b]0;title\\x07");
	CHECK_TEXT(ws_put_terminal_text,
		   "\xc2\x9b"
		   "31m",
		   "\\x9b31m"); /* the C1 form of ESC [ */
	CHECK_TEXT(ws_put_terminal_text, "x\xe2\x80\xaey\xe2\x81\xa6z", "x\\u202ey\\u2066z");
	CHECK_TEXT(ws_put_terminal_text, "nul\0", "nul\\x00");
	CHECK_TEXT(ws_put_terminal_text, "\xe6\xbc\xa2", "\xe6\xbc\xa2");
}

static void test_width(void **state)
{
	(void)state;
	assert_int_equal(ws_measure_utf8_width("abc", 3), 3);
	assert_int_equal(ws_measure_utf8_width("\xe6\xbc\xa2\xe5\xad\x97", 6), 4);
	assert_int_equal(ws_measure_utf8_width("e\xcc\x81", 3), 1); /* e and a combining acute */
	assert_int_equal(ws_find_utf8_prefix("\xe6\xbc\xa2\xe5\xad\x97", 6, 3), 3);
	assert_int_equal(ws_find_utf8_prefix("abcdef", 6, 4), 4);
}

/* ---- numbers and formats ---- */

static const struct ws_column columns[] = {
	{"Time", WS_KIND_PERCENT}, {"Total", WS_KIND_TIME}, {"Calls", WS_KIND_COUNT},
	{"Avg", WS_KIND_MEAN},	   {"PID", WS_KIND_ID},	    {"Name", WS_KIND_TEXT},
};

static char *print_rows(const char *format, const char *unit, const struct ws_cell (*rows)[6],
			size_t count)
{
	struct ws_printer printer = {
		.title = "Title & co", .name = "some_sum", .columns = columns, .column_count = 6};
	struct ws_err err = {""};
	char *out = NULL;
	size_t len;

	printer.format = ws_find_format(format, &printer.args, &err);
	if (!printer.format)
		fail_msg("%s", err.msg);
	printer.unit = ws_find_timeunit(unit);
	printer.file = open_memstream(&out, &len);
	ws_print_begin(&printer);
	for (size_t i = 0; i < count; i++)
		ws_print_row(&printer, rows[i]);
	ws_print_end(&printer);
	fclose(printer.file);
	return out;
}

/* Row i of a long table: cells of every kind, some empty, names with what formats must mark. */
/* Figures are those of the row before for two rows of three. */
static size_t long_row(const void *ctx, size_t i, struct ws_cell *cells, struct ws_text *text)
{
	const size_t *first = ctx;
	int64_t figure;
	bool same;

	i += *first;
	figure = (int64_t)(i / 3);
	ws_text_printf(text, "%s %zu %s", i % 7 ? "name" : "wide \xe6\xbc\xa2", i * 2654435761u,
		       i % 11 ? "" : ",\"<|\t");
	same = cells[1].type == WS_CELL_INT && cells[1].i == figure * figure;
	cells[0] = ws_cell_real((long double)figure / 977);
	cells[1] = ws_cell_int(figure * figure);
	cells[2] = figure % 5 ? ws_cell_int(figure) : ws_cell_null();
	cells[3] = figure % 4 ? ws_cell_real((long double)figure / 3)
			      : ws_cell_whole((uint64_t)figure);
	cells[4] = ws_cell_int(figure % 100);
	cells[5] = ws_cell_text(text->text, text->len);
	return same ? 5 : 0;
}

/* Rows that all cores make are those that are handed over one by one, in every format, also after
 * such. */
static void test_many_rows(void **state)
{
	enum { ONE_BY_ONE = 3, MANY = 5000 };
	static const char *const formats[] = {"column", "column:nohdr:9:.:0",
					      "table",	"table:nohdr",
					      "csv",	"tsv:esc",
					      "json",	"html",
					      "htable", "markdown"};

	(void)state;
	for (size_t f = 0; f < WS_COUNT(formats); f++) {
		char *out[2] = {NULL};

		for (int many = 0; many < 2; many++) {
			struct ws_printer printer = {.title = "Title",
						     .name = "some_sum",
						     .columns = columns,
						     .column_count = 6};
			size_t len, none = 0, first = ONE_BY_ONE,
				    alone = many ? ONE_BY_ONE : ONE_BY_ONE + MANY;
			struct ws_text text = {0};
			struct ws_cell cells[6] = {0};
			struct ws_err err;

			printer.format = ws_find_format(formats[f], &printer.args, &err);
			printer.unit = ws_find_timeunit("ns");
			printer.file = open_memstream(&out[many], &len);
			ws_print_begin(&printer);
			for (size_t i = 0; i < alone; i++, text.len = 0) {
				long_row(&none, i, cells, &text);
				ws_print_row(&printer, cells);
			}
			if (many)
				ws_print_rows(&printer, MANY, long_row, &first);
			assert_int_equal(printer.rows, ONE_BY_ONE + MANY);
			ws_print_end(&printer);
			fclose(printer.file);
			ws_text_free(&text);
		}
		assert_string_equal(out[1], out[0]);
		free(out[0]);
		free(out[1]);
	}
}

static void check_print(const char *format, const char *unit, const char *want)
{
	const struct ws_cell rows[][6] = {
		{ws_cell_real(66.65L), ws_cell_int(1234567), ws_cell_int(1000),
		 ws_cell_real(1234.25L), ws_cell_int(12345), ws_cell_text("a,\"b\"\n<c>|d", 11)},
		{ws_cell_real(0), ws_cell_int(0), ws_cell_int(1), ws_cell_real(0.05L),
		 ws_cell_int(7), ws_cell_text("x\ty\\z", 5)},
		{ws_cell_null(), ws_cell_int(-5), ws_cell_null(), ws_cell_null(), ws_cell_null(),
		 ws_cell_text("", 0)},
	};
	char *got = print_rows(format, unit, rows, 3);

	assert_string_equal(got, want);
	free(got);
}

static void test_csv(void **state)
{
	(void)state;
	check_print("csv", "ns",
		    "Time (%),Total (ns),Calls,Avg (ns),PID,Name\n"
		    "66.7,1234567,1000,1234.3,12345,\"a,\"\"b\"\"\n<c>|d\"\n"
		    "0.0,0,1,0.1,7,x\ty\\z\n"
		    ",-5,,,,\n");
	check_print("csv:nohdr", "us",
		    "66.7,1234.567,1000,1.234,12345,\"a,\"\"b\"\"\n<c>|d\"\n"
		    "0.0,0.000,1,0.000,7,x\ty\\z\n"
		    ",-0.005,,,,\n");
}

static void test_tsv(void **state)
{
	(void)state;
	check_print("tsv", "ms",
		    "Time (%)\tTotal (ms)\tCalls\tAvg (ms)\tPID\tName\n"
		    "66.7\t1.234567\t1000\t0.001234\t12345\ta,\"b\" <c>|d\n"
		    "0.0\t0.000000\t1\t0.000000\t7\tx y\\z\n"
		    "\t-0.000005\t\t\t\t\n");
	check_print("tsv:nohdr:esc", "ms",
		    "66.7\t1.234567\t1000\t0.001234\t12345\ta,\"b\"\\n<c>|d\n"
		    "0.0\t0.000000\t1\t0.000000\t7\tx\\ty\\\\z\n"
		    "\t-0.000005\t\t\t\t\n");
}

static void test_json_table(void **state)
{
	(void)state;
	check_print("json", "s",
		    "[\n"
		    "{\"Time (%)\": 66.7, \"Total (s)\": 0.001234567, \"Calls\": 1000, \"Avg "
		    "(s)\": 0.000001234, \"PID\": 12345, \"Name\": "
		    "\"a,\\\"b\\\"\\n<c>|d\"},\n"
		    "{\"Time (%)\": 0.0, \"Total (s)\": 0.000000000, \"Calls\": 1, \"Avg (s)\": "
		    "0.000000000, \"PID\": 7, \"Name\": "
		    "\"x\\ty\\\\z\"},\n"
		    "{\"Time (%)\": \"\", \"Total (s)\": -0.000000005, \"Calls\": \"\", \"Avg "
		    "(s)\": \"\", \"PID\": \"\", \"Name\": \"\"}\n"
		    "]\n");
}

static void test_column(void **state)
{
	(void)state;
	check_print("column", "ns",
		    " ** Title & co (some_sum):\n\n"
		    " Time (%)  Total (ns)  Calls  Avg (ns)   PID       Name    \n"
		    " --------  ----------  -----  --------  -----  ------------\n"
		    "     66.7   1,234,567  1,000   1,234.3  12345  a,\"b\"\\n<c>|d\n"
		    "      0.0           0      1       0.1      7  x\\ty\\z      \n"
		    "                   -5                                      \n");
	check_print("column:nohdr:nofmt", "ns",
		    " ** Title & co (some_sum):\n\n"
		    " 66.7  1234567  1000  1234.3  12345  a,\"b\"\\n<c>|d\n"
		    "  0.0        0     1     0.1      7  x\\ty\\z      \n"
		    "            -5                                   \n");
}

static void test_box(void **state)
{
	(void)state;
	check_print("table", "ns",
		    " ** Title & co (some_sum):\n\n"
		    "+----------+------------+-------+----------+-------+--------------+\n"
		    "| Time (%) | Total (ns) | Calls | Avg (ns) |  PID  |     Name     |\n"
		    "+----------+------------+-------+----------+-------+--------------+\n"
		    "|     66.7 |  1,234,567 | 1,000 |  1,234.3 | 12345 | a,\"b\"\\n<c>|d |\n"
		    "|      0.0 |          0 |     1 |      0.1 |     7 | x\\ty\\z       |\n"
		    "|          |         -5 |       |          |       |              |\n"
		    "+----------+------------+-------+----------+-------+--------------+\n");
}

static void test_html_table(void **state)
{
	(void)state;
	check_print(
		"htable", "ns",
		"<table>\n<thead><tr><th>Time (%)</th><th>Total (ns)</th><th>Calls</th><th>Avg "
		"(ns)</th><th>PID</th>"
		"<th class=\"t\">Name</th></tr></thead>\n<tbody>\n"
		"<tr><td>66.7</td><td>1,234,567</td><td>1,000</td><td>1,234.3</td><td>12345</td>"
		"<td class=\"t\">a,&quot;b&quot;\\n&lt;c&gt;|d</td></tr>\n"
		"<tr><td>0.0</td><td>0</td><td>1</td><td>0.1</td><td>7</td><td "
		"class=\"t\">x\\ty\\z</td></tr>\n"
		"<tr><td></td><td>-5</td><td></td><td></td><td></td><td class=\"t\"></td></tr>\n"
		"</tbody>\n</table>\n");
}

static void test_markdown(void **state)
{
	(void)state;
	check_print("markdown", "ns",
		    "## Title & co (some_sum)\n\n"
		    "| Time (%) | Total (ns) | Calls | Avg (ns) | PID | Name |\n"
		    "|---:|---:|---:|---:|---:|:---|\n"
		    "| 66.7 | 1,234,567 | 1,000 | 1,234.3 | 12345 | a,\"b\"\\\\n&lt;c\\>\\|d |\n"
		    "| 0.0 | 0 | 1 | 0.1 | 7 | x\\\\ty\\\\z |\n"
		    "|  | -5 |  |  |  |  |\n");
}

static void test_long_names(void **state)
{
	char name[10000], *out;
	const struct ws_cell rows[][6] = {{ws_cell_real(1), ws_cell_int(1), ws_cell_int(1),
					   ws_cell_real(1), ws_cell_int(1),
					   ws_cell_text(name, sizeof(name))}};

	(void)state;
	memset(name, 'n', sizeof(name));
	out = print_rows("column:nohdr", "ns", rows, 1);
	assert_non_null(strstr(out, "nnn\xe2\x80\xa6\n"));
	assert_true(strlen(out) < 200);
	free(out);
	out = print_rows("column:nohdr:nolimit", "ns", rows, 1);
	assert_true(strlen(out) > 10000);
	free(out);
}

static void test_format_names(void **state)
{
	struct ws_format_args args;
	struct ws_err err;

	(void)state;
	assert_null(ws_find_format("xml", &args, &err));
	assert_non_null(strstr(err.msg, "xml"));
	assert_null(ws_find_format("csv:nolimit", &args, &err));
	assert_null(ws_find_format("", &args, &err));
	assert_null(ws_find_format(":", &args, &err));
	assert_string_equal(ws_find_format("hdoc", &args, &err)->name, "html");
	assert_string_equal(ws_find_format("md:nohdr", &args, &err)->name, "markdown");
	assert_true(args.nohdr);
}

static void test_time_units(void **state)
{
	static const char *const good[][2] = {
		{"ns", "ns"},	{"nsec", "ns"},	 {"nanoseconds", "ns"},	 {"us", "us"},
		{"usec", "us"}, {"micro", "us"}, {"milliseconds", "ms"}, {"msec", "ms"},
		{"s", "s"},	{"sec", "s"},	 {"seconds", "s"}};
	static const char *const bad[] = {"", "m", "min", "n", "minutes", "nanosecondsx", "hours"};

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		assert_string_equal(ws_find_timeunit(good[i][0])->name, good[i][1]);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_null(ws_find_timeunit(bad[i]));
}

/* ---- the order of summaries ---- */

enum { LINES = 3000 };

static int plain_order(const struct ws_summary_row *left, const struct ws_summary_row *right)
{
	size_t n = ws_min(left->name_length, right->name_length);
	int order = memcmp(left->name, right->name, n);

	if (left->summary->total != right->summary->total)
		return left->summary->total > right->summary->total ? -1 : 1;
	if (order || left->name_length != right->name_length)
		return order ? order : left->name_length < right->name_length ? -1 : 1;
	return strcmp(left->style, right->style);
}

/* Few totals and names that share much of their beginnings, end inside of one another, have zeros
 * in them, or are the same. */
static uint64_t lower_half(void *ctx, size_t table, uint64_t key)
{
	(void)ctx, (void)table;
	return key & ~(UINT64_C(1) << 40); /* what a domain would be */
}

static int by_group_key(const void *first, const void *second)
{
	const struct ws_group_sum *left = first, *right = second;

	return ws_compare(left->key, right->key);
}

/* Puts both in order of their keys. */
static void check_same_sums(struct ws_group_sum *want, struct ws_group_sum *got, size_t count)
{
	qsort(want, count, sizeof(*want), by_group_key);
	qsort(got, count, sizeof(*got), by_group_key);
	for (size_t i = 0; i < count; i++) {
		assert_true(got[i].key == want[i].key);
		assert_true(got[i].summary.total == want[i].summary.total &&
			    got[i].summary.count == want[i].summary.count);
		assert_true(got[i].summary.min == want[i].summary.min &&
			    got[i].summary.max == want[i].summary.max);
		assert_true(ws_compute_summary_median(&got[i].summary) ==
			    ws_compute_summary_median(&want[i].summary));
		assert_true(fabs(got[i].summary.stddev - want[i].summary.stddev) <=
			    1e-9 * (1 + want[i].summary.stddev));
	}
}

/* Keys that are only written down, in tables that are crowded: the same sums as those of tables
 * that hold all. */
static void test_spilled_groups(void **ctx)
{
	enum { TABLES = 3, KEYS = 5000, HELD = 700, VALUES = 60000 };
	struct ws_groups all[TABLES] = {{0}}, some[TABLES] = {{0}};
	struct ws_spill *spills = calloc(TABLES, sizeof(*spills));
	struct ws_group_part parts[WS_SPILL_PARTS];
	struct ws_group_sum *want, *got;
	size_t wanted, count = 0, singles = 0;

	(void)ctx;
	for (unsigned t = 0; t < TABLES; t++) {
		spills[t].shift =
			ws_choose_spill_shift(KEYS); /* keys beyond that share the last part */
		spills[t].limit = KEYS * 2; /* and have no first values, as a third of the others */
	}
	for (unsigned i = 0; i < VALUES; i++) {
		uint64_t key = next_random() >> 20, value = next_random() >> 30,
			 t = next_random() >> 40;
		struct ws_dist *dist;

		key = key % KEYS * 3 | key % 7 / 3 << 33 | key % 2 << 40;
		if (i % 16 == 0)
			key = 1 + i * 3 % (KEYS * 2) + (UINT64_C(5) << 33); /* mostly once */
		value = value % 50 ? value % 100000 : value << 3; /* also what takes 64 bits */
		t %= TABLES;
		ws_dist_add(ws_groups_get(&all[t], key), value);
		if (some[t].count >= HELD &&
		    ws_spill_add_first(&spills[t], lower_half(NULL, t, key), value))
			continue;
		dist = some[t].count < HELD ? ws_groups_get(&some[t], key)
					    : ws_groups_find(&some[t], key);
		if (dist)
			ws_dist_add(dist, value);
		else
			ws_spill_add(&spills[t], key, value);
	}
	want = ws_groups_merge(all, TABLES, lower_half, NULL, &wanted);
	got = malloc(wanted * sizeof(*got));
	ws_groups_merge_spilled(some, spills, TABLES,
				&(struct ws_spill_keys){lower_half, lower_half, NULL}, parts);
	for (unsigned p = 0; p < WS_SPILL_PARTS; p++) {
		assert_true(count + parts[p].count <= wanted);
		memcpy(got + count, parts[p].group_sums, parts[p].count * sizeof(*got));
		count += parts[p].count;
		free(parts[p].group_sums);
	}
	for (unsigned t = 0; t < TABLES; t++)
		for (unsigned f = 0; f < spills[t].firsts; f++)
			for (size_t i = 0; i < spills[t].limit; i++) {
				if (!spills[t].first_values[f].values[i])
					continue;
				assert_true(spills[t].first_values[f].used[i / WS_FIRSTS_PAGE] &&
					    count < wanted);
				got[count].key = spills[t].first_values[f].upper | i;
				got[count++].summary = ws_summarise_single_value(
					spills[t].first_values[f].values[i] - 1);
				singles++;
			}
	assert_int_equal(count, wanted);
	assert_true(singles > 100 && singles < count);
	check_same_sums(want, got, count);
	for (unsigned t = 0; t < TABLES; t++) {
		ws_groups_free(&all[t]);
		ws_groups_free(&some[t]);
		ws_spill_free(&spills[t]);
	}
	free(spills);
	free(want);
	free(got);
}

static void test_order(void **state)
{
	static const char bytes[] = "aaaaaaaaab\0z\xff";
	static struct ws_summary sums[LINES];
	static char names[LINES][64], styles[LINES][16];
	static struct ws_summary_row lines[LINES];

	(void)state;
	for (int round = 0; round < 40; round++) {
		size_t n = round < 20 ? (size_t)round : LINES, longest = round % 2 ? 48 : 10;
		bool seen[LINES] = {false};

		for (size_t i = 0; i < n; i++) {
			size_t len = next_random() % (longest + 1);

			for (size_t k = 0; k < len; k++)
				names[i][k] = k < 30 && round % 3
						      ? 'x'
						      : bytes[next_random() % (sizeof(bytes) - 1)];
			sums[i].total = next_random() % (1 + (unsigned)round % 5);
			if (round == 39)
				sums[i].total |= (unsigned __int128)(next_random() % 3) << 64;
			snprintf(styles[i], sizeof(styles[i]), "%zu", i);
			lines[i] = (struct ws_summary_row){.summary = &sums[i],
							   .name = names[i],
							   .name_length = len,
							   .style = styles[i]};
		}
		ws_sort_summary_rows(lines, n);
		for (size_t i = 0; i < n; i++) {
			seen[lines[i].summary - sums] = true;
			if (i)
				assert_true(plain_order(&lines[i - 1], &lines[i]) < 0);
		}
		for (size_t i = 0; i < n; i++)
			assert_true(seen[i]);
	}
}

/* So many that all cores sort them, with totals that many lines share. */
static void test_order_of_many(void **state)
{
	enum { MANY = 100000 };
	struct ws_summary *sums = calloc(MANY, sizeof(*sums));
	struct ws_summary_row *lines = calloc(MANY, sizeof(*lines));
	char(*names)[24] = calloc(MANY, sizeof(*names));
	bool *seen = calloc(MANY, sizeof(*seen));

	(void)state;
	for (size_t i = 0; i < MANY; i++) {
		sums[i].total = next_random() % 3
					? next_random() % 70
					: (unsigned __int128)next_random() << next_random() % 8;
		lines[i].summary = &sums[i];
		lines[i].name = names[i];
		lines[i].name_length = (size_t)snprintf(names[i], sizeof(names[i]), "name %u %zu",
							(unsigned)(next_random() % 1000), i);
	}
	ws_sort_summary_rows(lines, MANY);
	for (size_t i = 0; i < MANY; i++) {
		assert_false(seen[lines[i].summary - sums]);
		seen[lines[i].summary - sums] = true;
		if (i)
			assert_true(plain_order(&lines[i - 1], &lines[i]) < 0);
	}
	free(sums);
	free(lines);
	free(names);
	free(seen);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_distributions),
		cmocka_unit_test(test_extremes),
		cmocka_unit_test(test_counted_and_not),
		cmocka_unit_test(test_no_useless_counts),
		cmocka_unit_test(test_groups),
		cmocka_unit_test(test_spilled_groups),
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_order_of_many),
		cmocka_unit_test(test_utf8),
		cmocka_unit_test(test_json),
		cmocka_unit_test(test_html),
		cmocka_unit_test(test_terminal),
		cmocka_unit_test(test_width),
		cmocka_unit_test(test_csv),
		cmocka_unit_test(test_tsv),
		cmocka_unit_test(test_json_table),
		cmocka_unit_test(test_column),
		cmocka_unit_test(test_box),
		cmocka_unit_test(test_html_table),
		cmocka_unit_test(test_markdown),
		cmocka_unit_test(test_many_rows),
		cmocka_unit_test(test_long_names),
		cmocka_unit_test(test_format_names),
		cmocka_unit_test(test_time_units),
	};

	return cmocka_run_group_tests_name("stats-figures", tests, NULL, NULL);
}
