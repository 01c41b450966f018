/*
 * command.h - a program whose standard input is a table: -o @command.
 *
 * The command line is split into words at blanks; quotes and backslashes work as in a shell, but no
 * shell runs.
 */
#ifndef WS_PRINT_COMMAND_H
#define WS_PRINT_COMMAND_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/err.h"

struct ws_command_output {
	FILE *file; /* its standard input; NULL when it does not run */
	pid_t pid;
	char *name;		  /* for messages */
	void (*pipe_signal)(int); /* the handler of SIGPIPE to restore */
};

/* Split `text` into words; the result ends with NULL and is freed with ws_free_words. Returns NULL
 * with a message when a quote is not closed or there is no word. */
char **ws_split_words(const char *text, struct ws_err *err);
void ws_free_words(char **words);

/* Start the command. Returns 0, or -1 with a message that names it. */
int ws_command_start(struct ws_command_output *out, const char *command, struct ws_err *err);
/* Close its input and wait for it. Returns -1 with a message when it failed; ending before it has
 * read everything is no failure. */
int ws_command_finish(struct ws_command_output *out, struct ws_err *err);

#endif
