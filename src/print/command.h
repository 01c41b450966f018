/*
 * command.h - a program whose standard input is a table: -o @command.
 *
 * The command is words, split at blanks, with quotes and backslashes as people write them; no shell
 * runs.
 */
#ifndef WS_PRINT_COMMAND_H
#define WS_PRINT_COMMAND_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/err.h"

struct ws_command_out {
	FILE *file; /* to write to; NULL when it does not run */
	pid_t pid;
	char *name;		  /* for messages */
	void (*pipe_signal)(int); /* what SIGPIPE did before */
};

/* Split `s` into words; the result ends with NULL and is freed with ws_words_free. NULL with a
 * message: a quote is not closed, no word. */
char **ws_words(const char *text, struct ws_err *err);
void ws_words_free(char **words);

/* Start it. Returns 0, or -1 with a message that names it. */
int ws_command_start(struct ws_command_out *out, const char *command, struct ws_err *err);
/* Close its input and wait for it. Returns -1 with a message when it failed; a command that ends
 * before it has read all has not. */
int ws_command_finish(struct ws_command_out *out, struct ws_err *err);

#endif
