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

static size_t count_options(const struct ws_command *command)
{
	size_t n = 0;

	while (command->opts && command->opts[n].name)
		n++;
	return n;
}

static void add_byte(struct ws_text *text, const struct ws_command *command, uint8_t byte)
{
	size_t options = count_options(command), at = byte - 128u;

	if (byte < 128)
		ws_text_add(text, &byte, 1);
	else if (at < options)
		ws_text_printf(text, "--%s", command->opts[at].name);
	else
		ws_text_puts(text, pieces[(at - options) % WS_COUNT(pieces)]);
}

/* The values' own parsers, with each word. */
static void try_values(const char *const *words, size_t n)
{
	struct ws_export_choice choice = {.tables = words, .table_count = n};
	struct ws_format_args args;
	struct ws_err err = {""};

	if (ws_check_choice(&choice, &err) < 0 && !*err.msg)
		abort();
	choice.times = words;
	choice.time_count = n;
	choice.table_count = 0;
	err.msg[0] = 0;
	if (ws_check_choice(&choice, &err) < 0 && !*err.msg)
		abort();
	for (size_t i = 0; i < n; i++) {
		err.msg[0] = 0;
		if (ws_check_time_filter(words[i], &err) < 0 && !*err.msg)
			abort();
		err.msg[0] = 0;
		if (!ws_find_format(words[i], &args, &err) && !*err.msg)
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	const struct ws_command *command;
	struct ws_text word[MOST_WORDS] = {{0}};
	char *argv[MOST_WORDS + 1] = {NULL};
	size_t commands = 0, words = 0;
	struct ws_err err = {""};
	void *values;
	int operands;

	if (n < 2 || n > 1024)
		return 0;
	while (ws_commands[commands])
		commands++;
	command = ws_commands[data[0] % commands];
	for (size_t i = 1; i < n && words < MOST_WORDS; i++)
		if (data[i])
			add_byte(&word[words], command, data[i]);
		else
			words++;
	for (size_t i = 0; i < words; i++) {
		ws_text_add(&word[i], "", 1);
		argv[i] = word[i].text;
	}
	try_values((const char *const *)argv, words);
	if (command->opts) {
		values = ws_calloc(1, command->opts_size + 1);
		if (ws_opts_parse(command, (int)words, argv, values, &operands, &err) < 0 &&
		    !*err.msg)
			abort();
		ws_opts_free(command, values);
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
