/* test_pattern.c - users' regular expressions: what is refused, and what the others find. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "text/pattern.h"

static void test_size(void **ctx)
{
	static const struct {
		const char *text;
		size_t size;
	} cases[] = {
		{"abc", 3},	    {"a{3}", 4},	 {"a\\{3\\}", 4}, {"(ab){2,5}x", 21},
		{"[]{9}]{2}", 3},   {"[[:alpha:]]*", 1}, {"a|b+?", 3},	  {"(a)\\1", SIZE_MAX},
		{"[[.].]{5}]x", 2}, {"a{2}{3}", 12},
	};

	(void)ctx;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		if (ws_measure_pattern(cases[i].text, true) != cases[i].size)
			print_error("%s\n", cases[i].text);
		assert_int_equal(ws_measure_pattern(cases[i].text, true), cases[i].size);
	}
	assert_int_equal(ws_measure_pattern("a\\{3\\}", false), 4);
	assert_int_equal(ws_measure_pattern("\\(ab\\)\\{2,5\\}x", false), 21);
}

/* Eight gigabytes and minutes, if they were compiled or matched. */
static void test_refused(void **ctx)
{
	static const char *const large[] = {
		"((((((a{1,255}){1,255}){1,255}){1,255}){1,255}){1,255})",
		"a{1,255}{1,255}{1,255}",
		"(a|b)*a(a|b){32767}",
		"((a{200}b){200})*",
	};
	char deep[4001] = {0};
	struct ws_pattern pattern;
	struct ws_err err;

	(void)ctx;
	for (size_t i = 0; i < sizeof(large) / sizeof(*large); i++) {
		assert_int_equal(ws_compile_pattern(&pattern, large[i], REG_EXTENDED, &err), -1);
		assert_non_null(strstr(err.msg, "too large"));
	}
	memset(deep, '(', 2000);
	memset(deep + 2000, ')', 2000);
	assert_int_equal(ws_compile_pattern(&pattern, deep, REG_EXTENDED, &err), -1);
	assert_int_equal(ws_compile_pattern(&pattern, "(a*)*\\1", REG_EXTENDED, &err), -1);
	assert_non_null(strstr(err.msg, "back-references"));
	assert_int_equal(ws_compile_pattern(&pattern, "(a", REG_EXTENDED, &err), -1);
}

static const char *const texts[] = {
	"",
	"a",
	"abc",
	"xABCx",
	"cudaLaunchKernel_v7000",
	"line\nof two",
	"a.b",
	"ab\\c",
	"aaaa",
	"operation 12",
	"void gemm<float, 4>(int)",
	"\xff\xfe"
	"abc",
};

static void compare_pattern(const char *text, int flags)
{
	struct ws_pattern pattern;
	regex_t plain;
	struct ws_err err;

	assert_int_equal(regcomp(&plain, text, flags | REG_NOSUB), 0);
	if (ws_compile_pattern(&pattern, text, flags, &err) < 0)
		fail_msg("%s: %s", text, err.msg);
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		bool want = !regexec(&plain, texts[i], 0, NULL, 0);

		if (ws_match_pattern(&pattern, texts[i]) != want)
			fail_msg("%s in %s: should be %d", text, texts[i], want);
	}
	ws_free_pattern(&pattern);
	regfree(&plain);
}

/* The C library's own answers. */
static void test_found(void **ctx)
{
	static const char *const extended[] = {
		"a",	      "^a",	"a$",	      "^a$",	 "b|^x",
		"(a|c)$",     "a{2,3}", "a{5}",	      "^$",	 "[[:digit:]]{2}",
		"\\(int\\)$", "o.t",	"abc|KERNEL", "\\.",	 "\\\\",
		"(^|x)abc",   "x*",	"a?b",	      "<[^>]*>",
	};
	static const char *const basic[] = {"a", "^a", "a\\{2\\}", "^\\(a\\|x\\)", "a+", "c$"};

	(void)ctx;
	for (size_t i = 0; i < sizeof(extended) / sizeof(*extended); i++) {
		compare_pattern(extended[i], REG_EXTENDED);
		compare_pattern(extended[i], REG_EXTENDED | REG_ICASE);
	}
	for (size_t i = 0; i < sizeof(basic) / sizeof(*basic); i++)
		compare_pattern(basic[i], REG_ICASE);
}

/* The hardest that is let through takes memory that stays the same from text to text. */
static void test_memory(void **ctx)
{
	struct rusage before, after;
	struct ws_pattern pattern;
	struct ws_err err;
	char text[2001];

	(void)ctx;
	srand(1);
	getrusage(RUSAGE_SELF, &before);
	assert_int_equal(ws_compile_pattern(&pattern, "(a|b)*a(a|b){100}c", REG_EXTENDED, &err), 0);
	for (int k = 0; k < 20; k++) {
		for (size_t i = 0; i < sizeof(text) - 1; i++)
			text[i] = "ab"[rand() & 1];
		text[sizeof(text) - 1] = 0;
		assert_false(ws_match_pattern(&pattern, text));
	}
	strcpy(text + 500, "c");
	assert_int_equal(ws_match_pattern(&pattern, text), text[500 - 101] == 'a');
	ws_free_pattern(&pattern);
	getrusage(RUSAGE_SELF, &after);
	if (getenv("WS_TEST_SANITIZE")) /* which keeps what was freed */
		return;
	assert_in_range(after.ru_maxrss - before.ru_maxrss, 0, 200 << 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_size),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_found),
		cmocka_unit_test(test_memory),
	};

	return cmocka_run_group_tests_name("pattern", tests, NULL, NULL);
}
