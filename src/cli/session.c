/* session.c - see session.h; and the commands stop, cancel, shutdown and sessions. */
#include "cli/session.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/choose.h"
#include "base/ticks.h"
#include "cli/record_options.h"
#include "cli/text.h"
#include "control/client.h"
#include "control/folder.h"
#include "record/name.h"
#include "text/json_write.h"
#include "text/text.h"

/* ---- which session ---- */

static const char *read_variable(void *ctx, const char *name)
{
	(void)ctx;
	return getenv(name);
}

char *ws_expand_session(const char *given, const char *option, struct ws_err *err)
{
	struct ws_name_context context = {.pid = getpid(), .variable = read_variable};
	struct ws_err why;
	char *name = ws_expand_name(given, &context, &why);

	if (name && !ws_session_check_name(name, &why))
		return name;
	free(name);
	ws_fail(err, "--%s: %s", option, why.msg);
	return NULL;
}

static int64_t ask_recorder(const char *session)
{
	struct ws_message answer;
	struct ws_err err;
	int64_t pid = -1;

	if (!ws_command_session(session, "status", NULL, &answer, &err))
		pid = ws_message_number(&answer, "recorder", -1);
	ws_message_free(&answer);
	return pid;
}

/* The name of the session whose ID this is, from `list`; NULL for none. */
static const char *find_id(const struct ws_session_names *list, const char *text)
{
	if (!*text || text[strspn(text, "0123456789")])
		return NULL;
	for (size_t i = 0; i < list->count; i++)
		if (ask_recorder(list->names[i]) == atoll(text))
			return list->names[i];
	return NULL;
}

static void list_names(struct ws_text *out, const struct ws_session_names *list)
{
	for (size_t i = 0; i < list->count; i++)
		ws_text_printf(out, "%s'%s'", i ? ", " : "", list->names[i]);
}

static const char *choose_from(const struct ws_session_names *list, struct ws_err *err)
{
	struct ws_text all = {0};

	for (size_t i = 0; i < list->count; i++)
		if (!strcmp(list->names[i], WS_DEFAULT_SESSION))
			return list->names[i];
	if (list->count == 1)
		return list->names[0];
	if (!list->count)
		return NULL;
	list_names(&all, list);
	ws_fail(err, "there are %zu sessions: choose one with --session=NAME, from %s", list->count,
		all.text);
	ws_text_free(&all);
	return NULL;
}

static const char *find_given(const struct ws_session_names *list, const char *name,
			      struct ws_err *err)
{
	struct ws_text all = {0};
	const char *found = NULL;

	for (size_t i = 0; i < list->count; i++)
		if (!strcmp(list->names[i], name))
			return list->names[i];
	found = find_id(list, name);
	if (found)
		return found;
	if (!list->count) {
		ws_fail(err, "there is no session '%s'", name);
		return NULL;
	}
	list_names(&all, list);
	ws_fail(err, "there is no session '%s', only %s", name, all.text);
	ws_text_free(&all);
	return NULL;
}

char *ws_find_session(const char *given, struct ws_err *err)
{
	struct ws_session_names list;
	const char *found = NULL;
	char *name = NULL;

	err->msg[0] = 0;
	if (given && !(name = ws_expand_session(given, "session", err)))
		return NULL;
	ws_session_list(&list);
	if (name)
		found = find_given(&list, name, err);
	else
		found = choose_from(&list, err);
	free(name);
	name = found ? ws_strdup(found) : NULL;
	ws_session_free_list(&list);
	return name;
}

/* ---- speaking to it ---- */

int ws_command_session(const char *session, const char *word, const struct ws_text *more,
		       struct ws_message *answer, struct ws_err *err)
{
	struct ws_text request = {0};
	int rc;

	ws_put_json_string(&request, "do", word);
	if (more && more->len) {
		ws_text_puts(&request, ",");
		ws_text_add(&request, more->text, more->len);
	}
	rc = ws_session_ask(session, &request, answer, err);
	ws_text_free(&request);
	if (rc)
		return -1;
	if (!ws_message_flag(answer, "done"))
		return ws_fail(err, "%s",
			       ws_text_or(ws_message_text(answer, "message"),
					  "the session's recorder refuses"));
	return 0;
}

char *ws_absolute_template(const char *output, struct ws_err *err)
{
	struct ws_text text = {0};
	char *folder;

	output = ws_text_or(output, WS_DEFAULT_NAME);
	if (*output == '/')
		return ws_strdup(output);
	folder = getcwd(NULL, 0);
	if (!folder) {
		ws_fail_errno(err, "--output: the present folder has no name");
		return NULL;
	}
	for (const char *at = folder; *at; at++)
		ws_text_add(&text, *at == '%' ? "%%" : at, *at == '%' ? 2 : 1);
	ws_text_printf(&text, "/%s", output);
	free(folder);
	return text.text;
}

/* ---- stop, cancel, shutdown ---- */

struct options {
	const char *session, *kill, *output;
	bool header, json, overwrite;
};

#define AT(member) offsetof(struct options, member)
#define SESSION_OPTION                                                                       \
	{                                                                                    \
		"session", 0, WS_OPT_STRING, AT(session), "NAME", NULL,                      \
			"The session: its name, or its ID in 'warpsight sessions list'. By " \
			"default '[default]', or the only one there is. %q{VAR} is the "     \
			"environment variable VAR, %h the host's name, %% a percent sign.",  \
			NULL                                                                 \
	}

/* The session of a command that takes no operands; NULL after a message, with *status set. */
static char *begin_command(const char *command, const char *given, int argc, char **argv,
			   int *status)
{
	struct ws_err err;
	char *session;

	*status = WS_EXIT_USAGE;
	if (argc) {
		ws_say("%s takes no argument, but '%s' is given", command, argv[0]);
		return NULL;
	}
	session = ws_find_session(given, &err);
	*status = WS_EXIT_FAIL;
	if (!session)
		ws_say("%s: %s", command,
		       *err.msg ? err.msg
				: "there is no session: 'warpsight launch' or 'warpsight start' "
				  "makes one");
	return session;
}

/* What --stats and --export of `start` have asked for. */
static void follow_up(const struct ws_message *answer, const char *report)
{
	struct ws_record_options options = {
		.stats = ws_message_flag(answer, "stats"),
		.overwrite = ws_message_flag(answer, "overwrite"),
		.no_findings = ws_message_flag(answer, "no_findings"),
		.export_to = ws_text_or(ws_message_text(answer, "export"), ""),
	};
	char *path = ws_strdup(report);

	ws_follow_up_report(&options, path);
	free(path);
}

/* Says which report there is now; false when there is none. */
static bool say_report(const struct ws_message *answer)
{
	const char *report = ws_text_or(ws_message_text(answer, "report"), ""),
		   *warning = ws_text_or(ws_message_text(answer, "message"), "");

	if (*warning)
		ws_warn("%s", warning);
	if (!*report)
		return false;
	ws_say("Generated: %s", report);
	follow_up(answer, report);
	return true;
}

static int run_stop(void *values, int argc, char **argv)
{
	uint64_t asked = ws_read_raw_ns();
	const struct options *options = values;
	struct ws_message answer = {0};
	struct ws_text request = {0};
	struct ws_err err;
	int status, rc;
	char *session = begin_command("stop", options->session, argc, argv, &status);

	if (!session)
		return status;
	ws_put_json_int(&request, "asked", (int64_t)asked);
	rc = ws_command_session(session, "stop", &request, &answer, &err);
	ws_text_free(&request);
	if (rc) {
		ws_say("stop: %s", err.msg);
	} else if (say_report(&answer)) {
		status = WS_EXIT_OK;
	} else {
		ws_say("stop: nothing had been collected yet, so there is no report");
	}
	ws_message_free(&answer);
	free(session);
	return status;
}

static int ask_snapshot(const struct options *options, const char *session,
			struct ws_message *answer, struct ws_err *err)
{
	struct ws_text more = {0};
	char *output = NULL;
	int rc;

	if (options->output) {
		output = ws_absolute_template(options->output, err);
		if (!output)
			return -1;
		ws_put_json_string(&more, "output", output);
		free(output);
	}
	ws_message_put_flag(&more, "overwrite", options->overwrite);
	rc = ws_command_session(session, "snapshot", &more, answer, err);
	ws_text_free(&more);
	return rc;
}

static int run_snapshot(void *values, int argc, char **argv)
{
	const struct options *options = values;
	struct ws_message answer = {0};
	struct ws_err err;
	int status;
	char *session = begin_command("snapshot", options->session, argc, argv, &status);

	if (!session)
		return status;
	if (ask_snapshot(options, session, &answer, &err)) {
		ws_say("snapshot: %s", err.msg);
	} else {
		ws_say("Generated: %s", ws_text_or(ws_message_text(&answer, "report"), ""));
		status = WS_EXIT_OK;
	}
	ws_message_free(&answer);
	free(session);
	return status;
}

static int run_cancel(void *values, int argc, char **argv)
{
	const struct options *options = values;
	struct ws_message answer = {0};
	struct ws_err err;
	int status;
	char *session = begin_command("cancel", options->session, argc, argv, &status);

	if (!session)
		return status;
	if (ws_command_session(session, "cancel", NULL, &answer, &err)) {
		ws_say("cancel: %s", err.msg);
	} else {
		ws_say("The collection was discarded.");
		status = WS_EXIT_OK;
	}
	ws_message_free(&answer);
	free(session);
	return status;
}

static int run_shutdown(void *values, int argc, char **argv)
{
	const struct options *options = values;
	struct ws_message answer = {0};
	struct ws_text more = {0};
	struct ws_err err;
	int status, sig;
	char *session;

	if (ws_parse_kill_signal(options->kill, &sig, &err)) {
		ws_say("shutdown: %s", err.msg);
		return WS_EXIT_USAGE;
	}
	session = begin_command("shutdown", options->session, argc, argv, &status);
	if (!session)
		return status;
	ws_put_json_int(&more, "signal", sig);
	if (ws_command_session(session, "shutdown", &more, &answer, &err)) {
		ws_say("shutdown: %s", err.msg);
	} else {
		say_report(&answer);
		status = WS_EXIT_OK;
	}
	ws_text_free(&more);
	ws_message_free(&answer);
	free(session);
	return status;
}

/* ---- sessions ---- */

void ws_print_terminal(const char *text)
{
	struct ws_text out = {0};

	ws_put_terminal_text(&out, text, strlen(text));
	fputs(ws_text_or(out.text, ""), stdout);
	ws_text_free(&out);
}

void ws_format_age(char *out, size_t size, int64_t ns)
{
	int64_t seconds = ns / 1000000000;

	if (seconds >= 3600)
		snprintf(out, size, "%" PRId64 ":%02d:%02d", seconds / 3600,
			 (int)(seconds / 60 % 60), (int)(seconds % 60));
	else
		snprintf(out, size, "%02d:%02d", (int)(seconds / 60), (int)(seconds % 60));
}

static void print_row(const char *session, const struct ws_message *answer)
{
	const char *program = ws_text_or(ws_message_text(answer, "program"), "");
	char age[32];

	ws_format_age(age, sizeof(age), ws_message_number(answer, "age", 0));
	printf("%8" PRId64 "  %9s  %-18s %11" PRId64 "  ", ws_message_number(answer, "recorder", 0),
	       age, ws_text_or(ws_message_text(answer, "state"), ""),
	       ws_message_number(answer, "collections", 0));
	ws_print_terminal(session);
	if (*program)
		fputs("  ", stdout);
	ws_print_terminal(program);
	putchar('\n');
}

static void print_json(struct ws_text *out, const char *session, const struct ws_message *answer)
{
	ws_put_json_comma(out);
	ws_text_puts(out, "{");
	ws_put_json_int(out, "id", ws_message_number(answer, "recorder", 0));
	ws_put_json_string(out, "name", session);
	ws_put_json_string(out, "state", ws_text_or(ws_message_text(answer, "state"), ""));
	ws_put_json_int(out, "age_ns", ws_message_number(answer, "age", 0));
	ws_put_json_int(out, "collections", ws_message_number(answer, "collections", 0));
	ws_put_json_int(out, "target", ws_message_number(answer, "target", 0));
	ws_put_json_string(out, "program", ws_text_or(ws_message_text(answer, "program"), ""));
	ws_text_puts(out, "}");
}

static int run_sessions(void *values, int argc, char **argv)
{
	const struct options *options = values;
	struct ws_session_names list;
	struct ws_text json = {0};

	if (argc != 1 || strcmp(argv[0], "list")) {
		ws_say("sessions: write 'warpsight sessions list'");
		return WS_EXIT_USAGE;
	}
	ws_session_list(&list);
	if (options->header && !options->json)
		printf("%8s  %9s  %-18s %11s  %s\n", "ID", "TIME", "STATE", "COLLECTIONS", "NAME");
	for (size_t i = 0; i < list.count; i++) {
		struct ws_message answer;
		struct ws_err err;

		if (!ws_command_session(list.names[i], "status", NULL, &answer, &err)) {
			if (options->json)
				print_json(&json, list.names[i], &answer);
			else
				print_row(list.names[i], &answer);
		}
		ws_message_free(&answer);
	}
	if (options->json)
		printf("[%s]\n", ws_text_or(json.text, ""));
	ws_text_free(&json);
	ws_session_free_list(&list);
	return WS_EXIT_OK;
}

/* ---- the tables ---- */

static const struct ws_opt session_opts[] = {SESSION_OPTION, {NULL}};

static const struct ws_opt shutdown_opts[] = {
	SESSION_OPTION,
	{"kill", 0, WS_OPT_STRING, AT(kill), "SIGNAL", NULL,
	 "Signal to send to the program and all that it has started: none, sigterm, sigkill, "
	 "another name or a number. With none it runs on unrecorded.",
	 "sigterm"},
	{NULL},
};

static const struct ws_opt snapshot_opts[] = {
	SESSION_OPTION,
	{"output", 'o', WS_OPT_STRING, AT(output), "NAME", NULL,
	 "Name of the report, with %p, %h, %q{VAR} as in 'warpsight profile'. By default the name "
	 "that the flight recorder was given, with a number and the cause.",
	 NULL},
	{"force-overwrite", 'f', WS_OPT_BOOL, AT(overwrite), NULL, NULL,
	 "Replace an existing report.", "false"},
	{NULL},
};

static const struct ws_opt sessions_opts[] = {
	{"show-header", 'p', WS_OPT_BOOL, AT(header), NULL, NULL, "Print the names of the columns.",
	 "true"},
	{"json", 0, WS_OPT_FLAG, AT(json), NULL, NULL, "Write JSON.", NULL},
	{NULL},
};

const struct ws_command ws_cmd_stop = {
	.name = "stop",
	.summary = "End the collection of a session and write its report.",
	.usage = "[options]",
	.details = "Returns when the report is complete, with status 0, and prints its name. The "
		   "program runs on; 'warpsight start' begins the next collection.",
	.opts = session_opts,
	.opts_size = sizeof(struct options),
	.examples = "warpsight stop\n"
		    "warpsight stop --session=server",
	.run = run_stop,
};

const struct ws_command ws_cmd_cancel = {
	.name = "cancel",
	.summary = "End the collection of a session and discard what was collected.",
	.usage = "[options]",
	.details =
		"The program runs on, and there is no report. A start that waits for its launch, "
		"or for a range to begin, is forgotten.",
	.opts = session_opts,
	.opts_size = sizeof(struct options),
	.examples = "warpsight cancel",
	.run = run_cancel,
};

const struct ws_command ws_cmd_snapshot = {
	.name = "snapshot",
	.summary = "Write what a flight recorder holds as a report.",
	.usage = "[options]",
	.details = "'warpsight profile --flight-recorder=30s' keeps the last 30 seconds in memory; "
		   "this writes them. Returns when the report is complete, with status 0, and "
		   "prints its name. Recording goes on meanwhile, and the next snapshot may hold "
		   "some of the same seconds.",
	.opts = snapshot_opts,
	.opts_size = sizeof(struct options),
	.examples = "warpsight snapshot\n"
		    "warpsight snapshot -o slow --session=server",
	.run = run_snapshot,
};

const struct ws_command ws_cmd_shutdown = {
	.name = "shutdown",
	.summary = "End a session: its collection, its recorder and, unless told otherwise, its "
		   "program.",
	.usage = "[options]",
	.details = "A running collection is ended as by 'warpsight stop', and its report is "
		   "complete when this returns.",
	.opts = shutdown_opts,
	.opts_size = sizeof(struct options),
	.examples = "warpsight shutdown\n"
		    "warpsight shutdown --kill=none --session=server",
	.run = run_shutdown,
};

const struct ws_command ws_cmd_sessions = {
	.name = "sessions",
	.summary = "List the sessions of this user.",
	.usage = "list [options]",
	.details = "A session begins with 'warpsight launch' or 'warpsight start' and ends with "
		   "its program or by 'warpsight shutdown'. Sessions of other users are not shown "
		   "and cannot be controlled.",
	.opts = sessions_opts,
	.opts_size = sizeof(struct options),
	.examples = "warpsight sessions list",
	.run = run_sessions,
};
