/*
 * prompt.c - see prompt.h.
 *
 * libedit (BSD) is opened when a prompt first asks for a line: what it offers is a convenience, and
 * nothing else needs it. Its functions are those that it has for programs written for GNU readline.
 * History lasts as long as the program: queries may hold what is nobody else's business.
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
static char *next_word(const char *text, int state)
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
	editor.readline =
		editor.add_history ? (char *(*)(const char *))dlsym(library, "readline") : NULL;
	complete = (char *(**)(const char *, int))dlsym(library, "rl_completion_entry_function");
	if (complete && prompt->word)
		*complete = next_word;
	catches = dlsym(library, "rl_catch_signals");
	if (catches)
		*catches = 0; /* Ctrl-C is the caller's */
}

static void remember(const char *line)
{
	if (!line[strspn(line, " \t")] || (editor.last && !strcmp(line, editor.last)))
		return;
	editor.add_history(line);
	free(editor.last);
	editor.last = ws_strdup(line);
}

static const char *edited(struct ws_prompt *prompt_l, const char *prompt)
{
	char *line;

	completing = prompt_l;
	line = editor.readline(prompt);
	if (!line)
		return NULL;
	remember(line);
	free(prompt_l->line);
	prompt_l->line = ws_format("%s\n", line);
	prompt_l->cap = strlen(prompt_l->line) + 1;
	free(line);
	return prompt_l->line;
}

const char *ws_prompt_next(struct ws_prompt *prompt_l, const char *prompt)
{
	if (prompt_l->terminal && !editor.tried)
		open_editor(prompt_l);
	if (prompt_l->terminal && editor.readline)
		return edited(prompt_l, prompt);
	if (prompt_l->terminal)
		fputs(prompt, stdout);
	fflush(stdout);
	return getline(&prompt_l->line, &prompt_l->cap, prompt_l->in) < 0 ? NULL : prompt_l->line;
}

void ws_prompt_free(struct ws_prompt *prompt)
{
	free(prompt->line);
	prompt->line = NULL;
	free(editor.last);
	editor.last = NULL;
}
