/*
 * commands.c - the table of commands, in the order in which help lists them, and those that are planned.
 */
#include <string.h>

#include "cli/text.h"

/* In the order in which help lists them. */
#define COMMANDS(X)   \
	X(profile)    \
	X(stats)      \
	X(report)     \
	X(export)     \
	X(import)     \
	X(ops)        \
	X(query)      \
	X(view)       \
	X(info)       \
	X(recover)    \
	X(symbolize)  \
	X(doctor)     \
	X(status)     \
	X(help)       \
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

const struct ws_later ws_later_commands[] = {
	{"launch", "starting a program in an interactive session"},
	{"start", "starting the collection of an interactive session"},
	{"stop", "ending the collection of an interactive session"},
	{"cancel", "dropping the collection of an interactive session"},
	{"shutdown", "ending an interactive session"},
	{"sessions", "listing interactive sessions"},
	{"attach", "recording a running process"},
	{"analyze", "finding what slows a program down"},
	{"serve", "showing reports to a browser"},
	{"diff", "comparing two reports"},
	{"merge", "putting reports of several ranks together"},
	{"recipe", "analysing many reports at once"},
	{"kernel", "hardware counters of single GPU kernels"},
	{NULL, NULL},
};

const struct ws_command *ws_command_find(const char *name)
{
	for (const struct ws_command *const *c = ws_commands; *c; c++)
		if (!strcmp((*c)->name, name))
			return *c;
	return NULL;
}

const struct ws_later *ws_later_find(const char *name)
{
	for (const struct ws_later *l = ws_later_commands; l->name; l++)
		if (!strcmp(l->name, name))
			return l;
	return NULL;
}
