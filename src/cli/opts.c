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

/* Of the whole table, whichever commands have it. */
static const struct ws_opt *find_in_table(const struct ws_opt *table, const char *name)
{
	for (const struct ws_opt *option = table; option && option->name; option++)
		if (!strcmp(option->name, name))
			return option;
	return NULL;
}

static bool has_option(const struct ws_command *command, const struct ws_opt *option)
{
	if (option->kind == WS_OPT_ALIAS)
		option = find_in_table(command->opts, option->help);
	return !command->part || (option && option->also & command->part);
}

const struct ws_opt *ws_next_opt(const struct ws_command *command, const struct ws_opt *previous)
{
	const struct ws_opt *option = command->opts;

	if (previous)
		option = previous + 1;
	while (option && option->name && !has_option(command, option))
		option++;
	return option && option->name ? option : NULL;
}

static const struct ws_opt *find_long(const struct ws_command *command, const char *name,
				      size_t len)
{
	for (const struct ws_opt *option = NULL; (option = ws_next_opt(command, option));)
		if (strlen(option->name) == len && !memcmp(option->name, name, len))
			return option;
	return NULL;
}

static const struct ws_opt *find_short(const struct ws_command *command, char name)
{
	for (const struct ws_opt *option = NULL; (option = ws_next_opt(command, option));)
		if (option->short_name == name)
			return option;
	return NULL;
}

size_t ws_next_word(const char **list, const char **word, int *part)
{
	const char *text = *list;
	size_t length;

	for (; *text == ',' || *text == '|'; text++) /* a part may be empty */
		*part += *text == '|';
	length = strcspn(text, ",|");
	*word = text;
	*list = text + length;
	return length;
}

/* The values of an ENUM or SET as a sentence part: "a, b, c". */
static void list_values(struct ws_text *text, const char *values)
{
	const char *word;
	int part = WS_WORDS_KNOWN;
	size_t length;

	while ((length = ws_next_word(&values, &word, &part)) && part == WS_WORDS_KNOWN) {
		if (text->len)
			ws_text_puts(text, ", ");
		ws_text_add(text, word, length);
	}
}

/* A word of an option's list: in which part it stands, and what stands for it behind its '='. */
struct listed_word {
	int part;
	const char *instead; /* "" when nothing does */
	size_t instead_length;
};

static bool find_word(const struct ws_opt *option, const char *text, size_t length,
		      struct listed_word *out)
{
	const char *list = option->values, *word;
	size_t word_length;

	*out = (struct listed_word){.instead = ""};
	while ((word_length = ws_next_word(&list, &word, &out->part))) {
		size_t name_length = ws_min(strcspn(word, "="), word_length);

		if (name_length != length || memcmp(word, text, length))
			continue;
		if (name_length < word_length) {
			out->instead = word + name_length + 1;
			out->instead_length = word_length - name_length - 1;
		}
		return true;
	}
	return false;
}

static int refuse_word(const struct ws_opt *option, const char *text, size_t length,
		       struct ws_err *err)
{
	struct ws_text all = {0};
	char *given = ws_strndup(text, length);
	struct ws_nearest near = {.word = given};
	const char *list = option->values, *word;
	int part = WS_WORDS_KNOWN;
	size_t word_length;

	list_values(&all, option->values);
	while ((word_length = ws_next_word(&list, &word, &part)))
		ws_try_name(&near, word, ws_min(strcspn(word, "="), word_length));
	if (ws_has_near_name(&near))
		ws_fail(err, "--%s: '%s' is not one of %s; did you mean %.*s?", option->name, given,
			all.text, (int)near.best_len, near.best);
	else
		ws_fail(err, "--%s: '%s' is not one of %s", option->name, given, all.text);
	ws_text_free(&all);
	free(given);
	return -1;
}

static int refuse_later_word(const struct ws_opt *option, const char *text, size_t length,
			     struct ws_err *err)
{
	struct ws_text all = {0};

	list_values(&all, option->values);
	ws_fail(err, "--%s: '%.*s' is not built yet; choose from %s", option->name, (int)length,
		text, all.text);
	ws_text_free(&all);
	return -1;
}

/* Whether it is a word that asks for nothing, for an option that is not supported. */
static bool asks_for_nothing(const struct ws_opt *option, const char *text)
{
	struct listed_word found;

	return text && *text && option->values && find_word(option, text, strlen(text), &found);
}

/* ---- what is left out ---- */

static void append_value(struct ws_list *list, const char *text)
{
	ws_grow(list->values, list->cap, list->count + 1);
	list->values[list->count++] = text;
}

/* Texts made while parsing; each lives as long as the values of `owner`. */
static struct made_text {
	const void *owner;
	char *text;
} * made_texts;
static size_t made_count, made_cap;

static const char *keep_text(const struct parser *parser, char *text)
{
	ws_grow(made_texts, made_cap, made_count + 1);
	made_texts[made_count++] = (struct made_text){parser->values, text};
	return text;
}

static void free_made_texts(const void *owner)
{
	size_t kept = 0;

	for (size_t i = 0; i < made_count; i++)
		if (made_texts[i].owner == owner)
			free(made_texts[i].text);
		else
			made_texts[kept++] = made_texts[i];
	made_count = kept;
	if (kept)
		return;
	free(made_texts);
	made_texts = NULL;
	made_cap = 0;
}

static struct ws_left_out *get_left_out(const struct parser *parser)
{
	if (!parser->command->left_out)
		return NULL;
	return (struct ws_left_out *)(parser->values + parser->command->left_out);
}

static bool ends_with(const char *text, const char *end)
{
	size_t length = strlen(text), end_length = strlen(end);

	return length >= end_length && !strcmp(text + length - end_length, end);
}

/* Notes "NAMES: WHY". What has the same reason is said in one sentence. */
static void note_left_out(const struct parser *parser, const char *name, const char *why)
{
	struct ws_list *sentences = &get_left_out(parser)->sentences;
	char *end = ws_format(": %s", why);

	for (size_t i = 0; i < sentences->count; i++) {
		const char *said = sentences->values[i];
		size_t names = strlen(said) - strlen(end);

		if (!ends_with(said, end))
			continue;
		if (!memmem(said, names, name, strlen(name)))
			sentences->values[i] = keep_text(parser, ws_format("%.*s, %s%s", (int)names,
									   said, name, end));
		free(end);
		return;
	}
	append_value(sentences, keep_text(parser, ws_format("%s%s", name, end)));
	free(end);
}

static int leave_option_out(const struct parser *parser, const struct ws_opt *option)
{
	struct ws_left_out *left_out = get_left_out(parser);
	char *name;

	if (!left_out)
		return ws_fail(parser->err, "--%s: %s", option->name, option->help);
	name = ws_format("--%s", option->name);
	note_left_out(parser, name, option->help);
	free(name);
	if (option->fallback)
		left_out->consequence = option->fallback;
	return 0;
}

/* Notes that a word is not supported, and what stands for it. */
static void leave_word_out(const struct parser *parser, const struct ws_opt *option,
			   const char *text, const struct listed_word *word)
{
	char *name = ws_format("--%s=%s", option->name, text), *why;

	if (word->instead_length)
		why = ws_format("not built yet; %.*s is used instead", (int)word->instead_length,
				word->instead);
	else
		why = ws_strdup("not built yet, left out");
	note_left_out(parser, name, why);
	if (option->misleads)
		get_left_out(parser)->consequence = option->misleads;
	free(name);
	free(why);
}

/* ---- values ---- */

/* Appends what the word given means to `out`: itself, or what stands for it. -1 with a message. */
static int add_word(const struct parser *parser, const struct ws_opt *option, const char *given,
		    struct ws_text *out)
{
	size_t length = strlen(given);
	struct listed_word word;

	if (!find_word(option, given, length, &word))
		return refuse_word(option, given, length, parser->err);
	if (word.part == WS_WORDS_LATER && !get_left_out(parser))
		return refuse_later_word(option, given, length, parser->err);
	if (word.part == WS_WORDS_LATER)
		leave_word_out(parser, option, given, &word);
	if (word.part == WS_WORDS_KNOWN) {
		word.instead = given;
		word.instead_length = length;
	}
	if (out->len && word.instead_length)
		ws_text_puts(out, ",");
	ws_text_add(out, word.instead, word.instead_length);
	return 0;
}

/* The words of an ENUM or SET, as they are meant. */
static int set_words(const struct parser *parser, const struct ws_opt *option, const char *text,
		     const char **out)
{
	struct ws_text meant = {0};
	int rc = 0;

	ws_text_add(&meant, "", 0);
	for (const char *at = text; !rc;) {
		size_t length = strlen(at);
		char *given;

		if (option->kind == WS_OPT_SET)
			length = strcspn(at, ",");
		given = ws_strndup(at, length);
		rc = add_word(parser, option, given, &meant);
		free(given);
		if (!at[length])
			break;
		at += length + 1;
	}
	if (rc) {
		ws_text_free(&meant);
		return -1;
	}
	if (strcmp(meant.text, text))
		*out = keep_text(parser, meant.text);
	else
		*out = text;
	if (*out == text)
		ws_text_free(&meant);
	if (option->kind == WS_OPT_ENUM && !**out)
		*out = option->fallback;
	return 0;
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

/* The option that an alias stands for; any other is itself. */
static const struct ws_opt *find_meant_option(const struct ws_command *command,
					      const struct ws_opt *option)
{
	if (option->kind != WS_OPT_ALIAS)
		return option;
	return find_in_table(command->opts, option->help);
}

/* The value that an alias hands on: what its list maps the text to, or the text. */
static const char *map_value(const struct parser *parser, const struct ws_opt *alias,
			     const char *text)
{
	struct listed_word word;

	if (!alias->values)
		return text;
	text = ws_text_or(text, "true");
	if (!find_word(alias, text, strlen(text), &word) || !word.instead_length)
		return text;
	return keep_text(parser, ws_strndup(word.instead, word.instead_length));
}

/* Stores the text of a value; `text` is NULL for a bare FLAG or BOOL. */
static int set_value(const struct parser *parser, const struct ws_opt *given, const char *text)
{
	const struct ws_opt *option = find_meant_option(parser->command, given);
	char *at = parser->values + option->offset;
	struct ws_err *err = parser->err;

	if (option != given)
		text = map_value(parser, given, text);
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
	case WS_OPT_SET:
		return set_words(parser, option, text, (const char **)at);
	case WS_OPT_LIST:
	case WS_OPT_WORDS:
		append_value((struct ws_list *)at, text);
		return 0;
	case WS_OPT_STRING:
		break;
	case WS_OPT_ALIAS:
		return 0; /* an alias names no alias */
	case WS_OPT_UNSUPPORTED:
		if (asks_for_nothing(option, text))
			return 0;
		return leave_option_out(parser, option);
	}
	*(const char **)at = text;
	return 0;
}

/* Whether an option that stands alone needs no value. */
static bool is_flag(const struct parser *parser, const struct ws_opt *option)
{
	if (option->kind == WS_OPT_ALIAS && option->values)
		return true;
	option = find_meant_option(parser->command, option);
	return option->kind == WS_OPT_FLAG || option->kind == WS_OPT_BOOL ||
	       option->kind == WS_OPT_MAYBE || (option->kind == WS_OPT_UNSUPPORTED && !option->arg);
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

/* Whether the next word is the value of an option that needs none. */
static bool may_be_its_value(const struct parser *parser, const struct ws_opt *option,
			     const char *word)
{
	const struct ws_opt *meant = find_meant_option(parser->command, option);

	if (!is_flag(parser, option) || meant->kind == WS_OPT_FLAG || meant->kind == WS_OPT_MAYBE)
		return false;
	if (meant->kind == WS_OPT_UNSUPPORTED && asks_for_nothing(meant, word))
		return true;
	return is_true_or_false(word);
}

/* Of an option that takes several words: the others. */
static int take_more_words(struct parser *parser, const struct ws_opt *option)
{
	if (option->kind != WS_OPT_WORDS)
		return 0;
	for (const char *word; (word = next_word(parser)) && *word != '-'; parser->at++)
		if (set_value(parser, option, word))
			return -1;
	return 0;
}

/* The option stands alone: find its value, if it takes one, in the next word. */
static int take_bare_option(struct parser *parser, const struct ws_opt *option)
{
	const char *value = NULL;

	if (may_be_its_value(parser, option, next_word(parser)))
		value = parser->argv[++parser->at];
	else if (!is_flag(parser, option) && value_from_next(parser, option, &value))
		return -1;
	if (set_value(parser, option, value))
		return -1;
	return take_more_words(parser, option);
}

/* An option of the table that other commands have. */
static int refuse_foreign(const struct parser *parser, const struct ws_opt *option)
{
	if (option->kind == WS_OPT_ALIAS)
		option = find_in_table(parser->command->opts, option->help);
	if (option->also)
		return ws_fail(parser->err, "--%s %s", option->name, parser->command->elsewhere);
	return ws_fail(parser->err, "--%s is an option of 'warpsight profile' alone", option->name);
}

static int refuse_unknown_short(const struct parser *parser, char name)
{
	const struct ws_opt *option = parser->command->opts;

	while (parser->command->elsewhere && option->name && option->short_name != name)
		option++;
	if (parser->command->elsewhere && option->name)
		return refuse_foreign(parser, option);
	return ws_fail(parser->err, "unknown option -%c; 'warpsight %s --help' lists them", name,
		       parser->command->name);
}

static int refuse_unknown_long(const struct parser *parser, const char *word, size_t len)
{
	char *name = ws_strndup(word, len);
	struct ws_nearest near = {.word = name};
	const struct ws_opt *foreign = find_in_table(parser->command->opts, name);

	if (foreign && parser->command->elsewhere) {
		free(name);
		return refuse_foreign(parser, foreign);
	}
	for (const struct ws_opt *option = NULL; (option = ws_next_opt(parser->command, option));)
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
	return set_value(parser, option, word + len + 1);
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
			return refuse_unknown_short(parser, *text);
		if (!*rest)
			return take_bare_option(parser, option);
		if (*rest == '=' && option->kind == WS_OPT_FLAG)
			return ws_fail(parser->err, "--%s takes no value", option->name);
		if (*rest == '=')
			return set_value(parser, option, rest + 1);
		if (!is_flag(parser, option) || may_be_its_value(parser, option, rest))
			return set_value(parser, option, rest);
		rc = set_value(parser, option, NULL);
		if (rc)
			return rc;
	}
	return 0;
}

static int set_defaults(const struct parser *parser)
{
	for (const struct ws_opt *option = parser->command->opts; option && option->name; option++)
		if (option->fallback && option->kind != WS_OPT_UNSUPPORTED &&
		    set_value(parser, option, option->fallback))
			return -1;
	return 0;
}

static bool ends_options(const struct ws_command *command, const char *operand)
{
	return command->stop_at_operand && !(command->goes_on && command->goes_on(operand));
}

/* Goes through the words; option words are collected in `first`, operands in `last`. */
static int sort_words(struct parser *parser, char **first, int *firsts, char **last, int *lasts)
{
	for (; parser->at < parser->argc; parser->at++) {
		char *word = parser->argv[parser->at];
		int start = parser->at, rc;

		if (word[0] != '-' || !word[1]) {
			last[(*lasts)++] = word;
			if (!ends_options(parser->command, word))
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
		if (option->kind == WS_OPT_LIST || option->kind == WS_OPT_WORDS)
			free(((struct ws_list *)((char *)values + option->offset))->values);
	if (command->left_out)
		free(((struct ws_left_out *)((char *)values + command->left_out))
			     ->sentences.values);
	free_made_texts(values);
}
