/*
 * sql.h - a report asked in SQL.
 *
 * Every table of the export is a virtual table of an SQLite connection, under its known name and
 * with its known columns; rows are read from the report's blocks as a query goes. A query decodes
 * the columns that it names and the blocks that its times allow; a GROUP BY and look-ups by
 * equality go by groups of rows that are made once for the query (part.c). Nothing can be written:
 * no table, no file, no ATTACH. With several reports, each is a schema of its own besides: report1,
 * report2...; the first is also the main one.
 *
 * A connection belongs to one thread; only ws_sql_interrupt may come from another, or from a signal
 * handler.
 */
#ifndef WS_SQL_SQL_H
#define WS_SQL_SQL_H

#include "query/query.h"
#include "print/table.h"

struct ws_sql;

/* Reports stay the caller's and must outlive it. NULL with a message on failure. */
struct ws_sql *ws_sql_open(const struct ws_report *const *reports, size_t count,
			   struct ws_err *err);
void ws_sql_close(struct ws_sql *sql);
/* Make the query that runs end with an error, soon. */
void ws_sql_interrupt(struct ws_sql *sql);

/* Leave everything to SQLite, also what is computed without it otherwise (fold.h): answers are the
 * same, later. */
void ws_sql_plain(struct ws_sql *sql, bool plain);

/* Give the parameter :name of later queries a value: a number where it reads as one, else a text;
 * NULL is null. */
void ws_sql_bind(struct ws_sql *sql, const char *name, const char *value);
/* Does some statement of `sql` have this parameter? -1 with a message when it cannot be parsed. */
int ws_sql_has_parameter(struct ws_sql *sql_s, const char *sql, const char *name,
			 struct ws_err *err);

/* Where the rows of a query go. Functions return 0, or -1 to end the query (with a message of their
 * own). */
struct ws_sql_sink {
	int (*begin)(void *ctx, const char *const *names, size_t columns, struct ws_err *err);
	int (*row)(void *ctx, const struct ws_cell *cells,
		   struct ws_err *err); /* texts are good during the call */
	void *ctx;
};

/*
 * Run each statement of `sql`; `begin` is called for each that has columns, whether it gives rows
 * or not. Returns 0, or -1 with a message that names what SQLite did not like.
 */
int ws_sql_run(struct ws_sql *sql_s, const char *sql, const struct ws_sql_sink *sink,
	       struct ws_err *err);
/* Whether `sql` ends in a whole statement: what a prompt asks before it runs what was typed. */
bool ws_sql_complete(const char *sql);

/* Tables, for the prompt. NULL past the last. */
const char *ws_sql_table_name(const struct ws_sql *sql, size_t i, uint64_t *rows);
/* CREATE TABLE with comments; owned by the caller. NULL when there is no such table. */
char *ws_sql_schema(const struct ws_sql *sql, const char *table);

struct ws_sql_counts {
	uint64_t blocks, skipped; /* decoded; not even touched because of their times */
	uint64_t rows;		  /* given to SQLite */
	uint64_t groupings;	  /* of rows, made for a GROUP BY or for look-ups */
	uint64_t folded;	  /* GROUP BYs answered without SQLite (fold.h) */
	uint64_t damaged;	  /* blocks that could not be read */
};
/* What queries did since the connection was opened. */
struct ws_sql_counts ws_sql_counts(const struct ws_sql *sql);

#endif
