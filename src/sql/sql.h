/*
 * sql.h - querying reports in SQL.
 *
 * Every table of the export is a virtual table of an SQLite connection, under its known name and
 * with its known columns; rows are read from the report's blocks while a query runs. A query
 * decodes only the columns that it names and the blocks that its times allow; GROUP BY and look-ups
 * by equality use groups of rows that are made once for the query (partition.c). Nothing can be
 * written: no table, no file, no ATTACH. With several reports, each also has a schema of its own:
 * report1, report2...; the first is the main one too.
 *
 * A connection belongs to one thread; only ws_sql_interrupt may be called from another, or from a
 * signal handler.
 */
#ifndef WS_SQL_SQL_H
#define WS_SQL_SQL_H

#include "query/query.h"
#include "print/table.h"

struct ws_sql;

/* Open a connection. Reports stay the caller's and must live longer. NULL with a message on
 * failure. */
struct ws_sql *ws_sql_open(const struct ws_report *const *reports, size_t count,
			   struct ws_err *err);
void ws_sql_close(struct ws_sql *sql);
/* Make the running query end with an error, soon. */
void ws_sql_interrupt(struct ws_sql *sql);

/*
 * How long each later query may take, in seconds, and how many bytes SQLite and our indices may use
 * for all connections of the process together; 0 is no limit. Without a call there is none for
 * time, and half of the machine's memory. A query that reaches a limit ends with a message that
 * says so.
 */
void ws_sql_set_time_limit(struct ws_sql *sql, double seconds);
void ws_sql_set_memory_limit(uint64_t bytes);
/* Call `is_cancelled` now and then while a query runs; if it returns true, the query ends as
 * interrupted. */
void ws_sql_set_cancel(struct ws_sql *sql, bool (*is_cancelled)(void *ctx), void *ctx);

/* With `plain`, leave everything to SQLite, including what is otherwise computed without it
 * (group_by.h): results are the same, but slower. */
void ws_sql_set_plain(struct ws_sql *sql, bool plain);

/* Give the parameter :name of later queries a value: a number if it reads as one, else a text; NULL
 * is null. */
void ws_sql_bind_parameter(struct ws_sql *sql, const char *name, const char *value);
/* Whether some statement of `sql` has this parameter: 1, 0, or -1 with a message when it cannot be
 * parsed. */
int ws_sql_has_parameter(struct ws_sql *connection, const char *sql, const char *name,
			 struct ws_err *err);

/* Where the rows of a query go. Functions return 0, or -1 to end the query (with a message of their
 * own). */
struct ws_sql_sink {
	int (*begin)(void *ctx, const char *const *names, size_t columns, struct ws_err *err);
	int (*row)(void *ctx, const struct ws_cell *cells,
		   struct ws_err *err); /* texts are valid during the call */
	void *ctx;
};

/*
 * Run each statement of `sql`; `begin` is called for each that has columns, even if it has no rows.
 * Returns 0, or -1 with a message that says what SQLite objected to.
 */
int ws_sql_run_query(struct ws_sql *connection, const char *sql, const struct ws_sql_sink *sink,
		     struct ws_err *err);
/* Whether `sql` ends in a whole statement, so that a prompt can run what was typed. */
bool ws_sql_is_complete(const char *sql);

/* The name of the table with index `i` in order of names, and its rows (`rows` may be NULL). NULL
 * past the last. */
const char *ws_sql_find_table_name(const struct ws_sql *sql, size_t i, uint64_t *rows);
/* CREATE TABLE with comments; owned by the caller. NULL when there is no such table. */
char *ws_sql_make_schema(const struct ws_sql *sql, const char *table);

struct ws_sql_counts {
	uint64_t blocks, skipped; /* decoded; skipped because of their times */
	uint64_t rows;		  /* passed to SQLite */
	uint64_t partitions;	  /* of rows, made for a GROUP BY or for look-ups */
	uint64_t grouped;	  /* GROUP BYs computed without SQLite (group_by.h) */
	uint64_t damaged;	  /* blocks that could not be read */
};
/* What queries have done since the connection was opened. */
struct ws_sql_counts ws_get_sql_counts(const struct ws_sql *sql);

#endif
