/* follow_up.c - what --stats and --export do with a report once it is written. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/analyze.h"
#include "cli/record_options.h"
#include "cli/text.h"

static void run_other_command(const char *command, const char *report, char **argv, int argc)
{
	const struct ws_command *found = ws_find_command(command);
	void *values;
	struct ws_err err;
	int first;

	if (!found) {
		ws_warn("%s: this build has no command '%s'", report, command);
		return;
	}
	values = ws_calloc(1, found->opts_size);
	if (ws_opts_parse(found, argc, argv, values, &first, &err))
		ws_warn("%s: %s", command, err.msg);
	else if (found->run(values, argc - first, argv + first))
		ws_warn("%s: '%s' did not succeed", report, command);
	ws_opts_free(found, values);
	free(values);
}

/* Export as each of the types in the list. */
static void export_all(const struct ws_record_options *options, char *report)
{
	char type[64], force[] = "--force-overwrite=true";
	size_t length;

	for (const char *at = options->export_to; *at; at += length + (at[length] == ',')) {
		char *plain[] = {type, report, NULL}, *forced[] = {type, force, report, NULL};

		length = strcspn(at, ",");
		snprintf(type, sizeof(type), "--type=%.*s", (int)length, at);
		if (!strcmp(type, "--type=none"))
			continue;
		if (options->overwrite)
			run_other_command("export", report, forced, 3);
		else
			run_other_command("export", report, plain, 2);
	}
}

void ws_follow_up_report(const struct ws_record_options *options, char *report)
{
	char *stats[] = {report, NULL};

	if (options->stats)
		run_other_command("stats", report, stats, 1);
	export_all(options, report);
	if (!options->quiet)
		ws_say_if_large(report);
	if (!options->no_findings && !options->quiet)
		ws_say_findings(report);
}
