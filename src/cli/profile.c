/*
 * profile.c - the command `profile`: run a program, record it, write a report when it ends.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/choose.h"
#include "cli/per_node.h"
#include "cli/record_options.h"
#include "cli/session.h"
#include "cli/text.h"
#include "control/client.h"
#include "control/folder.h"
#include "record/ranks.h"
#include "text/json_write.h"

extern const struct ws_command ws_cmd_profile;

static void say_result(const struct ws_record_options *options,
		       const struct ws_record_result *result)
{
	if (result->lost)
		ws_warn("%llu rows could not be written", (unsigned long long)result->lost);
	for (size_t i = 0; i < result->report_count && !options->quiet; i++)
		ws_say("Generated: %s", result->reports[i]);
}

/* Only one of a job's ranks prints findings, because all of them write to one terminal. */
static bool is_later_rank(void)
{
	struct ws_variables variables = ws_copy_variables(environ);
	struct ws_rank rank;
	bool later = ws_read_rank(variables, &rank) && rank.rank > 0;

	free((char *)variables.text);
	return later;
}

/* Returns the exit status. */
static int record_target(const struct ws_record_options *options,
			 const struct ws_record_opts *record_opts)
{
	struct ws_record_result result = {0};
	struct ws_err err;

	if (ws_record(record_opts, &result, &err)) {
		ws_say("%s", err.msg);
		if (!result.started)
			return result.status;
		/* The message about a report that did not fit has been printed; the status stays
		 * the target's, which scripts act upon. */
	}
	say_result(options, &result);
	for (size_t i = 0; i < result.report_count; i++) {
		ws_follow_up_report(options, result.reports[i]);
		free(result.reports[i]);
	}
	free(result.reports);
	return result.status;
}

/* The name for a flight recorder that was given none: programs that run side by side may each have
 * one. */
static const char *choose_session(const struct ws_record_options *options)
{
	if (options->flight_recorder && ws_session_exists(WS_DEFAULT_SESSION))
		return "flight-%p";
	return WS_DEFAULT_SESSION;
}

/* With --session-new, --start-later and --flight-recorder: other commands can end and begin
 * collections. */
static int record_in_session(const struct ws_record_options *options,
			     struct ws_record_opts *record_opts)
{
	const char *given = ws_text_or(options->session_new, choose_session(options));
	struct ws_message follow_up = {0};
	struct ws_text members = {0};
	struct ws_err err;
	char *session = ws_expand_session(given, "session-new", &err);
	int status = WS_EXIT_USAGE;

	if (options->start_later) {
		record_opts->plan.capture = WS_CAPTURE_USER;
		record_opts->plan.interactive = true;
		record_opts->perf.later = true;
	}
	ws_text_puts(&members, "{");
	ws_message_put_flag(&members, "stats", options->stats);
	ws_message_put_flag(&members, "overwrite", options->overwrite);
	ws_message_put_flag(&members, "no_findings", options->no_findings);
	ws_put_json_string(&members, "export", options->export_to);
	ws_text_puts(&members, "}");
	if (!session || ws_message_parse(&follow_up, members.text, members.len, &err))
		ws_say("profile: %s", err.msg);
	else
		status = ws_record_in_session(options, record_opts, session, &follow_up);
	ws_message_free(&follow_up);
	ws_text_free(&members);
	free(session);
	return status;
}

/* A recorder that is not the program's parent can do less for it. */
static int check_per_node(const struct ws_record_options *options, struct ws_err *err)
{
	const char *other = NULL;

	if (!options->per_node)
		return 0;
	if (options->attach)
		other = "--attach";
	else if (options->start_later)
		other = "--start-later";
	else if (options->store_output)
		other = "--store-output";
	else if (!options->show_output)
		other = "--show-output=false";
	else if (options->run_as)
		other = "--run-as";
	else if (options->flight_recorder)
		other = "--flight-recorder";
	return other ? ws_fail(err, "--per-node and %s do not go together", other) : 0;
}

static bool is_system_wide(const char *scope)
{
	return scope && !strcmp(scope, "system-wide");
}

/* Whether the options ask for what goes on in the whole machine, which needs no program. */
static bool asks_for_machine(const struct ws_record_options *options)
{
	bool gpus = options->gpu_metrics_devices && strcmp(options->gpu_metrics_devices, "none");

	return gpus || is_system_wide(options->sample) || is_system_wide(options->cpuctxsw) ||
	       is_system_wide(options->event_sample);
}

/* Without a program, one that only waits takes its place until the duration or an interrupt. */
static int choose_target(const struct ws_record_options *options, char ***target,
			 struct ws_err *err)
{
	static char *idle[] = {"sleep", "infinity", NULL};
	bool needed = !(*target)[0] && !options->attach;
	int kill_signal;

	if (!needed)
		return 0;
	if (!asks_for_machine(options))
		return ws_fail(err, "no program to run: warpsight profile [options] [--] APP "
				    "[ARG...]");
	if (ws_parse_kill_signal(options->kill, &kill_signal, err))
		return -1;
	if (!kill_signal)
		return ws_fail(err, "--kill=none needs a program");
	*target = idle;
	return 0;
}

static int run_profile(void *values, int argc, char **argv)
{
	struct ws_record_options *options = values;
	struct ws_record_opts record_opts = {0};
	struct ws_filled_options filled = {0};
	struct ws_err err;
	char **target = argv, **attached;
	int status;

	if (options->command_file &&
	    ws_apply_command_file(&ws_cmd_profile, options, argc, argv, &target, &err)) {
		ws_say("profile: %s", err.msg);
		return WS_EXIT_USAGE;
	}
	status = ws_list_events(options, "profile");
	if (status >= 0)
		return status;
	record_opts.machine_only = !target[0] && !options->attach;
	if (choose_target(options, &target, &err)) {
		ws_say("profile: %s", err.msg);
		return WS_EXIT_USAGE;
	}
	if (options->session) {
		ws_say("profile: --session: profile makes a session of its own: give "
		       "--session-new=NAME, or run the program by 'warpsight launch'");
		return WS_EXIT_USAGE;
	}
	if (check_per_node(options, &err) || ws_check_attach(options, target, &err) ||
	    ws_fill_record_options(options, &record_opts, &filled, &err) ||
	    ws_mention_left_out(options, &record_opts, &err)) {
		ws_say("profile: %s", err.msg);
		return WS_EXIT_USAGE;
	}
	options->no_findings |= is_later_rank() && !options->per_node;
	record_opts.argv = target;
	record_opts.command_line = ws_main_argv;
	attached = ws_name_attached(options, &record_opts);
	if (options->per_node)
		status = ws_record_per_node(options, &record_opts);
	else if (options->session_new || options->start_later || options->flight_recorder)
		status = record_in_session(options, &record_opts);
	else
		status = record_target(options, &record_opts);
	ws_free_filled_options(&record_opts, &filled);
	free(attached);
	return status;
}

const struct ws_command ws_cmd_profile = {
	.name = "profile",
	.summary = "Run a program and record what it does into a report.",
	.usage = "[options] [--] APP [ARG...] | [options] --attach PID",
	.details = "Runs APP as if it ran alone (same terminal, same streams, same exit status) "
		   "and records it and every process that it starts. The report has its name from "
		   "the start and can be read while the program runs, and after a crash.\n\n"
		   "The exit status is that of APP, 128 plus the signal when a signal ended it, "
		   "127 when APP was not found and 126 when it could not be run. Messages go to "
		   "standard error.\n\n"
		   "With --attach a process that is already running is recorded: its samples and "
		   "context switches at once, NVTX, the OS runtime and CUDA where the hooks can be "
		   "loaded into it. The exit status is then 0, however the process ends.\n\n"
		   "Without APP, the machine is recorded until the duration is over or an "
		   "interrupt comes, where an option asks for more than a program: "
		   "--gpu-metrics-devices, --sample=system-wide, --cpuctxsw=system-wide or "
		   "--event-sample=system-wide.",
	.opts = ws_record_option_table,
	.opts_size = sizeof(struct ws_record_options),
	.left_out = WS_RECORD_AT(left_out),
	.stop_at_operand = true,
	.examples = "warpsight profile ./app input.dat\n"
		    "warpsight profile -t nvtx -o run.wsrep -f python3 train.py\n"
		    "warpsight profile -y 5 -d 10 --kill none ./server\n"
		    "warpsight profile -o 'rank%q{RANK}' torchrun --nproc-per-node 2 train.py\n"
		    "warpsight profile --gpu-metrics-devices=all -d 10\n"
		    "warpsight profile --stats=true make -j4",
	.run = run_profile,
};
