/*
 * opts.c - the option parser: one pass over the words, driven by a command's table.
 *
 * Not getopt_long: that prints messages itself, knows no optional booleans in the next word, no
 * lists and no suggestions, and would need its own tables made from ours. A word is an option, the
 * value of one, or an operand; options are moved before operands, each kind in its order, so that a
 * caller gets the operands in one piece. With stop_at_operand (profile) the first operand ends the
 * options, since everything after it belongs to the application.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/choose.h"
#include "cli/cli.h"
#include "cli/text.h"

struct parser {
	const struct ws_command *command;
	char **argv;
	int argc, at; /* at: the word in hand; values in the next word move it on */
	char *values;
	struct ws_err *err;
};

static const struct ws_opt *find_long(const struct ws_command *command, const char *name,
				      size_t len)
{
	for (const struct ws_opt *option = command->opts; option && option->name; option++)
		if (strlen(option->name) == len && !memcmp(option->name, name, len))
			return option;
	return NULL;
}

static const struct ws_opt *find_short(const struct ws_command *command, char name)
{
	for (const struct ws_opt *option = command->opts; option && option->name; option++)
		if (option->short_name == name)
			return option;
	return NULL;
}

size_t ws_next_word(const char **list, const char **word, bool *later)
{
	const char *text = *list;
	size_t length;

	if (*text == ',' || *text == '|') {
		*later |= *text == '|';
		text++;
	}
	length = strcspn(text, ",|");
	*word = text;
	*list = text + length;
	return length;
}

/* The values of an ENUM or SET as a sentence part: "a, b, c". */
static void list_values(struct ws_text *text, const char *values)
{
	const char *word;
	bool later = false;
	size_t length;

	while ((length = ws_next_word(&values, &word, &later)) && !later) {
		if (text->len)
			ws_text_puts(text, ", ");
		ws_text_add(text, word, length);
	}
}

/* Checks that this is one of the words that the option accepts; -1 with a message otherwise. */
static int check_word(const struct ws_opt *option, const char *text, size_t len, struct ws_err *err)
{
	struct ws_text all = {0};
	char *given = ws_strndup(text, len);
	struct ws_nearest near = {.word = given};
	const char *list = option->values, *word;
	bool later = false;
	size_t length;
	int rc = -1;

	list_values(&all, option->values);
	while ((length = ws_next_word(&list, &word, &later))) {
		if (length == len && !memcmp(word, text, length)) {
			rc = 0;
			if (later)
				rc = ws_fail(err, "--%s: '%s' is not built yet; choose from %s",
					     option->name, given, all.text);
			goto out;
		}
		ws_try_name(&near, word, length);
	}
	if (ws_has_near_name(&near))
		ws_fail(err, "--%s: '%s' is not one of %s; did you mean %.*s?", option->name, given,
			all.text, (int)near.best_len, near.best);
	else
		ws_fail(err, "--%s: '%s' is not one of %s", option->name, given, all.text);
out:
	ws_text_free(&all);
	free(given);
	return rc;
}

/* Whether it is a word that asks for nothing, for an option that is not supported. */
static bool asks_for_nothing(const struct ws_opt *option, const char *text)
{
	const char *list = option->values, *word;
	bool later = false;
	size_t length;

	while (text && list && (length = ws_next_word(&list, &word, &later)))
		if (!strncmp(word, text, length) && !text[length])
			return true;
	return false;
}

static int check_set(const struct ws_opt *option, const char *text, struct ws_err *err)
{
	for (;;) {
		size_t length = strcspn(text, ",");

		if (check_word(option, text, length, err))
			return -1;
		if (!text[length])
			return 0;
		text += length + 1;
	}
}

static int read_bool(const struct ws_opt *option, const char *text, bool *out, struct ws_err *err)
{
	static const char *const words[][2] = {
		{"false", "true"}, {"no", "yes"}, {"off", "on"}, {"0", "1"}};

	for (size_t i = 0; i < WS_COUNT(words); i++)
		for (int value = 0; value < 2; value++)
			if (!strcmp(text, words[i][value])) {
				*out = value;
				return 0;
			}
	return ws_fail(err, "--%s: '%s' is neither true nor false", option->name, text);
}

static int read_int(const struct ws_opt *option, const char *text, int64_t *out, struct ws_err *err)
{
	char *end;

	errno = 0;
	*out = strtoll(text, &end, 10);
	if (end == text || *end || strchr(" \t\n\v\f\r", *text))
		return ws_fail(err, "--%s: '%s' is not a whole number", option->name, text);
	if (errno == ERANGE)
		return ws_fail(err, "--%s: '%s' is out of range", option->name, text);
	return 0;
}

static bool is_digit(char letter)
{
	return letter >= '0' && letter <= '9';
}

static int read_seconds(const struct ws_opt *option, const char *text, double *out,
			struct ws_err *err)
{
	static const struct {
		const char *name;
		double seconds;
	} units[] = {{"", 1},	   {"s", 1},  {"ms", 1e-3}, {"us", 1e-6},
		     {"ns", 1e-9}, {"m", 60}, {"min", 60},  {"h", 3600}};
	char *end;
	double number;

	/* strtod would also take hexadecimal, nan and inf, which nobody means here. */
	if (!is_digit(text[text[0] == '.']) || (text[0] == '0' && (text[1] | 32) == 'x'))
		goto bad;
	number = strtod(text, &end);
	for (size_t i = 0; i < WS_COUNT(units); i++)
		if (!strcmp(end, units[i].name) && isfinite(number)) {
			*out = number * units[i].seconds;
			return 0;
		}
bad:
	return ws_fail(err,
		       "--%s: '%s' is not a time; write seconds, or a number with ns, us, ms, s, m "
		       "or h, such as 1.5 or 500ms",
		       option->name, text);
}

static void append_value(struct ws_list *list, const char *text)
{
	ws_grow(list->values, list->cap, list->count + 1);
	list->values[list->count++] = text;
}

/* Stores the text of a value; `text` is NULL for a bare FLAG or BOOL. */
static int set_value(const struct ws_opt *option, const char *text, char *values,
		     struct ws_err *err)
{
	char *at = values + option->offset;

	switch (option->kind) {
	case WS_OPT_FLAG:
	case WS_OPT_BOOL:
		if (text)
			return read_bool(option, text, (bool *)at, err);
		*(bool *)at = true;
		return 0;
	case WS_OPT_MAYBE:
		text = ws_text_or(text, "");
		break;
	case WS_OPT_INT:
		return read_int(option, text, (int64_t *)at, err);
	case WS_OPT_SECONDS:
		return read_seconds(option, text, (double *)at, err);
	case WS_OPT_ENUM:
		if (check_word(option, text, strlen(text), err))
			return -1;
		break;
	case WS_OPT_SET:
		if (check_set(option, text, err))
			return -1;
		break;
	case WS_OPT_LIST:
		append_value((struct ws_list *)at, text);
		return 0;
	case WS_OPT_STRING:
		break;
	case WS_OPT_UNSUPPORTED:
		if (asks_for_nothing(option, text))
			return 0;
		return ws_fail(err, "--%s: %s", option->name, option->help);
	}
	*(const char **)at = text;
	return 0;
}

static bool is_flag(const struct ws_opt *option)
{
	return option->kind == WS_OPT_FLAG || option->kind == WS_OPT_BOOL ||
	       option->kind == WS_OPT_MAYBE || option->kind == WS_OPT_UNSUPPORTED;
}

static bool is_true_or_false(const char *text)
{
	return text && (!strcmp(text, "true") || !strcmp(text, "false"));
}

static const char *next_word(const struct parser *parser)
{
	if (parser->at + 1 >= parser->argc)
		return NULL;
	return parser->argv[parser->at + 1];
}

/* Takes the value from the next word. If that is another option, it is more likely that the value
 * was forgotten than that it looks like an option. */
static int value_from_next(struct parser *parser, const struct ws_opt *option, const char **value)
{
	const char *text = next_word(parser);

	if (!text)
		return ws_fail(parser->err, "--%s needs a value (%s)", option->name,
			       ws_text_or(option->arg, "VALUE"));
	if (!strncmp(text, "--", 2) &&
	    (!text[2] || find_long(parser->command, text + 2, strcspn(text + 2, "="))))
		return ws_fail(parser->err,
			       "--%s needs a value (%s), but %s follows; if that is the value, "
			       "write --%s=%s",
			       option->name, ws_text_or(option->arg, "VALUE"), text, option->name,
			       text);
	parser->at++;
	*value = text;
	return 0;
}

/* The option stands alone: find its value, if it takes one, in the next word. */
static int take_bare_option(struct parser *parser, const struct ws_opt *option)
{
	const char *value = NULL;

	if ((option->kind == WS_OPT_BOOL && is_true_or_false(next_word(parser))) ||
	    (option->kind == WS_OPT_UNSUPPORTED && asks_for_nothing(option, next_word(parser))))
		value = parser->argv[++parser->at];
	else if (!is_flag(option) && value_from_next(parser, option, &value))
		return -1;
	return set_value(option, value, parser->values, parser->err);
}

static int refuse_unknown_long(const struct parser *parser, const char *word, size_t len)
{
	char *name = ws_strndup(word, len);
	struct ws_nearest near = {.word = name};

	for (const struct ws_opt *option = parser->command->opts; option && option->name; option++)
		ws_try_name(&near, option->name, strlen(option->name));
	ws_try_name(&near, "help", 4);
	if (ws_has_near_name(&near))
		ws_fail(parser->err, "unknown option --%s; did you mean --%s?", name, near.best);
	else
		ws_fail(parser->err, "unknown option --%s; 'warpsight %s --help' lists them", name,
			parser->command->name);
	free(name);
	return -1;
}

static int take_long_option(struct parser *parser, const char *word)
{
	size_t len = strcspn(word, "=");
	const struct ws_opt *option = find_long(parser->command, word, len);

	if (!option && len == 4 && !memcmp(word, "help", 4))
		return 1;
	if (!option)
		return refuse_unknown_long(parser, word, len);
	if (!word[len])
		return take_bare_option(parser, option);
	if (option->kind == WS_OPT_FLAG)
		return ws_fail(parser->err, "--%s takes no value", option->name);
	return set_value(option, word + len + 1, parser->values, parser->err);
}

/* "-w", "-wf", "-ofile", "-o=file", "-f true", "-ftrue". */
static int take_short_option(struct parser *parser, const char *word)
{
	for (const char *text = word; *text; text++) {
		const struct ws_opt *option = find_short(parser->command, *text);
		const char *rest = text + 1;
		int rc;

		if (!option && *text == 'h')
			return 1;
		if (!option)
			return ws_fail(parser->err,
				       "unknown option -%c; 'warpsight %s --help' lists them",
				       *text, parser->command->name);
		if (!*rest)
			return take_bare_option(parser, option);
		if (*rest == '=' && option->kind == WS_OPT_FLAG)
			return ws_fail(parser->err, "--%s takes no value", option->name);
		if (*rest == '=')
			return set_value(option, rest + 1, parser->values, parser->err);
		if (!is_flag(option) || (option->kind == WS_OPT_BOOL && is_true_or_false(rest)))
			return set_value(option, rest, parser->values, parser->err);
		rc = set_value(option, NULL, parser->values, parser->err);
		if (rc)
			return rc;
	}
	return 0;
}

static int set_defaults(const struct parser *parser)
{
	for (const struct ws_opt *option = parser->command->opts; option && option->name; option++)
		if (option->fallback && option->kind != WS_OPT_UNSUPPORTED &&
		    set_value(option, option->fallback, parser->values, parser->err))
			return -1;
	return 0;
}

/* Goes through the words; option words are collected in `first`, operands in `last`. */
static int sort_words(struct parser *parser, char **first, int *firsts, char **last, int *lasts)
{
	for (; parser->at < parser->argc; parser->at++) {
		char *word = parser->argv[parser->at];
		int start = parser->at, rc;

		if (word[0] != '-' || !word[1]) {
			last[(*lasts)++] = word;
			if (!parser->command->stop_at_operand)
				continue;
			parser->at++;
			break;
		}
		if (!strcmp(word, "--")) {
			first[(*firsts)++] = parser->argv[parser->at++];
			break;
		}
		if (word[1] == '-')
			rc = take_long_option(parser, word + 2);
		else
			rc = take_short_option(parser, word + 1);
		if (rc)
			return rc;
		for (int i = start; i <= parser->at; i++)
			first[(*firsts)++] = parser->argv[i];
	}
	while (parser->at < parser->argc)
		last[(*lasts)++] = parser->argv[parser->at++];
	return 0;
}

int ws_opts_parse(const struct ws_command *command, int argc, char **argv, void *values,
		  int *operands, struct ws_err *err)
{
	struct parser parser = {
		.command = command, .argv = argv, .argc = argc, .values = values, .err = err};
	char **first = ws_calloc((size_t)argc + 1, sizeof(*first)),
	     **last = ws_calloc((size_t)argc + 1, sizeof(*last));
	int firsts = 0, lasts = 0, rc = set_defaults(&parser);

	if (!rc)
		rc = sort_words(&parser, first, &firsts, last, &lasts);
	if (!rc) {
		memcpy(argv, first, (size_t)firsts * sizeof(*argv));
		memcpy(argv + firsts, last, (size_t)lasts * sizeof(*argv));
		*operands = firsts;
	}
	free(first);
	free(last);
	return rc;
}

void ws_opts_free(const struct ws_command *command, void *values)
{
	for (const struct ws_opt *option = command->opts; option && option->name; option++)
		if (option->kind == WS_OPT_LIST)
			free(((struct ws_list *)((char *)values + option->offset))->values);
}
