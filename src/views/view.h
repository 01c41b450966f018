/*
 * view.h - the tables with many rows, declared as views of the report's own tables: for each
 * column, how it is made (ws_xcolumn.from).
 *
 * One declaration serves all readers of such tables: row by row for SQLite and JSON lines
 * (ws_xview_cells), column by column for Arrow and the like (export/columns.h), and a column at a
 * time for SQL, which decodes only what a query names (ws_xcolumn_reads, ws_xcolumn_cell). Tables
 * of tables.def that are known under no other form are declared generically, from their column
 * types.
 */
#ifndef WS_VIEWS_VIEW_H
#define WS_VIEWS_VIEW_H

#include "views/cells.h"

struct ws_xview {
	struct ws_xtable table;
	enum ws_table source;
	bool timed;			      /* its rows are events, which --times can leave out */
	bool (*keep)(const uint64_t *values); /* whether a row belongs to this view; NULL: all do */
	bool (*fact)(const uint64_t
			     *values); /* whether --times must not leave the row out; NULL: never */
	uint64_t keep_reads;	       /* source columns that the two read, as bits */
};

/* All views, in order of the report's tables. The array and what it points to live for ever. */
const struct ws_xview *ws_xviews(size_t *count);
/* The view called `name` (any case), or NULL. */
const struct ws_xview *ws_xview_find(const char *name);

/* Source columns that a column of a view reads, as bits. */
uint64_t ws_xcolumn_reads(const struct ws_xcolumn *column);
/* Those of all columns of the view, of its `keep` and its times. */
uint64_t ws_xview_reads(const struct ws_xview *view);
/* Make a cell from a row. `values` are indexed by the source's columns; only those that the column
 * reads are looked at. */
struct ws_xcell ws_xcolumn_cell(struct ws_export *export, const struct ws_xcolumn *column,
				const uint64_t *values);
/* Make all cells of a row; false when --times or the view leave it out. */
bool ws_xview_cells(struct ws_export *export, const struct ws_xview *view, const uint64_t *values,
		    struct ws_xcell *cells);
/* Whether the row belongs to the view and --times lets it through. */
bool ws_xview_keeps(const struct ws_export *export, const struct ws_xview *view,
		    const uint64_t *values);

/*
 * Set up what making cells needs, without a format and options: all that readers other than the
 * exports (SQL) need. `report` must live longer. Free with ws_export_end.
 */
void ws_export_begin(struct ws_export *export, const struct ws_report *report);
void ws_export_end(struct ws_export *export);

#endif
