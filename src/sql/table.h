/* table.h - what the parts of sql/ share: tables of the connection, and how their columns come from a report's. */
#ifndef WS_SQL_TABLE_H
#define WS_SQL_TABLE_H

#include <sqlite3.h>

#include "export/export.h"
#include "sql/sql.h"

/* How a value comes from the one column behind it; FILL: by the export's function, from a whole row. */
enum ws_sql_conv {
	WS_CONV_NULL,
	WS_CONV_INT,
	WS_CONV_TIME,
	WS_CONV_NTIME,
	WS_CONV_NU32,
	WS_CONV_NU64,
	WS_CONV_STATUS, /* I32, of which one value is null */
	WS_CONV_REAL,
	WS_CONV_THREAD,
	WS_CONV_PROCESS,
	WS_CONV_STRING, /* number in StringIds */
	WS_CONV_TEXT,
	WS_CONV_FILL,
};

struct ws_sql_column {
	struct ws_xcolumn x;
	enum ws_sql_conv conv;
	uint8_t source; /* column of the schema's table, unless NULL or FILL */
};

struct ws_sql_report;

struct ws_sql_table {
	struct ws_sql_report *of;
	char *name, *doc;
	struct ws_sql_column *columns;
	size_t column_count;
	enum { WS_SQL_BLOCKS, WS_SQL_CELLS, WS_SQL_STRINGS } kind;
	/* BLOCKS */
	enum ws_table source;
	ws_x_fill *fill;
	bool opaque;  /* it is not said which columns are made of which: rows are always filled */
	uint64_t all; /* columns of the source */
	/* CELLS: rows that were made when the connection was */
	struct ws_xcell *cells;
	size_t cell_count, cell_cap;
};

struct ws_sql_report {
	struct ws_sql *sql;
	struct ws_export x;
	struct ws_xwriter writer; /* of the rows of CELLS */
	struct ws_sql_table **tables;
	size_t table_count, table_cap;
	int64_t *thread_gid, *process_gid; /* by id; ids beyond are those of nobody */
	uint32_t threads, processes;
	uint32_t *sorted; /* numbers of StringIds in order of text; made when a query wants it */
	size_t sorted_count;
};

struct ws_sql {
	sqlite3 *db;
	struct ws_sql_report *reports;
	size_t report_count;
	volatile int stop;
	struct ws_sql_counts counts;
};

/* Find out which tables a report has and make the small ones. 0, or -1 with a message. */
int ws_sql_catalog(struct ws_sql_report *r, const struct ws_report *report, struct ws_err *e);
void ws_sql_catalog_free(struct ws_sql_report *r);
void ws_sql_create(const struct ws_sql_table *t, bool comments, struct ws_text *sql);
uint64_t ws_sql_rows(const struct ws_sql_table *t);

/* Cell of column c of a row whose source columns are at col[k][row]; `filled` (a whole row's cells) is used for those that need it.
 */
struct ws_xcell ws_sql_cell(const struct ws_sql_table *t, size_t c, uint64_t *const *col, size_t row,
			    const struct ws_xcell *filled);
/* Whether any of `columns` (bits of columns of t) needs ws_sql_fill. */
bool ws_sql_fill(const struct ws_sql_table *t, uint64_t decoded, uint64_t *const *col, size_t row, struct ws_xcell *filled);
/* Columns of the source that columns of t are made of. */
uint64_t ws_sql_sources(const struct ws_sql_table *t, uint64_t columns);

static inline int64_t ws_sql_thread(const struct ws_sql_report *r, uint64_t id)
{
	return r->thread_gid[id <= r->threads ? id : 0];
}

static inline int64_t ws_sql_process(const struct ws_sql_report *r, uint64_t id)
{
	return r->process_gid[id <= r->processes ? id : 0];
}

extern const sqlite3_module ws_sql_module;

/* ---- part.c: rows of a table by groups of equal values ---- */

enum { WS_SQL_KEYS = 4 }; /* most columns that rows are grouped by */

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
	size_t groups;
	struct ws_text *keys; /* by group: its values as bytes */
	uint32_t *slots;      /* group + 1 by hash of the bytes */
	size_t mask;
};

/*
 * Group the rows of `t` that touch the window by the values of `keys`, with the source columns `decode`. NULL when interrupted.
 */
struct ws_sql_part *ws_sql_part_make(struct ws_sql_table *t, const struct ws_sql_keys *keys, uint64_t decode, uint64_t time_min,
				     uint64_t time_max);
void ws_sql_part_free(struct ws_sql_part *p);
/* Bytes that equal values have in common, whatever their type: appended to `t`. */
void ws_sql_key_cell(struct ws_text *t, const struct ws_xcell *c);
/* Rows of the group with these bytes: from *from up to *to in `order`; false when there is none. */
bool ws_sql_part_find(const struct ws_sql_part *p, const struct ws_text *key, size_t *from, size_t *to);
/* Would grouping so many rows with so many columns fit into memory? */
bool ws_sql_part_fits(uint64_t rows, uint64_t columns);

#endif
