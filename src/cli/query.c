/*
 * query.c - the command `query`: a report asked in SQL, at once or from a prompt.
 *
 * The prompt reads lines until they end in a semicolon; lines that begin with a dot are its own.
 * What is not a terminal is read in the same way without a prompt, so that a script can be piped
 * in. Ctrl-C ends the query that runs, not the prompt.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "query/operand.h"
#include "cli/cli.h"
#include "cli/prompt.h"
#include "text/outfile.h"
#include "sql/print.h"
#include "stats/stats.h"

struct options {
	const char *format, *output, *timeunit, *file;
	bool together, overwrite, quiet, verbose;
};

#define AT(member) offsetof(struct options, member)

static const struct ws_opt opts[] = {
	{"format", 'f', WS_OPT_STRING, AT(format), "FORMAT[:ARG]", NULL,
	 "How to write the rows: column, table, csv, tsv, json, html, htable or markdown, as for "
	 "stats. Without it, column to standard "
	 "output "
	 "and csv to files.",
	 NULL},
	{"output", 'o', WS_OPT_STRING, AT(output), "PATH", NULL,
	 "File to write; - is standard output.", "-"},
	{"input", 'i', WS_OPT_STRING, AT(file), "SQLFILE", NULL,
	 "Take the SQL from this file instead of the first argument; - is standard input.", NULL},
	{"together", 0, WS_OPT_FLAG, AT(together), NULL, NULL,
	 "Ask all reports in one query: each is a schema, report1, report2 and so on in the order "
	 "given (report2.NVTX_EVENTS); the "
	 "first "
	 "needs no name. Without it, the query runs over each report by itself.",
	 NULL},
	{"timeunit", 0, WS_OPT_STRING, AT(timeunit), "UNIT", NULL,
	 "Unit of columns whose names end in :dur_ns or :ts_ns: ns, us, ms or s.", "ns"},
	{"force-overwrite", 0, WS_OPT_BOOL, AT(overwrite), NULL, NULL,
	 "Replace the output file if it exists.", NULL},
	{"quiet", 'q', WS_OPT_FLAG, AT(quiet), NULL, NULL,
	 "Do not name the report before its rows when there are several.", NULL},
	{"verbose", 'v', WS_OPT_FLAG, AT(verbose), NULL, NULL,
	 "Say how much was read of the report.", NULL},
	{NULL},
};

/* ---- interruption ---- */

static struct ws_sql *volatile running;

static void on_interrupt(int sig)
{
	struct ws_sql *s = running;

	(void)sig;
	if (s)
		ws_sql_interrupt(s);
}

/* ---- output ---- */

struct job {
	const struct options *o;
	struct ws_sql *sql;
	struct ws_sql_print print;
	struct ws_outfile out;
	bool opened;
	char *spec; /* format chosen at the prompt; the printer's arguments point into it */
};

static int open_output(void *ctx, struct ws_err *e)
{
	struct job *j = ctx;

	if (j->opened)
		return 0;
	if (ws_outfile_open(&j->out, j->o->output, 0666, j->o->overwrite, e) < 0)
		return -1;
	j->opened = true;
	j->print.printer.f = j->out.f;
	return 0;
}

static int begin(struct job *j, const struct options *o)
{
	bool file = strcmp(o->output, "-");
	struct ws_err e;

	memset(j, 0, sizeof(*j));
	j->o = o;
	j->print.ready = open_output;
	j->print.ready_ctx = j;
	j->print.printer.name = "query";
	j->print.printer.unit = ws_timeunit_find(o->timeunit);
	if (!j->print.printer.unit) {
		ws_say("query: --timeunit: '%s' is not one of ns, us, ms, s", o->timeunit);
		return -1;
	}
	j->print.printer.format = ws_format_find(o->format ? o->format
						 : file	   ? "csv"
							   : "column",
						 &j->print.printer.args, &e);
	if (!j->print.printer.format) {
		ws_say("query: %s", e.msg);
		return -1;
	}
	return 0;
}

static int finish(struct job *j, int rc)
{
	struct ws_err e;

	free(j->spec);
	j->spec = NULL;
	if (!j->opened)
		return rc;
	if (rc && strcmp(j->o->output, "-")) {
		ws_outfile_abort(&j->out);
		return rc;
	}
	switch (ws_outfile_commit(&j->out, &e)) {
	case 0:
		return rc;
	case WS_OUTFILE_PIPE:
		return WS_EXIT_PIPE;
	default:
		ws_say("%s", e.msg);
		return WS_EXIT_FAIL;
	}
}

/* Run what there is to run over one connection. */
static int ask(struct job *j, const char *sql)
{
	struct ws_sql_sink sink = ws_sql_print_sink(&j->print);
	struct ws_sql_counts before = ws_sql_counts(j->sql), after;
	struct ws_err e;
	int rc;

	running = j->sql;
	rc = ws_sql_run(j->sql, sql, &sink, &e);
	running = NULL;
	ws_sql_print_end(&j->print);
	after = ws_sql_counts(j->sql);
	if (after.damaged != before.damaged)
		ws_warn("the answer lacks the rows of %" PRIu64
			" damaged blocks; 'warpsight info --verify' says which",
			after.damaged - before.damaged);
	if (j->o->verbose)
		ws_say("read %" PRIu64 " blocks and left out %" PRIu64 " by their times; %" PRIu64
		       " rows, %" PRIu64 " groupings",
		       after.blocks - before.blocks, after.skipped - before.skipped,
		       after.rows - before.rows, after.groupings - before.groupings);
	if (rc < 0 && j->opened && ferror(j->out.f))
		return 0; /* finish says it, or that nobody reads any more */
	if (rc < 0)
		ws_say("%s", e.msg);
	return rc < 0 ? WS_EXIT_FAIL : 0;
}

/* ---- the prompt ---- */

static void list_tables(const struct ws_sql *s, FILE *f)
{
	uint64_t rows;
	const char *name;

	for (size_t i = 0; (name = ws_sql_table_name(s, i, &rows)); i++)
		if (rows)
			fprintf(f, "%-44s %12" PRIu64 "\n", name, rows);
	fprintf(f,
		"Tables without rows are not listed: SELECT name FROM sqlite_schema lists all.\n");
}

static void show_schema(const struct ws_sql *s, const char *table, FILE *f)
{
	char *sql = ws_sql_schema(s, table);

	if (sql)
		fprintf(f, "%s;\n", sql);
	else
		ws_say("there is no table '%s'; .tables lists those with rows", table);
	free(sql);
}

/* A line with a dot. Returns false to leave. */
static bool command(struct job *j, char *line)
{
	char *save, *word = strtok_r(line, " \t\n", &save), *arg = strtok_r(NULL, " \t\n", &save);
	struct ws_format_args args;
	const struct ws_format *format;
	struct ws_err e;

	if (!strcmp(word, ".quit") || !strcmp(word, ".exit"))
		return false;
	if (!strcmp(word, ".tables")) {
		list_tables(j->sql, stdout);
	} else if (!strcmp(word, ".schema") && arg) {
		show_schema(j->sql, arg, stdout);
	} else if (!strcmp(word, ".format") && arg) {
		char *spec = ws_strdup(arg); /* which the arguments point into */

		format = ws_format_find(spec, &args, &e);
		if (format) {
			j->print.printer.format = format;
			j->print.printer.args = args;
			free(j->spec);
			j->spec = spec;
		} else {
			ws_say("%s", e.msg);
			free(spec);
		}
	} else if (!strcmp(word, ".help")) {
		printf("SQL that ends in a semicolon is run. Besides:\n"
		       "  .tables         tables that have rows, with their number\n"
		       "  .schema TABLE   its columns and what they mean\n"
		       "  .format FORMAT  column, table, csv, tsv, json, html, htable or markdown\n"
		       "  .quit           leave\n");
	} else {
		ws_say("'%s' is not understood here; .help lists what is", word);
	}
	fflush(stdout);
	return true;
}

static bool blank(const char *s)
{
	return !s[strspn(s, " \t\r\n;")];
}

/* What the Tab key completes to: tables with rows. */
static const char *table_word(void *ctx, size_t i)
{
	return ws_sql_table_name(ctx, i, NULL);
}

static int prompt(struct job *j, FILE *in)
{
	struct ws_prompt lines = {
		.in = in, .terminal = isatty(fileno(in)), .word = table_word, .ctx = j->sql};
	struct ws_text sql = {0};
	const char *line;
	int rc = 0;

	if (lines.terminal)
		printf("SQL over the report; .help for help, .quit to leave.\n");
	while ((line = ws_prompt_next(&lines, sql.len ? "   ...> " : "warpsight> "))) {
		if (!sql.len && *line == '.') {
			char *words = ws_strdup(line);
			bool stay = command(j, words);

			free(words);
			if (!stay)
				break;
			continue;
		}
		ws_text_puts(&sql, line);
		if (blank(sql.s)) {
			sql.len = 0;
			continue;
		}
		if (!ws_sql_complete(sql.s))
			continue;
		rc = ask(j, sql.s);
		fflush(stdout);
		sql.len = 0;
		if (rc && !lines.terminal)
			break;
	}
	if (!rc && sql.len && !blank(sql.s))
		rc = ask(j, sql.s);
	if (lines.terminal) {
		fputs("\n", stdout);
		rc = 0;
	}
	ws_text_free(&sql);
	ws_prompt_free(&lines);
	return rc;
}

/* ---- files ---- */

static char *read_all(const char *path, struct ws_err *e)
{
	FILE *f = strcmp(path, "-") ? fopen(path, "re") : stdin;
	struct ws_text t = {0};
	char buf[4096];
	size_t n;

	if (!f) {
		ws_fail_errno(e, "cannot read %s", path);
		return NULL;
	}
	ws_text_puts(&t, "");
	while ((n = fread(buf, 1, sizeof(buf), f)) > 0 && t.len < ((size_t)1 << 26))
		ws_text_add(&t, buf, n);
	if (f != stdin)
		fclose(f);
	return t.s;
}

static struct ws_report *open_report(const char *path)
{
	char *file = ws_report_operand(path);
	struct ws_err e;
	struct ws_report *r = ws_report_open(file, &e);

	free(file);
	if (!r)
		ws_say("%s", e.msg);
	for (size_t i = 0; r && ws_report_damage(r, i); i++)
		ws_warn("%s: %s", ws_report_path(r), ws_report_damage(r, i));
	return r;
}

static int with_reports(struct job *j, const struct ws_report *const *reports, size_t count,
			const char *sql)
{
	struct ws_err e;
	int rc;

	j->sql = ws_sql_open(reports, count, &e);
	if (!j->sql) {
		ws_say("%s", e.msg);
		return WS_EXIT_FAIL;
	}
	rc = sql ? ask(j, sql) : prompt(j, stdin);
	ws_sql_close(j->sql);
	return rc;
}

static int all_together(struct job *j, int argc, char **argv, const char *sql)
{
	struct ws_report **reports = ws_calloc((size_t)argc, sizeof(*reports));
	int rc = 0;

	for (int i = 0; i < argc && !rc; i++)
		rc = (reports[i] = open_report(argv[i])) ? 0 : WS_EXIT_FAIL;
	if (!rc)
		rc = with_reports(j, (const struct ws_report *const *)reports, (size_t)argc, sql);
	for (int i = 0; i < argc; i++)
		if (reports[i])
			ws_report_close(reports[i]);
	free(reports);
	return rc;
}

static int one_by_one(struct job *j, int argc, char **argv, const char *sql)
{
	int rc = 0;

	for (int i = 0; i < argc; i++) {
		struct ws_report *r = open_report(argv[i]);
		const struct ws_report *list[] = {r};
		int one = WS_EXIT_FAIL;

		if (r && argc > 1 && !j->o->quiet)
			ws_say("%s:", argv[i]);
		if (r)
			one = with_reports(j, list, 1, sql);
		if (r)
			ws_report_close(r);
		rc = rc ? rc : one;
		if (j->opened && ferror(j->out.f))
			break;
	}
	return rc;
}

/* Is the first operand a report rather than SQL? Then the prompt is meant. */
static bool is_report(const char *s)
{
	char *file = ws_report_operand(s);
	struct stat st;
	bool there = !stat(file, &st);

	free(file);
	return there;
}

static int run(void *values, int argc, char **argv)
{
	const struct options *o = values;
	struct sigaction act = {.sa_handler = on_interrupt, .sa_flags = SA_RESTART}, old;
	char *from_file = NULL;
	const char *sql = NULL;
	struct ws_err e;
	struct job j;
	int rc;

	if (o->file && !(sql = from_file = read_all(o->file, &e))) {
		ws_say("query: %s", e.msg);
		return WS_EXIT_FAIL;
	}
	if (!sql && argc && !is_report(argv[0])) {
		sql = argv[0];
		argc--;
		argv++;
	}
	if (!argc) {
		if (sql && !o->file && !strpbrk(sql, " \n"))
			ws_say("query: there is no file %s, and as a query it lacks one: warpsight "
			       "query 'SELECT ...' FILE",
			       sql);
		else
			ws_say("query: no report file is given; warpsight query 'SELECT ...' FILE");
		free(from_file);
		return WS_EXIT_USAGE;
	}
	if (!sql && argc > 1 && !o->together) {
		ws_say("query: a prompt is for one report, or for several with --together, but %d "
		       "files are given",
		       argc);
		return WS_EXIT_USAGE;
	}
	if (begin(&j, o) < 0) {
		free(from_file);
		return WS_EXIT_USAGE;
	}
	sigaction(SIGINT, &act, &old);
	rc = o->together ? all_together(&j, argc, argv, sql) : one_by_one(&j, argc, argv, sql);
	sigaction(SIGINT, &old, NULL);
	free(from_file);
	return finish(&j, rc);
}

const struct ws_command ws_cmd_query = {
	.name = "query",
	.summary = "Ask a report in SQL.",
	.usage = "[options] ['SQL'] FILE...",
	.details = "Runs SQL (SQLite's) straight over the report's columns, without an export. "
		   "Tables and columns have the names of "
		   "the SQLite export "
		   "(CUPTI_ACTIVITY_KIND_KERNEL, NVTX_EVENTS, StringIds, WARPSIGHT_...); times are "
		   "nanoseconds from the start of the "
		   "collection. Only the "
		   "columns that a query names are decoded, and only the blocks that its bounds on "
		   "start and end allow. Nothing can be "
		   "written.\n\n"
		   "Without SQL, queries are read from standard input: from a prompt at a "
		   "terminal, where .tables, .schema TABLE, "
		   ".format FORMAT, .help and "
		   ".quit help, and Ctrl-C stops a query; where libedit is installed, lines can be "
		   "edited and called back, and Tab completes "
		   "names of tables. Without ORDER BY, rows come in the order in which the report "
		   "stores them.",
	.opts = opts,
	.opts_size = sizeof(struct options),
	.examples = "warpsight query \"SELECT s.value, sum(k.end - k.start) AS 'Total:dur_ns' FROM "
		    "CUPTI_ACTIVITY_KIND_KERNEL k JOIN "
		    "StringIds s ON "
		    "s.id = k.shortName GROUP BY s.value ORDER BY 2 DESC LIMIT 10\" report1\n"
		    "warpsight query -f csv -o long.csv 'SELECT * FROM NVTX_EVENTS WHERE start > "
		    "1e9 AND end - start > 1e6' report1\n"
		    "warpsight query --together 'SELECT (SELECT count(*) FROM report1.OSRT_API), "
		    "(SELECT count(*) FROM "
		    "report2.OSRT_API)' before after\n"
		    "warpsight query report1",
	.run = run,
};
