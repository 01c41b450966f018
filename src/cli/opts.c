/*
 * opts.c - the option parser: one pass over the words, driven by a command's table.
 *
 * Not getopt_long: that prints by itself, knows no optional booleans in the next word, no lists, no
 * suggestions, and would need its own tables made from ours. A word is an option, the value of one,
 * or an operand; options are moved before operands, each kind in its order, so that a caller sees
 * operands in one piece. With stop_at_operand (profile) the first operand ends the options, for all
 * that follows belongs to the application.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/choose.h"
#include "cli/cli.h"
#include "cli/text.h"

struct parse {
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

size_t ws_word_next(const char **list, const char **word, bool *later)
{
	const char *text = *list;
	size_t n;

	if (*text == ',' || *text == '|') {
		*later |= *text == '|';
		text++;
	}
	n = strcspn(text, ",|");
	*word = text;
	*list = text + n;
	return n;
}

/* The values of an ENUM or SET as a sentence part: "a, b, c". */
static void list_values(struct ws_text *text, const char *values)
{
	const char *word;
	bool later = false;
	size_t n;

	while ((n = ws_word_next(&values, &word, &later)) && !later) {
		ws_text_puts(text, text->len ? ", " : "");
		ws_text_add(text, word, n);
	}
}

/* Is this one of the words that the option takes? */
static int check_word(const struct ws_opt *option, const char *text, size_t len, struct ws_err *err)
{
	struct ws_text all = {0};
	char *given = ws_strndup(text, len);
	struct ws_nearest near = {.word = given};
	const char *list = option->values, *word;
	bool later = false;
	size_t n;
	int rc = -1;

	list_values(&all, option->values);
	while ((n = ws_word_next(&list, &word, &later))) {
		if (n == len && !memcmp(word, text, n)) {
			rc = later ? ws_fail(err, "--%s: '%s' is not built yet; choose from %s",
					     option->name, given, all.text)
				   : 0;
			goto out;
		}
		ws_nearest_try(&near, word, n);
	}
	if (ws_nearest_found(&near))
		ws_fail(err, "--%s: '%s' is not one of %s; did you mean %.*s?", option->name, given,
			all.text, (int)near.best_len, near.best);
	else
		ws_fail(err, "--%s: '%s' is not one of %s", option->name, given, all.text);
out:
	ws_text_free(&all);
	free(given);
	return rc;
}

/* Is it a word that asks an option which is not there for nothing? */
static bool is_nothing(const struct ws_opt *option, const char *text)
{
	const char *list = option->values, *word;
	bool later = false;
	size_t n;

	while (text && list && (n = ws_word_next(&list, &word, &later)))
		if (!strncmp(word, text, n) && !text[n])
			return true;
	return false;
}

static int check_set(const struct ws_opt *option, const char *text, struct ws_err *err)
{
	for (;;) {
		size_t n = strcspn(text, ",");

		if (check_word(option, text, n, err))
			return -1;
		if (!text[n])
			return 0;
		text += n + 1;
	}
}

static int read_bool(const struct ws_opt *option, const char *text, bool *v, struct ws_err *err)
{
	static const char *const words[][2] = {
		{"false", "true"}, {"no", "yes"}, {"off", "on"}, {"0", "1"}};

	for (size_t i = 0; i < WS_COUNT(words); i++)
		for (int k = 0; k < 2; k++)
			if (!strcmp(text, words[i][k])) {
				*v = k;
				return 0;
			}
	return ws_fail(err, "--%s: '%s' is neither true nor false", option->name, text);
}

static int read_int(const struct ws_opt *option, const char *text, int64_t *v, struct ws_err *err)
{
	char *end;

	errno = 0;
	*v = strtoll(text, &end, 10);
	if (end == text || *end || strchr(" \t\n\v\f\r", *text))
		return ws_fail(err, "--%s: '%s' is not a whole number", option->name, text);
	if (errno == ERANGE)
		return ws_fail(err, "--%s: '%s' is out of range", option->name, text);
	return 0;
}

static bool digit(char letter)
{
	return letter >= '0' && letter <= '9';
}

static int read_seconds(const struct ws_opt *option, const char *text, double *v,
			struct ws_err *err)
{
	static const struct {
		const char *name;
		double seconds;
	} units[] = {{"", 1},	   {"s", 1},  {"ms", 1e-3}, {"us", 1e-6},
		     {"ns", 1e-9}, {"m", 60}, {"min", 60},  {"h", 3600}};
	char *end;
	double d;

	/* strtod would also take hexadecimal, nan and inf, which nobody means here. */
	if (!digit(text[0] == '.' ? text[1] : text[0]) || (text[0] == '0' && (text[1] | 32) == 'x'))
		goto bad;
	d = strtod(text, &end);
	for (size_t i = 0; i < WS_COUNT(units); i++)
		if (!strcmp(end, units[i].name) && isfinite(d)) {
			*v = d * units[i].seconds;
			return 0;
		}
bad:
	return ws_fail(err,
		       "--%s: '%s' is not a time; write seconds, or a number with ns, us, ms, s, m "
		       "or h, such as 1.5 or 500ms",
		       option->name, text);
}

static void append(struct ws_list *list, const char *text)
{
	ws_grow(list->v, list->cap, list->n + 1);
	list->v[list->n++] = text;
}

/* Store the text of a value; s is NULL for a bare FLAG or BOOL. */
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
		append((struct ws_list *)at, text);
		return 0;
	case WS_OPT_STRING:
		break;
	case WS_OPT_LATER:
		return is_nothing(option, text)
			       ? 0
			       : ws_fail(err, "--%s: %s", option->name, option->help);
	}
	*(const char **)at = text;
	return 0;
}

static bool is_flag(const struct ws_opt *option)
{
	return option->kind == WS_OPT_FLAG || option->kind == WS_OPT_BOOL ||
	       option->kind == WS_OPT_MAYBE || option->kind == WS_OPT_LATER;
}

static bool true_or_false(const char *text)
{
	return text && (!strcmp(text, "true") || !strcmp(text, "false"));
}

static const char *next_word(const struct parse *parse)
{
	return parse->at + 1 < parse->argc ? parse->argv[parse->at + 1] : NULL;
}

/* A value in the next word. Another option there is more likely a forgotten value than a value that
 * looks like an option. */
static int value_from_next(struct parse *parse, const struct ws_opt *option, const char **value)
{
	const char *text = next_word(parse);

	if (!text)
		return ws_fail(parse->err, "--%s needs a value (%s)", option->name,
			       ws_text_or(option->arg, "VALUE"));
	if (!strncmp(text, "--", 2) &&
	    (!text[2] || find_long(parse->command, text + 2, strcspn(text + 2, "="))))
		return ws_fail(parse->err,
			       "--%s needs a value (%s), but %s follows; if that is the value, "
			       "write --%s=%s",
			       option->name, ws_text_or(option->arg, "VALUE"), text, option->name,
			       text);
	parse->at++;
	*value = text;
	return 0;
}

/* The option stands alone: find its value, if it takes one, in the next word. */
static int take_bare(struct parse *parse, const struct ws_opt *option)
{
	const char *value = NULL;

	if ((option->kind == WS_OPT_BOOL && true_or_false(next_word(parse))) ||
	    (option->kind == WS_OPT_LATER && is_nothing(option, next_word(parse))))
		value = parse->argv[++parse->at];
	else if (!is_flag(option) && value_from_next(parse, option, &value))
		return -1;
	return set_value(option, value, parse->values, parse->err);
}

static int unknown_long(const struct parse *parse, const char *word, size_t len)
{
	char *name = ws_strndup(word, len);
	struct ws_nearest near = {.word = name};

	for (const struct ws_opt *option = parse->command->opts; option && option->name; option++)
		ws_nearest_try(&near, option->name, strlen(option->name));
	ws_nearest_try(&near, "help", 4);
	if (ws_nearest_found(&near))
		ws_fail(parse->err, "unknown option --%s; did you mean --%s?", name, near.best);
	else
		ws_fail(parse->err, "unknown option --%s; 'warpsight %s --help' lists them", name,
			parse->command->name);
	free(name);
	return -1;
}

static int take_long(struct parse *parse, const char *word)
{
	size_t len = strcspn(word, "=");
	const struct ws_opt *option = find_long(parse->command, word, len);

	if (!option)
		return len == 4 && !memcmp(word, "help", 4) ? 1 : unknown_long(parse, word, len);
	if (!word[len])
		return take_bare(parse, option);
	if (option->kind == WS_OPT_FLAG)
		return ws_fail(parse->err, "--%s takes no value", option->name);
	return set_value(option, word + len + 1, parse->values, parse->err);
}

/* "-w", "-wf", "-ofile", "-o=file", "-f true", "-ftrue". */
static int take_short(struct parse *parse, const char *word)
{
	for (const char *text = word; *text; text++) {
		const struct ws_opt *option = find_short(parse->command, *text);
		const char *rest = text + 1;
		int rc;

		if (!option)
			return *text == 'h' ? 1
					    : ws_fail(parse->err,
						      "unknown option -%c; 'warpsight %s --help' "
						      "lists them",
						      *text, parse->command->name);
		if (!*rest)
			return take_bare(parse, option);
		if (*rest == '=' && option->kind == WS_OPT_FLAG)
			return ws_fail(parse->err, "--%s takes no value", option->name);
		if (*rest == '=')
			return set_value(option, rest + 1, parse->values, parse->err);
		if (!is_flag(option) || (option->kind == WS_OPT_BOOL && true_or_false(rest)))
			return set_value(option, rest, parse->values, parse->err);
		rc = set_value(option, NULL, parse->values, parse->err);
		if (rc)
			return rc;
	}
	return 0;
}

static int set_defaults(const struct parse *parse)
{
	for (const struct ws_opt *option = parse->command->opts; option && option->name; option++)
		if (option->fallback && option->kind != WS_OPT_LATER &&
		    set_value(option, option->fallback, parse->values, parse->err))
			return -1;
	return 0;
}

/* Walk the words; option words are collected in `first`, operands in `last`. */
static int walk(struct parse *parse, char **first, int *firsts, char **last, int *lasts)
{
	for (; parse->at < parse->argc; parse->at++) {
		char *word = parse->argv[parse->at];
		int start = parse->at, rc;

		if (word[0] != '-' || !word[1]) {
			last[(*lasts)++] = word;
			if (!parse->command->stop_at_operand)
				continue;
			parse->at++;
			break;
		}
		if (!strcmp(word, "--")) {
			first[(*firsts)++] = parse->argv[parse->at++];
			break;
		}
		rc = word[1] == '-' ? take_long(parse, word + 2) : take_short(parse, word + 1);
		if (rc)
			return rc;
		for (int i = start; i <= parse->at; i++)
			first[(*firsts)++] = parse->argv[i];
	}
	while (parse->at < parse->argc)
		last[(*lasts)++] = parse->argv[parse->at++];
	return 0;
}

int ws_opts_parse(const struct ws_command *command, int argc, char **argv, void *values,
		  int *operands, struct ws_err *err)
{
	struct parse parse = {
		.command = command, .argv = argv, .argc = argc, .values = values, .err = err};
	char **first = ws_calloc((size_t)argc + 1, sizeof(*first)),
	     **last = ws_calloc((size_t)argc + 1, sizeof(*last));
	int firsts = 0, lasts = 0, rc = set_defaults(&parse);

	if (!rc)
		rc = walk(&parse, first, &firsts, last, &lasts);
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
			free(((struct ws_list *)((char *)values + option->offset))->v);
}
