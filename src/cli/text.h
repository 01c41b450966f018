/*
 * text.h - what the command line says about itself: help, man page and completion, all made from
 * the tables of commands, and the search for what the user may have meant.
 *
 * Each function appends to a text; main writes it. `width` is in columns.
 */
#ifndef WS_CLI_TEXT_H
#define WS_CLI_TEXT_H

#include "base/mem.h"
#include "cli/cli.h"
#include "text/suggest.h"

/* A command that is planned: the message names what to use instead, so that "unknown command" stays
 * true. */
struct ws_planned_command {
	const char *name, *what, *instead;
};
extern const struct ws_planned_command ws_planned_commands[]; /* ended by an entry without a name */

/* The program's own arguments, as main got them. */
extern char **ws_main_argv;

const struct ws_command *ws_find_command(const char *name);
const struct ws_planned_command *ws_find_planned_command(const char *name);

void ws_add_overview_help(struct ws_text *out, int width);
void ws_add_command_help(struct ws_text *out, const struct ws_command *command, int width);
void ws_add_man_page(struct ws_text *out);
void ws_add_bash_completion(struct ws_text *out);

/*
 * Wrap `text` into lines of at most `width` columns. The first line continues at column `at`, the
 * others start at column `indent`. Lines of `text` that begin with a blank are kept as they are; an
 * empty line starts a paragraph. Ends with a newline.
 */
void ws_add_wrapped(struct ws_text *out, const char *text, int at, int indent, int width);

/* "  -o, --output=NAME" and the like, without the leading blanks. */
void ws_add_option_spelling(struct ws_text *out, const struct ws_opt *option);

/* The option's help with its values, default and repetition, as one paragraph. */
void ws_add_option_help(struct ws_text *out, const struct ws_opt *option);
/* The sentence before the list of options that are not supported. */
const char *ws_describe_unsupported(const struct ws_command *command);
/* Append "--a, --b": the options of a command that are known but not supported; false when there
 * are none. */
bool ws_add_unsupported_options(struct ws_text *out, const struct ws_command *command);

/* Next word of a list like "a,b|x,y|z": its length, 0 at the end. *part counts the '|' passed
 * (WS_WORDS_KNOWN and the following). */
size_t ws_next_word(const char **list, const char **word, int *part);
/* Whether help, man page and completion show the option. */
bool ws_is_shown_option(const struct ws_opt *option);

/* "true" or "false". */
static inline const char *ws_json_bool(bool value)
{
	static const char *const words[] = {"false", "true"};

	return words[value];
}

/* The exit status of the tool after a function that returned 0 or an error. */
static inline int ws_exit_status(int rc)
{
	if (rc)
		return WS_EXIT_FAIL;
	return WS_EXIT_OK;
}

/* Whether a command got exactly one report file; if not, prints that it must. */
static inline bool ws_check_one_report(const char *command, int argc)
{
	if (!argc)
		ws_say("%s: no report file is given", command);
	else if (argc > 1)
		ws_say("%s: one report file at a time, but %d are given", command, argc);
	return argc == 1;
}

/* Columns of the terminal on standard output, between 40 and 120; 80 when it is not a terminal. */
int ws_get_output_width(void);

#endif
