/*
 * query.c - the command `query`: SQL over a report, given as an argument or typed at a prompt.
 *
 * The prompt reads lines until they end in a semicolon; lines that begin with a dot are its own
 * commands. Input that is not a terminal is read in the same way without a prompt, so that a script
 * can be piped in. Ctrl-C ends the running query, not the prompt.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "query/operand.h"
#include "cli/cli.h"
#include "cli/prompt.h"
#include "cli/tables.h"
#include "cli/text.h"
#include "text/output_file.h"
#include "sql/print.h"
#include "stats/stats.h"

struct options {
	const char *format, *output, *timeunit, *file;
	bool together, overwrite, quiet, verbose, wide;
	double timeout;
	int64_t memory; /* MiB */
};

#define AT(member) offsetof(struct options, member)

static const struct ws_opt opts[] = {
	{"format", 'f', WS_OPT_STRING, AT(format), "FORMAT[:ARG]", NULL,
	 "How to write the rows: column, table, csv, tsv, json, html, htable or markdown, as for "
	 "stats. By default column for standard output and csv for files.",
	 NULL, ws_add_format_names},
	{"output", 'o', WS_OPT_STRING, AT(output), "PATH", NULL,
	 "File to write; - is standard output.", "-"},
	{"input", 'i', WS_OPT_STRING, AT(file), "SQLFILE", NULL,
	 "Read the SQL from this file instead of an argument; - is standard input.", NULL},
	{"together", 0, WS_OPT_FLAG, AT(together), NULL, NULL,
	 "Query all reports together: each is a schema, report1, report2 and so on in the order "
	 "given (report2.NVTX_EVENTS); the first needs no name. Without this option, the query "
	 "runs "
	 "over each report by itself.",
	 NULL},
	{"timeunit", 0, WS_OPT_STRING, AT(timeunit), "UNIT", NULL,
	 "Unit of columns whose names end in :dur_ns or :ts_ns: ns, us, ms or s.", "ns"},
	{"force-overwrite", 0, WS_OPT_BOOL, AT(overwrite), NULL, NULL,
	 "Replace the output file if it exists.", NULL},
	WS_WIDE_OPTION(wide),
	{"timeout", 0, WS_OPT_SECONDS, AT(timeout), "SECONDS", NULL,
	 "Stop a query that takes longer, with status 1. Without it only Ctrl-C does.", NULL},
	{"memory-limit", 0, WS_OPT_INT, AT(memory), "MIB", NULL,
	 "Stop a query that needs more memory; 0 is no limit. By default half of the machine's.",
	 "-1"},
	{"quiet", 'q', WS_OPT_FLAG, AT(quiet), NULL, NULL,
	 "Do not name the report before its rows when there are several.", NULL},
	{"verbose", 'v', WS_OPT_FLAG, AT(verbose), NULL, NULL,
	 "Print how much of the report was read.", NULL},
	{NULL},
};

/* ---- interruption ---- */

static struct ws_sql *volatile running;
static volatile sig_atomic_t interrupted;

static void on_interrupt(int sig)
{
	struct ws_sql *sql = running;

	(void)sig;
	interrupted = 1;
	if (sql)
		ws_sql_interrupt(sql);
}

/* ---- output ---- */

struct query_job {
	const struct options *options;
	struct ws_sql *sql;
	struct ws_sql_print print;
	struct ws_output_file out;
	bool opened;
	char *spec; /* format chosen at the prompt; the printer's arguments point into it */
};

static int open_output(void *ctx, struct ws_err *err)
{
	struct query_job *job = ctx;

	if (job->opened)
		return 0;
	if (ws_open_output_file(&job->out, job->options->output, 0666, job->options->overwrite,
				err) < 0)
		return -1;
	job->opened = true;
	job->print.printer.file = job->out.file;
	return 0;
}

static int begin_query_job(struct query_job *job, const struct options *options)
{
	const char *format = "column";
	struct ws_err err;

	memset(job, 0, sizeof(*job));
	job->options = options;
	job->print.ready = open_output;
	job->print.ready_ctx = job;
	job->print.printer.name = "query";
	job->print.printer.unit = ws_find_timeunit(options->timeunit);
	if (!job->print.printer.unit) {
		ws_say("query: --timeunit: '%s' is not one of ns, us, ms, s", options->timeunit);
		return -1;
	}
	if (strcmp(options->output, "-"))
		format = "csv";
	job->print.printer.format =
		ws_find_format(ws_text_or(options->format, format), &job->print.printer.args, &err);
	if (!job->print.printer.format) {
		ws_say("query: %s", err.msg);
		return -1;
	}
	return 0;
}

static int finish_output(struct query_job *job, int rc)
{
	struct ws_err err;

	free(job->spec);
	job->spec = NULL;
	if (!job->opened)
		return rc;
	if (rc && strcmp(job->options->output, "-")) {
		ws_abort_output(&job->out);
		return rc;
	}
	switch (ws_commit_output(&job->out, &err)) {
	case 0:
		return rc;
	case WS_OUTPUT_PIPE_CLOSED:
		return WS_EXIT_PIPE_CLOSED;
	default:
		ws_say("%s", err.msg);
		return WS_EXIT_FAIL;
	}
}

/* Runs SQL over one connection; returns an exit status. */
static int run_sql(struct query_job *job, const char *sql)
{
	struct ws_sql_sink sink = ws_sql_make_print_sink(&job->print);
	struct ws_sql_counts counts_before = ws_get_sql_counts(job->sql), counts_after;
	struct ws_err err;
	int rc;

	running = job->sql;
	rc = ws_sql_run_query(job->sql, sql, &sink, &err);
	running = NULL;
	ws_sql_end_print(&job->print);
	counts_after = ws_get_sql_counts(job->sql);
	if (counts_after.damaged != counts_before.damaged)
		ws_warn("the answer lacks the rows of %" PRIu64
			" damaged blocks; 'warpsight info --verify' says which",
			counts_after.damaged - counts_before.damaged);
	if (job->options->verbose)
		ws_say("read %" PRIu64 " blocks and left out %" PRIu64 " by their times; %" PRIu64
		       " rows, %" PRIu64 " groupings",
		       counts_after.blocks - counts_before.blocks,
		       counts_after.skipped - counts_before.skipped,
		       counts_after.rows - counts_before.rows,
		       counts_after.partitions - counts_before.partitions);
	if (rc < 0 && job->opened && ferror(job->out.file))
		return 0; /* finish_output reports it, unless nobody reads any more */
	if (rc < 0)
		ws_say("%s", err.msg);
	return ws_exit_status(rc < 0);
}

/* ---- the prompt ---- */

static void list_tables(const struct ws_sql *sql, FILE *file)
{
	uint64_t rows;
	const char *name;

	for (size_t i = 0; (name = ws_sql_find_table_name(sql, i, &rows)); i++)
		if (rows)
			fprintf(file, "%-44s %12" PRIu64 "\n", name, rows);
	fprintf(file,
		"Tables without rows are not listed: SELECT name FROM sqlite_schema lists all.\n");
}

static void show_schema(const struct ws_sql *connection, const char *table, FILE *file)
{
	char *sql = ws_sql_make_schema(connection, table);

	if (sql)
		fprintf(file, "%s;\n", sql);
	else
		ws_say("there is no table '%s'; .tables lists those with rows", table);
	free(sql);
}

/* Runs a line that begins with a dot. Returns false to leave the prompt. */
static bool run_dot_command(struct query_job *job, char *line)
{
	char *save, *word = strtok_r(line, " \t\n", &save), *arg = strtok_r(NULL, " \t\n", &save);
	struct ws_format_args args;
	const struct ws_format *format;
	struct ws_err err;

	if (!strcmp(word, ".quit") || !strcmp(word, ".exit"))
		return false;
	if (!strcmp(word, ".tables")) {
		list_tables(job->sql, stdout);
	} else if (!strcmp(word, ".schema") && arg) {
		show_schema(job->sql, arg, stdout);
	} else if (!strcmp(word, ".format") && arg) {
		char *spec = ws_strdup(arg); /* the arguments point into it */

		format = ws_find_format(spec, &args, &err);
		if (format) {
			job->print.printer.format = format;
			job->print.printer.args = args;
			free(job->spec);
			job->spec = spec;
		} else {
			ws_say("%s", err.msg);
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

static bool is_blank(const char *text)
{
	return !text[strspn(text, " \t\r\n;")];
}

/* What the Tab key completes to: tables with rows. */
static const char *get_table_word(void *ctx, size_t i)
{
	return ws_sql_find_table_name(ctx, i, NULL);
}

static int run_prompt(struct query_job *job, FILE *in)
{
	struct ws_prompt lines = {
		.in = in, .terminal = isatty(fileno(in)), .word = get_table_word, .ctx = job->sql};
	static const char *const prompts[] = {"warpsight> ", "   ...> "};
	struct ws_text sql = {0};
	const char *line;
	int rc = 0;

	if (lines.terminal)
		printf("SQL over the report; .help for help, .quit to leave.\n");
	while ((line = ws_read_prompt_line(&lines, prompts[sql.len > 0]))) {
		if (!sql.len && *line == '.') {
			char *words = ws_strdup(line);
			bool stay = run_dot_command(job, words);

			free(words);
			if (!stay)
				break;
			continue;
		}
		ws_text_puts(&sql, line);
		if (is_blank(sql.text)) {
			sql.len = 0;
			continue;
		}
		if (!ws_sql_is_complete(sql.text))
			continue;
		rc = run_sql(job, sql.text);
		fflush(stdout);
		sql.len = 0;
		if (rc && !lines.terminal)
			break;
	}
	if (!rc && sql.len && !is_blank(sql.text))
		rc = run_sql(job, sql.text);
	if (lines.terminal) {
		fputs("\n", stdout);
		rc = 0;
	}
	ws_text_free(&sql);
	ws_prompt_free(&lines);
	return rc;
}

/* ---- files ---- */

static char *read_sql_file(const char *path, struct ws_err *err)
{
	FILE *file = stdin;
	struct ws_text text = {0};
	char buf[4096];
	size_t size;

	if (strcmp(path, "-"))
		file = fopen(path, "re");
	if (!file) {
		ws_fail_errno(err, "cannot read %s", path);
		return NULL;
	}
	ws_text_puts(&text, "");
	while ((size = fread(buf, 1, sizeof(buf), file)) > 0 && text.len < ((size_t)1 << 26))
		ws_text_add(&text, buf, size);
	if (file != stdin)
		fclose(file);
	return text.text;
}

static struct ws_report *open_report(const char *path)
{
	char *file = ws_find_operand_report(path);
	struct ws_err err;
	struct ws_report *report = ws_report_open(file, &err);

	free(file);
	if (!report)
		ws_say("%s", err.msg);
	for (size_t i = 0; report && ws_report_get_damage(report, i); i++)
		ws_warn("%s: %s", ws_report_path(report), ws_report_get_damage(report, i));
	return report;
}

static int query_reports(struct query_job *job, const struct ws_report *const *reports,
			 size_t count, const char *sql)
{
	struct ws_err err;
	int rc;

	job->sql = ws_sql_open(reports, count, &err);
	if (!job->sql) {
		ws_say("%s", err.msg);
		return WS_EXIT_FAIL;
	}
	ws_sql_set_time_limit(job->sql, job->options->timeout);
	if (sql)
		rc = run_sql(job, sql);
	else
		rc = run_prompt(job, stdin);
	ws_sql_close(job->sql);
	return rc;
}

static int query_together(struct query_job *job, int argc, char **argv, const char *sql)
{
	struct ws_report **reports = ws_calloc((size_t)argc, sizeof(*reports));
	int rc = 0;

	for (int i = 0; i < argc && !rc; i++) {
		reports[i] = open_report(argv[i]);
		rc = ws_exit_status(!reports[i]);
	}
	if (!rc)
		rc = query_reports(job, (const struct ws_report *const *)reports, (size_t)argc,
				   sql);
	for (int i = 0; i < argc; i++)
		if (reports[i])
			ws_report_close(reports[i]);
	free(reports);
	return rc;
}

static int query_one_by_one(struct query_job *job, int argc, char **argv, const char *sql)
{
	int rc = 0;

	for (int i = 0; i < argc; i++) {
		struct ws_report *report = open_report(argv[i]);
		const struct ws_report *list[] = {report};
		int file_rc = WS_EXIT_FAIL;

		if (report && argc > 1 && !job->options->quiet)
			ws_say("%s:", argv[i]);
		if (report)
			file_rc = query_reports(job, list, 1, sql);
		if (report)
			ws_report_close(report);
		if (!rc)
			rc = file_rc;
		if ((job->opened && ferror(job->out.file)) || interrupted)
			break;
	}
	return rc;
}

/* ---- operands ---- */

static bool is_report(const char *text)
{
	char *file = ws_find_operand_report(text);
	struct stat status;
	bool exists = !stat(file, &status);

	free(file);
	return exists;
}

/* Least to most like SQL. */
enum likeness { IS_FILE, ONE_WORD, SEVERAL_WORDS, IS_SQL };

static enum likeness judge_operand(const char *text)
{
	static const char *const words[] = {"SELECT", "WITH", "VALUES", "EXPLAIN", "PRAGMA"};
	const char *start = text + strspn(text, " \t\r\n(");

	if (is_report(text))
		return IS_FILE;
	for (size_t i = 0; i < WS_COUNT(words); i++)
		if (!strncasecmp(start, words[i], strlen(words[i])) &&
		    strchr(" \t\r\n(*'\"/-", start[strlen(words[i])]))
			return IS_SQL;
	if (strpbrk(text, " \t\r\n;("))
		return SEVERAL_WORDS;
	return ONE_WORD;
}

/*
 * Find the SQL among the operands, in front of the reports or behind them. Returns its index,
 * `argc` when all are reports, or -1 with a message.
 */
static int find_sql(int argc, char **argv)
{
	enum likeness most = IS_FILE;
	int sql = argc;

	for (int i = 0; i < argc; i++) {
		enum likeness likeness = judge_operand(argv[i]);

		if (likeness == IS_SQL && most == IS_SQL) {
			ws_say("query: '%s' and '%s' are both SQL, and one is wanted; several "
			       "statements go into one, separated by semicolons",
			       argv[sql], argv[i]);
			return -1;
		}
		if (likeness > most && (likeness != ONE_WORD || !i)) {
			most = likeness;
			sql = i;
		}
	}
	return sql;
}

/* Say what is missing when there is SQL alone. */
static int complain_of_no_report(const char *sql, bool from_file)
{
	if (sql && !from_file && !strpbrk(sql, " \n"))
		ws_say("query: there is no file %s, and as a query it lacks one: warpsight "
		       "query 'SELECT ...' FILE",
		       sql);
	else
		ws_say("query: no report file is given; warpsight query 'SELECT ...' FILE");
	return WS_EXIT_USAGE;
}

static int complain_of_no_sql(int argc, char **argv)
{
	ws_say("query: %s and %s are both taken for reports, and there is no SQL; a prompt is for "
	       "one report, or for several with --together, but %d files are given",
	       argv[0], argv[1], argc);
	return WS_EXIT_USAGE;
}

/* Take the SQL from the operands. Returns 0, or an exit status after a message. */
static int read_operands(const struct options *options, int *argc, char **argv, const char **sql)
{
	if (!*sql) {
		int at = find_sql(*argc, argv);

		if (at < 0)
			return WS_EXIT_USAGE;
		if (at < *argc) {
			*sql = argv[at];
			memmove(argv + at, argv + at + 1, (size_t)(*argc - at - 1) * sizeof(*argv));
			--*argc;
		}
	}
	if (!*argc)
		return complain_of_no_report(*sql, options->file);
	if (!*sql && *argc > 1 && !options->together)
		return complain_of_no_sql(*argc, argv);
	return 0;
}

static void limit_memory(int64_t mebibytes)
{
	if (mebibytes >= 0)
		ws_sql_set_memory_limit((uint64_t)ws_min(mebibytes, INT64_C(1) << 40) << 20);
}

static int run_query(void *values, int argc, char **argv)
{
	const struct options *options = values;
	struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = SA_RESTART}, old_action;
	char *from_file = NULL;
	const char *sql = NULL;
	struct ws_err err;
	struct query_job job;
	int rc;

	ws_print_wide = options->wide;
	if (options->file && !(sql = from_file = read_sql_file(options->file, &err))) {
		ws_say("query: %s", err.msg);
		return WS_EXIT_FAIL;
	}
	rc = read_operands(options, &argc, argv, &sql);
	if (!rc && begin_query_job(&job, options) < 0)
		rc = WS_EXIT_USAGE;
	if (rc) {
		free(from_file);
		return rc;
	}
	limit_memory(options->memory);
	sigaction(SIGINT, &action, &old_action);
	if (options->together)
		rc = query_together(&job, argc, argv, sql);
	else
		rc = query_one_by_one(&job, argc, argv, sql);
	sigaction(SIGINT, &old_action, NULL);
	free(from_file);
	return finish_output(&job, rc);
}

const struct ws_command ws_cmd_query = {
	.name = "query",
	.summary = "Ask a report in SQL.",
	.usage = "[options] ['SQL'] FILE...   or   FILE... ['SQL']",
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
	.run = run_query,
};
