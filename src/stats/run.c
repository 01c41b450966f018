/*
 * run.c - make the reports asked for of one file, each into its output.
 *
 * An output is opened when a report hands over its first row, so a report without data leaves no
 * file behind, only a message that says why it was skipped; one message names all skipped default
 * reports. What a table leaves out (ranges that never ended, unreadable blocks) is reported on
 * stderr, never in the table.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/output_file.h"
#include "base/choose.h"
#include "sql/print.h"
#include "print/command.h"
#include "query/absent.h"
#include "query/operand.h"
#include "stats/filter.h"
#include "stats/user.h"
#include "text/suggest.h"

struct report_job {
	struct ws_stats stats; /* first: reports hand over rows with a pointer to it */
	const struct ws_stats_request *request;
	const struct ws_stats_report *stat;
	struct ws_printer printer;
	struct ws_output_file out;
	struct ws_command_output command; /* used instead of `out` with -o @command */
	char *path;
	char **skipped;	    /* names of default reports without data, for one message; NULL when the
			       report was asked for */
	bool begun, failed; /* the output is open; it could not be opened or written */
	struct ws_err error;
};

static const struct ws_timeunit nanoseconds = {"ns", 0};

static const char *get_paired(const char *const *list, size_t count, size_t i)
{
	if (!count)
		return NULL;
	return list[ws_min(i, count - 1)];
}

/* The format of report i. Without -f, columns for people to read on standard output, csv in files.
 */
static const char *choose_format(const struct ws_stats_request *request, size_t i)
{
	const char *output = get_paired(request->outputs, request->output_count, i),
		   *format = get_paired(request->formats, request->format_count, i);

	if (format && *format && strcmp(format, "."))
		return format;
	if (output && strcmp(output, "-"))
		return "csv";
	return "column";
}

static int check_output(const char *output, struct ws_err *err)
{
	char **words, *why;

	if (!*output)
		return ws_fail(err, "-o: the name of the output is empty");
	if (*output != '@')
		return 0;
	words = ws_split_words(output + 1, err);
	if (words) {
		ws_free_words(words);
		return 0;
	}
	why = ws_strdup(err->msg);
	ws_fail(err, "-o %s: %s", output, why);
	free(why);
	return -1;
}

/* The report that `spec` begins with, up to a colon. */
static const struct ws_stats_report *find_report(const char *spec)
{
	char *name = ws_strndup(spec, strcspn(spec, ":"));
	const struct ws_stats_report *stat = ws_find_stats_report(name);

	free(name);
	return stat;
}

/* Why the report that `spec` begins with is not made here; NULL for other reports. */
static const char *get_elsewhere_reason(const char *spec)
{
	char *name = ws_strndup(spec, strcspn(spec, ":"));
	const char *why = ws_get_stats_elsewhere_reason(name);

	free(name);
	return why;
}

/* Print a message when the report has been renamed. */
static void say_new_name(const char *spec, const struct ws_stats_report *stat)
{
	size_t length = strcspn(spec, ":");

	if (strlen(stat->name) != length || memcmp(stat->name, spec, length))
		ws_say("the report %.*s is called %s now", (int)length, spec, stat->name);
}

/* Whether the letters are the argument that a report declares as `known`. */
static bool is_same_arg(const char *arg, size_t length, const char *known)
{
	size_t known_length = strlen(known);

	if (known[known_length - 1] == '*')
		return length >= known_length && !memcmp(arg, known, known_length - 1);
	if (known[known_length - 1] != '=')
		return length == known_length && !memcmp(arg, known, length);
	return length > known_length && length < known_length + 10 &&
	       !memcmp(arg, known, known_length) &&
	       strspn(arg + known_length, "0123456789") >= length - known_length;
}

const char *ws_get_stats_arg(const struct ws_stats *stats, const char *name)
{
	size_t length;

	for (const char *arg = stats->args; *arg; arg += length) {
		length = strcspn(++arg, ":");
		if (!is_same_arg(arg, length, name))
			continue;
		if (!strchr(name, '='))
			return "";
		return strchr(arg, '=') + 1;
	}
	return NULL;
}

uint64_t ws_get_stats_arg_number(const struct ws_stats *stats, const char *name, uint64_t fallback)
{
	const char *arg = ws_get_stats_arg(stats, name);

	if (!arg)
		return fallback;
	return strtoull(arg, NULL, 10);
}

/* "base, rows=<number>, step=<name>" */
static void list_known_args(const struct ws_stats_report *stat, struct ws_text *known)
{
	for (size_t i = 0; stat->args && stat->args[i]; i++) {
		const char *arg = stat->args[i];

		if (i)
			ws_text_puts(known, ", ");
		ws_text_add(known, arg, strcspn(arg, "*"));
		if (strchr(arg, '*'))
			ws_text_puts(known, "<name>");
		else if (strchr(arg, '='))
			ws_text_puts(known, "<number>");
	}
}

static int check_args(const struct ws_stats_report *stat, const char *spec, struct ws_err *err)
{
	struct ws_text known = {0};
	bool ok = true;
	size_t length;

	list_known_args(stat, &known);
	for (const char *arg = spec + strcspn(spec, ":"); *arg && ok; arg += length) {
		length = strcspn(++arg, ":");
		ok = false;
		for (size_t i = 0; stat->args && stat->args[i]; i++)
			ok |= is_same_arg(arg, length, stat->args[i]);
	}
	if (!ok && !stat->args)
		ws_fail(err, "the report %s takes no arguments, but '%s' was given", stat->name,
			spec);
	else if (!ok)
		ws_fail(err, "'%s': the report %s takes %s", spec, stat->name, known.text);
	else if (strstr(spec, ":base") && strstr(spec, ":mangled")) {
		ws_fail(err, "'%s': base and mangled exclude each other", spec);
		ok = false;
	}
	ws_text_free(&known);
	return -!ok;
}

static int refuse_unknown_report(const struct ws_user_reports *user, const char *spec,
				 struct ws_err *err)
{
	char *name = ws_strndup(spec, strcspn(spec, ":"));
	struct ws_nearest near = {.word = name};

	for (size_t i = 0; ws_stats_list[i]; i++)
		ws_try_name(&near, ws_stats_list[i]->name, strlen(ws_stats_list[i]->name));
	for (size_t i = 0; user && i < user->count; i++)
		ws_try_name(&near, user->reports[i].name, strlen(user->reports[i].name));
	if (ws_has_near_name(&near))
		ws_fail(err,
			"there is no report '%s'; did you mean %s? --help-reports lists those "
			"there are",
			spec, near.best);
	else
		ws_fail(err, "there is no report '%s'; --help-reports lists those there are", spec);
	free(name);
	return -1;
}

static int check_report(const struct ws_stats_request *request, const char *spec,
			struct ws_err *err)
{
	const struct ws_stats_report *stat = find_report(spec);
	const struct ws_user_report *user = ws_find_user_report(request->user, spec);

	if (user)
		return ws_check_user_report(user, spec, err);
	if (get_elsewhere_reason(spec))
		return 0;
	if (!stat && ws_has_report_script(request->user, spec))
		return ws_fail(err,
			       "'%s' is a script, and scripts are not run: write the report as a "
			       "query, %.*s.sql",
			       spec, (int)strcspn(spec, ":"), spec);
	if (!stat)
		return refuse_unknown_report(request->user, spec, err);
	if (check_args(stat, spec, err) < 0)
		return -1;
	if (!request->quiet)
		say_new_name(spec, stat);
	return 0;
}

/* There must not be more formats or outputs than reports. */
static int check_counts(const struct ws_stats_request *request, struct ws_err *err)
{
	size_t reports = request->report_count, given = request->output_count;
	const char *what = "outputs";

	for (size_t i = 0; !request->report_count && ws_stats_list[i]; i++)
		reports += ws_stats_list[i]->by_default;
	if (request->format_count > reports) {
		given = request->format_count;
		what = "formats";
	}
	if (given <= reports)
		return 0;
	return ws_fail(err, "%zu %s are given for %zu report%s", given, what, reports,
		       ws_plural(reports));
}

int ws_check_stats_request(const struct ws_stats_request *request, struct ws_err *err)
{
	struct ws_format_args args;

	for (size_t i = 0; i < request->report_count; i++)
		if (check_report(request, request->reports[i], err) < 0)
			return -1;
	if (check_counts(request, err) < 0)
		return -1;
	for (size_t i = 0; i < request->format_count; i++)
		if (*request->formats[i] && strcmp(request->formats[i], ".") &&
		    !ws_find_format(request->formats[i], &args, err))
			return -1;
	for (size_t i = 0; i < request->output_count; i++)
		if (check_output(request->outputs[i], err) < 0)
			return -1;
	if (!request->filter_time)
		return 0;
	return ws_check_time_filter(request->filter_time, err);
}

/* The length of a path without the extension of a report file. */
static int get_stem_length(const char *path)
{
	static const char *const extensions[] = {".wsrep",   ".sqlite", ".nsys-rep",
						 ".json.gz", ".json",	".pftrace"};
	size_t length = strlen(path);

	for (size_t i = 0; i < WS_COUNT(extensions); i++) {
		size_t extension_length = strlen(extensions[i]);

		if (length > extension_length &&
		    !strcmp(path + length - extension_length, extensions[i]))
			return (int)(length - extension_length);
	}
	return (int)length;
}

/* The part of an output's file name for report i: its name as it was asked for, with arguments, and
 * its range. */
static char *make_file_name_part(const struct report_job *report_job, size_t i)
{
	const struct ws_stats_request *request = report_job->request;
	const char *spec = report_job->printer.name;
	char *name;

	if (i < request->report_count)
		spec = request->reports[i];
	if (request->filter_nvtx)
		name = ws_format("%s_nvtx=%s", spec, request->filter_nvtx);
	else
		name = ws_strdup(spec);
	for (char *letter = name; *letter; letter++) {
		if (*letter == ':')
			*letter = '_';
		else if (*letter == '/')
			*letter = '-';
	}
	return name;
}

/* Where report i goes: "-", "@command", or BASE_REPORT.EXT, where "." stands for the path of the
 * file itself as BASE. */
static char *make_output_path(const struct report_job *report_job, size_t i)
{
	const char *output = get_paired(report_job->request->outputs,
					report_job->request->output_count, i),
		   *ext = report_job->printer.format->extension;
	const char *path = ws_report_path(report_job->stats.report), *base = basename(path);
	char *name, *out;

	if (!output || !strcmp(output, "-"))
		return ws_strdup("-");
	if (*output == '@')
		return ws_strdup(output);
	name = make_file_name_part(report_job, i);
	if (!strcmp(output, "."))
		out = ws_format("%.*s_%s.%s", get_stem_length(path), path, name, ext);
	else if (report_job->request->shares_outputs)
		out = ws_format("%s_%.*s_%s.%s", output, get_stem_length(base), base, name, ext);
	else
		out = ws_format("%s_%s.%s", output, name, ext);
	free(name);
	return out;
}

/* Open the output when the table has its first row. */
static int open_output(struct report_job *report_job)
{
	if (*report_job->path == '@') {
		if (ws_command_start(&report_job->command, report_job->path + 1,
				     &report_job->error) < 0)
			return -1;
		report_job->printer.file = report_job->command.file;
	} else {
		if (ws_open_output_file(&report_job->out, report_job->path, 0666,
					report_job->request->overwrite, &report_job->error) < 0)
			return -1;
		report_job->printer.file = report_job->out.file;
	}
	report_job->begun = true;
	return 0;
}

static int close_output(struct report_job *report_job)
{
	if (*report_job->path == '@')
		return ws_command_finish(&report_job->command, &report_job->error);
	if (!strcmp(report_job->path, "-"))
		fputs("\n", report_job->out.file); /* separates the tables of one stream */
	return ws_commit_output(&report_job->out, &report_job->error);
}

static void abort_output(struct report_job *report_job)
{
	struct ws_err unsaid;

	if (report_job->begun && *report_job->path == '@')
		ws_command_finish(&report_job->command, &unsaid);
	else if (report_job->begun)
		ws_abort_output(&report_job->out);
}

/* A report hands over rows: open the output if this has not been done. False when that failed. */
static bool open_on_first_row(struct report_job *report_job)
{
	if (report_job->begun || report_job->failed)
		return !report_job->failed;
	report_job->failed = open_output(report_job) < 0;
	if (!report_job->failed)
		ws_print_begin(&report_job->printer);
	return !report_job->failed;
}

static void print_stats_row(struct ws_stats *stats, const struct ws_cell *cells)
{
	struct report_job *report_job = (struct report_job *)stats;

	if (open_on_first_row(report_job))
		ws_print_row(&report_job->printer, cells);
}

static void print_stats_rows(struct ws_stats *stats, size_t count,
			     size_t (*make)(const void *context, size_t i, struct ws_cell *cells,
					    struct ws_text *text),
			     const void *context)
{
	struct report_job *report_job = (struct report_job *)stats;

	if (count && open_on_first_row(report_job))
		ws_print_rows(&report_job->printer, count, make, context);
}

/* What a message says after "skipped: no WHAT". */
static const char *get_absence_reason(const struct ws_stats *stats)
{
	static const enum ws_table tables[] = {
		WS_TABLE_nvtx,	 WS_TABLE_osrt,	 WS_TABLE_cuda_api, WS_TABLE_cuda_kernel,
		WS_TABLE_sample, WS_TABLE_sched, WS_TABLE_slice,    WS_TABLE_counter_value,
	};

	if (stats->windowed)
		return "in the time asked for";
	for (size_t i = 0; i < WS_COUNT(tables); i++)
		if (ws_report_count_rows(stats->report, tables[i]))
			return "were recorded";
	return "were recorded, nor anything else";
}

static void say_skipped(struct report_job *report_job)
{
	const char *file = ws_report_path(report_job->stats.report), *name = report_job->stat->name;
	const char *no_hooks = ws_explain_no_hooks(report_job->stats.report);

	if (report_job->stats.lacks) {
		ws_say("%s: %s skipped: no %s were recorded", file, name, report_job->stats.lacks);
	} else if (report_job->stat->explain_absence && !report_job->stats.windowed) {
		ws_say("%s: %s skipped: no %s were recorded: %s", file, name,
		       report_job->stat->what,
		       report_job->stat->explain_absence(report_job->stats.report));
	} else if (!report_job->skipped && !report_job->stats.windowed && no_hooks) {
		ws_say("%s: %s skipped: no %s were recorded: %s", file, name,
		       report_job->stat->what, no_hooks);
	} else if (!report_job->skipped) {
		ws_say("%s: %s skipped: no %s %s", file, name, report_job->stat->what,
		       get_absence_reason(&report_job->stats));
	} else if (!*report_job->skipped) {
		*report_job->skipped = ws_strdup(name);
	} else {
		char *more = ws_format("%s, %s", *report_job->skipped, name);

		free(*report_job->skipped);
		*report_job->skipped = more;
	}
}

/* Report how much is unknown because records were lost. */
static void say_gaps(const struct report_job *report_job)
{
	char *text = NULL;

	if (report_job->stat->shows_states && report_job->begun && !report_job->request->quiet)
		text = ws_describe_sched_gaps(report_job->stats.report);
	if (text)
		ws_say("%s: %s: %s", ws_report_path(report_job->stats.report),
		       report_job->stat->name, text);
	free(text);
}

/* Report what the table does not show. Damage is reported even with -q. */
static void say_left_out(struct report_job *report_job)
{
	const char *file = ws_report_path(report_job->stats.report), *name = report_job->stat->name,
		   *they = "they";

	if (report_job->stats.unended == 1)
		they = "it";

	if (report_job->stats.damaged)
		ws_warn("%s: %s lacks the rows of %" PRIu64
			" damaged block%s; 'warpsight info --verify' says which",
			file, name, report_job->stats.damaged,
			ws_plural(report_job->stats.damaged));
	if (report_job->stats.backwards)
		ws_warn("%s: %s leaves out %" PRIu64 " rows that end before they start", file, name,
			report_job->stats.backwards);
	if (report_job->stats.unended && !report_job->request->quiet)
		ws_say("%s: %s leaves out %" PRIu64 " of the %s: %s %s", file, name,
		       report_job->stats.unended, report_job->stat->what, they,
		       ws_text_or(report_job->stat->unended, "never ended"));
	say_gaps(report_job);
	if (!report_job->begun && !report_job->failed && !report_job->request->quiet)
		say_skipped(report_job);
}

/* With --verbose, report how much of the file was read: blocks outside the window are not. */
static void say_blocks_read(const struct report_job *report_job, uint64_t before)
{
	uint64_t block_count = 0;

	for (int table = 0; table < WS_TABLE_COUNT; table++)
		block_count +=
			ws_report_count_blocks(report_job->stats.report, (enum ws_table)table);
	if (report_job->request->verbose)
		ws_say("%s: %s decoded %" PRIu64 " blocks; the report has %" PRIu64,
		       ws_report_path(report_job->stats.report), report_job->printer.name,
		       ws_report_count_decoded(report_job->stats.report) - before, block_count);
}

/* Choose the unit, format and output of report i. Returns -1 after a message on failure. */
static int prepare_report(struct report_job *report_job, size_t i)
{
	report_job->printer.unit = &nanoseconds;
	if (report_job->request->unit)
		report_job->printer.unit = report_job->request->unit;
	report_job->printer.format = ws_find_format(choose_format(report_job->request, i),
						    &report_job->printer.args, &report_job->error);
	if (!report_job->printer.format) {
		ws_say("%s", report_job->error.msg);
		return -1;
	}
	report_job->path = make_output_path(report_job, i);
	return 0;
}

/* Keep the output of a table that is complete; remove it when `status` or a write error says that
 * the table is incomplete. Returns the result of making the report. */
static int finish_report(struct report_job *report_job, int status)
{
	report_job->failed |= status < 0;
	if (report_job->failed)
		abort_output(report_job);
	else if (report_job->begun && (status = close_output(report_job)) < 0)
		report_job->failed = true;
	if (report_job->failed && status != WS_OUTPUT_PIPE_CLOSED) {
		ws_say("%s", report_job->error.msg);
		status = -1;
	}
	free(report_job->path);
	return status;
}

/* Make report i, with file and window of `base`. Returns 0, -1 after a message, or
 * WS_OUTPUT_PIPE_CLOSED. */
static int make_report(const struct ws_stats *base, const struct ws_stats_request *request,
		       const struct ws_stats_report *stat, size_t i, char **skipped)
{
	struct report_job report_job = {
		.stats = *base, .request = request, .stat = stat, .skipped = skipped};
	uint64_t before = ws_report_count_decoded(base->report);
	int status;

	report_job.stats.args = "";
	if (i < request->report_count)
		report_job.stats.args = request->reports[i] + strcspn(request->reports[i], ":");
	report_job.stats.row = print_stats_row;
	report_job.stats.rows = print_stats_rows;
	report_job.printer = (struct ws_printer){.title = stat->title,
						 .name = stat->name,
						 .columns = stat->columns,
						 .column_count = stat->column_count};
	if (stat->last_column_arg && !ws_get_stats_arg(&report_job.stats, stat->last_column_arg))
		report_job.printer.column_count--;
	if (prepare_report(&report_job, i) < 0)
		return -1;
	status = stat->run(&report_job.stats, &report_job.error);
	if (report_job.begun)
		ws_print_end(&report_job.printer);
	status = finish_report(&report_job, status);
	say_left_out(&report_job);
	say_blocks_read(&report_job, before);
	return status;
}

/* ---- reports written as queries ---- */

struct user_report_job {
	struct report_job base;
	struct ws_sql_print print;
};

static int open_user_output(void *context, struct ws_err *err)
{
	struct user_report_job *report_job = context;

	if (report_job->base.begun)
		return 0;
	if (open_output(&report_job->base) < 0) {
		*err = report_job->base.error;
		return -1;
	}
	report_job->print.printer.file = report_job->base.printer.file;
	return 0;
}

static int make_user_report(const struct ws_stats *base, const struct ws_stats_request *request,
			    const struct ws_user_report *report, size_t i)
{
	struct user_report_job report_job = {.base = {.stats = *base, .request = request}};
	uint64_t before = ws_report_count_decoded(base->report);
	int status;

	report_job.base.printer.name = report->name;
	report_job.base.printer.title = ws_text_or(report->title, report->name);
	if (prepare_report(&report_job.base, i) < 0)
		return -1;
	report_job.print.printer = report_job.base.printer;
	report_job.print.ready = open_user_output;
	report_job.print.ready_ctx = &report_job;
	status = ws_run_user_report(report, request->reports[i], &report_job.base.stats,
				    &report_job.print, &report_job.base.error);
	if (!status && !report_job.base.begun && !request->quiet)
		ws_say("%s: %s skipped: its query gave no rows", ws_report_path(base->report),
		       report->name);
	status = finish_report(&report_job.base, status);
	say_blocks_read(&report_job.base, before);
	return status;
}

/* Whether the report holds work on a GPU, or calls of a GPU API. */
static bool has_gpu(const struct ws_report *report)
{
	static const enum ws_table tables[] = {WS_TABLE_cuda_kernel, WS_TABLE_cuda_memcpy,
					       WS_TABLE_cuda_memset, WS_TABLE_cuda_api};

	for (size_t i = 0; i < WS_COUNT(tables); i++)
		if (ws_report_count_rows(report, tables[i]))
			return true;
	return false;
}

enum { MOST_DEFAULT_ROWS = 20 };

/* Make the reports that matter when no GPU was used: what ran on the CPU and what threads waited
 * for. `index`: how many reports were made before. */
static int make_cpu_reports(const struct ws_stats *stats, const struct ws_stats_request *request,
			    size_t index)
{
	struct ws_stats brief = *stats;
	char *skipped = NULL;
	int status = 0;

	if (has_gpu(stats->report) || (!ws_report_count_rows(stats->report, WS_TABLE_sample) &&
				       !ws_report_count_rows(stats->report, WS_TABLE_sched)))
		return 0;
	brief.most_rows = MOST_DEFAULT_ROWS;
	for (size_t i = 0; ws_stats_list[i] && !ws_is_output_over(); i++)
		if (ws_stats_list[i]->without_gpu)
			status = ws_min(status, make_report(&brief, request, ws_stats_list[i],
							    index++, &skipped));
	free(skipped);
	if (!request->quiet && status >= 0)
		ws_say("%s: tables of CPU samples and waits show their first %d rows; 'warpsight "
		       "report' shows functions with their callers, 'warpsight report "
		       "--show=off-cpu' waits",
		       ws_report_path(stats->report), MOST_DEFAULT_ROWS);
	return status;
}

/* Report which default reports are missing, and where to look when no hook could record any. */
static void say_skipped_reports(const struct ws_stats *stats, const char *skipped)
{
	const char *file = ws_report_path(stats->report), *what_happened = "was recorded",
		   *no_hooks = ws_explain_no_hooks(stats->report);

	if (stats->windowed)
		what_happened = "lies in the time asked for";
	ws_say("%s: skipped, for nothing that they show %s: %s", file, what_happened, skipped);
	if (no_hooks)
		ws_say("%s: %s", file, no_hooks);
}

/* Make the default reports. Most programs have data for only a few of them. */
static int make_default_reports(const struct ws_stats *stats,
				const struct ws_stats_request *request)
{
	char *skipped = NULL;
	int status = 0;
	size_t count = 0;

	for (size_t i = 0; ws_stats_list[i] && !ws_is_output_over(); i++)
		if (ws_stats_list[i]->by_default)
			status = ws_min(status, make_report(stats, request, ws_stats_list[i],
							    count++, &skipped));
	if (!ws_is_output_over())
		status = ws_min(status, make_cpu_reports(stats, request, count));
	if (skipped && !ws_is_output_over())
		say_skipped_reports(stats, skipped);
	free(skipped);
	return status;
}

/* Make report i of those asked for. */
static int make_requested_report(const struct ws_stats *stats,
				 const struct ws_stats_request *request, size_t i)
{
	const char *spec = request->reports[i], *why = get_elsewhere_reason(spec);
	const struct ws_user_report *user = ws_find_user_report(request->user, spec);

	if (user)
		return make_user_report(stats, request, user, i);
	if (!why)
		return make_report(stats, request, find_report(spec), i, NULL);
	if (!request->quiet)
		ws_say("%s: %s skipped: %s", ws_report_path(stats->report), spec, why);
	return 0;
}

static int make_reports(const struct ws_stats *stats, const struct ws_stats_request *request)
{
	int status = 0;

	if (!request->report_count)
		return make_default_reports(stats, request);
	for (size_t i = 0; i < request->report_count && !ws_is_output_over(); i++)
		status = ws_min(status, make_requested_report(stats, request, i));
	return status;
}

int ws_make_file_stats(const char *path, size_t file, const struct ws_stats_request *request)
{
	struct ws_stats stats = {.files = request->files, .file = file, .time_max = UINT64_MAX};
	struct ws_err err;
	struct ws_report *report = ws_open_operand_report(path);
	struct ws_fold *fold;
	int status = 0;

	if (!report)
		return -1;
	stats.report = report;
	stats.who = ws_who_open(report);
	stats.fold = fold = ws_fold_open(report, request->fold_names);
	stats.zero = ws_find_time_zero(report);
	if (request->filter_time)
		status = ws_apply_time_filter(&stats, request->filter_time, &err);
	if (!status && request->filter_nvtx)
		status = ws_apply_nvtx_filter(&stats, request->filter_nvtx, request->quiet, &err);
	if (status)
		ws_say("%s", err.msg);
	else
		status = make_reports(&stats, request);
	if (ws_fold_was_used(fold) && !request->quiet && !ws_is_output_over())
		ws_say("%s: # stands for numbers in names; --fold-names=no shows each name", path);
	ws_who_close(stats.who);
	ws_fold_close(fold);
	ws_report_close(report);
	return status;
}
