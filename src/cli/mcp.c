/* mcp.c - the command `mcp`: reports as tools for language-model agents. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "mcp/server.h"
#include "text/output_file.h"

struct options {
	struct ws_list roots;
};

static const struct ws_opt opts[] = {
	{"root", 0, WS_OPT_LIST, offsetof(struct options, roots), "DIR", NULL,
	 "Open only files below this folder; may be given several times. By default any file that "
	 "you can read.",
	 NULL},
	{NULL},
};

static int prepare_server(struct ws_mcp_server *server, const struct options *options, int argc,
			  char **argv)
{
	struct ws_err err;

	for (size_t i = 0; i < options->roots.count; i++)
		if (ws_mcp_add_root(server, options->roots.values[i], &err)) {
			ws_say("mcp: --root: %s", err.msg);
			return WS_EXIT_USAGE;
		}
	server->imports = true;
	for (int i = 0; i < argc; i++)
		if (!ws_mcp_open_report(server, argv[i], &err)) {
			ws_say("mcp: %s", err.msg);
			return WS_EXIT_FAIL;
		}
	server->imports = false;
	return WS_EXIT_OK;
}

static int run_mcp(void *values, int argc, char **argv)
{
	struct ws_mcp_server server = {0};
	int status = prepare_server(&server, values, argc, argv);

	if (!status && isatty(STDIN_FILENO))
		ws_say("mcp: waiting for messages of the Model Context Protocol; a client starts "
		       "this command, see docs/mcp.md");
	if (!status && ws_mcp_serve(&server, STDIN_FILENO, stdout)) {
		status = WS_EXIT_FAIL;
		if (errno == EPIPE)
			status = WS_EXIT_PIPE_CLOSED;
		else
			ws_say("mcp: cannot write an answer: %s", strerror(errno));
	}
	ws_mcp_free(&server);
	return status;
}

const struct ws_command ws_cmd_mcp = {
	.name = "mcp",
	.summary = "Serve reports to language-model agents as tools.",
	.usage = "[options] [REPORT...]",
	.details = "Speaks the Model Context Protocol (revisions 2024-11-05, 2025-03-26 and "
		   "2025-06-18) over standard input and output, and ends with its input. The tools "
		   "open reports, say what they hold, name findings with what they cost and what "
		   "to do, and answer queries and statistics as rows. Reports named here are open "
		   "from the start, as r1, r2 and so on; traces of other tools can be opened only "
		   "here. Clients can read reports, and nothing else: no file is written, and no "
		   "program started.",
	.opts = opts,
	.opts_size = sizeof(struct options),
	.examples = "warpsight mcp\n"
		    "warpsight mcp --root=$HOME/runs\n"
		    "warpsight mcp train.wsrep\n",
	.run = run_mcp,
};
