/* record_session.c - recording a program in a session, for launch and profile. */
#include <stdio.h>
#include <stdlib.h>

#include "base/choose.h"
#include "cli/record_options.h"
#include "cli/session.h"
#include "cli/text.h"
#include "control/commands.h"
#include "control/server.h"

/* A report whose name no command has reported: that of a collection that ended by itself. */
static void say_report(const struct ws_record_options *options, struct ws_commands *commands,
		       char *report)
{
	struct ws_record_options wanted = {
		.stats = commands->follow_up.stats,
		.overwrite = commands->follow_up.overwrite,
		.no_findings = commands->follow_up.no_findings || options->quiet,
		.export_to = ws_text_or(commands->follow_up.export_to, ""),
	};

	if (ws_commands_has_named(commands, report))
		return;
	if (!options->quiet)
		ws_say("Generated: %s", report);
	ws_follow_up_report(&wanted, report);
}

static void say_reports(const struct ws_record_options *options, struct ws_commands *commands,
			struct ws_record_result *result)
{
	if (result->lost)
		ws_warn("%llu rows could not be written", (unsigned long long)result->lost);
	for (size_t i = 0; i < result->report_count; i++) {
		say_report(options, commands, result->reports[i]);
		free(result->reports[i]);
	}
	free(result->reports);
}

/* The answer to a command that comes when the program has ended. */
static void close_mailbox(struct ws_mailbox *mailbox, const struct ws_record_result *result)
{
	char message[256] = "the program has ended, and the session with it";

	if (result->report_count)
		snprintf(message, sizeof(message),
			 "the program has ended, and the session with it; the report is %.190s",
			 result->reports[0]);
	ws_mailbox_close(mailbox, message);
}

int ws_record_in_session(const struct ws_record_options *options, struct ws_record_opts *opts,
			 const char *session, const struct ws_message *start)
{
	struct ws_record_result result = {.status = WS_EXIT_FAIL};
	struct ws_mailbox *mailbox = ws_mailbox_new();
	struct ws_server *server = NULL;
	struct ws_commands commands;
	struct ws_err err;

	ws_commands_init(&commands, mailbox, opts->argv[0]);
	commands.range = options->start_range;
	commands.key = options->start_key;
	ws_commands_note_follow_up(&commands, start);
	opts->mailbox = mailbox;
	if (ws_server_start(&server, session, ws_commands_answer, &commands, &err) ||
	    ws_record(opts, &result, &err))
		ws_say("%s", err.msg);
	ws_server_hide(server);
	close_mailbox(mailbox, &result);
	ws_server_end(server);
	say_reports(options, &commands, &result);
	ws_commands_free(&commands);
	ws_mailbox_free(mailbox);
	return result.status;
}
