/* view.c - the command `view`: reports as a time line in the browser. */
#include <string.h>

#include "cli/cli.h"
#include "serve/serve.h"

struct options {
	int64_t port;
	bool no_open, remote_hint, record;
};

#define AT(member) offsetof(struct options, member)

static const struct ws_opt opts[] = {
	{"port", 'p', WS_OPT_INT, AT(port), "NUMBER", NULL,
	 "Port to listen on. By default one from 8300 to 9299 that is derived from the files' "
	 "names, or any that is free.",
	 NULL},
	{"no-open", 0, WS_OPT_FLAG, AT(no_open), NULL, NULL, "Do not start the desktop's browser.",
	 NULL},
	{"remote-hint", 0, WS_OPT_FLAG, AT(remote_hint), NULL, NULL,
	 "Print how to open the page from another machine, through ssh.", NULL},
	{"record", 0, WS_OPT_FLAG, AT(record), NULL, NULL,
	 "Let the page start and stop recordings of COMMAND, and of nothing else, and show what "
	 "they wrote.",
	 NULL},
	{NULL},
};

static int run_view(void *values, int argc, char **argv)
{
	const struct options *options = values;
	struct ws_serve_request request = {.files = (const char *const *)argv,
					   .n = (size_t)argc,
					   .open = !options->no_open,
					   .remote_hint = options->remote_hint};
	struct ws_err err;

	/* The word before the operands shows whether "--" was given: without it options of COMMAND
	 * would have been taken for ours. */
	if (options->record && (!argc || strcmp(argv[-1], "--"))) {
		ws_say("--record: put the command behind two dashes: warpsight view --record -- "
		       "COMMAND [ARG...]");
		return WS_EXIT_USAGE;
	}
	if (options->record) {
		request.record = argv;
		request.n = 0;
	}
	if (options->port < 0 || options->port > 65535) {
		ws_say("--port: %lld is not a port", (long long)options->port);
		return WS_EXIT_USAGE;
	}
	request.port = (int)options->port;
	if (ws_view_serve(&request, &err) < 0) {
		ws_say("%s", err.msg);
		return WS_EXIT_FAIL;
	}
	return WS_EXIT_OK;
}

const struct ws_command ws_cmd_view = {
	.name = "view",
	.summary = "Show reports as a time line in the browser.",
	.usage = "[options] [FILE...] | --record [options] -- COMMAND [ARG...]",
	.details =
		"Starts a server on the loopback interface of this machine and prints the address "
		"of the page, which holds a secret token: only someone who has the whole address "
		"can see the reports and, among the users of this machine, only root and the one "
		"who started it. Several reports are shown below one another on one time axis. "
		"Nothing is fetched from elsewhere. Ctrl+C ends the server.\n\n"
		"More files, reports or traces that can be imported, can be dropped on the page or "
		"opened from it; without FILE it starts empty. With --record the page has a dialog "
		"that runs 'warpsight profile' on the command given here, with a choice of what to "
		"trace, and opens the report, which is written to the current folder.\n\n"
		"A report on another machine is best left there: run 'warpsight view "
		"--remote-hint' on that machine and use the ssh command that it prints.",
	.opts = opts,
	.opts_size = sizeof(struct options),
	.examples = "warpsight view report1.wsrep\n"
		    "warpsight view --no-open --port 8400 --remote-hint rank0.wsrep rank1.wsrep\n"
		    "warpsight view --record -- python train.py --epochs 1",
	.run = run_view,
};
