/*
 * status.c - `warpsight status`: how sessions stand; with -e the checks of doctor, as users of the
 * reference tool expect.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "cli/cli.h"
#include "cli/doctor.h"
#include "cli/session.h"
#include "control/client.h"
#include "text/json_write.h"

struct status_opts {
	const char *session;
	bool environment, json, all;
};

static void print_line(const char *name, const char *value)
{
	printf("  %-13s ", name);
	ws_print_terminal(value);
	putchar('\n');
}

static void print_number(const char *name, const struct ws_message *answer, const char *key)
{
	if (ws_message_text(answer, key))
		printf("  %-13s %" PRId64 "\n", name, ws_message_number(answer, key, 0));
}

/* "collecting, for 01:20" */
static void print_state(const struct ws_message *answer)
{
	int64_t collecting = ws_message_number(answer, "collecting", 0);
	char age[32];

	printf("  %-13s %s", "State:", ws_text_or(ws_message_text(answer, "state"), "unknown"));
	if (collecting > 0) {
		ws_format_age(age, sizeof(age), collecting);
		printf(", for %s", age);
	}
	putchar('\n');
}

/* Of a flight recorder. */
static void print_kept(const struct ws_message *answer)
{
	double kept = (double)ws_message_number(answer, "kept", 0) / 1e9,
	       bytes = (double)ws_message_number(answer, "kept_bytes", 0) / 0x1p20;

	if (bytes <= 0)
		return;
	printf("  %-13s the last %.1f s, in %.1f MiB\n", "Kept:", kept, bytes);
	print_number("Snapshots:", answer, "snapshots");
}

static void print_session(const char *session, const struct ws_message *answer)
{
	const char *program = ws_text_or(ws_message_text(answer, "program"), ""),
		   *report = ws_text_or(ws_message_text(answer, "report"), "");
	char age[32];

	fputs("Session ", stdout);
	ws_print_terminal(session);
	putchar('\n');
	print_state(answer);
	if (*program)
		print_line("Program:", program);
	if (ws_message_number(answer, "target", 0))
		print_number("Process:", answer, "target");
	ws_format_age(age, sizeof(age), ws_message_number(answer, "age", 0));
	print_line("Age:", age);
	print_number("Recorder:", answer, "recorder");
	print_number("Collections:", answer, "collections");
	print_number("Events:", answer, "events");
	if (ws_message_number(answer, "lost", 0))
		print_number("Lost:", answer, "lost");
	print_kept(answer);
	if (*report)
		print_line("Report:", report);
}

static void put_json(struct ws_text *out, const char *session, const struct ws_message *answer)
{
	static const char *const texts[] = {"state", "program", "capture", "report"},
				 *const numbers[] = {"recorder",   "target",	"collections",
						     "events",	   "lost",	"age",
						     "collecting", "snapshots", "kept_bytes",
						     "kept"};

	ws_put_json_comma(out);
	ws_text_puts(out, "{");
	ws_put_json_string(out, "session", session);
	for (size_t i = 0; i < WS_COUNT(texts); i++)
		ws_put_json_string(out, texts[i],
				   ws_text_or(ws_message_text(answer, texts[i]), ""));
	for (size_t i = 0; i < WS_COUNT(numbers); i++)
		ws_put_json_int(out, numbers[i], ws_message_number(answer, numbers[i], 0));
	ws_text_puts(out, "}");
}

static int show_session(const struct status_opts *options, const char *session,
			struct ws_text *json)
{
	struct ws_message answer;
	struct ws_err err;
	int rc = ws_command_session(session, "status", NULL, &answer, &err);

	if (rc)
		ws_say("status: %s", err.msg);
	else if (options->json)
		put_json(json, session, &answer);
	else
		print_session(session, &answer);
	ws_message_free(&answer);
	return rc;
}

static int show_all(const struct status_opts *options, struct ws_text *json)
{
	struct ws_session_names list;
	int rc = 0;

	ws_session_list(&list);
	if (!list.count && !options->json)
		puts("No session is running.");
	for (size_t i = 0; i < list.count; i++)
		rc |= show_session(options, list.names[i], json);
	ws_session_free_list(&list);
	return rc;
}

static int show_one(const struct status_opts *options, struct ws_text *json)
{
	struct ws_err err;
	char *session = ws_find_session(options->session, &err);
	int rc;

	if (!session && !*err.msg) {
		if (!options->json)
			puts("No session is running.");
		return 0;
	}
	if (!session) {
		ws_say("status: %s", err.msg);
		return -1;
	}
	rc = show_session(options, session, json);
	free(session);
	return rc;
}

static int run_status(void *opts, int argc, char **argv)
{
	const struct status_opts *options = opts;
	struct ws_text json = {0};
	int rc;

	if (argc) {
		ws_say("status takes no argument, but '%s' is given", argv[0]);
		return WS_EXIT_USAGE;
	}
	if (options->environment)
		return ws_show_doctor(options->json);
	if (options->all)
		rc = show_all(options, &json);
	else
		rc = show_one(options, &json);
	if (options->json)
		printf("[%s]\n", ws_text_or(json.text, ""));
	ws_text_free(&json);
	return rc ? WS_EXIT_FAIL : WS_EXIT_OK;
}

static const struct ws_opt status_options[] = {
	{"session", 0, WS_OPT_STRING, offsetof(struct status_opts, session), .arg = "NAME",
	 .help = "The session: its name, or its ID in 'warpsight sessions list'. By default "
		 "'[default]', or the only one there is."},
	{"all", 0, WS_OPT_FLAG, offsetof(struct status_opts, all),
	 .help = "Show every session of this user."},
	{"environment", 'e', WS_OPT_BOOL, offsetof(struct status_opts, environment),
	 .help = "Check the machine, as doctor does, instead."},
	{"json", 0, WS_OPT_FLAG, offsetof(struct status_opts, json), .help = "Write JSON."},
	{"network", 'n', WS_OPT_UNSUPPORTED,
	 .help = "network metrics are not recorded, so there is nothing to check"},
	{0},
};

const struct ws_command ws_cmd_status = {
	.name = "status",
	.summary = "Show how a session stands, or the state of the machine (-e).",
	.usage = "[options]",
	.opts = status_options,
	.opts_size = sizeof(struct status_opts),
	.run = run_status,
};
