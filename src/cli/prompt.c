/*
 * prompt.c - see prompt.h.
 *
 * libedit (BSD) is loaded when a prompt first asks for a line: what it offers is a convenience, and
 * nothing else needs it. The functions used are those that it has for programs written for GNU
 * readline. History lasts only as long as the program: queries may hold private data.
 */
#include "cli/prompt.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/mem.h"

static struct {
	bool tried;
	char *(*readline)(const char *prompt);
	int (*add_history)(const char *line);
	char *last;
} editor;

static struct ws_prompt *completing; /* the functions take no context */

/* For the Tab key: each call gives one more word that begins with `text`, in memory that libedit
 * frees. */
static char *complete_word(const char *text, int state)
{
	static size_t at;
	const char *word;

	if (!state)
		at = 0;
	while ((word = completing->word(completing->ctx, at))) {
		at++;
		if (!strncasecmp(word, text, strlen(text)))
			return strdup(word);
	}
	return NULL;
}

static void open_editor(struct ws_prompt *prompt)
{
	static const char *const names[] = {"libedit.so.2", "libedit.so.0"};
	const char *terminal = getenv("TERM");
	void *library = NULL;
	char *(**complete)(const char *, int);
	int *catches;

	editor.tried = true;
	if (!terminal || !*terminal || !strcmp(terminal, "dumb") || !isatty(STDOUT_FILENO) ||
	    prompt->in != stdin)
		return;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names) && !library; i++)
		library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
	if (!library)
		return;
	editor.add_history = (int (*)(const char *))dlsym(library, "add_history");
	if (editor.add_history)
		editor.readline = (char *(*)(const char *))dlsym(library, "readline");
	complete = (char *(**)(const char *, int))dlsym(library, "rl_completion_entry_function");
	if (complete && prompt->word)
		*complete = complete_word;
	catches = dlsym(library, "rl_catch_signals");
	if (catches)
		*catches = 0; /* Ctrl-C is the caller's */
}

static void add_to_history(const char *line)
{
	if (!line[strspn(line, " \t")] || (editor.last && !strcmp(line, editor.last)))
		return;
	editor.add_history(line);
	free(editor.last);
	editor.last = ws_strdup(line);
}

static const char *read_edited_line(struct ws_prompt *lines, const char *prompt)
{
	char *line;

	completing = lines;
	line = editor.readline(prompt);
	if (!line)
		return NULL;
	add_to_history(line);
	free(lines->line);
	lines->line = ws_format("%s\n", line);
	lines->cap = strlen(lines->line) + 1;
	free(line);
	return lines->line;
}

const char *ws_read_prompt_line(struct ws_prompt *lines, const char *prompt)
{
	if (lines->terminal && !editor.tried)
		open_editor(lines);
	if (lines->terminal && editor.readline)
		return read_edited_line(lines, prompt);
	if (lines->terminal)
		fputs(prompt, stdout);
	fflush(stdout);
	if (getline(&lines->line, &lines->cap, lines->in) < 0)
		return NULL;
	return lines->line;
}

void ws_prompt_free(struct ws_prompt *prompt)
{
	free(prompt->line);
	prompt->line = NULL;
	free(editor.last);
	editor.last = NULL;
}
