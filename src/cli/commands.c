/*
 * commands.c - the table of commands, in the order in which help lists them, and those that are
 * planned.
 */
#include <string.h>

#include "cli/text.h"

/* In the order in which help lists them. */
#define COMMANDS(X)  \
	X(profile)   \
	X(launch)    \
	X(start)     \
	X(stop)      \
	X(cancel)    \
	X(snapshot)  \
	X(shutdown)  \
	X(sessions)  \
	X(stats)     \
	X(report)    \
	X(analyze)   \
	X(kernel)    \
	X(diff)      \
	X(export)    \
	X(import)    \
	X(ops)       \
	X(query)     \
	X(view)      \
	X(mcp)       \
	X(top)       \
	X(info)      \
	X(recover)   \
	X(symbolize) \
	X(doctor)    \
	X(status)    \
	X(help)      \
	X(version)

#define X(name) extern const struct ws_command ws_cmd_##name;
COMMANDS(X)
#undef X

char **ws_main_argv; /* set by main; here, so that tests link without main */

const struct ws_command *const ws_commands[] = {
#define X(name) &ws_cmd_##name,
	COMMANDS(X)
#undef X
		NULL,
};

const struct ws_planned_command ws_planned_commands[] = {
	{"attach", "recording a running process", "'profile --attach PID' does that"},
	{"serve", "showing reports to a browser", "'view' does that"},
	{"compare", "comparing two reports", "'diff A B' does that, and 'view A B' in the browser"},
	{"merge", "putting reports of several ranks together",
	 "'view A B...' shows several below one another, 'query --together A B...' asks several"},
	{"recipe", "analysing many reports at once",
	 "'query --together A B...' asks several, 'stats -f csv -o . A B...' writes tables of "
	 "each"},
	{"nvprof", "the options of nvprof", "'profile -t cuda' with 'stats' shows what nvprof did"},
	{"service", "a recorder that serves other machines",
	 "'view --record' records from the browser"},
	{"plugins", "listing plug-ins", "'profile --help' lists what can be recorded"},
	{"ui", "a graphical program", "'view' shows the time line in the browser"},
	{NULL, NULL, NULL},
};

const struct ws_command *ws_find_command(const char *name)
{
	for (const struct ws_command *const *command = ws_commands; *command; command++)
		if (!strcmp((*command)->name, name))
			return *command;
	return NULL;
}

const struct ws_planned_command *ws_find_planned_command(const char *name)
{
	for (const struct ws_planned_command *later = ws_planned_commands; later->name; later++)
		if (!strcmp(later->name, name))
			return later;
	return NULL;
}
