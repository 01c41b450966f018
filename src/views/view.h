/*
 * view.h - the tables with many rows, declared as views of the report's own tables: for each
 * column, how it is made (ws_view_column.from).
 *
 * One declaration serves all readers of such tables: row by row for SQLite and JSON lines
 * (ws_make_row_cells), column by column for Arrow and the like (export/columns.h), and one column
 * at a time for SQL, which decodes only what a query names (ws_find_column_reads,
 * ws_make_column_cell). Tables of tables.def without another well-known form are declared
 * generically, from their column types.
 */
#ifndef WS_VIEWS_VIEW_H
#define WS_VIEWS_VIEW_H

#include "views/cells.h"

struct ws_table_view {
	struct ws_view_table table;
	enum ws_table source;
	bool timed;	/* its rows are events, which --times can leave out */
	bool gives_way; /* yields to a table of the same name that an import kept */
	bool (*keeps_row)(
		const uint64_t *values); /* whether a row belongs to this view; NULL: all do */
	bool (*is_fact)(const uint64_t *values); /* whether --times must not leave the row out;
						    NULL: never */
	uint64_t row_reads; /* source columns that keeps_row and is_fact read, as bits */
};

/* All views, in order of the report's tables. The array and what it points to live for ever. */
const struct ws_table_view *ws_list_views(size_t *count);
/* The view called `name` (any case), or NULL. */
const struct ws_table_view *ws_find_view(const char *name);

/* Source columns that a column of a view reads, as bits. */
uint64_t ws_find_column_reads(const struct ws_view_column *column);
/* Those of all columns of the view, of its `keep` and its times. */
uint64_t ws_find_view_reads(const struct ws_table_view *view);
/* Make a cell from a row. `values` are indexed by the source's columns; only the columns that it
 * needs are read. */
struct ws_view_cell ws_make_column_cell(struct ws_cell_context *export,
					const struct ws_view_column *column,
					const uint64_t *values);
/* Make all cells of a row; false when --times or the view leave it out. */
bool ws_make_row_cells(struct ws_cell_context *export, const struct ws_table_view *view,
		       const uint64_t *values, struct ws_view_cell *cells);
/* Whether the row belongs to the view and --times lets it through. */
bool ws_keeps_view_row(const struct ws_cell_context *export, const struct ws_table_view *view,
		       const uint64_t *values);

/* Set up the state for making cells without a format and options, for readers other than the
 * exports (SQL). `report` must live longer. Free with ws_close_cell_context. */
void ws_open_cell_context(struct ws_cell_context *export, const struct ws_report *report);
void ws_close_cell_context(struct ws_cell_context *export);

#endif
