/* table.h - what the parts of sql/ share: tables of the connection, and how their columns come from
 * a report's. */
#ifndef WS_SQL_TABLE_H
#define WS_SQL_TABLE_H

#include <sqlite3.h>

#include "views/view.h"
#include "sql/groups.h"
#include "sql/sql.h"

struct ws_sql_report;

struct ws_sql_table {
	struct ws_sql_report *of;
	const char *name, *doc;
	const struct ws_xcolumn *columns;
	size_t column_count;
	enum { WS_SQL_BLOCKS, WS_SQL_CELLS, WS_SQL_STRINGS } kind;
	const struct ws_xview *view; /* BLOCKS */
	/* CELLS: rows that the export makes one by one, kept once they are asked for */
	struct ws_xcell *cells;
	size_t cell_count, cell_cap;
	bool made;
	struct ws_xcolumn *own_columns; /* where the declaration is not for ever */
};

struct ws_sql_report {
	struct ws_sql *sql;
	struct ws_export export;
	struct ws_xwriter writer; /* of the rows of CELLS */
	struct ws_sql_table **tables;
	size_t table_count, table_cap;
	struct ws_sql_table *making; /* whose rows are being made; NULL while tables are found */
	uint32_t *sorted; /* numbers of StringIds in order of text; made when a query wants it */
	size_t sorted_count;
};

struct ws_sql {
	sqlite3 *db;
	struct ws_sql_report *reports;
	size_t report_count;
	volatile int stop;
	struct ws_sql_parameter {
		char *name, *value;
	} * parameters;
	size_t parameter_count, parameter_cap;
	struct ws_sql_counts counts;
	bool plain;	/* everything is left to SQLite */
	bool declaring; /* a virtual table says what it is: by CREATE TABLE */
};

/* Find out which tables a report has and make the small ones. 0, or -1 with a message. */
int ws_sql_catalog(struct ws_sql_report *sql_report, const struct ws_report *report,
		   struct ws_err *err);
void ws_sql_catalog_free(struct ws_sql_report *report);
void ws_sql_create(const struct ws_sql_table *table, bool comments, struct ws_text *sql);
uint64_t ws_sql_rows(const struct ws_sql_table *table);

/* Make the rows of a table of CELLS, the first time. 0, or -1 with a message. */
int ws_sql_make(struct ws_sql_table *table, struct ws_err *err);

/* Cell of column c of row `row` of decoded columns. */
struct ws_xcell ws_sql_cell(const struct ws_sql_table *table, size_t c, uint64_t *const *col,
			    size_t row);
/* Is the row one of the table's? */
bool ws_sql_keeps(const struct ws_sql_table *table, uint64_t *const *col, size_t row);
/* Columns of the source that columns of t (bits, as SQLite's colUsed) are made of. */
uint64_t ws_sql_sources(const struct ws_sql_table *table, uint64_t columns);
/* Is column c never anything but null? */
static inline bool ws_sql_is_null(const struct ws_sql_table *table, size_t c)
{
	return table->columns[c].from == WS_XF_NULL;
}

/* A text of StringIds, and whether it is a row there: of several ids with equal bytes only one is.
 */
struct ws_xcell ws_sql_string_cell(struct ws_export *export, uint32_t id);
bool ws_sql_string_listed(const struct ws_export *export, uint32_t id);

extern const sqlite3_module ws_sql_module;

/* ---- part.c: rows of a table by groups of equal values ---- */

enum { WS_SQL_KEYS = 8 }; /* most columns that rows are grouped by */

struct ws_sql_keys {
	uint8_t column[WS_SQL_KEYS];
	bool descending[WS_SQL_KEYS];
	uint32_t count;
	bool sorted; /* groups are in order of their values too */
};

struct ws_sql_part {
	uint64_t *col[WS_MAX_COLUMNS];
	uint32_t *order; /* rows, group after group */
	size_t rows;
	size_t *first; /* of each group in `order`, and the end of the last */
	struct ws_sql_groups groups;
};

/*
 * Group the rows of `t` that touch the window by the values of `keys`, with the source columns
 * `decode`. NULL when interrupted.
 */
struct ws_sql_part *ws_sql_part_make(struct ws_sql_table *table, const struct ws_sql_keys *keys,
				     uint64_t decode, uint64_t time_min, uint64_t time_max);
void ws_sql_part_free(struct ws_sql_part *part);
/* Rows of the group with these bytes: from *from up to *to in `order`; false when there is none. */
bool ws_sql_part_find(const struct ws_sql_part *part, const struct ws_text *key, size_t *from,
		      size_t *to);
/* Would grouping so many rows with so many columns fit into memory? */
bool ws_sql_part_fits(uint64_t rows, uint64_t columns);

#endif
