/*
 * launch.c - the command `launch`: run a program in a session, to be collected when somebody says
 * so.
 *
 * The recorder is this process, as with profile; other commands reach it through the session's
 * socket. A start that came before is taken over, with its options.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "cli/record_options.h"
#include "cli/session.h"
#include "cli/text.h"
#include "control/client.h"
#include "control/commands.h"
#include "control/folder.h"
#include "control/pending.h"

extern const struct ws_command ws_cmd_profile, ws_cmd_launch;

/* ---- which session ---- */

static int refuse_running(const char *session, struct ws_err *err)
{
	return ws_fail(err,
		       "session '%s' runs a program already: --session-new=NAME gives this one a "
		       "session of its own",
		       session);
}

/* Take over the start that waits in `session`; -1 when there is none in that session. */
static int take_over(const char *session, struct ws_message *kept, struct ws_err *err)
{
	int rc = ws_pending_take(session, kept, err);

	if (rc > 0)
		return refuse_running(session, err);
	return rc;
}

/* Without a name: a session that waits for a launch, else a new one. */
static char *choose_default(struct ws_message *kept, struct ws_err *err)
{
	struct ws_session_names list;
	char *session = ws_strdup(WS_DEFAULT_SESSION);

	if (ws_session_exists(session)) {
		if (!take_over(session, kept, err))
			return session;
		free(session);
		return NULL;
	}
	ws_session_list(&list);
	if (list.count == 1 && !ws_pending_take(list.names[0], kept, err)) {
		free(session);
		session = ws_strdup(list.names[0]);
	} else {
		ws_message_free(kept);
	}
	ws_session_free_list(&list);
	return session;
}

/* The session's name; `kept` gets the start that it was made by. Owned by the caller; NULL with a
 * message. */
static char *choose_session(const struct ws_record_options *options, struct ws_message *kept,
			    struct ws_err *err)
{
	char *session;

	if (options->session && options->session_new) {
		ws_fail(err, "--session and --session-new do not go together");
		return NULL;
	}
	if (options->session_new)
		return ws_expand_session(options->session_new, "session-new", err);
	if (!options->session)
		return choose_default(kept, err);
	session = ws_find_session(options->session, err);
	if (session && !take_over(session, kept, err))
		return session;
	free(session);
	return NULL;
}

/* ---- the start that came before ---- */

/* Apply the options of the start, then those of this command line over them. */
static int apply_start(struct ws_record_options *options, const struct ws_message *kept,
		       char **target, struct ws_err *err)
{
	size_t words = (size_t)(target - (ws_main_argv + 2)), n = 0, at = 0;
	const char *range = options->start_range, *key = options->start_key;
	char **joined = ws_calloc(kept->count + words + 1, sizeof(char *));
	int first;

	for (const char *word; (word = ws_message_next(kept, "words", &at));)
		joined[n++] = (char *)word;
	for (size_t i = 0; i < words; i++)
		joined[n++] = ws_main_argv[2 + i];
	if (n && !strcmp(joined[n - 1], "--"))
		n--;
	ws_opts_free(&ws_cmd_launch, options);
	memset(options, 0, sizeof(*options));
	if (ws_opts_parse(&ws_cmd_profile, (int)n, joined, options, &first, err))
		return -1;
	options->output = ws_message_text(kept, "output");
	options->start_range = range;
	options->start_key = key;
	return 0; /* the words must live as long as the options made from them */
}

static bool asks_for_flight(const struct ws_message *kept)
{
	static const char option[] = "--flight-recorder";
	size_t at = 0;

	for (const char *word; (word = ws_message_next(kept, "words", &at));)
		if (!strncmp(word, option, sizeof(option) - 1))
			return true;
	return false;
}

/* When a collection begins: at the command start, or as the earlier start says. */
static int fill_plan(const struct ws_message *kept, struct ws_record_opts *opts, struct ws_err *err)
{
	struct ws_control_request request;

	if (opts->plan.flight.on && kept->count && !asks_for_flight(kept))
		return ws_fail(err, "the start that waited for this launch asked for a collection, "
				    "not for a flight recorder; it is forgotten now");
	if (opts->plan.flight.on)
		return 0;
	if (ws_commands_read_start(kept, &opts->plan, &request, err))
		return -1;
	opts->capture_range = request.range;
	opts->capture_domain = request.domain;
	if (kept->count && opts->plan.capture == WS_CAPTURE_USER)
		opts->plan.capture = WS_CAPTURE_NONE; /* from the beginning */
	opts->perf.later = opts->plan.capture != WS_CAPTURE_NONE;
	return 0;
}

static int launch_target(struct ws_record_options *options, char **target)
{
	struct ws_record_opts opts = {0};
	struct ws_filled_options filled = {0};
	struct ws_message kept = {0};
	struct ws_err err;
	int status = WS_EXIT_USAGE;
	char **attached = NULL;
	char *session = choose_session(options, &kept, &err);

	if (!session) {
		ws_say("launch: %s", err.msg);
		ws_message_free(&kept);
		return WS_EXIT_FAIL;
	}
	if (ws_check_attach(options, target, &err) ||
	    (kept.count && apply_start(options, &kept, target, &err)) ||
	    ws_fill_record_options(options, &opts, &filled, &err) ||
	    ws_mention_left_out(options, &opts, &err) || fill_plan(&kept, &opts, &err)) {
		ws_say("launch: %s", err.msg);
	} else {
		opts.argv = target;
		opts.command_line = ws_main_argv;
		attached = ws_name_attached(options, &opts);
		status = ws_record_in_session(options, &opts, session, &kept);
	}
	ws_free_filled_options(&opts, &filled);
	ws_message_free(&kept);
	free(attached);
	free(session);
	return status;
}

static int run_launch(void *values, int argc, char **argv)
{
	struct ws_record_options *options = values;
	char **target = argv;
	struct ws_err err;
	int status;

	if (options->command_file &&
	    ws_apply_command_file(&ws_cmd_launch, options, argc, argv, &target, &err)) {
		ws_say("launch: %s", err.msg);
		return WS_EXIT_USAGE;
	}
	options->for_starts = true;
	options->start_range = options->nvtx_capture;
	options->start_key = options->hotkey_capture;
	status = ws_list_events(options, "launch");
	if (status >= 0)
		return status;
	if (!target[0] && !options->attach) {
		ws_say("launch: no program to run: warpsight launch [options] [--] APP [ARG...]");
		return WS_EXIT_USAGE;
	}
	return launch_target(options, target);
}

const struct ws_command ws_cmd_launch = {
	.name = "launch",
	.summary = "Run a program in a session, to be collected when 'warpsight start' says so.",
	.usage = "[options] [--] APP [ARG...] | [options] --attach PID",
	.details =
		"Runs APP as profile does, in this terminal and with its exit status, but collects "
		"nothing until 'warpsight start' is given in another terminal; 'warpsight stop' "
		"then writes the report, as often as wanted. Until then the program runs nearly as "
		"fast as if it ran alone. After a start that came before, collecting begins with "
		"the program.\n\n"
		"With --flight-recorder it collects from the beginning, and 'warpsight snapshot' "
		"writes the report of the last seconds.\n\n"
		"The session ends with APP and what it has started. A collection that runs then is "
		"ended, and its report written.\n\n"
		"With --attach the session records a process that is already running, until that "
		"ends, or Ctrl+C or 'warpsight shutdown' ends the session: the process goes on.",
	.opts = ws_record_option_table,
	.part = WS_IN_LAUNCH,
	.elsewhere = "is about one collection: give it to 'warpsight start', before the launch or "
		     "after it",
	.opts_size = sizeof(struct ws_record_options),
	.left_out = WS_RECORD_AT(left_out),
	.stop_at_operand = true,
	.examples = "warpsight launch ./server & warpsight start -d 10s\n"
		    "warpsight launch --session-new=train -t cuda,nvtx python3 train.py",
	.run = run_launch,
};
