/*
 * help.c - help texts, wrapped to the width of the terminal, from the tables of commands and
 * options.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/text.h"
#include "base/choose.h"

enum {
	INDENT = 2,
	OPTION_COLUMN = 30,
	COMMAND_COLUMN = 14,
	WIDTH_MIN = 40,
	WIDTH_MAX = 120,
	WIDTH_UNKNOWN = 80
};

int ws_get_output_width(void)
{
	struct winsize winsize;

	if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &winsize) || !winsize.ws_col)
		return WIDTH_UNKNOWN;
	return ws_max(ws_min((int)winsize.ws_col, (int)WIDTH_MAX), (int)WIDTH_MIN);
}

static void add_blanks(struct ws_text *out, int columns)
{
	while (columns-- > 0)
		ws_text_puts(out, " ");
}

/* The columns that a UTF-8 word takes: its code points. */
static int word_width(const char *text, size_t size)
{
	int columns = 0;

	for (size_t i = 0; i < size; i++)
		columns += ((unsigned char)text[i] & 0xc0) != 0x80;
	return columns;
}

/* Adds one line of the source text: wrapped, or kept as it is when it begins with a blank. Returns
 * the column it ends at. */
static int wrap_line(struct ws_text *out, const char *text, size_t size, int at, int indent,
		     int width)
{
	bool fresh = true;

	if (*text == ' ' || *text == '\t') {
		ws_text_add(out, text, size);
		return width; /* as if full: nothing may follow on this line */
	}
	for (size_t i = 0; i < size;) {
		size_t word_size = strcspn(text + i, " \n");
		int columns;

		if (word_size > size - i)
			word_size = size - i;
		columns = word_width(text + i, word_size);
		if (!fresh && at + 1 + columns > width) {
			ws_text_puts(out, "\n");
			add_blanks(out, indent);
			at = indent;
			fresh = true;
		}
		if (!fresh)
			ws_text_puts(out, " ");
		at += columns + !fresh;
		ws_text_add(out, text + i, word_size);
		fresh = false;
		i += word_size;
		while (i < size && text[i] == ' ')
			i++;
	}
	return at;
}

void ws_add_wrapped(struct ws_text *out, const char *text, int at, int indent, int width)
{
	while (*text) {
		size_t length = strcspn(text, "\n");

		wrap_line(out, text, length, at, indent, width);
		ws_text_puts(out, "\n");
		text += length;
		text += *text == '\n';
		if (*text && *text != '\n')
			add_blanks(out, indent);
		at = indent;
	}
}

void ws_add_option_spelling(struct ws_text *out, const struct ws_opt *option)
{
	if (option->short_name)
		ws_text_printf(out, "-%c, ", option->short_name);
	ws_text_printf(out, "--%s", option->name);
	if (option->kind == WS_OPT_BOOL)
		ws_text_puts(out, "[=true|false]");
	else if (option->kind == WS_OPT_MAYBE)
		ws_text_printf(out, "[=%s]", ws_text_or(option->arg, "VALUE"));
	else if (option->kind != WS_OPT_FLAG && option->kind != WS_OPT_UNSUPPORTED)
		ws_text_printf(out, "=%s", ws_text_or(option->arg, "VALUE"));
}

/* Adds "One of: a, b, c." for an ENUM, and the like for a SET. */
static void add_values(struct ws_text *out, const struct ws_opt *option)
{
	const char *list = option->values, *word;
	const char *separator = "";
	int part = WS_WORDS_KNOWN;
	size_t length;

	if (option->kind == WS_OPT_ENUM)
		ws_text_puts(out, " One of: ");
	else if (option->kind == WS_OPT_SET)
		ws_text_puts(out, " Any of, with commas between: ");
	else
		return;
	while ((length = ws_next_word(&list, &word, &part)) && part == WS_WORDS_KNOWN) {
		ws_text_puts(out, separator);
		ws_text_add(out, word, length);
		separator = ", ";
	}
	ws_text_puts(out, ".");
}

void ws_add_option_help(struct ws_text *out, const struct ws_opt *option)
{
	ws_text_puts(out, ws_text_or(option->help, ""));
	add_values(out, option);
	if (option->fallback && option->kind != WS_OPT_FLAG)
		ws_text_printf(out, " Default: %s.", option->fallback);
	if (option->kind == WS_OPT_LIST || option->kind == WS_OPT_WORDS)
		ws_text_puts(out, " May be given several times.");
}

static void add_entry(struct ws_text *out, const char *left, const char *right, int column,
		      int width)
{
	int at = INDENT + (int)strlen(left);

	add_blanks(out, INDENT);
	ws_text_puts(out, left);
	if (at + 2 > column) {
		ws_text_puts(out, "\n");
		at = 0;
	}
	add_blanks(out, column - at);
	ws_add_wrapped(out, right, column, column, width);
}

static void add_option(struct ws_text *out, const struct ws_opt *option, int width)
{
	struct ws_text left = {0}, right = {0};

	if (!option->short_name)
		ws_text_puts(&left, "    ");
	ws_add_option_spelling(&left, option);
	ws_add_option_help(&right, option);
	add_entry(out, left.text, right.text, OPTION_COLUMN, width);
	ws_text_free(&left);
	ws_text_free(&right);
}

bool ws_is_shown_option(const struct ws_opt *option)
{
	return option->kind != WS_OPT_UNSUPPORTED && option->kind != WS_OPT_ALIAS;
}

const char *ws_describe_unsupported(const struct ws_command *command)
{
	if (command->left_out)
		return "Known by name and left out with a warning that says what to use instead "
		       "(an error with --strict):";
	return "Known, and refused with a word on what to use instead:";
}

bool ws_add_unsupported_options(struct ws_text *out, const struct ws_command *command)
{
	const char *separator = "";

	for (const struct ws_opt *option = NULL; (option = ws_next_opt(command, option));)
		if (option->kind == WS_OPT_UNSUPPORTED) {
			ws_text_printf(out, "%s--%s", separator, option->name);
			separator = ", ";
		}
	return *separator;
}

static void add_later_options(struct ws_text *out, const struct ws_command *command, int width)
{
	struct ws_text names = {0};

	if (ws_add_unsupported_options(&names, command)) {
		ws_text_puts(out, "\n");
		ws_add_wrapped(out, ws_describe_unsupported(command), 0, 0, width);
		add_blanks(out, INDENT);
		ws_add_wrapped(out, names.text, INDENT, INDENT, width);
	}
	ws_text_free(&names);
}

static void add_options(struct ws_text *out, const struct ws_command *command, int width)
{
	ws_text_puts(out, "\nOptions:\n");
	for (const struct ws_opt *option = NULL; (option = ws_next_opt(command, option));)
		if (ws_is_shown_option(option))
			add_option(out, option, width);
	add_entry(out, "-h, --help", "Show this help.", OPTION_COLUMN, width);
	add_later_options(out, command, width);
}

static void add_examples(struct ws_text *out, const char *examples)
{
	ws_text_puts(out, "\nExamples:\n");
	while (*examples) {
		size_t length = strcspn(examples, "\n");

		if (*examples != ' ' && length)
			add_blanks(out, INDENT);
		ws_text_add(out, examples, length);
		ws_text_puts(out, "\n");
		examples += length + (examples[length] == '\n');
	}
}

void ws_add_command_help(struct ws_text *out, const struct ws_command *command, int width)
{
	struct ws_text usage = {0};

	ws_text_printf(&usage, "warpsight %s %s", command->name, ws_text_or(command->usage, ""));
	ws_text_puts(out, "Usage: ");
	ws_add_wrapped(out, usage.text, 7, 7 + INDENT, width);
	ws_text_free(&usage);
	ws_text_puts(out, "\n");
	ws_add_wrapped(out, command->summary, 0, 0, width);
	if (command->details) {
		ws_text_puts(out, "\n");
		ws_add_wrapped(out, command->details, 0, 0, width);
	}
	add_options(out, command, width);
	if (command->examples)
		add_examples(out, command->examples);
}

void ws_add_overview_help(struct ws_text *out, int width)
{
	ws_text_puts(out, "Usage: warpsight COMMAND [options] [arguments]\n\n");
	ws_add_wrapped(
		out,
		"warpsight records what a program does on the CPUs and GPUs of a machine, and "
		"shows where the time goes.",
		0, 0, width);
	ws_text_puts(out, "\nCommands:\n");
	for (const struct ws_command *const *command = ws_commands; *command; command++)
		add_entry(out, (*command)->name, (*command)->summary, COMMAND_COLUMN, width);
	ws_text_puts(out, "\nTo begin with:\n"
			  "  warpsight profile ./app args    record a run into report1.wsrep\n"
			  "  warpsight stats report1.wsrep   sum up what it recorded\n\n");
	ws_add_wrapped(
		out,
		"'warpsight COMMAND --help' explains a command, 'warpsight --version' prints the "
		"version.",
		0, 0, width);
}
