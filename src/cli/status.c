/*
 * status.c - `warpsight status`: with -e the checks of doctor, as users of the reference tool
 * expect; sessions are not there yet.
 */
#include "cli/cli.h"
#include "cli/doctor.h"

struct status_opts {
	bool environment, json;
};

static int run_status(void *opts, int argc, char **argv)
{
	const struct status_opts *options = opts;

	if (argc) {
		ws_say("status takes no argument, but '%s' is given", argv[0]);
		return WS_EXIT_USAGE;
	}
	if (!options->environment) {
		ws_say("interactive sessions are not built yet, so there is no session to show; "
		       "'warpsight status -e' checks the machine");
		return WS_EXIT_USAGE;
	}
	return ws_show_doctor(options->json);
}

static const struct ws_opt status_options[] = {
	{"environment", 'e', WS_OPT_BOOL, offsetof(struct status_opts, environment),
	 .help = "Check the machine, as doctor does."},
	{"json", 0, WS_OPT_FLAG, offsetof(struct status_opts, json), .help = "Write JSON."},
	{"network", 'n', WS_OPT_UNSUPPORTED,
	 .help = "network metrics are not recorded, so there is nothing to check"},
	{"all", 0, WS_OPT_UNSUPPORTED, .help = "there are no sessions to list"},
	{"session", 0, WS_OPT_UNSUPPORTED, .arg = "NAME",
	 .help = "interactive sessions are not built yet: -e checks the machine"},
	{0},
};

const struct ws_command ws_cmd_status = {
	.name = "status",
	.summary = "Show the state of the machine (-e); sessions come later.",
	.usage = "-e [options]",
	.opts = status_options,
	.opts_size = sizeof(struct status_opts),
	.run = run_status,
};
