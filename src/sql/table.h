/* table.h - shared by the parts of sql/: tables of the connection, and how their columns are made
 * from those of a report. */
#ifndef WS_SQL_TABLE_H
#define WS_SQL_TABLE_H

#include <sqlite3.h>

#include "views/view.h"
#include "sql/groups.h"
#include "sql/sql.h"

struct ws_sql_report;

struct ws_sql_table {
	struct ws_sql_report *report;
	const char *name, *doc;
	const struct ws_view_column *columns;
	size_t column_count;
	enum { WS_SQL_BLOCKS, WS_SQL_CELLS, WS_SQL_STRINGS } kind;
	const struct ws_table_view *view; /* BLOCKS */
	/* CELLS: rows that the export makes one by one, kept once they are asked for */
	struct ws_view_cell *cells;
	size_t cell_count, cell_capacity;
	bool made;
	struct ws_sql_cell_index *cell_indices; /* by column, made when a query looks values up */
	struct ws_view_column *own_columns;	/* if the declaration does not live for ever */
	double *distinct; /* BLOCKS: how many values a column has, roughly; 0: not known yet */
};

struct ws_sql_report {
	struct ws_sql *sql;
	struct ws_cell_context export;
	struct ws_table_writer writer; /* of the rows of CELLS */
	struct ws_sql_table **tables;
	size_t table_count, table_capacity;
	struct ws_sql_table
		*making;  /* the table whose rows are being made; NULL while tables are collected */
	uint32_t *sorted; /* ids of StringIds in order of text; made when a query needs it */
	size_t sorted_count;
};

enum ws_sql_stop { WS_SQL_GOES_ON, WS_SQL_INTERRUPTED, WS_SQL_OUT_OF_TIME, WS_SQL_OUT_OF_MEMORY };

struct ws_sql {
	sqlite3 *db;
	struct ws_sql_report *reports;
	size_t report_count;
	volatile int stop; /* an enum ws_sql_stop */
	double time_limit; /* seconds for a query; 0: none */
	uint64_t deadline; /* of the running query, ns; 0: none */
	bool (*is_cancelled)(void *ctx);
	void *cancel_ctx;
	struct ws_sql_parameter {
		char *name, *value;
	} * parameters;
	size_t parameter_count, parameter_capacity;
	struct ws_sql_counts counts;
	struct ws_sql_index **indices; /* of the statement that runs */
	size_t index_count, index_capacity;
	bool plain;	/* leave everything to SQLite */
	bool declaring; /* a virtual table is being declared, by CREATE TABLE */
};

/* Whether the running query must end: it was interrupted, or has had its time. Any thread. */
bool ws_sql_must_stop(struct ws_sql *sql);

/* ---- heap.c: memory ---- */

/* Make SQLite count what it allocates, before it is used. */
void ws_sql_count_memory(void);
/* Add `bytes` (or take them away) to what is in use. False, and nothing is added, when that would
 * be more than the limit. */
bool ws_sql_reserve_memory(int64_t bytes);
/* The limit in bytes; 0: none. */
uint64_t ws_sql_get_memory_limit(void);

/* Find the tables that a report has. Returns 0, or -1 with a message. Free with
 * ws_sql_free_catalog, after a failure too. */
int ws_sql_read_catalog(struct ws_sql_report *sql_report, const struct ws_report *report,
			struct ws_err *err);
void ws_sql_free_catalog(struct ws_sql_report *report);
/* Append CREATE TABLE, with the documentation as comments or without. */
void ws_sql_put_create(const struct ws_sql_table *table, bool comments, struct ws_text *sql);
/* How many rows the table has, or a guess if they are not made yet. */
uint64_t ws_sql_count_rows(const struct ws_sql_table *table);

/* Make the rows of a table of CELLS if they are not made yet. Returns 0, or -1 with a message. */
int ws_sql_make_cells(struct ws_sql_table *table, struct ws_err *err);

/* Make the cell of a column in row `row` of the decoded columns of the source. */
struct ws_view_cell ws_sql_make_cell(const struct ws_sql_table *table, size_t column,
				     uint64_t *const *source_columns, size_t row);
/* Whether the row is one of the table's. */
bool ws_sql_keeps_row(const struct ws_sql_table *table, uint64_t *const *source_columns,
		      size_t row);
/* The time on the session clock that a wide number stands for, at least 0, less than UINT64_MAX. */
static inline uint64_t ws_sql_clamp_time(__int128 time)
{
	if (time < 0)
		return 0;
	if (time > (__int128)(UINT64_MAX - 1))
		return UINT64_MAX - 1;
	return (uint64_t)time;
}

/* The columns of the source, as bits, from which the columns `columns` (bits as in SQLite's
 * colUsed) are made. */
uint64_t ws_sql_find_sources(const struct ws_sql_table *table, uint64_t columns);
/* Whether the column is never anything but null. */
static inline bool ws_sql_is_null_column(const struct ws_sql_table *table, size_t column)
{
	return table->columns[column].from == WS_FROM_NULL;
}

/* A text of StringIds, and whether the id is a row there: of several ids with equal bytes only one
 * is. */
struct ws_view_cell ws_sql_make_string_cell(struct ws_cell_context *export, uint32_t id);
bool ws_sql_is_string_listed(const struct ws_cell_context *export, uint32_t id);

extern const sqlite3_module ws_sql_module;

/* ---- partition.c: rows of a table by groups of equal values ---- */

enum { WS_SQL_KEYS = 8 }; /* most columns that rows are grouped by */

struct ws_sql_keys {
	uint8_t columns[WS_SQL_KEYS];
	bool descending[WS_SQL_KEYS];
	uint32_t count;
	bool sorted; /* groups are in order of their values too */
	bool timed;  /* rows of a group are in order of their start */
};

struct ws_sql_partition {
	uint64_t *columns[WS_MAX_COLUMNS];
	uint32_t *order; /* rows, group after group */
	size_t rows;
	size_t *group_starts; /* of each group in `order`, and the end of the last */
	struct ws_sql_groups groups;
	/* with keys.timed, by place in `order`: the start of each row, and the latest end of it and
	 * those before it in its group; NULL when some time is missing */
	uint64_t *starts, *reach;
	bool ends_follow; /* no row ends before it starts */
};

/*
 * Group the rows of `table` whose blocks touch the times from time_min to time_max (session clock,
 * ns) by the values of `keys`, and decode the source columns `decode` (bits). NULL when
 * interrupted. Free with ws_sql_free_partition.
 */
struct ws_sql_partition *ws_sql_make_partition(struct ws_sql_table *table,
					       const struct ws_sql_keys *keys, uint64_t decode,
					       uint64_t time_min, uint64_t time_max);
void ws_sql_free_partition(struct ws_sql_partition *part);
/* Find the rows of the group with the values `key`: from *from up to *to in `order`; false when
 * there is none. */
bool ws_sql_find_in_partition(const struct ws_sql_partition *part, const struct ws_text *key,
			      size_t *from, size_t *to);
/* Whether a partition of so many rows with the columns `columns` (bits) may take the memory. */
bool ws_sql_partition_fits(uint64_t rows, uint64_t columns);

/* ---- index.c: partitions that serve all look-ups of a statement ---- */

/* The times on the session clock that rows may have, both ends included. */
struct ws_sql_time_bounds {
	uint64_t start_min, start_max, end_min, end_max;
};

struct ws_sql_index {
	struct ws_sql_table *table;
	struct ws_sql_keys keys;
	uint64_t decode, lookups;
	struct ws_sql_partition *partition; /* NULL until it is worth its making */
	int64_t bytes;			    /* reserved for it with ws_sql_reserve_memory */
};

/* The index of `table` by `keys` that has the source columns `decode` (bits); a new one, without
 * rows, when there is none. It lives until ws_sql_free_indices. */
struct ws_sql_index *ws_sql_find_index(struct ws_sql_table *table, const struct ws_sql_keys *keys,
				       uint64_t decode);
/* Make its rows if there is memory for them. False when there is not, or when interrupted. */
bool ws_sql_fill_index(struct ws_sql_index *index);
void ws_sql_free_indices(struct ws_sql *sql);
/* Narrow the rows from *from up to *to in `order`, which are those of one group, to those that can
 * have such times. */
void ws_sql_narrow_by_time(const struct ws_sql_partition *part,
			   const struct ws_sql_time_bounds *bounds, size_t *from, size_t *to);

/* The rows of a table of CELLS with equal values in one column. */
struct ws_sql_cell_index {
	struct ws_sql_cell_index *next_index;
	size_t column;
	struct ws_sql_groups groups;
	uint32_t *first, *next; /* of each group, and of each row: a row plus 1, or 0 */
};

struct ws_sql_cell_index *ws_sql_index_cells(struct ws_sql_table *table, size_t column);
void ws_sql_free_cell_indices(struct ws_sql_table *table);

#endif
