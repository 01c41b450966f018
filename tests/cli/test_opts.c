/*
 * test_opts.c - the option parser alone, against a table of its own with every kind of option.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cli/cli.h"
#include "cli/text.h"

struct values {
	bool quiet, force, stats;
	const char *output, *wait, *trace;
	int64_t count;
	double delay;
	struct ws_list env;
};

static const struct ws_opt options[] = {
	{"quiet", 'q', WS_OPT_FLAG, offsetof(struct values, quiet), .help = "Say less."},
	{"force", 'f', WS_OPT_BOOL, offsetof(struct values, force), .help = "Overwrite."},
	{"stats", 0, WS_OPT_BOOL, offsetof(struct values, stats), .help = "Print.",
	 .fallback = "true"},
	{"output", 'o', WS_OPT_STRING, offsetof(struct values, output), "FILE", NULL, "Where to.",
	 "report"},
	{"wait", 0, WS_OPT_ENUM, offsetof(struct values, wait), "WHO", "primary,all",
	 "Whom to wait for.", "all"},
	{"trace", 't', WS_OPT_SET, offsetof(struct values, trace), "LIST",
	 "nvtx,osrt,none|cuda,cublas", "What to record."},
	{"count", 'n', WS_OPT_INT, offsetof(struct values, count), "N", NULL, "How many.", "3"},
	{"delay", 'y', WS_OPT_SECONDS, offsetof(struct values, delay), "TIME", NULL, "How long."},
	{"env-var", 'e', WS_OPT_LIST, offsetof(struct values, env), "A=B", NULL, "Variables."},
	{"sample", 's', WS_OPT_UNSUPPORTED, .values = "none,false", .help = "sampling comes later"},
	{0},
};

/* As profile has them: what is not supported is left out. */
struct tolerant_values {
	struct ws_list folders;
	const char *trace, *wait;
	bool force;
	struct ws_left_out left_out;
};

static const struct ws_opt tolerant_options[] = {
	{"trace", 't', WS_OPT_SET, offsetof(struct tolerant_values, trace), "LIST",
	 "cuda,osrt,none|cudnn=cuda,cublas=cuda,mpi|cuda-sw=cuda", "What to record.", "osrt"},
	{"wait", 0, WS_OPT_ENUM, offsetof(struct tolerant_values, wait), "WHO",
	 "primary,all|some|everybody=all", "Whom to wait for.", "primary"},
	{"force", 'f', WS_OPT_BOOL, offsetof(struct tolerant_values, force), .help = "Overwrite."},
	{"folder", 0, WS_OPT_LIST, offsetof(struct tolerant_values, folders), "DIR", NULL,
	 "Where."},
	{"range", 'c', WS_OPT_UNSUPPORTED, .arg = "RANGE", .values = "none", .help = "no ranges",
	 .fallback = "All is there."},
	{"range-end", 0, WS_OPT_UNSUPPORTED, .arg = "HOW", .values = "none", .help = "no ranges"},
	{"isr", 0, WS_OPT_UNSUPPORTED, .values = "false", .help = "no interrupts"},
	{"stop-on-range-end", 0, WS_OPT_ALIAS, .values = "true=stop,false=none",
	 .help = "range-end"},
	{"keep", 0, WS_OPT_ALIAS, .values = "true=false,false=true", .help = "force"},
	{"directory", 0, WS_OPT_ALIAS, .help = "folder"},
	{0},
};

static const struct ws_command tolerant = {
	.name = "try",
	.opts = tolerant_options,
	.opts_size = sizeof(struct tolerant_values),
	.left_out = offsetof(struct tolerant_values, left_out),
	.stop_at_operand = true,
};

static const struct ws_command permuting = {
	.name = "try", .opts = options, .opts_size = sizeof(struct values)};
static const struct ws_command stopping = {.name = "try",
					   .opts = options,
					   .opts_size = sizeof(struct values),
					   .stop_at_operand = true};

enum { MAX_WORDS = 16 };
static char *words[MAX_WORDS + 1];
static int n_words, first;
static struct values values;
static struct ws_err err;

/* Parse the words given, which end with NULL. */
static int parse_options(const struct ws_command *command, ...)
{
	va_list ap;
	char *word;

	ws_opts_free(&permuting, &values);
	memset(&values, 0, sizeof(values));
	err.msg[0] = 0;
	first = -1;
	n_words = 0;
	va_start(ap, command);
	while ((word = va_arg(ap, char *)) && n_words < MAX_WORDS)
		words[n_words++] = word;
	va_end(ap);
	return ws_opts_parse(command, n_words, words, &values, &first, &err);
}

static void defaults_apply(void **state)
{
	(void)state;
	assert_int_equal(parse_options(&permuting, NULL), 0);
	assert_int_equal(first, 0);
	assert_true(values.stats && !values.force && !values.quiet);
	assert_string_equal(values.output, "report");
	assert_string_equal(values.wait, "all");
	assert_null(values.trace);
	assert_int_equal(values.count, 3);
	assert_int_equal(values.env.count, 0);
}

static void values_in_all_spellings(void **state)
{
	static const char *const spellings[][2] = {{"--output=x y", NULL},
						   {"--output", "x y"},
						   {"-ox y", NULL},
						   {"-o", "x y"},
						   {"-o=x y", NULL}};

	(void)state;
	for (size_t i = 0; i < WS_COUNT(spellings); i++) {
		assert_int_equal(parse_options(&permuting, spellings[i][0], spellings[i][1], NULL),
				 0);
		assert_string_equal(values.output, "x y");
		assert_int_equal(first, n_words);
	}
	assert_int_equal(parse_options(&permuting, "--output=", NULL), 0);
	assert_string_equal(values.output, "");
	assert_int_equal(parse_options(&permuting, "-o", "-", NULL), 0);
	assert_string_equal(values.output, "-");
	assert_int_equal(parse_options(&permuting, "-qfo", "x", NULL), 0);
	assert_true(values.quiet && values.force);
	assert_string_equal(values.output, "x");
}

static void a_bool_takes_only_true_or_false(void **state)
{
	(void)state;
	assert_int_equal(
		parse_options(&permuting, "--stats", "false", "--force", "true", "rest", NULL), 0);
	assert_true(!values.stats && values.force);
	assert_string_equal(words[first], "rest");
	assert_int_equal(parse_options(&permuting, "--force", "yes", NULL), 0);
	assert_true(values.force);
	assert_string_equal(words[first], "yes");
	assert_int_equal(parse_options(&permuting, "--stats=no", "--force=1", NULL), 0);
	assert_true(!values.stats && values.force);
	assert_int_equal(parse_options(&permuting, "-ffalse", NULL), 0);
	assert_true(!values.force);
	assert_int_equal(parse_options(&permuting, "-f", "false", "-f", "./app", NULL), 0);
	assert_true(values.force);
	assert_int_equal(parse_options(&permuting, "--stats=2", NULL), -1);
	assert_string_equal(err.msg, "--stats: '2' is neither true nor false");
}

static void operands_come_last(void **state)
{
	(void)state;
	assert_int_equal(
		parse_options(&permuting, "a", "-q", "b", "-o", "x", "--", "-f", "c", NULL), 0);
	assert_int_equal(n_words - first, 4);
	assert_string_equal(words[first], "a");
	assert_string_equal(words[first + 1], "b");
	assert_string_equal(words[first + 2], "-f");
	assert_string_equal(words[first + 3], "c");
	assert_true(values.quiet && !values.force);
}

static void the_application_keeps_its_options(void **state)
{
	(void)state;
	assert_int_equal(parse_options(&stopping, "-f", "app", "--output=theirs", "-q", "--",
				       "--help", NULL),
			 0);
	assert_int_equal(first, 1);
	assert_string_equal(words[first], "app");
	assert_string_equal(words[first + 3], "--");
	assert_string_equal(values.output, "report");
	assert_false(values.quiet);
	assert_int_equal(parse_options(&stopping, "-f", "--", "-app", NULL), 0);
	assert_int_equal(first, 2);
	assert_string_equal(words[first], "-app");
	assert_int_equal(parse_options(&stopping, "-f", "true", "true", NULL), 0);
	assert_string_equal(words[first], "true");
	assert_int_equal(first, 2);
}

static void numbers_and_times(void **state)
{
	static const struct {
		const char *text;
		double seconds;
	} times[] = {{"1.5", 1.5}, {".5", 0.5},	  {"500ms", 0.5}, {"10s", 10}, {"2m", 120},
		     {"1h", 3600}, {"5us", 5e-6}, {"7ns", 7e-9},  {"0", 0}};
	static const char *const bad[] = {"",	 "-1",	 "x", "1.5x",  "nan",
					  "inf", "0x10", ".", "1e999", "1 s"};

	(void)state;
	for (size_t i = 0; i < WS_COUNT(times); i++) {
		assert_int_equal(parse_options(&permuting, "--delay", times[i].text, NULL), 0);
		assert_true(values.delay > times[i].seconds * 0.999999 - 1e-15 &&
			    values.delay < times[i].seconds * 1.000001 + 1e-15);
	}
	for (size_t i = 0; i < WS_COUNT(bad); i++)
		assert_int_equal(parse_options(&permuting, "--delay", bad[i], NULL), -1);
	assert_int_equal(parse_options(&permuting, "-n-5", NULL), 0);
	assert_int_equal(values.count, -5);
	assert_int_equal(parse_options(&permuting, "--count=99999999999999999999", NULL), -1);
	assert_string_equal(err.msg, "--count: '99999999999999999999' is out of range");
	assert_int_equal(parse_options(&permuting, "--count=12a", NULL), -1);
	assert_string_equal(err.msg, "--count: '12a' is not a whole number");
}

static void the_last_one_wins_and_lists_collect(void **state)
{
	(void)state;
	assert_int_equal(parse_options(&permuting, "-o", "a", "--output=b", "-e", "A=1",
				       "--env-var", "B=2", "-eC=3", NULL),
			 0);
	assert_string_equal(values.output, "b");
	assert_int_equal(values.env.count, 3);
	assert_string_equal(values.env.values[0], "A=1");
	assert_string_equal(values.env.values[1], "B=2");
	assert_string_equal(values.env.values[2], "C=3");
}

static void words_of_enums_and_sets(void **state)
{
	(void)state;
	assert_int_equal(parse_options(&permuting, "--wait=primary", "--trace=nvtx,osrt", NULL), 0);
	assert_string_equal(values.wait, "primary");
	assert_string_equal(values.trace, "nvtx,osrt");
	assert_int_equal(parse_options(&permuting, "--wait=primry", NULL), -1);
	assert_string_equal(err.msg,
			    "--wait: 'primry' is not one of primary, all; did you mean primary?");
	assert_int_equal(parse_options(&permuting, "--trace=nvtx,cuda", NULL), -1);
	assert_string_equal(err.msg,
			    "--trace: 'cuda' is not built yet; choose from nvtx, osrt, none");
	assert_int_equal(parse_options(&permuting, "--trace=nvtx,", NULL), -1);
	assert_string_equal(err.msg, "--trace: '' is not one of nvtx, osrt, none");
	assert_int_equal(parse_options(&permuting, "--trace=vulkan", NULL), -1);
	assert_string_equal(err.msg, "--trace: 'vulkan' is not one of nvtx, osrt, none");
}

static void mistakes_are_named(void **state)
{
	(void)state;
	assert_int_equal(parse_options(&permuting, "--outptu=x", NULL), -1);
	assert_string_equal(err.msg, "unknown option --outptu; did you mean --output?");
	assert_int_equal(parse_options(&permuting, "--output", NULL), -1);
	assert_string_equal(err.msg, "--output needs a value (FILE)");
	assert_int_equal(parse_options(&permuting, "-o", "--quiet", NULL), -1);
	assert_string_equal(err.msg, "--output needs a value (FILE), but --quiet follows; if that "
				     "is the value, write --output=--quiet");
	assert_int_equal(parse_options(&permuting, "-q=1", NULL), -1);
	assert_string_equal(err.msg, "--quiet takes no value");
	assert_int_equal(parse_options(&permuting, "--sample=cpu", NULL), -1);
	assert_string_equal(err.msg, "--sample: sampling comes later");
	assert_int_equal(parse_options(&permuting, "-s", "cpu", NULL), -1);
	assert_int_equal(parse_options(&permuting, "-s", "nonet", NULL), -1);
	assert_int_equal(parse_options(&permuting, "--sample=fals", NULL), -1);
	assert_int_equal(parse_options(&permuting, "--sample", NULL), -1);
	assert_int_equal(parse_options(&permuting, "-qz", NULL), -1);
	assert_string_equal(err.msg, "unknown option -z; 'warpsight try --help' lists them");
}

static void what_is_not_there_may_be_declined(void **state)
{
	(void)state;
	assert_int_equal(parse_options(&permuting, "--sample=none", "-s", "false", "-s=none",
				       "--sample", "none", "a", NULL),
			 0);
	assert_int_equal(n_words - first, 1);
	assert_string_equal(words[first], "a");
}

/* Parses the words, which end with NULL, into `out`; returns the index of the first operand. */
static int parse_tolerantly(struct tolerant_values *out, ...)
{
	va_list ap;
	char *word;
	int operand = -1;

	memset(out, 0, sizeof(*out));
	n_words = 0;
	va_start(ap, out);
	while ((word = va_arg(ap, char *)) && n_words < MAX_WORDS)
		words[n_words++] = word;
	va_end(ap);
	assert_int_equal(ws_opts_parse(&tolerant, n_words, words, out, &operand, &err), 0);
	return operand;
}

static void what_is_not_supported_is_left_out(void **state)
{
	struct tolerant_values got;

	(void)state;
	first = parse_tolerantly(&got, "-c", "cudaProfilerApi", "--range-end=stop", "--isr", "app",
				 NULL);
	assert_string_equal(words[first], "app");
	assert_int_equal(got.left_out.sentences.count, 2);
	assert_string_equal(got.left_out.sentences.values[0], "--range, --range-end: no ranges");
	assert_string_equal(got.left_out.sentences.values[1], "--isr: no interrupts");
	assert_string_equal(got.left_out.consequence, "All is there.");
	ws_opts_free(&tolerant, &got);
	first = parse_tolerantly(&got, "-c", "none", "--isr", "false", "--isr=false", "app", NULL);
	assert_string_equal(words[first], "app");
	assert_int_equal(got.left_out.sentences.count, 0);
	assert_null(got.left_out.consequence);
	ws_opts_free(&tolerant, &got);
}

static void words_that_come_later_are_replaced_or_left_out(void **state)
{
	struct tolerant_values got;

	(void)state;
	parse_tolerantly(&got, "-t", "cudnn,osrt,mpi,cublas", "--wait=some", NULL);
	assert_string_equal(got.trace, "cuda,osrt,cuda");
	assert_string_equal(got.wait, "primary");
	assert_int_equal(got.left_out.sentences.count, 2);
	assert_string_equal(got.left_out.sentences.values[0],
			    "--trace=cudnn, --trace=cublas: not built yet; cuda is used instead");
	assert_string_equal(got.left_out.sentences.values[1],
			    "--trace=mpi, --wait=some: not built yet, left out");
	ws_opts_free(&tolerant, &got);
	parse_tolerantly(&got, "-t", "cuda-sw", "--wait=everybody", NULL);
	assert_string_equal(got.trace, "cuda");
	assert_string_equal(got.wait, "all");
	assert_int_equal(got.left_out.sentences.count, 0);
	ws_opts_free(&tolerant, &got);
	parse_tolerantly(&got, "-t", "mpi", NULL);
	assert_string_equal(got.trace, "");
	ws_opts_free(&tolerant, &got);
}

static void other_spellings_mean_the_same(void **state)
{
	struct tolerant_values got;

	(void)state;
	first = parse_tolerantly(&got, "--stop-on-range-end", "true", "--keep", "--directory", "a",
				 "--directory=b", "app", NULL);
	assert_string_equal(words[first], "app");
	assert_string_equal(got.left_out.sentences.values[0], "--range-end: no ranges");
	assert_false(got.force);
	assert_int_equal(got.folders.count, 2);
	assert_string_equal(got.folders.values[1], "b");
	ws_opts_free(&tolerant, &got);
	first = parse_tolerantly(&got, "--stop-on-range-end", "false", "--keep=false", "true",
				 NULL);
	assert_string_equal(words[first], "true");
	assert_int_equal(got.left_out.sentences.count, 0);
	assert_true(got.force);
	ws_opts_free(&tolerant, &got);
}

static void help_is_recognised(void **state)
{
	(void)state;
	assert_int_equal(parse_options(&permuting, "--help", NULL), 1);
	assert_int_equal(parse_options(&permuting, "-qh", NULL), 1);
	assert_int_equal(parse_options(&permuting, "a", "-h", NULL), 1);
	assert_int_equal(parse_options(&stopping, "app", "-h", NULL), 0);
	assert_int_equal(parse_options(&permuting, "--", "-h", NULL), 0);
}

static void help_shows_every_option(void **state)
{
	struct ws_text out = {0};

	(void)state;
	ws_add_command_help(
		&out,
		&(struct ws_command){
			.name = "try", .summary = "Try.", .usage = "[options]", .opts = options},
		200);
	assert_non_null(strstr(out.text, "\n  -f, --force[=true|false]"));
	assert_non_null(strstr(out.text,
			       "\n      --wait=WHO              Whom to wait for. One of: "
			       "primary, all. Default: all.\n"));
	assert_non_null(strstr(out.text, "Any of, with commas between: nvtx, osrt, none."));
	assert_non_null(strstr(out.text, "May be given several times."));
	assert_non_null(strstr(
		out.text, "Known, and refused with a word on what to use instead:\n  --sample\n"));
	ws_text_free(&out);
}

static void paragraphs_wrap(void **state)
{
	struct ws_text out = {0};

	(void)state;
	ws_add_wrapped(&out, "one two three\n\n  kept  as it is\nfour", 0, 2, 9);
	assert_string_equal(out.text, "one two\n  three\n\n    kept  as it is\n  four\n");
	ws_text_free(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults_apply),
		cmocka_unit_test(values_in_all_spellings),
		cmocka_unit_test(a_bool_takes_only_true_or_false),
		cmocka_unit_test(operands_come_last),
		cmocka_unit_test(the_application_keeps_its_options),
		cmocka_unit_test(numbers_and_times),
		cmocka_unit_test(the_last_one_wins_and_lists_collect),
		cmocka_unit_test(words_of_enums_and_sets),
		cmocka_unit_test(mistakes_are_named),
		cmocka_unit_test(what_is_not_there_may_be_declined),
		cmocka_unit_test(what_is_not_supported_is_left_out),
		cmocka_unit_test(words_that_come_later_are_replaced_or_left_out),
		cmocka_unit_test(other_spellings_mean_the_same),
		cmocka_unit_test(help_is_recognised),
		cmocka_unit_test(help_shows_every_option),
		cmocka_unit_test(paragraphs_wrap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
