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
#include "sql/print.h"
#include "print/command.h"
#include "query/operand.h"
#include "stats/filter.h"
#include "stats/user.h"

struct job {
	struct ws_stats s; /* first: rows come with it */
	const struct ws_stats_request *q;
	const struct ws_stat *stat;
	struct ws_printer printer;
	struct ws_outfile out;
	struct ws_command_out command; /* instead of it, with -o @command */
	char *path;
	char **skipped; /* names of default reports without data, to be said together; NULL when the
			   report was asked for */
	bool begun, failed;
	struct ws_err e;
};

static const struct ws_timeunit nanoseconds = {"ns", 0};

static const char *pick(const char *const *list, size_t count, size_t i)
{
	return !count ? NULL : list[i < count ? i : count - 1];
}

/* -f or, without it, what suits the output: columns to read, csv to keep. */
static const char *format_spec(const struct ws_stats_request *q, size_t i)
{
	const char *output = pick(q->outputs, q->output_count, i),
		   *format = pick(q->formats, q->format_count, i);

	return format && *format && strcmp(format, ".") ? format
	       : output && strcmp(output, "-")		? "csv"
							: "column";
}

static int check_output(const char *output, struct ws_err *e)
{
	if (*output == '@') {
		char **words = ws_words(output + 1, e);
		char *why = words ? NULL : ws_strdup(e->msg);

		if (!words)
			ws_fail(e, "-o %s: %s", output, why);
		ws_words_free(words);
		free(why);
		return words ? 0 : -1;
	}
	if (!*output)
		return ws_fail(e, "-o: the name of the output is empty");
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

const char *ws_stats_arg(const struct ws_stats *s, const char *name)
{
	size_t n;

	for (const char *a = s->args; *a; a += n) {
		n = strcspn(++a, ":");
		if (same_arg(a, n, name))
			return strchr(name, '=') ? strchr(a, '=') + 1 : "";
	}
	return NULL;
}

static int check_args(const struct ws_stat *stat, const char *spec, struct ws_err *e)
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
		ws_fail(e, "the report %s takes no arguments, but '%s' was given", stat->name,
			spec);
	else if (!ok)
		ws_fail(e, "'%s': the report %s takes %s", spec, stat->name, known.s);
	else if (strstr(spec, ":base") && strstr(spec, ":mangled")) {
		ws_fail(e, "'%s': base and mangled exclude each other", spec);
		ok = false;
	}
	ws_text_free(&known);
	return ok ? 0 : -1;
}

int ws_stats_check(const struct ws_stats_request *q, struct ws_err *e)
{
	size_t reports = q->report_count;
	struct ws_format_args args;

	for (size_t i = 0; i < reports; i++) {
		const struct ws_stat *stat = find(q->reports[i]);
		const struct ws_user_report *user = ws_user_report_find(q->user, q->reports[i]);

		if (user && ws_user_report_check(user, q->reports[i], e) < 0)
			return -1;
		if (user || elsewhere(q->reports[i]))
			continue;
		if (!stat && ws_user_report_script(q->user, q->reports[i]))
			return ws_fail(e,
				       "'%s' is a script, and scripts are not run: write the "
				       "report as a query, %.*s.sql",
				       q->reports[i], (int)strcspn(q->reports[i], ":"),
				       q->reports[i]);
		if (!stat)
			return ws_fail(
				e, "there is no report '%s'; --help-reports lists those there are",
				q->reports[i]);
		if (check_args(stat, q->reports[i], e) < 0)
			return -1;
		if (!q->quiet)
			tell_new_name(q->reports[i], stat);
	}
	for (size_t i = 0; !q->report_count && ws_stats_list[i]; i++)
		reports += ws_stats_list[i]->by_default;
	if (q->format_count > reports || q->output_count > reports)
		return ws_fail(e, "%zu %s are given for %zu %s",
			       q->format_count > reports ? q->format_count : q->output_count,
			       q->format_count > reports ? "formats" : "outputs", reports,
			       reports == 1 ? "report" : "reports");
	for (size_t i = 0; i < q->format_count; i++)
		if (*q->formats[i] && strcmp(q->formats[i], ".") &&
		    !ws_format_find(q->formats[i], &args, e))
			return -1;
	for (size_t i = 0; i < q->output_count; i++)
		if (check_output(q->outputs[i], e) < 0)
			return -1;
	return q->filter_time ? ws_filter_time_check(q->filter_time, e) : 0;
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
static char *name_in_file(const struct job *j, size_t i)
{
	const struct ws_stats_request *q = j->q;
	char *name =
		ws_format("%s%s%s", i < q->report_count ? q->reports[i] : j->printer.name,
			  q->filter_nvtx ? "_nvtx=" : "", q->filter_nvtx ? q->filter_nvtx : "");

	for (char *s = name; *s; s++)
		*s = *s == ':' ? '_' : *s == '/' ? '-' : *s;
	return name;
}

/* Where report i goes: "-", or BASE_REPORT.EXT; BASE is the file's own name for ".". */
static char *output_path(const struct job *j, size_t i)
{
	const char *output = pick(j->q->outputs, j->q->output_count, i),
		   *ext = j->printer.format->extension;
	const char *path = ws_report_path(j->s.r),
		   *base = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
	char *name, *out;

	if (!output || !strcmp(output, "-"))
		return ws_strdup("-");
	if (*output == '@')
		return ws_strdup(output);
	name = name_in_file(j, i);
	if (!strcmp(output, "."))
		out = ws_format("%.*s_%s.%s", without_extension(path), path, name, ext);
	else if (j->q->several)
		out = ws_format("%s_%.*s_%s.%s", output, without_extension(base), base, name, ext);
	else
		out = ws_format("%s_%s.%s", output, name, ext);
	free(name);
	return out;
}

/* Open where the table goes, when it has its first row. */
static int open_output(struct job *j)
{
	if (*j->path == '@') {
		if (ws_command_start(&j->command, j->path + 1, &j->e) < 0)
			return -1;
		j->printer.f = j->command.f;
	} else {
		if (ws_outfile_open(&j->out, j->path, 0666, j->q->overwrite, &j->e) < 0)
			return -1;
		j->printer.f = j->out.f;
	}
	j->begun = true;
	return 0;
}

static int close_output(struct job *j)
{
	if (*j->path == '@')
		return ws_command_finish(&j->command, &j->e);
	if (!strcmp(j->path, "-"))
		fputs("\n", j->out.f); /* between the tables of one stream */
	return ws_outfile_commit(&j->out, &j->e);
}

static void give_up_output(struct job *j)
{
	struct ws_err unsaid;

	if (j->begun && *j->path == '@')
		ws_command_finish(&j->command, &unsaid);
	else if (j->begun)
		ws_outfile_abort(&j->out);
}

/* Rows come: is there somewhere to put them? */
static bool ready(struct job *j)
{
	if (j->begun || j->failed)
		return !j->failed;
	j->failed = open_output(j) < 0;
	if (!j->failed)
		ws_print_begin(&j->printer);
	return !j->failed;
}

static void take_row(struct ws_stats *s, const struct ws_cell *cells)
{
	struct job *j = (struct job *)s;

	if (ready(j))
		ws_print_row(&j->printer, cells);
}

static void take_rows(struct ws_stats *s, size_t count,
		      size_t (*make)(const void *ctx, size_t i, struct ws_cell *cells,
				     struct ws_text *text),
		      const void *ctx)
{
	struct job *j = (struct job *)s;

	if (count && ready(j))
		ws_print_rows(&j->printer, count, make, ctx);
}

static const char *why_none(const struct ws_stats *s)
{
	if (s->windowed)
		return "in the time asked for";
	if (ws_report_rows(s->r, WS_TABLE_nvtx) || ws_report_rows(s->r, WS_TABLE_osrt) ||
	    ws_report_rows(s->r, WS_TABLE_cuda_api) || ws_report_rows(s->r, WS_TABLE_cuda_kernel))
		return "were recorded";
	return "were recorded, nor anything else";
}

/* What the table does not show. Damage is said even with -q. */
static void notes(struct job *j)
{
	const char *file = ws_report_path(j->s.r), *name = j->stat->name;

	if (j->s.damaged)
		ws_warn("%s: %s lacks the rows of %" PRIu64
			" damaged block%s; 'warpsight info --verify' says which",
			file, name, j->s.damaged, j->s.damaged == 1 ? "" : "s");
	if (j->s.backwards)
		ws_warn("%s: %s leaves out %" PRIu64 " rows that end before they start", file, name,
			j->s.backwards);
	if (j->s.unended && !j->q->quiet)
		ws_say("%s: %s leaves out %" PRIu64 " of the %s: %s %s", file, name, j->s.unended,
		       j->stat->what, j->s.unended == 1 ? "it" : "they",
		       j->stat->unended ? j->stat->unended : "never ended");
	if (j->begun || j->failed || j->q->quiet)
		return;
	if (j->s.lacks) {
		ws_say("%s: %s skipped: no %s were recorded", file, name, j->s.lacks);
	} else if (j->skipped && !(j->stat->why && !j->s.windowed)) {
		char *more = ws_format("%s%s%s", *j->skipped ? *j->skipped : "",
				       *j->skipped ? ", " : "", name);

		free(*j->skipped);
		*j->skipped = more;
	} else if (j->stat->why && !j->s.windowed) {
		ws_say("%s: %s skipped: no %s were recorded: %s", file, name, j->stat->what,
		       j->stat->why(j->s.r));
	} else {
		ws_say("%s: %s skipped: no %s %s", file, name, j->stat->what, why_none(&j->s));
	}
}

/* What was read of the report: blocks outside a filter's time are not even touched. */
static void tell_reading(const struct job *j, uint64_t before)
{
	uint64_t all = 0;

	for (int t = 0; t < WS_TABLE_COUNT; t++)
		all += ws_report_blocks(j->s.r, (enum ws_table)t);
	if (j->q->verbose)
		ws_say("%s: %s decoded %" PRIu64 " blocks; the report has %" PRIu64,
		       ws_report_path(j->s.r), j->printer.name, ws_report_decoded(j->s.r) - before,
		       all);
}

static int begin(struct job *j, size_t i)
{
	j->printer.unit = j->q->unit ? j->q->unit : &nanoseconds;
	j->printer.format = ws_format_find(format_spec(j->q, i), &j->printer.args, &j->e);
	if (!j->printer.format) {
		ws_say("%s", j->e.msg);
		return -1;
	}
	j->path = output_path(j, i);
	return 0;
}

/* The table is whole, or `rc` says that it is not: what becomes of its output. */
static int end(struct job *j, int rc)
{
	j->failed |= rc < 0;
	if (j->failed)
		give_up_output(j);
	else if (j->begun && (rc = close_output(j)) < 0)
		j->failed = true;
	if (j->failed && rc != WS_OUTFILE_PIPE) {
		ws_say("%s", j->e.msg);
		rc = -1;
	}
	free(j->path);
	return rc;
}

/* Make one report; the window is in `base`. */
static int make(const struct ws_stats *base, const struct ws_stats_request *q,
		const struct ws_stat *stat, size_t i, char **skipped)
{
	struct job j = {.s = *base, .q = q, .stat = stat, .skipped = skipped};
	uint64_t before = ws_report_decoded(base->r);
	int rc;

	j.s.args = i < q->report_count ? q->reports[i] + strcspn(q->reports[i], ":") : "";
	j.s.row = take_row;
	j.s.rows = take_rows;
	j.printer = (struct ws_printer){.title = stat->title,
					.name = stat->name,
					.columns = stat->columns,
					.column_count = stat->column_count};
	if (begin(&j, i) < 0)
		return -1;
	rc = stat->run(&j.s, &j.e);
	if (j.begun)
		ws_print_end(&j.printer);
	rc = end(&j, rc);
	notes(&j);
	tell_reading(&j, before);
	return rc;
}

/* ---- reports written as queries ---- */

struct user_job {
	struct job j;
	struct ws_sql_print print;
};

static int user_ready(void *ctx, struct ws_err *e)
{
	struct user_job *u = ctx;

	if (u->j.begun)
		return 0;
	if (open_output(&u->j) < 0) {
		*e = u->j.e;
		return -1;
	}
	u->print.printer.f = u->j.printer.f;
	return 0;
}

static int make_user(const struct ws_stats *base, const struct ws_stats_request *q,
		     const struct ws_user_report *r, size_t i)
{
	struct user_job u = {.j = {.s = *base, .q = q}};
	uint64_t before = ws_report_decoded(base->r);
	int rc;

	u.j.printer.name = r->name;
	u.j.printer.title = r->title ? r->title : r->name;
	if (begin(&u.j, i) < 0)
		return -1;
	u.print.printer = u.j.printer;
	u.print.ready = user_ready;
	u.print.ready_ctx = &u;
	rc = ws_user_report_run(r, q->reports[i], &u.j.s, &u.print, &u.j.e);
	if (!rc && !u.j.begun && !q->quiet)
		ws_say("%s: %s skipped: its query gave no rows", ws_report_path(base->r), r->name);
	rc = end(&u.j, rc);
	tell_reading(&u.j, before);
	return rc;
}

static int worse(int a, int b)
{
	return a < b ? a : b;
}

/* The default reports. Most programs have data for a few of them only. */
static int make_defaults(const struct ws_stats *s, const struct ws_stats_request *q)
{
	char *skipped = NULL;
	int rc = 0;
	size_t n = 0;

	for (size_t i = 0; ws_stats_list[i] && rc != WS_OUTFILE_PIPE; i++)
		if (ws_stats_list[i]->by_default)
			rc = worse(rc, make(s, q, ws_stats_list[i], n++, &skipped));
	if (skipped)
		ws_say("%s: skipped, for nothing that they show %s: %s", ws_report_path(s->r),
		       s->windowed ? "lies in the time asked for" : "was recorded", skipped);
	free(skipped);
	return rc;
}

static int make_all(const struct ws_stats *s, const struct ws_stats_request *q)
{
	int rc = 0;

	for (size_t i = 0; i < q->report_count && rc != WS_OUTFILE_PIPE; i++) {
		const struct ws_user_report *user = ws_user_report_find(q->user, q->reports[i]);

		if (!user && elsewhere(q->reports[i])) {
			if (!q->quiet)
				ws_say("%s: %s skipped: %s", ws_report_path(s->r), q->reports[i],
				       elsewhere(q->reports[i]));
			continue;
		}
		rc = worse(rc, user ? make_user(s, q, user, i)
				    : make(s, q, find(q->reports[i]), i, NULL));
	}
	return q->report_count ? rc : make_defaults(s, q);
}

int ws_stats_file(const char *path, const struct ws_stats_request *q)
{
	struct ws_stats s = {.time_max = UINT64_MAX};
	struct ws_err e;
	struct ws_report *r = ws_report_of_operand(path);
	int rc = 0;

	if (!r)
		return -1;
	s.r = r;
	s.who = ws_who_open(r);
	s.zero = ws_time_zero(r);
	if (q->filter_time)
		rc = ws_filter_time(&s, q->filter_time, &e);
	if (!rc && q->filter_nvtx)
		rc = ws_filter_nvtx(&s, q->filter_nvtx, q->quiet, &e);
	if (rc)
		ws_say("%s", e.msg);
	else
		rc = make_all(&s, q);
	ws_who_close(s.who);
	ws_report_close(r);
	return rc;
}
