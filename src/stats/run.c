/*
 * run.c - make the reports asked for of one file, each into its output.
 *
 * An output is opened when a report hands over its first row, so that a report without data leaves
 * no file behind, only a line that says why it was skipped; of the default reports, one line for
 * all of them. What a table leaves out (unended ranges, unreadable blocks) is said too: on stderr,
 * never in the table.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/outfile.h"
#include "base/choose.h"
#include "sql/print.h"
#include "print/command.h"
#include "query/operand.h"
#include "stats/filter.h"
#include "stats/user.h"

struct job {
	struct ws_stats stats; /* first: rows come with it */
	const struct ws_stats_request *request;
	const struct ws_stat *stat;
	struct ws_printer printer;
	struct ws_outfile out;
	struct ws_command_out command; /* instead of it, with -o @command */
	char *path;
	char **skipped; /* names of default reports without data, to be said together; NULL when the
			   report was asked for */
	bool begun, failed;
	struct ws_err err;
};

static const struct ws_timeunit nanoseconds = {"ns", 0};

static const char *pick(const char *const *list, size_t count, size_t i)
{
	return !count ? NULL : list[i < count ? i : count - 1];
}

/* -f or, without it, what suits the output: columns to read, csv to keep. */
static const char *format_spec(const struct ws_stats_request *request, size_t i)
{
	const char *output = pick(request->outputs, request->output_count, i),
		   *format = pick(request->formats, request->format_count, i);

	return format && *format && strcmp(format, ".") ? format
	       : output && strcmp(output, "-")		? "csv"
							: "column";
}

static int check_output(const char *output, struct ws_err *err)
{
	if (*output == '@') {
		char **words = ws_words(output + 1, err);
		char *why = words ? NULL : ws_strdup(err->msg);

		if (!words)
			ws_fail(err, "-o %s: %s", output, why);
		ws_words_free(words);
		free(why);
		return words ? 0 : -1;
	}
	if (!*output)
		return ws_fail(err, "-o: the name of the output is empty");
	return 0;
}

/* The report that `spec` begins with, up to a colon. */
static const struct ws_stat *find(const char *spec)
{
	char *name = ws_strndup(spec, strcspn(spec, ":"));
	const struct ws_stat *stat = ws_stat_find(name);

	free(name);
	return stat;
}

static const char *elsewhere(const char *spec)
{
	char *name = ws_strndup(spec, strcspn(spec, ":"));
	const char *why = ws_stat_elsewhere(name);

	free(name);
	return why;
}

/* The report goes by another name today. */
static void tell_new_name(const char *spec, const struct ws_stat *stat)
{
	size_t n = strcspn(spec, ":");

	if (strlen(stat->name) != n || memcmp(stat->name, spec, n))
		ws_say("the report %.*s is called %s now", (int)n, spec, stat->name);
}

static bool same_arg(const char *arg, size_t n, const char *known)
{
	size_t k = strlen(known);

	if (known[k - 1] == '*')
		return n >= k && !memcmp(arg, known, k - 1);
	if (known[k - 1] != '=')
		return n == k && !memcmp(arg, known, n);
	return n > k && n < k + 10 && !memcmp(arg, known, k) &&
	       strspn(arg + k, "0123456789") >= n - k;
}

const char *ws_stats_arg(const struct ws_stats *stats, const char *name)
{
	size_t n;

	for (const char *a = stats->args; *a; a += n) {
		n = strcspn(++a, ":");
		if (same_arg(a, n, name))
			return strchr(name, '=') ? strchr(a, '=') + 1 : "";
	}
	return NULL;
}

static int check_args(const struct ws_stat *stat, const char *spec, struct ws_err *err)
{
	struct ws_text known = {0};
	bool ok = true;
	size_t n;

	for (size_t i = 0; stat->args && stat->args[i]; i++)
		ws_text_printf(&known, "%s%.*s%s", i ? ", " : "", (int)strcspn(stat->args[i], "*"),
			       stat->args[i],
			       strchr(stat->args[i], '*')   ? "<name>"
			       : strchr(stat->args[i], '=') ? "<number>"
							    : "");
	for (const char *a = spec + strcspn(spec, ":"); *a && ok; a += n) {
		n = strcspn(++a, ":");
		ok = false;
		for (size_t i = 0; stat->args && stat->args[i]; i++)
			ok |= same_arg(a, n, stat->args[i]);
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
	return ok ? 0 : -1;
}

int ws_stats_check(const struct ws_stats_request *request, struct ws_err *err)
{
	size_t reports = request->report_count;
	struct ws_format_args args;

	for (size_t i = 0; i < reports; i++) {
		const struct ws_stat *stat = find(request->reports[i]);
		const struct ws_user_report *user =
			ws_user_report_find(request->user, request->reports[i]);

		if (user && ws_user_report_check(user, request->reports[i], err) < 0)
			return -1;
		if (user || elsewhere(request->reports[i]))
			continue;
		if (!stat && ws_user_report_script(request->user, request->reports[i]))
			return ws_fail(err,
				       "'%s' is a script, and scripts are not run: write the "
				       "report as a query, %.*s.sql",
				       request->reports[i], (int)strcspn(request->reports[i], ":"),
				       request->reports[i]);
		if (!stat)
			return ws_fail(
				err,
				"there is no report '%s'; --help-reports lists those there are",
				request->reports[i]);
		if (check_args(stat, request->reports[i], err) < 0)
			return -1;
		if (!request->quiet)
			tell_new_name(request->reports[i], stat);
	}
	for (size_t i = 0; !request->report_count && ws_stats_list[i]; i++)
		reports += ws_stats_list[i]->by_default;
	if (request->format_count > reports || request->output_count > reports)
		return ws_fail(err, "%zu %s are given for %zu %s",
			       request->format_count > reports ? request->format_count
							       : request->output_count,
			       request->format_count > reports ? "formats" : "outputs", reports,
			       reports == 1 ? "report" : "reports");
	for (size_t i = 0; i < request->format_count; i++)
		if (*request->formats[i] && strcmp(request->formats[i], ".") &&
		    !ws_format_find(request->formats[i], &args, err))
			return -1;
	for (size_t i = 0; i < request->output_count; i++)
		if (check_output(request->outputs[i], err) < 0)
			return -1;
	return request->filter_time ? ws_filter_time_check(request->filter_time, err) : 0;
}

/* Length of a path without what says which kind of file it is. */
static int without_extension(const char *path)
{
	static const char *const extensions[] = {".wsrep",   ".sqlite", ".nsys-rep",
						 ".json.gz", ".json",	".pftrace"};
	size_t n = strlen(path);

	for (size_t i = 0; i < WS_COUNT(extensions); i++) {
		size_t k = strlen(extensions[i]);

		if (n > k && !strcmp(path + n - k, extensions[i]))
			return (int)(n - k);
	}
	return (int)n;
}

/* The report's part of a file name: as it was asked for, with its arguments and the range it is
 * about. */
static char *name_in_file(const struct job *job, size_t i)
{
	const struct ws_stats_request *request = job->request;
	char *name = ws_format("%s%s%s",
			       i < request->report_count ? request->reports[i] : job->printer.name,
			       request->filter_nvtx ? "_nvtx=" : "",
			       ws_text_or(request->filter_nvtx, ""));

	for (char *text = name; *text; text++)
		*text = *text == ':' ? '_' : *text == '/' ? '-' : *text;
	return name;
}

/* Where report i goes: "-", or BASE_REPORT.EXT; BASE is the file's own name for ".". */
static char *output_path(const struct job *job, size_t i)
{
	const char *output = pick(job->request->outputs, job->request->output_count, i),
		   *ext = job->printer.format->extension;
	const char *path = ws_report_path(job->stats.report),
		   *base = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
	char *name, *out;

	if (!output || !strcmp(output, "-"))
		return ws_strdup("-");
	if (*output == '@')
		return ws_strdup(output);
	name = name_in_file(job, i);
	if (!strcmp(output, "."))
		out = ws_format("%.*s_%s.%s", without_extension(path), path, name, ext);
	else if (job->request->several)
		out = ws_format("%s_%.*s_%s.%s", output, without_extension(base), base, name, ext);
	else
		out = ws_format("%s_%s.%s", output, name, ext);
	free(name);
	return out;
}

/* Open where the table goes, when it has its first row. */
static int open_output(struct job *job)
{
	if (*job->path == '@') {
		if (ws_command_start(&job->command, job->path + 1, &job->err) < 0)
			return -1;
		job->printer.file = job->command.file;
	} else {
		if (ws_outfile_open(&job->out, job->path, 0666, job->request->overwrite,
				    &job->err) < 0)
			return -1;
		job->printer.file = job->out.file;
	}
	job->begun = true;
	return 0;
}

static int close_output(struct job *job)
{
	if (*job->path == '@')
		return ws_command_finish(&job->command, &job->err);
	if (!strcmp(job->path, "-"))
		fputs("\n", job->out.file); /* between the tables of one stream */
	return ws_outfile_commit(&job->out, &job->err);
}

static void give_up_output(struct job *job)
{
	struct ws_err unsaid;

	if (job->begun && *job->path == '@')
		ws_command_finish(&job->command, &unsaid);
	else if (job->begun)
		ws_outfile_abort(&job->out);
}

/* Rows come: is there somewhere to put them? */
static bool ready(struct job *job)
{
	if (job->begun || job->failed)
		return !job->failed;
	job->failed = open_output(job) < 0;
	if (!job->failed)
		ws_print_begin(&job->printer);
	return !job->failed;
}

static void take_row(struct ws_stats *stats, const struct ws_cell *cells)
{
	struct job *job = (struct job *)stats;

	if (ready(job))
		ws_print_row(&job->printer, cells);
}

static void take_rows(struct ws_stats *stats, size_t count,
		      size_t (*make)(const void *ctx, size_t i, struct ws_cell *cells,
				     struct ws_text *text),
		      const void *ctx)
{
	struct job *job = (struct job *)stats;

	if (count && ready(job))
		ws_print_rows(&job->printer, count, make, ctx);
}

static const char *why_none(const struct ws_stats *stats)
{
	if (stats->windowed)
		return "in the time asked for";
	if (ws_report_rows(stats->report, WS_TABLE_nvtx) ||
	    ws_report_rows(stats->report, WS_TABLE_osrt) ||
	    ws_report_rows(stats->report, WS_TABLE_cuda_api) ||
	    ws_report_rows(stats->report, WS_TABLE_cuda_kernel))
		return "were recorded";
	return "were recorded, nor anything else";
}

/* What the table does not show. Damage is said even with -q. */
static void notes(struct job *job)
{
	const char *file = ws_report_path(job->stats.report), *name = job->stat->name;

	if (job->stats.damaged)
		ws_warn("%s: %s lacks the rows of %" PRIu64
			" damaged block%s; 'warpsight info --verify' says which",
			file, name, job->stats.damaged, ws_plural(job->stats.damaged));
	if (job->stats.backwards)
		ws_warn("%s: %s leaves out %" PRIu64 " rows that end before they start", file, name,
			job->stats.backwards);
	if (job->stats.unended && !job->request->quiet)
		ws_say("%s: %s leaves out %" PRIu64 " of the %s: %s %s", file, name,
		       job->stats.unended, job->stat->what, job->stats.unended == 1 ? "it" : "they",
		       ws_text_or(job->stat->unended, "never ended"));
	if (job->begun || job->failed || job->request->quiet)
		return;
	if (job->stats.lacks) {
		ws_say("%s: %s skipped: no %s were recorded", file, name, job->stats.lacks);
	} else if (job->skipped && !(job->stat->why && !job->stats.windowed)) {
		char *more = ws_format("%s%s%s", *job->skipped ? *job->skipped : "",
				       *job->skipped ? ", " : "", name);

		free(*job->skipped);
		*job->skipped = more;
	} else if (job->stat->why && !job->stats.windowed) {
		ws_say("%s: %s skipped: no %s were recorded: %s", file, name, job->stat->what,
		       job->stat->why(job->stats.report));
	} else {
		ws_say("%s: %s skipped: no %s %s", file, name, job->stat->what,
		       why_none(&job->stats));
	}
}

/* What was read of the report: blocks outside a filter's time are not even touched. */
static void tell_reading(const struct job *job, uint64_t before)
{
	uint64_t all = 0;

	for (int t = 0; t < WS_TABLE_COUNT; t++)
		all += ws_report_blocks(job->stats.report, (enum ws_table)t);
	if (job->request->verbose)
		ws_say("%s: %s decoded %" PRIu64 " blocks; the report has %" PRIu64,
		       ws_report_path(job->stats.report), job->printer.name,
		       ws_report_decoded(job->stats.report) - before, all);
}

static int begin(struct job *job, size_t i)
{
	job->printer.unit = job->request->unit ? job->request->unit : &nanoseconds;
	job->printer.format =
		ws_format_find(format_spec(job->request, i), &job->printer.args, &job->err);
	if (!job->printer.format) {
		ws_say("%s", job->err.msg);
		return -1;
	}
	job->path = output_path(job, i);
	return 0;
}

/* The table is whole, or `rc` says that it is not: what becomes of its output. */
static int end(struct job *job, int rc)
{
	job->failed |= rc < 0;
	if (job->failed)
		give_up_output(job);
	else if (job->begun && (rc = close_output(job)) < 0)
		job->failed = true;
	if (job->failed && rc != WS_OUTFILE_PIPE) {
		ws_say("%s", job->err.msg);
		rc = -1;
	}
	free(job->path);
	return rc;
}

/* Make one report; the window is in `base`. */
static int make(const struct ws_stats *base, const struct ws_stats_request *request,
		const struct ws_stat *stat, size_t i, char **skipped)
{
	struct job job = {.stats = *base, .request = request, .stat = stat, .skipped = skipped};
	uint64_t before = ws_report_decoded(base->report);
	int rc;

	job.stats.args = i < request->report_count
				 ? request->reports[i] + strcspn(request->reports[i], ":")
				 : "";
	job.stats.row = take_row;
	job.stats.rows = take_rows;
	job.printer = (struct ws_printer){.title = stat->title,
					  .name = stat->name,
					  .columns = stat->columns,
					  .column_count = stat->column_count};
	if (begin(&job, i) < 0)
		return -1;
	rc = stat->run(&job.stats, &job.err);
	if (job.begun)
		ws_print_end(&job.printer);
	rc = end(&job, rc);
	notes(&job);
	tell_reading(&job, before);
	return rc;
}

/* ---- reports written as queries ---- */

struct user_job {
	struct job job;
	struct ws_sql_print print;
};

static int user_ready(void *ctx, struct ws_err *err)
{
	struct user_job *job = ctx;

	if (job->job.begun)
		return 0;
	if (open_output(&job->job) < 0) {
		*err = job->job.err;
		return -1;
	}
	job->print.printer.file = job->job.printer.file;
	return 0;
}

static int make_user(const struct ws_stats *base, const struct ws_stats_request *request,
		     const struct ws_user_report *report, size_t i)
{
	struct user_job job = {.job = {.stats = *base, .request = request}};
	uint64_t before = ws_report_decoded(base->report);
	int rc;

	job.job.printer.name = report->name;
	job.job.printer.title = report->title ? report->title : report->name;
	if (begin(&job.job, i) < 0)
		return -1;
	job.print.printer = job.job.printer;
	job.print.ready = user_ready;
	job.print.ready_ctx = &job;
	rc = ws_user_report_run(report, request->reports[i], &job.job.stats, &job.print,
				&job.job.err);
	if (!rc && !job.job.begun && !request->quiet)
		ws_say("%s: %s skipped: its query gave no rows", ws_report_path(base->report),
		       report->name);
	rc = end(&job.job, rc);
	tell_reading(&job.job, before);
	return rc;
}

static int worse(int a, int b)
{
	return ws_min(a, b);
}

/* The default reports. Most programs have data for a few of them only. */
static int make_defaults(const struct ws_stats *stats, const struct ws_stats_request *request)
{
	char *skipped = NULL;
	int rc = 0;
	size_t n = 0;

	for (size_t i = 0; ws_stats_list[i] && rc != WS_OUTFILE_PIPE; i++)
		if (ws_stats_list[i]->by_default)
			rc = worse(rc, make(stats, request, ws_stats_list[i], n++, &skipped));
	if (skipped)
		ws_say("%s: skipped, for nothing that they show %s: %s",
		       ws_report_path(stats->report),
		       stats->windowed ? "lies in the time asked for" : "was recorded", skipped);
	free(skipped);
	return rc;
}

static int make_all(const struct ws_stats *stats, const struct ws_stats_request *request)
{
	int rc = 0;

	for (size_t i = 0; i < request->report_count && rc != WS_OUTFILE_PIPE; i++) {
		const struct ws_user_report *user =
			ws_user_report_find(request->user, request->reports[i]);

		if (!user && elsewhere(request->reports[i])) {
			if (!request->quiet)
				ws_say("%s: %s skipped: %s", ws_report_path(stats->report),
				       request->reports[i], elsewhere(request->reports[i]));
			continue;
		}
		rc = worse(rc, user ? make_user(stats, request, user, i)
				    : make(stats, request, find(request->reports[i]), i, NULL));
	}
	return request->report_count ? rc : make_defaults(stats, request);
}

int ws_stats_file(const char *path, const struct ws_stats_request *request)
{
	struct ws_stats stats = {.time_max = UINT64_MAX};
	struct ws_err err;
	struct ws_report *report = ws_report_of_operand(path);
	int rc = 0;

	if (!report)
		return -1;
	stats.report = report;
	stats.who = ws_who_open(report);
	stats.zero = ws_time_zero(report);
	if (request->filter_time)
		rc = ws_filter_time(&stats, request->filter_time, &err);
	if (!rc && request->filter_nvtx)
		rc = ws_filter_nvtx(&stats, request->filter_nvtx, request->quiet, &err);
	if (rc)
		ws_say("%s", err.msg);
	else
		rc = make_all(&stats, request);
	ws_who_close(stats.who);
	ws_report_close(report);
	return rc;
}
