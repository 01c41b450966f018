/*
 * prompt.h - lines of a prompt: with editing, history and completion at a terminal, where libedit
 * is installed.
 */
#ifndef WS_CLI_PROMPT_H
#define WS_CLI_PROMPT_H

#include <stdbool.h>
#include <stdio.h>

struct ws_prompt {
	FILE *in;
	bool terminal;
	/* The i-th word that the Tab key may complete to, or NULL after the last; NULL for none. */
	const char *(*word)(void *ctx, size_t i);
	void *ctx;
	char *line;
	size_t cap;
};

/*
 * The next line with its end, good until the next call; NULL at the end of the input. `prompt` is
 * shown at a terminal only.
 */
const char *ws_read_prompt_line(struct ws_prompt *lines, const char *prompt);
void ws_prompt_free(struct ws_prompt *prompt);

#endif
