/*
 * user.h - reports that users write as queries: a folder of files NAME.sql, or SQL given on the
 * command line.
 *
 * A file may say, in comments at its beginning, "-- title: ..." and "-- about: ...". Arguments of a
 * report (-r NAME:rows=5) are the query's parameters (:rows), defaults of which it gives as "--
 * parameter: rows=10"; :start and :end are the window asked for, in nanoseconds from the start of
 * the collection. Names of columns may say what their numbers are: see sql/print.h.
 */
#ifndef WS_STATS_USER_H
#define WS_STATS_USER_H

#include "stats/stats.h"

struct ws_user_report {
	char *name, *title, *about, *sql;
	char **parameters; /* "rows=10"... */
	size_t parameter_count, parameter_cap;
};

struct ws_user_reports {
	struct ws_user_report *reports;
	size_t n, cap;
	char **scripts; /* NAME of each NAME.py in the folders: known, to say that none is run */
	size_t script_count, script_cap;
};

/* Add the reports of a folder. 0, or -1 with a message. */
int ws_user_reports_folder(struct ws_user_reports *reports, const char *folder, struct ws_err *err);
/* Add a query given as text, called sql, sql2... */
const char *ws_user_reports_sql(struct ws_user_reports *reports, const char *sql);
/* The report that `spec` begins with, up to a colon; NULL when there is none. */
const struct ws_user_report *ws_user_report_find(const struct ws_user_reports *reports,
						 const char *spec);
/* Does a folder have a script of this name (up to a colon) instead of a query? */
bool ws_user_report_script(const struct ws_user_reports *reports, const char *spec);
void ws_user_reports_free(struct ws_user_reports *reports);

/* Check the arguments of `spec`; 0, or -1 with a message. */
int ws_user_report_check(const struct ws_user_report *report, const char *spec, struct ws_err *err);

/*
 * Run it over the file of `s`. `p` has the format; it gets to know `ready`, which is called before
 * anything is written. Returns 0, or -1 with a message. *rows says whether there were any.
 */
struct ws_sql_print;
int ws_user_report_run(const struct ws_user_report *report, const char *spec,
		       const struct ws_stats *stats, struct ws_sql_print *print,
		       struct ws_err *err);

#endif
