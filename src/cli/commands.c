/*
 * commands.c - the table of commands, in the order in which help lists them, and those that are planned.
 */
#include <string.h>

#include "cli/text.h"

extern const struct ws_command ws_cmd_profile, ws_cmd_stats, ws_cmd_export, ws_cmd_info, ws_cmd_recover, ws_cmd_doctor, ws_cmd_status,
	ws_cmd_view, ws_cmd_help, ws_cmd_version;

char **ws_main_argv; /* set by main; here, so that tests link without main */

const struct ws_command *const ws_commands[] = {
	&ws_cmd_profile,
	&ws_cmd_stats,
	&ws_cmd_view,
	&ws_cmd_export,
	&ws_cmd_info,
	&ws_cmd_recover,
	&ws_cmd_doctor,
	&ws_cmd_status,
	&ws_cmd_help,
	&ws_cmd_version,
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
	{"import", "reading other tools' traces"},
	{"query", "asking a report in SQL"},
	{"serve", "showing reports to a browser"},
	{"report", "writing a summary to hand on"},
	{"diff", "comparing two reports"},
	{"merge", "putting reports of several ranks together"},
	{"recipe", "analysing many reports at once"},
	{"symbolize", "resolving symbols of a report afterwards"},
	{"ops", "statistics of framework operators"},
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
