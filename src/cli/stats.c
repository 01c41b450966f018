/*
 * stats.c - the command `stats`: tables of figures from report files.
 *
 * -f means the format here and not --force-overwrite, as in the reference tool.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/cli.h"
#include "export/outfile.h"
#include "import/import.h"
#include "stats/user.h"

struct options {
	struct ws_list reports, formats, outputs, folders, sql;
	const char *timeunit, *filter_time, *filter_nvtx, *sqlite;
	bool quiet, verbose, force_overwrite, force_export, help_reports, help_formats;
};

#define AT(member) offsetof(struct options, member)

static const struct ws_opt opts[] = {
    {"report", 'r', WS_OPT_LIST, AT(reports), "REPORT[,REPORT...]", NULL,
     "Reports to make; --help-reports lists them. Without it, those marked as default there.", NULL},
    {"format", 'f', WS_OPT_LIST, AT(formats), "FORMAT[:ARG][,FORMAT...]", NULL,
     "How to write each report: column, table, csv, tsv, json, html, htable or markdown, with arguments after colons; "
     "--help-formats "
     "explains them. The last one given serves the remaining reports. Without it, column to standard output and csv to files.",
     NULL},
    {"output", 'o', WS_OPT_LIST, AT(outputs), "BASE[,BASE...]", NULL,
     "Where each report goes: - is standard output (the default); BASE makes the file BASE_<report>.<extension>; a single dot "
     "takes the "
     "name of the report file as BASE; @COMMAND starts a command that reads the table from its standard input (words and quotes "
     "are split as "
     "a shell does, but none runs). The last one given serves the remaining reports.",
     NULL},
    {"quiet", 'q', WS_OPT_FLAG, AT(quiet), NULL, NULL, "Say nothing about reports that were skipped or rows that were left out.",
     NULL},
    {"filter-time", 0, WS_OPT_STRING, AT(filter_time), "[START]/[END]", NULL,
     "Only events whose span touches this one. Times count from the start of the collection, in nanoseconds or with ns, us, ms, s.",
     NULL},
    {"filter-nvtx", 0, WS_OPT_STRING, AT(filter_nvtx), "RANGE[@DOMAIN][/INDEX]", NULL,
     "Only events whose span touches that of this NVTX range, on any thread. INDEX counts ranges of the same name by start, from "
     "0; without "
     "DOMAIN the default domain is meant, and @* is any. Write a backslash before an @ or / of the name.",
     NULL},
    {"timeunit", 0, WS_OPT_STRING, AT(timeunit), "UNIT", NULL,
     "Unit of times: ns, us, ms or s (also nsec, nanoseconds and so on). No digits are lost in any.", "ns"},
    {"force-overwrite", 0, WS_OPT_BOOL, AT(force_overwrite), NULL, NULL, "Replace output files that exist.", NULL},
    {"help-reports", 0, WS_OPT_FLAG, AT(help_reports), NULL, NULL, "List the reports and what they show.", NULL},
    {"help-formats", 0, WS_OPT_FLAG, AT(help_formats), NULL, NULL, "List the formats and their arguments.", NULL},
    {"force-export", 0, WS_OPT_BOOL, AT(force_export), NULL, NULL,
     "Import other tools' files anew instead of taking what an earlier command imported. Reports are read directly: for them it "
     "changes nothing.",
     NULL},
    {"sqlite", 0, WS_OPT_STRING, AT(sqlite), "FILE", NULL,
     "Refused: there is no SQLite file in between; 'warpsight export -t sqlite' writes one.", NULL},
    {"report-dir", 0, WS_OPT_LIST, AT(folders), "DIR", NULL,
     "A folder with reports of your own, each a query in a file NAME.sql, which -r NAME makes; may be given several times. "
     "--help-reports lists them too.",
     NULL},
    {"sql", 0, WS_OPT_LIST, AT(sql), "QUERY", NULL,
     "A report written as a query, made after those of -r; without -r, only it. A column called 'Total:dur_ns' (or :ts_ns, :mem_B, "
     ":thru_B, "
     ":ratio_%) is shown as what it is; :start and :end in the query are the times of a filter.",
     NULL},
    {"verbose", 'v', WS_OPT_FLAG, AT(verbose), NULL, NULL, "Say for each report how many blocks of the file it read.", NULL},
    {NULL},
};

static void list_reports(const struct ws_user_reports *user)
{
	for (size_t i = 0; ws_stats_list[i]; i++) {
		const struct ws_stat *s = ws_stats_list[i];

		printf("%s%s\n    %s. %s\n    Columns:", s->name, s->by_default ? " (default)" : "", s->title, s->about);
		for (size_t c = 0; c < s->column_count; c++)
			printf("%s %s", c ? "," : "", s->columns[c].name);
		printf("\n");
	}
	for (size_t i = 0; i < user->n; i++) {
		const struct ws_user_report *r = &user->v[i];

		printf("%s\n    %s. %s\n", r->name, r->title ? r->title : "A query of yours", r->about ? r->about : "");
		for (size_t k = 0; k < r->parameter_count; k++)
			printf("    Parameter: %s\n", r->parameters[k]);
	}
}

static void list_formats(void)
{
	for (const struct ws_format *f = ws_formats; f->name; f++)
		printf("%-9s %s%s%s%s; arguments: nohdr%s\n", f->name, f->about, f->alias ? " (also " : "",
		       f->alias ? f->alias : "", f->alias ? ")" : "", f->args ? ", nolimit, nofmt" : "");
	printf("\nnohdr leaves out the header, nolimit shows names of more than 100 columns whole, nofmt leaves out thousands "
	       "separators.\n");
}

/* Split every value of a list at commas: "-r a,b -r c". Empty parts of -f mean the default format. */
static void split(const struct ws_list *in, const char ***out, size_t *count)
{
	size_t cap = 0;

	*out = NULL;
	*count = 0;
	for (size_t i = 0; i < in->n; i++) {
		const char *s = in->v[i];

		for (;;) {
			size_t n = strcspn(s, ",");

			ws_grow(*out, cap, *count + 1);
			(*out)[(*count)++] = ws_strndup(s, n);
			if (!s[n])
				break;
			s += n + 1;
		}
	}
}

/* The same for -o, where a command may have commas: it goes up to the end. */
static void split_outputs(const struct ws_list *in, const char ***out, size_t *count)
{
	size_t cap = 0;

	*out = NULL;
	*count = 0;
	for (size_t i = 0; i < in->n; i++) {
		const char *s = in->v[i];

		for (;;) {
			size_t n = *s == '@' ? strlen(s) : strcspn(s, ",");

			ws_grow(*out, cap, *count + 1);
			(*out)[(*count)++] = ws_strndup(s, n);
			if (!s[n])
				break;
			s += n + 1;
		}
	}
}

static void drop(const char **list, size_t count)
{
	for (size_t i = 0; i < count; i++)
		free((void *)list[i]);
	free(list);
}

/* An option of the reference tool that has no meaning here: better a clear word than a silent nothing. */
static int refuse(const struct options *o)
{
	if (o->sqlite)
		ws_say("stats: --sqlite: there is no SQLite file in between; 'warpsight export -t sqlite' writes one");
	return o->sqlite ? -1 : 0;
}

static int make(const struct options *o, int argc, char **argv, struct ws_stats_request *q)
{
	struct ws_err e;
	int rc = 0;

	q->unit = ws_timeunit_find(o->timeunit);
	if (!q->unit) {
		ws_say("stats: --timeunit: '%s' is not one of ns, us, ms, s", o->timeunit);
		return WS_EXIT_USAGE;
	}
	if (ws_stats_check(q, &e) < 0) {
		ws_say("stats: %s", e.msg);
		return WS_EXIT_USAGE;
	}
	ws_import_anew = o->force_export;
	for (int i = 0; i < argc; i++) {
		int one = ws_stats_file(argv[i], q);

		if (one == WS_OUTFILE_PIPE)
			return WS_EXIT_PIPE;
		rc |= one;
	}
	return rc ? WS_EXIT_FAIL : WS_EXIT_OK;
}

/* Names of the queries of --sql come after the reports of -r. */
static void add_queries(const struct options *o, struct ws_user_reports *user, const char ***reports, size_t *count)
{
	size_t cap = *count;

	for (size_t i = 0; i < o->sql.n; i++) {
		ws_grow(*reports, cap, *count + 1);
		(*reports)[(*count)++] = ws_strdup(ws_user_reports_sql(user, o->sql.v[i]));
	}
}

static int reports_of(const struct options *o, int argc, char **argv, struct ws_user_reports *user)
{
	const char **reports, **formats, **outputs;
	struct ws_stats_request q = {
	    .filter_time = o->filter_time,
	    .filter_nvtx = o->filter_nvtx,
	    .quiet = o->quiet,
	    .verbose = o->verbose,
	    .overwrite = o->force_overwrite,
	    .several = argc > 1,
	    .user = user,
	};
	int rc;

	if (refuse(o) < 0)
		return WS_EXIT_USAGE;
	if (!argc) {
		ws_say("stats: no report file is given; 'warpsight stats FILE' summarises one");
		return WS_EXIT_USAGE;
	}
	split(&o->reports, &reports, &q.report_count);
	split(&o->formats, &formats, &q.format_count);
	split_outputs(&o->outputs, &outputs, &q.output_count);
	add_queries(o, user, &reports, &q.report_count);
	q.reports = reports;
	q.formats = formats;
	q.outputs = outputs;
	rc = make(o, argc, argv, &q);
	drop(reports, q.report_count);
	drop(formats, q.format_count);
	drop(outputs, q.output_count);
	return rc;
}

static int run(void *values, int argc, char **argv)
{
	const struct options *o = values;
	struct ws_user_reports user = {0};
	struct ws_err e;
	int rc = 0;

	for (size_t i = 0; i < o->folders.n && !rc; i++)
		rc = ws_user_reports_folder(&user, o->folders.v[i], &e);
	if (rc < 0) {
		ws_say("stats: %s", e.msg);
		ws_user_reports_free(&user);
		return WS_EXIT_USAGE;
	}
	if (o->help_reports)
		list_reports(&user);
	if (o->help_formats)
		list_formats();
	if (!o->help_reports && !o->help_formats)
		rc = reports_of(o, argc, argv, &user);
	ws_user_reports_free(&user);
	return rc;
}

const struct ws_command ws_cmd_stats = {
    .name = "stats",
    .summary = "Show figures from a report as tables.",
    .usage = "[options] FILE...",
    .details =
	"Reads report files (.wsrep may be left out) and prints summaries and traces. Times of columns are in nanoseconds unless "
	"--timeunit says otherwise and count from the start of the collection. Medians and standard deviations (of a sample) are "
	"exact; "
	"rows are in order of total time, then name. A report without data is skipped with a line on standard error.\n\n"
	"Lists given to -r, -f and -o pair up by position.",
    .opts = opts,
    .opts_size = sizeof(struct options),
    .examples = "warpsight stats report1\n"
		"warpsight stats -r nvtx_sum,osrt_sum -f csv -o . report1.wsrep\n"
		"warpsight stats -r nvtx_pushpop_trace --filter-time 1s/1.5s --timeunit ms report1.wsrep",
    .run = run,
};
