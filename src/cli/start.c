/* start.c - the command `start`: begin the collection of a session. */
#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "cli/record_options.h"
#include "cli/session.h"
#include "cli/text.h"
#include "control/folder.h"
#include "control/pending.h"
#include "record/name.h"
#include "text/json_write.h"

extern const struct ws_command ws_cmd_start;

/* Whether one of the words is this option. */
static bool is_given(const struct ws_opt *option, char **words, size_t count)
{
	size_t length = strlen(option->name);

	for (size_t i = 0; i < count; i++) {
		const char *word = words[i];

		if (!strncmp(word, "--", 2) && !strncmp(word + 2, option->name, length) &&
		    (!word[2 + length] || word[2 + length] == '='))
			return true;
		if (word[0] == '-' && option->short_name && word[1] == option->short_name)
			return true;
	}
	return false;
}

/* What is recorded of a program was decided when it was launched. */
static void warn_decided(char **words, size_t count)
{
	struct ws_text names = {0};
	const struct ws_opt *option = NULL;

	while ((option = ws_next_opt(&ws_cmd_start, option)))
		if (option->also & WS_IN_LAUNCH && option->kind != WS_OPT_UNSUPPORTED &&
		    option->kind != WS_OPT_ALIAS && !(option->also & WS_IN_ALL) &&
		    is_given(option, words, count))
			ws_text_printf(&names, "%s--%s", names.len ? ", " : "", option->name);
	if (names.len)
		ws_warn("%s: this was decided when the program was launched and cannot change: "
			"give it to 'warpsight launch', or to 'warpsight start' before that",
			names.text);
	ws_text_free(&names);
}

/* A range of the program that begins and ends the collection. */
static void put_capture(const struct ws_record_options *options,
			const struct ws_record_opts *record_opts, struct ws_text *request)
{
	if (options->steps)
		ws_put_json_string(request, "steps", options->steps);
	else if (strcmp(options->capture_range, "none"))
		ws_put_json_string(request, "capture", options->capture_range);
	else
		return;
	ws_put_json_string(request, "range_end", ws_text_or(options->capture_range_end, "stop"));
	if (record_opts->capture_range)
		ws_put_json_string(request, "range", record_opts->capture_range);
	if (record_opts->capture_domain)
		ws_put_json_string(request, "domain", record_opts->capture_domain);
}

/* The request: what the recorder is to do, and what is to be done with the report. */
static int make_request(const struct ws_record_options *options, struct ws_text *request,
			struct ws_err *err)
{
	const char *name = options->output;
	char *output;

	if (options->flight_recorder && !strcmp(name, WS_DEFAULT_NAME))
		name = WS_FLIGHT_NAME;
	output = ws_absolute_template(name, err);
	if (!output)
		return -1;
	ws_put_json_string(request, "output", output);
	free(output);
	ws_message_put_flag(request, "overwrite", options->overwrite);
	ws_put_json_int(request, "duration", (int64_t)(options->duration * 1e9));
	ws_message_put_flag(request, "stats", options->stats);
	ws_message_put_flag(request, "no_findings", options->no_findings || options->quiet);
	if (strcmp(options->export_to, "none"))
		ws_put_json_string(request, "export", options->export_to);
	return 0;
}

static int start_in_session(const struct ws_record_options *options, const char *session,
			    const struct ws_text *request, struct ws_err *err)
{
	struct ws_message answer;
	int rc = ws_command_session(session, "start", request, &answer, err);
	const char *report = rc ? "" : ws_text_or(ws_message_text(&answer, "report"), "");

	if (*report && !options->quiet &&
	    (options->steps || strcmp(options->capture_range, "none")))
		ws_say("Collecting into %s when the range begins", report);
	else if (*report && !options->quiet)
		ws_say("Collecting into %s", report);
	ws_message_free(&answer);
	return rc;
}

/* Nothing has been launched: the start waits for the launch. */
static int start_before_launch(const struct ws_record_options *options, const char *session,
			       struct ws_text *request, struct ws_err *err)
{
	size_t count = 0;

	while (ws_main_argv[2 + count])
		count++;
	ws_message_put_list(request, "words", (const char *const *)ws_main_argv + 2, count);
	if (ws_pending_start(session, request, err))
		return -1;
	if (!options->quiet)
		ws_say("Session '%s': nothing is recorded until 'warpsight launch' runs a program "
		       "in it, which is then collected from its beginning.",
		       session);
	return 0;
}

static int start_session(const struct ws_record_options *options, size_t words,
			 struct ws_text *request, struct ws_err *err)
{
	char *session;
	int rc;

	if (options->session && options->session_new)
		return ws_fail(err, "--session and --session-new do not go together");
	if (options->session_new) {
		session = ws_expand_session(options->session_new, "session-new", err);
	} else {
		session = ws_find_session(options->session, err);
		if (session && options->flight_recorder) {
			free(session);
			return ws_fail(err, "--flight-recorder keeps what happens from the "
					    "program's beginning: give it to 'warpsight launch', "
					    "or to 'warpsight start' before that");
		}
		if (session) {
			warn_decided(ws_main_argv + 2, words);
			rc = start_in_session(options, session, request, err);
			free(session);
			return rc;
		}
		if (!*err->msg)
			session = ws_strdup(WS_DEFAULT_SESSION);
	}
	if (!session)
		return -1;
	rc = start_before_launch(options, session, request, err);
	free(session);
	return rc;
}

/* Fill the request; what the options mean must be refused here and now. */
static int read_options(const struct ws_record_options *options, struct ws_text *request,
			struct ws_err *err)
{
	struct ws_record_opts record_opts = {0};
	struct ws_filled_options filled = {0};
	int rc = ws_fill_record_options(options, &record_opts, &filled, err);

	if (!rc)
		rc = ws_mention_left_out(options, &record_opts, err);
	if (!rc)
		rc = make_request(options, request, err);
	if (!rc)
		put_capture(options, &record_opts, request);
	ws_free_filled_options(&record_opts, &filled);
	return rc;
}

/* The range and the key that were named at the launch, where the start names none. */
static void take_from_launch(struct ws_record_options *options, size_t words,
			     struct ws_message *status)
{
	static const struct ws_opt key = {.name = "hotkey-capture"};
	const char *range, *name;
	struct ws_err err;
	char *session;

	if (!strcmp(options->capture_range, "none"))
		return;
	session = ws_find_session(options->session, &err);
	if (session && !ws_command_session(session, "status", NULL, status, &err)) {
		range = ws_message_text(status, "nvtx_capture");
		name = ws_message_text(status, "hotkey_capture");
		options->nvtx_capture = ws_text_or(options->nvtx_capture, range);
		if (name && !is_given(&key, ws_main_argv + 2, words))
			options->hotkey_capture = name;
	}
	free(session);
}

static int run_start(void *values, int argc, char **argv)
{
	struct ws_record_options *options = values;
	struct ws_message launched = {0};
	size_t words = (size_t)(argv - (ws_main_argv + 2));
	struct ws_text request = {0};
	struct ws_err err;
	int status = ws_list_events(options, "start");

	if (status >= 0)
		return status;
	if (argc) {
		ws_say("start takes no program, but '%s' is given: 'warpsight launch' runs it",
		       argv[0]);
		return WS_EXIT_USAGE;
	}
	take_from_launch(options, words, &launched);
	if (read_options(options, &request, &err)) {
		ws_say("start: %s", err.msg);
		ws_text_free(&request);
		ws_message_free(&launched);
		return WS_EXIT_USAGE;
	}
	status = WS_EXIT_OK;
	if (start_session(options, words, &request, &err)) {
		ws_say("start: %s", err.msg);
		status = WS_EXIT_FAIL;
	}
	ws_text_free(&request);
	ws_message_free(&launched);
	return status;
}

const struct ws_command ws_cmd_start = {
	.name = "start",
	.summary = "Begin the collection of a session.",
	.usage = "[options]",
	.details =
		"In a session that has a program, the collection begins at once and goes on until "
		"'warpsight stop', or as long as --duration says. Each collection makes a report "
		"of its own. Where nothing has been launched yet, a session is made, and "
		"'warpsight launch' runs the program in it and collects from its beginning.\n\n"
		"What is recorded of a program is an option of 'warpsight launch'; the options for "
		"samples and events of the kernel count here only before the launch.",
	.opts = ws_record_option_table,
	.part = WS_IN_START,
	.elsewhere = "is decided when the program is launched: give it to 'warpsight launch'",
	.opts_size = sizeof(struct ws_record_options),
	.left_out = WS_RECORD_AT(left_out),
	.examples = "warpsight start -o first\n"
		    "warpsight start --duration=10s --session=server\n"
		    "warpsight start --stats=true -o startup && warpsight launch ./app",
	.run = run_start,
};
