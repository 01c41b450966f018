/*
 * stats.c - the command `stats`: tables of figures from report files.
 *
 * -f means the format here and not --force-overwrite, as in the reference tool.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "base/choose.h"
#include "query/operand.h"
#include "cli/cli.h"
#include "cli/tables.h"
#include "cli/text.h"
#include "export/export.h"
#include "text/output_file.h"
#include "import/import.h"
#include "stats/user.h"

struct options {
	struct ws_list reports, formats, outputs, folders, sql;
	const char *timeunit, *filter_time, *filter_nvtx, *sqlite, *fold_names, *help_reports,
		*help_formats;
	bool quiet, verbose, wide, force_overwrite, force_export;
};

#define AT(member) offsetof(struct options, member)

static void add_report_names(struct ws_text *out)
{
	for (size_t i = 0; ws_stats_list[i]; i++) {
		if (i)
			ws_text_puts(out, " ");
		ws_text_puts(out, ws_stats_list[i]->name);
	}
}

static const struct ws_opt opts[] = {
	{"report", 'r', WS_OPT_LIST, AT(reports), "REPORT[,REPORT...]", NULL,
	 "Reports to make, with arguments after colons; --help-reports lists them. By default "
	 "those "
	 "marked there as default.",
	 NULL, add_report_names},
	{"format", 'f', WS_OPT_LIST, AT(formats), "FORMAT[:ARG][,FORMAT...]", NULL,
	 "How to write each report: column, table, csv, tsv, json, html, htable or markdown, with "
	 "arguments after colons; "
	 "--help-formats explains them. A dot, like no -f at all, means column for standard output "
	 "and csv for files and commands.",
	 NULL, ws_add_format_names},
	{"output", 'o', WS_OPT_LIST, AT(outputs), "BASE[,BASE...]", NULL,
	 "Where each report goes: - is standard output (the default); BASE makes the file "
	 "BASE_<report>.<extension>, with arguments "
	 "and "
	 "the range of --filter-nvtx in the name; a single dot takes the name of the report file "
	 "as BASE; @COMMAND starts a command "
	 "that reads the table from its standard input (words and quotes are split as a shell "
	 "does, but none runs; quote a comma).",
	 NULL},
	WS_WIDE_OPTION(wide),
	{"quiet", 'q', WS_OPT_FLAG, AT(quiet), NULL, NULL,
	 "Do not mention reports that were skipped or rows that were left out.", NULL},
	{"filter-time", 0, WS_OPT_STRING, AT(filter_time), "[START]/[END]", NULL,
	 "Only events whose span touches this one. Times count from the start of the collection, "
	 "in nanoseconds or with ns, us, ms, s.",
	 NULL},
	{"filter-nvtx", 0, WS_OPT_STRING, AT(filter_nvtx), "RANGE[@DOMAIN][/INDEX]", NULL,
	 "Only events whose span touches that of this NVTX range, on any thread. INDEX counts "
	 "ranges of the same name by start, from "
	 "0; without "
	 "DOMAIN the default domain is meant, and @* is any. Write a backslash before an @ or / of "
	 "the name.",
	 NULL},
	{"timeunit", 0, WS_OPT_STRING, AT(timeunit), "UNIT", NULL,
	 "Unit of times: ns, us, ms or s (also nsec, nanoseconds and so on). No digits are lost in "
	 "any.",
	 "ns"},
	{"fold-names", 0, WS_OPT_ENUM, AT(fold_names), "HOW", "auto,yes,no",
	 "In summaries, names that differ only in numbers are one line, with # for the numbers "
	 "(iteration #). auto: where more than 100 names of the report are the same but for "
	 "numbers; yes: also wherever two are, but for numbers that stand alone; no: never. Traces "
	 "keep all names.",
	 "auto"},
	{"force-overwrite", 0, WS_OPT_BOOL, AT(force_overwrite), NULL, NULL,
	 "Replace output files that exist.", NULL},
	{"help-reports", 0, WS_OPT_MAYBE, AT(help_reports), "NAME[,NAME...]|ALL", NULL,
	 "List the reports, or explain what the named ones (or all) show.", NULL},
	{"help-formats", 0, WS_OPT_MAYBE, AT(help_formats), "NAME[,NAME...]|ALL", NULL,
	 "List the formats and their arguments, or explain the named ones (or all).", NULL},
	{"force-export", 0, WS_OPT_BOOL, AT(force_export), NULL, NULL,
	 "Import other tools' files again instead of using what an earlier command imported; write "
	 "the file of --sqlite again. Reports are read directly: for them this changes nothing.",
	 NULL},
	{"sqlite", 0, WS_OPT_STRING, AT(sqlite), "FILE", NULL,
	 "Read this SQLite export instead of the report; if it does not exist, write it first, as "
	 "'warpsight export' does. Only useful if you need the file too: reports are read faster "
	 "without it.",
	 NULL},
	{"report-dir", 0, WS_OPT_LIST, AT(folders), "DIR", NULL,
	 "A folder with reports of your own, each a query in a file NAME.sql, which -r NAME makes; "
	 "may be given several times. "
	 "--help-reports lists them too.",
	 NULL},
	{"sql", 0, WS_OPT_LIST, AT(sql), "QUERY", NULL,
	 "A report written as a query, made after those of -r; without -r, it is the only one. A "
	 "column called 'Total:dur_ns' (or :ts_ns, :mem_B, :thru_B, :ratio_%) is shown with its "
	 "unit; :start and :end in the query are the times of a filter.",
	 NULL},
	{"verbose", 'v', WS_OPT_FLAG, AT(verbose), NULL, NULL,
	 "Print for each report how many blocks of the file it read.", NULL},
	{NULL},
};

/* ---- what there is ---- */

/* Whether `name` is in a comma-separated list, or that list is ALL. */
static bool is_named(const char *list, const char *name)
{
	size_t length = strlen(name);

	if (!strcmp(list, "ALL") || !strcmp(list, "all"))
		return true;
	for (const char *text = list;; text++) {
		size_t item_length = strcspn(text, ",");

		if (item_length == length && !memcmp(text, name, length))
			return true;
		text += item_length;
		if (!*text)
			return false;
	}
}

static const char *default_mark(const struct ws_stats_report *stat)
{
	if (stat->by_default)
		return " (default)";
	if (stat->without_gpu)
		return " (default where no GPU was used)";
	return "";
}

/* Append what follows a report's argument: "name=*" takes a text, "name=" a number. */
static const char *argument_value(const char *argument)
{
	if (strchr(argument, '*'))
		return "<text>";
	if (strchr(argument, '='))
		return "<number>";
	return "";
}

static void explain_report(const struct ws_stats_report *stat)
{
	bool ended = *stat->about && stat->about[strlen(stat->about) - 1] == '.';
	const char *separator = "";

	printf("%s%s\n    %s. %s", stat->name, default_mark(stat), stat->title, stat->about);
	if (!ended)
		printf(".");
	printf("\n    Columns:");
	for (size_t column = 0; column < stat->column_count; column++) {
		printf("%s %s", separator, stat->columns[column].name);
		separator = ",";
	}
	printf("\n");
	for (size_t i = 0; stat->args && stat->args[i]; i++)
		printf("    Argument: %.*s%s\n", (int)strcspn(stat->args[i], "*"), stat->args[i],
		       argument_value(stat->args[i]));
}

static void explain_user_report(const struct ws_user_report *report)
{
	printf("%s\n    %s. %s\n", report->name, ws_text_or(report->title, "A query of yours"),
	       ws_text_or(report->about, ""));
	for (size_t parameter = 0; parameter < report->parameter_count; parameter++)
		printf("    Parameter: %s\n", report->parameters[parameter]);
}

static void suggest_report(const char *list, const struct ws_user_reports *user)
{
	struct ws_nearest near = {.word = list};

	for (size_t i = 0; ws_stats_list[i]; i++)
		ws_try_name(&near, ws_stats_list[i]->name, strlen(ws_stats_list[i]->name));
	for (size_t i = 0; i < user->count; i++)
		ws_try_name(&near, user->reports[i].name, strlen(user->reports[i].name));
	if (ws_has_near_name(&near))
		ws_say("stats: --help-reports: there is no report '%s'; did you mean %s?", list,
		       near.best);
	else
		ws_say("stats: --help-reports: there is no report '%s'", list);
}

/* Lists the reports, a line each; explains those in `list` at length. Returns -1 when none of them
 * exists. */
static int show_report_help(const char *list, const struct ws_user_reports *user)
{
	size_t explained = 0;

	for (size_t i = 0; ws_stats_list[i]; i++) {
		const struct ws_stats_report *stat = ws_stats_list[i];

		if (!*list)
			printf("%-26s %s%s\n", stat->name, stat->title, default_mark(stat));
		else if (is_named(list, stat->name))
			explain_report(stat), explained++;
	}
	for (size_t i = 0; i < user->count; i++) {
		if (!*list)
			printf("%-26s %s\n", user->reports[i].name,
			       ws_text_or(user->reports[i].title, "A query of yours"));
		else if (is_named(list, user->reports[i].name))
			explain_user_report(&user->reports[i]), explained++;
	}
	if (!*list)
		printf("\n--help-reports=NAME says what a report shows and which arguments it "
		       "takes, --help-reports=ALL of all.\n");
	if (!*list || explained)
		return 0;
	suggest_report(list, user);
	return -1;
}

static int show_format_help(const char *list)
{
	bool explained = !*list;

	for (const struct ws_format *format = ws_formats; format->name; format++) {
		if (*list && !is_named(list, format->name) &&
		    !(format->alias && is_named(list, format->alias)))
			continue;
		printf("%s", format->name);
		for (const char *const *argument = format->args; *argument; argument++) {
			printf("[:%s]", *argument);
			if (**argument == '<')
				printf("...");
		}
		printf("\n    %s", format->about);
		if (format->alias)
			printf("; also called %s", format->alias);
		printf(" (.%s)\n", format->extension);
		if (*list)
			printf("    %s\n", format->details);
		explained = true;
	}
	if (!*list)
		printf("\n--help-formats=NAME explains one, --help-formats=ALL all.\n");
	if (explained)
		return 0;
	ws_say("stats: --help-formats: there is no format '%s'", list);
	return -1;
}

/* ---- lists ---- */

/* Split every value of a list at commas: "-r a,b -r c". Empty parts of -f mean the default format.
 */
static void split_list(const struct ws_list *in, const char ***out, size_t *count)
{
	size_t cap = 0;

	*out = NULL;
	*count = 0;
	for (size_t i = 0; i < in->count; i++) {
		const char *text = in->values[i];

		for (;;) {
			size_t length = strcspn(text, ",");

			ws_grow(*out, cap, *count + 1);
			(*out)[(*count)++] = ws_strndup(text, length);
			if (!text[length])
				break;
			text += length + 1;
		}
	}
}

/* Length of an output: up to a comma, for a command one outside of its quotes. */
static size_t output_length(const char *text)
{
	size_t length = 0;
	char quote = 0;

	if (*text != '@')
		return strcspn(text, ",");
	for (; text[length] && (quote || text[length] != ','); length++) {
		if (text[length] == '\\' && quote != '\'' && text[length + 1])
			length++;
		else if (quote && text[length] == quote)
			quote = 0;
		else if (!quote && (text[length] == '"' || text[length] == '\''))
			quote = text[length];
	}
	return length;
}

static void split_output_list(const struct ws_list *in, const char ***out, size_t *count)
{
	size_t cap = 0;

	*out = NULL;
	*count = 0;
	for (size_t i = 0; i < in->count; i++) {
		const char *text = in->values[i];

		for (;;) {
			size_t length = output_length(text);

			ws_grow(*out, cap, *count + 1);
			(*out)[(*count)++] = ws_strndup(text, length);
			if (!text[length])
				break;
			text += length + 1;
		}
	}
}

/* More formats or outputs than reports: the last report is made again for each. */
static void repeat_last(const char ***reports, size_t *count, size_t most)
{
	size_t cap = *count;

	while (*count && *count < most) {
		ws_grow(*reports, cap, *count + 1);
		(*reports)[*count] = ws_strdup((*reports)[*count - 1]);
		++*count;
	}
}

static void free_list(const char **list, size_t count)
{
	for (size_t i = 0; i < count; i++)
		free((void *)list[i]);
	free(list);
}

/* ---- --sqlite ---- */

static bool is_sqlite(const char *path)
{
	char head[16];
	FILE *file = fopen(path, "re");
	bool matches = file && fread(head, 1, sizeof(head), file) == sizeof(head) &&
		       !memcmp(head, "SQLite format 3", sizeof(head));

	if (file)
		fclose(file);
	return matches;
}

/* The file to read for --sqlite: the one named, if it is there and not older than the report; else
 * the report, exported to it first. */
static int find_sqlite_file(const struct options *options, int argc, char **argv, const char **file)
{
	struct ws_export_request request = {.type = "sqlite",
					    .output = options->sqlite,
					    .overwrite = options->force_export,
					    .quiet = options->quiet,
					    .lazy = true,
					    .blobs = true};
	char *report = NULL;
	struct stat theirs, ours;
	int rc = -1;

	*file = argv[0];
	if (argc == 1)
		report = ws_find_operand_report(argv[0]);
	if (argc != 1) {
		ws_say("stats: --sqlite is for one report file, but %d are given", argc);
	} else if (is_sqlite(report)) {
		ws_say("stats: --sqlite: %s is an SQLite export itself", report);
	} else if (options->force_export || stat(options->sqlite, &theirs) < 0) {
		rc = ws_export_report_file(report, &request);
	} else if (!stat(report, &ours) && (ours.st_mtim.tv_sec > theirs.st_mtim.tv_sec ||
					    (ours.st_mtim.tv_sec == theirs.st_mtim.tv_sec &&
					     ours.st_mtim.tv_nsec > theirs.st_mtim.tv_nsec))) {
		ws_say("stats: --sqlite: %s is older than %s; --force-export=true writes it anew",
		       options->sqlite, report);
	} else {
		*file = options->sqlite;
		rc = 0;
	}
	free(report);
	return rc;
}

static int make_stats(const struct options *options, int argc, char **argv,
		      struct ws_stats_request *request)
{
	const char *file = NULL;
	struct ws_err err;
	int rc = 0;

	request->unit = ws_find_timeunit(options->timeunit);
	if (!request->unit) {
		ws_say("stats: --timeunit: '%s' is not one of ns, us, ms, s", options->timeunit);
		return WS_EXIT_USAGE;
	}
	if (ws_check_stats_request(request, &err) < 0) {
		ws_say("stats: %s", err.msg);
		return WS_EXIT_USAGE;
	}
	ws_import_anew = options->force_export;
	ws_import_quiet = options->quiet;
	if (options->sqlite && find_sqlite_file(options, argc, argv, &file) < 0)
		return WS_EXIT_FAIL;
	for (int i = 0; i < argc; i++) {
		int file_rc;

		if (!options->sqlite)
			file = argv[i];
		file_rc = ws_make_file_stats(file, (size_t)i, request);

		if (file_rc == WS_OUTPUT_PIPE_CLOSED)
			return WS_EXIT_PIPE_CLOSED;
		rc |= file_rc;
		if (ws_is_output_over())
			break;
	}
	return ws_exit_status(rc);
}

/* Names of the queries of --sql come after the reports of -r. */
static void add_queries(const struct options *options, struct ws_user_reports *user,
			const char ***reports, size_t *count)
{
	size_t cap = *count;

	for (size_t i = 0; i < options->sql.count; i++) {
		ws_grow(*reports, cap, *count + 1);
		(*reports)[(*count)++] =
			ws_strdup(ws_add_report_query(user, options->sql.values[i]));
	}
}

static enum ws_fold_mode choose_folding(const char *word)
{
	if (word && !strcmp(word, "yes"))
		return WS_FOLD_YES;
	if (word && !strcmp(word, "no"))
		return WS_FOLD_NO;
	return WS_FOLD_AUTO;
}

static int make_reports(const struct options *options, int argc, char **argv,
			struct ws_user_reports *user)
{
	const char **reports, **formats, **outputs;
	struct ws_stats_files files = {.paths = (const char *const *)argv, .count = (size_t)argc};
	struct ws_stats_request request = {
		.filter_time = options->filter_time,
		.filter_nvtx = options->filter_nvtx,
		.fold_names = choose_folding(options->fold_names),
		.quiet = options->quiet,
		.verbose = options->verbose,
		.overwrite = options->force_overwrite,
		.shares_outputs = argc > 1,
		.user = user,
	};
	int rc;

	if (!argc) {
		ws_say("stats: no report file is given; 'warpsight stats FILE' summarises one");
		return WS_EXIT_USAGE;
	}
	split_list(&options->reports, &reports, &request.report_count);
	split_list(&options->formats, &formats, &request.format_count);
	split_output_list(&options->outputs, &outputs, &request.output_count);
	add_queries(options, user, &reports, &request.report_count);
	repeat_last(&reports, &request.report_count,
		    ws_max(request.format_count, request.output_count));
	request.reports = reports;
	request.formats = formats;
	request.outputs = outputs;
	if (!options->sqlite)
		request.files = &files;
	rc = make_stats(options, argc, argv, &request);
	ws_close_stats_files(&files);
	free_list(reports, request.report_count);
	free_list(formats, request.format_count);
	free_list(outputs, request.output_count);
	return rc;
}

/* The names that help is wanted for: the option's value or the first operand; "" for none. */
static const char *help_topics(const char *value, int argc, char **argv)
{
	if (*value || !argc)
		return value;
	return argv[0];
}

static int run_stats(void *values, int argc, char **argv)
{
	const struct options *options = values;
	struct ws_user_reports user = {0};
	struct ws_err err;
	int rc = 0;

	ws_print_wide = options->wide;
	for (size_t i = 0; i < options->folders.count && !rc; i++)
		rc = ws_add_report_folder(&user, options->folders.values[i], &err);
	if (rc < 0) {
		ws_say("stats: %s", err.msg);
		ws_user_reports_free(&user);
		return WS_EXIT_USAGE;
	}
	if (options->help_reports)
		rc = show_report_help(help_topics(options->help_reports, argc, argv), &user);
	if (options->help_formats)
		rc |= show_format_help(help_topics(options->help_formats, argc, argv));
	if (rc)
		rc = WS_EXIT_USAGE;
	if (!options->help_reports && !options->help_formats)
		rc = make_reports(options, argc, argv, &user);
	ws_user_reports_free(&user);
	return rc;
}

const struct ws_command ws_cmd_stats = {
	.name = "stats",
	.summary = "Show figures from a report as tables.",
	.usage = "[options] FILE...",
	.details = "Reads report files (.wsrep may be left out) and prints summaries and traces. "
		   "Times of columns are in nanoseconds unless "
		   "--timeunit says otherwise and count from the start of the collection. Medians "
		   "and standard deviations (of a sample) are "
		   "exact; "
		   "rows are in order of total time, then name. A report without data is skipped "
		   "with a line on standard error.\n\n"
		   "Lists given to -r, -f and -o pair up by position; the last of a shorter list "
		   "serves the rest of a longer one, so that "
		   "'-r cuda_api_sum -f csv,column -o .,-' keeps a table and shows it. Names that "
		   "the reports had until 2022 (gpukernsum) "
		   "work "
		   "too.",
	.opts = opts,
	.opts_size = sizeof(struct options),
	.examples =
		"warpsight stats report1\n"
		"warpsight stats -r nvtx_sum,osrt_sum -f csv -o . report1.wsrep\n"
		"warpsight stats -r cuda_gpu_kern_sum:base -f column:nohdr:.:.:0 report1.wsrep\n"
		"warpsight stats -r cuda_api_sum -o '@grep -E \"Name|cudaFree\"' report1.wsrep\n"
		"warpsight stats -r nvtx_pushpop_trace --filter-time 1s/1.5s --timeunit ms "
		"report1.wsrep",
	.run = run_stats,
};
