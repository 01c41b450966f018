/*
 * command_help.c - `warpsight help` and `warpsight version`.
 */
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "cli/text.h"

struct help_opts {
	bool man, bash;
};

/* Words with which command lines for other tools begin. */
static const char *const other_tools[] = {"nsys", "ncu", "perf", "warpsight", "rocprofv3", "vtune"};

/* Print an error for a word that is no command, and return the exit status; main uses it too. */
int ws_refuse_unknown_command(const char *word)
{
	struct ws_nearest near = {.word = word};
	const struct ws_planned_command *later = ws_find_planned_command(word);

	for (size_t i = 0; i < WS_COUNT(other_tools); i++)
		if (!strcmp(word, other_tools[i])) {
			ws_say("unknown command '%s': leave the word out, since 'warpsight' "
			       "replaces it: 'warpsight profile APP' records a program",
			       word);
			return WS_EXIT_USAGE;
		}
	if (later) {
		ws_say("'%s' (%s) is not built yet; %s", word, later->what, later->instead);
		return WS_EXIT_USAGE;
	}
	for (const struct ws_command *const *known = ws_commands; *known; known++)
		ws_try_name(&near, (*known)->name, strlen((*known)->name));
	if (ws_has_near_name(&near))
		ws_say("unknown command '%s'; did you mean '%s'?", word, near.best);
	else
		ws_say("unknown command '%s'; 'warpsight help' lists them, 'warpsight profile %s' "
		       "records a program",
		       word, word);
	return WS_EXIT_USAGE;
}

static int run_help(void *opts, int argc, char **argv)
{
	const struct help_opts *options = opts;
	const struct ws_command *command = NULL;
	struct ws_text out = {0};

	if (argc > 1) {
		ws_say("help takes one command, but '%s' follows '%s'", argv[1], argv[0]);
		return WS_EXIT_USAGE;
	}
	if (argc)
		command = ws_find_command(argv[0]);
	if (argc && !command)
		return ws_refuse_unknown_command(argv[0]);
	if (options->man)
		ws_add_man_page(&out);
	else if (options->bash)
		ws_add_bash_completion(&out);
	else if (command)
		ws_add_command_help(&out, command, ws_get_output_width());
	else
		ws_add_overview_help(&out, ws_get_output_width());
	fwrite(out.text, 1, out.len, stdout);
	ws_text_free(&out);
	return WS_EXIT_OK;
}

static const struct ws_opt help_options[] = {
	{"man", 0, WS_OPT_FLAG, offsetof(struct help_opts, man),
	 .help = "Write the manual page, in roff."},
	{"bash-completion", 0, WS_OPT_FLAG, offsetof(struct help_opts, bash),
	 .help = "Write the completion script for bash."},
	{0},
};

const struct ws_command ws_cmd_help = {
	.name = "help",
	.summary = "Explain a command, or list them.",
	.usage = "[options] [COMMAND]",
	.opts = help_options,
	.opts_size = sizeof(struct help_opts),
	.run = run_help,
};

static int run_version(void *opts, int argc, char **argv)
{
	(void)opts;
	if (argc) {
		ws_say("version takes no argument, but '%s' is given", argv[0]);
		return WS_EXIT_USAGE;
	}
	puts("warpsight " WS_VERSION);
	return WS_EXIT_OK;
}

const struct ws_command ws_cmd_version = {
	.name = "version",
	.summary = "Print the version.",
	.usage = "",
	.run = run_version,
};
