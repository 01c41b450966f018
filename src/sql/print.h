/* print.h - prints the rows of a query as a table, in any of the formats of stats. */
#ifndef WS_SQL_PRINT_H
#define WS_SQL_PRINT_H

#include "sql/sql.h"

/*
 * Columns have the names that a query gives them. A name may end in a colon and the kind of its
 * numbers, as the reports of the reference tool write it: dur_ns or ts_ns (a time), mem_B (bytes),
 * thru_B (bytes per second), ratio_% (a percentage); then headers, units and decimals are those of
 * stats.
 */
struct ws_sql_print {
	struct ws_printer printer; /* the caller sets format, args, unit, file, title and name */
	struct ws_column *columns;
	char **names;
	size_t tables;
	bool open;
	/* Called before the first row or header is written; may set printer.file. NULL when the
	 * file is set already. */
	int (*ready)(void *ctx, struct ws_err *err);
	void *ready_ctx;
	bool late; /* begin with the first row, so that a query without rows writes nothing */
	bool begun;
};

struct ws_sql_sink ws_sql_make_print_sink(struct ws_sql_print *print);
/* End the last table. */
void ws_sql_end_print(struct ws_sql_print *print);

#endif
