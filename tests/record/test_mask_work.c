/*
 * test_mask_work.c - looking for secrets in one long word takes work that grows with its length and
 * not with its square: the target waits meanwhile.
 *
 * mask.c and mask_tokens.c are compiled with calls at each basic block
 * (-fsanitize-coverage=trace-pc), and what they ask of the C library is counted by bytes, so that
 * work is counted and no time is measured.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "text/mask.h"

#define SHORT_WORD (4u << 10)
#define LONG_WORD (16u << 10)

static uint64_t work;

void __sanitizer_cov_trace_pc(void);
void __sanitizer_cov_trace_pc(void)
{
	work++;
}

void *__real_memchr(const void *text, int letter, size_t length);
void *__real_memmem(const void *text, size_t length, const void *part, size_t part_length);
void *__real_memset(void *to, int value, size_t length);
void *__wrap_memchr(const void *text, int letter, size_t length);
void *__wrap_memmem(const void *text, size_t length, const void *part, size_t part_length);
void *__wrap_memset(void *to, int value, size_t length);

void *__wrap_memchr(const void *text, int letter, size_t length)
{
	const char *found = __real_memchr(text, letter, length);

	work += found ? (size_t)(found - (const char *)text) : length;
	return (void *)(uintptr_t)found;
}

void *__wrap_memmem(const void *text, size_t length, const void *part, size_t part_length)
{
	const char *found = __real_memmem(text, length, part, part_length);

	work += found ? (size_t)(found - (const char *)text) : length;
	return (void *)(uintptr_t)found;
}

void *__wrap_memset(void *to, int value, size_t length)
{
	work += length;
	return __real_memset(to, value, length);
}

/* Work for a command with one word of `length` bytes that repeats `piece` behind `begin`. */
static uint64_t measure_work(const char *begin, const char *piece, size_t length)
{
	struct ws_text words = {0}, out = {0};

	ws_text_add(&words, "x", 2);
	ws_text_puts(&words, begin);
	while (words.len < length)
		ws_text_puts(&words, piece);
	ws_text_add(&words, "", 1);
	work = 0;
	ws_mask_words(&out, words.text, words.len);
	ws_text_free(&out);
	ws_text_free(&words);
	return work;
}

static void check_growth(const char *begin, const char *piece)
{
	uint64_t of_short = measure_work(begin, piece, SHORT_WORD),
		 of_long = measure_work(begin, piece, LONG_WORD);

	if (of_long > of_short * (LONG_WORD / SHORT_WORD) * 3 / 2)
		fail_msg("\"%s%s...\": work %llu for %u bytes, %llu for %u", begin, piece,
			 (unsigned long long)of_short, SHORT_WORD, (unsigned long long)of_long,
			 LONG_WORD);
	assert_true(of_short > SHORT_WORD / 2); /* it is counted */
}

static void work_grows_with_length(void **state)
{
	static const char *const pieces[] = {
		"token=x,",
		"token=\\",
		"token: x ",
		"token=\"x\" ",
		"\"token\": \"x\",",
		"token=\"",
		"token='x\" ",
		"--key secret=",
		"://",
		"http://a@b",
		"x://a:b@c/",
		"https://",
		"https://a:@",
		"?key=x&sig=",
		"sk-",
		"sk-a1",
		"sk-learn-",
		"-eyJ",
		"-eyJ1.SG.1",
		"ghp_1",
		"Bearer ",
		"Basic a1b2c3d4 ",
		"-----BEGIN RSA ",
		"-----BEGIN PRIVATE KEY ",
		" ",
		"a ",
		"-p x ",
		"--password x ",
		"'",
		"\"a b\" ",
		"'a \"b c\" d' ",
		"a\\\"",
		";",
		"a:",
		"a=",
		"API_KEY_KEY_",
		"-",
		"@",
		"/",
		"\xff",
		"a:b@c ",
		"a:@",
		"identified by 'x' ",
		"password (",
		"password=(",
		"token='x'\"y\"",
		"token: str = 'x' ",
		"['token'] = ",
		"<token>x",
		"echo x ; sudo -S ",
	};
	static const char *const begins[] = {"", "--password=", "a "};

	(void)state;
	for (size_t i = 0; i < WS_COUNT(pieces); i++)
		for (size_t k = 0; k < WS_COUNT(begins); k++)
			check_growth(begins[k], pieces[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(work_grows_with_length)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
