/* print.h - rows of a query as a table in any of the formats of stats. */
#ifndef WS_SQL_PRINT_H
#define WS_SQL_PRINT_H

#include "sql/sql.h"

/*
 * Columns by the names that a query gives them. A name may end in a colon and what its numbers are,
 * as the reports of the reference tool write it: dur_ns or ts_ns (a time), mem_B (bytes), thru_B
 * (bytes a second), ratio_% (a percentage); then headers, units and decimals are those of stats.
 */
struct ws_sql_print {
	struct ws_printer
		printer; /* format, args, unit, f, title and name are the caller's to set */
	struct ws_column *columns;
	char **names;
	size_t tables;
	bool open;
	/* Called before the first row or header is written; may set printer.f. NULL when f is there
	 * already. */
	int (*ready)(void *ctx, struct ws_err *err);
	void *ready_ctx;
	bool late; /* begin with the first row: a query without rows then writes nothing */
	bool begun;
};

struct ws_sql_sink ws_sql_print_sink(struct ws_sql_print *print);
/* End the last table. */
void ws_sql_print_end(struct ws_sql_print *print);

#endif
