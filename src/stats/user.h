/*
 * user.h - reports that users write as queries: a folder of files NAME.sql, or SQL given on the
 * command line.
 *
 * Comments at the beginning of a file may give its title and description: "-- title: ...",
 * "-- about: ...". Arguments of a report (-r NAME:rows=5) set the query's parameters (:rows), which
 * the file declares with their defaults: "-- parameter: rows=10". :start and :end are the window
 * asked for, in nanoseconds from the start of the collection. Names of columns may give the kind of
 * their values: see sql/print.h.
 */
#ifndef WS_STATS_USER_H
#define WS_STATS_USER_H

#include "stats/stats.h"

struct ws_user_report {
	char *name, *title, *about, *sql;
	char **parameters; /* "rows=10"... */
	size_t parameter_count, parameter_capacity;
};

struct ws_user_reports {
	struct ws_user_report *reports;
	size_t count, capacity;
	char **scripts; /* NAME of each NAME.py in the folders, to say that scripts are not run */
	size_t script_count, script_capacity;
};

/* Add the reports of a folder. Returns 0, or -1 with a message. */
int ws_add_report_folder(struct ws_user_reports *reports, const char *folder, struct ws_err *err);
/* Add a query given as text, called sql, sql2... Returns its name, owned by `reports`. */
const char *ws_add_report_query(struct ws_user_reports *reports, const char *sql);
/* The report that `spec` begins with, up to a colon; NULL when there is none. */
const struct ws_user_report *ws_find_user_report(const struct ws_user_reports *reports,
						 const char *spec);
/* Whether a folder has a script, not a query, of the name that `spec` begins with. */
bool ws_has_report_script(const struct ws_user_reports *reports, const char *spec);
void ws_user_reports_free(struct ws_user_reports *reports);

/* Check the arguments of `spec`. Returns 0, or -1 with a message. */
int ws_check_user_report(const struct ws_user_report *report, const char *spec, struct ws_err *err);

/*
 * Run the query over the file of `stats` and print what it returns with `print`, which has the
 * format and the function to call before the first row. Returns 0, or -1 with a message.
 */
struct ws_sql_print;
int ws_run_user_report(const struct ws_user_report *report, const char *spec,
		       const struct ws_stats *stats, struct ws_sql_print *print,
		       struct ws_err *err);

#endif
