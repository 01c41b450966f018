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

/* A command that is planned: answered by name, with what there is instead, so that "unknown
 * command" stays true to its word. */
struct ws_later {
	const char *name, *what, *instead;
};
extern const struct ws_later ws_later_commands[]; /* ended by an entry without a name */

/* The program's own arguments, as main got them. */
extern char **ws_main_argv;

const struct ws_command *ws_command_find(const char *name);
const struct ws_later *ws_later_find(const char *name);

void ws_help_overview(struct ws_text *out, int width);
void ws_help_command(struct ws_text *out, const struct ws_command *command, int width);
void ws_man_page(struct ws_text *out);
void ws_bash_completion(struct ws_text *out);

/*
 * Fill whole words of `text` into lines of at most `width` columns. The first line goes on at
 * column `at`, the others start at column `indent`. Lines of `text` that begin with a blank are
 * kept as they are; an empty line starts a paragraph. Ends with a newline.
 */
void ws_wrap(struct ws_text *out, const char *text, int at, int indent, int width);

/* "  -o, --output=NAME" and the like, without the leading blanks. */
void ws_opt_spelling(struct ws_text *out, const struct ws_opt *option);

/* The option's help with its values, default and repetition, as one paragraph. */
void ws_opt_explanation(struct ws_text *out, const struct ws_opt *option);
/* "--a, --b": the options of a command that are known and not there; false when there are none. */
bool ws_later_names(struct ws_text *out, const struct ws_command *command);

/* Next word of a comma-separated list with an optional part after '|': its length, 0 at the end.
 * *later is set once past the '|'. */
size_t ws_word_next(const char **list, const char **word, bool *later);

/* Keeps the nearest name seen so far. Start with {.word = what the user typed}. */
struct ws_nearest {
	const char *word;
	const char *best;
	size_t best_len;
	int distance;
};

/* Offer a candidate of `len` bytes. */
void ws_nearest_try(struct ws_nearest *nearest, const char *name, size_t len);
/* Is the best one near enough to be worth naming? */
bool ws_nearest_found(const struct ws_nearest *nearest);

/* Columns of the terminal on standard output, between 40 and 120; 80 when it is not a terminal. */
int ws_output_width(void);

#endif
