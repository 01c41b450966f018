/*
 * fuzz_options.c - command lines of any words: options of every command, and the small languages of
 * their values (times, patterns, filters, formats). What is refused must be refused with a message,
 * and nothing may crash.
 *
 * An input's first byte chooses a command; the rest are words, each ended by a NUL, in which bytes
 * from 128 on stand for the names of that command's options and for pieces of values.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/cli.h"
#include "views/choose.h"
#include "stats/filter.h"
#include "print/table.h"
#include "../replay.h"

enum { MOST_WORDS = 24 };

static const char *const pieces[] = {"true",
				     "false",
				     "=",
				     ",",
				     "/",
				     ":",
				     "1s500ms",
				     "10ms",
				     "1e999",
				     "-1",
				     "nan",
				     "0x10",
				     "%p",
				     "%q{",
				     "^CUPTI",
				     "\\(",
				     "[",
				     "*",
				     "9223372036854775808",
				     "csv",
				     "column:nohdr",
				     "@gzip -c",
				     "'",
				     "name@domain/3",
				     "--",
				     "-",
				     "START"};

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc, (void)argv;
	return 0;
}

static size_t count_options(const struct ws_command *c)
{
	size_t n = 0;

	while (c->opts && c->opts[n].name)
		n++;
	return n;
}

static void add_byte(struct ws_text *t, const struct ws_command *c, uint8_t byte)
{
	size_t options = count_options(c), at = byte - 128u;

	if (byte < 128)
		ws_text_add(t, &byte, 1);
	else if (at < options)
		ws_text_printf(t, "--%s", c->opts[at].name);
	else
		ws_text_puts(t, pieces[(at - options) % WS_COUNT(pieces)]);
}

/* The values' own parsers, with each word. */
static void try_values(const char *const *words, size_t n)
{
	struct ws_choice q = {.tables = words, .table_count = n};
	struct ws_format_args args;
	struct ws_err e = {""};

	if (ws_choose_check(&q, &e) < 0 && !*e.msg)
		abort();
	q.times = words;
	q.time_count = n;
	q.table_count = 0;
	e.msg[0] = 0;
	if (ws_choose_check(&q, &e) < 0 && !*e.msg)
		abort();
	for (size_t i = 0; i < n; i++) {
		e.msg[0] = 0;
		if (ws_filter_time_check(words[i], &e) < 0 && !*e.msg)
			abort();
		e.msg[0] = 0;
		if (!ws_format_find(words[i], &args, &e) && !*e.msg)
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	const struct ws_command *c;
	struct ws_text word[MOST_WORDS] = {{0}};
	char *argv[MOST_WORDS + 1] = {NULL};
	size_t commands = 0, words = 0;
	struct ws_err e = {""};
	void *values;
	int operands;

	if (n < 2 || n > 1024)
		return 0;
	while (ws_commands[commands])
		commands++;
	c = ws_commands[data[0] % commands];
	for (size_t i = 1; i < n && words < MOST_WORDS; i++)
		if (data[i])
			add_byte(&word[words], c, data[i]);
		else
			words++;
	for (size_t i = 0; i < words; i++) {
		ws_text_add(&word[i], "", 1);
		argv[i] = word[i].s;
	}
	try_values((const char *const *)argv, words);
	if (c->opts) {
		values = ws_calloc(1, c->opts_size + 1);
		if (ws_opts_parse(c, (int)words, argv, values, &operands, &e) < 0 && !*e.msg)
			abort();
		ws_opts_free(c, values);
		free(values);
	}
	for (size_t i = 0; i < MOST_WORDS; i++)
		ws_text_free(&word[i]);
	return 0;
}

#ifdef FUZZ_REPLAY
static size_t make_input(uint8_t *bytes, int round)
{
	size_t n = 2 + replay_draw() % 46;

	(void)round;
	for (size_t at = 0; at < n; at++)
		bytes[at] = (uint8_t)(replay_draw() % 5	  ? replay_draw() | 128
				      : replay_draw() % 3 ? 0
							  : replay_draw() & 127);
	return n;
}

int main(int argc, char **argv)
{
	return replay_test(argc, argv, 20000, make_input);
}
#endif
