/* sqlite_value.h - passing a cell to SQLite as a value of a virtual table: for the export, which
 * fills its tables that way, and for queries. */
#ifndef WS_VIEWS_SQLITE_VALUE_H
#define WS_VIEWS_SQLITE_VALUE_H

#include <sqlite3.h>

#include "base/choose.h"
#include "views/cells.h"

/* Make the cell the result in `out`. Its text or bytes must live until the next row. */
static inline void ws_give_sqlite_cell(sqlite3_context *out, const struct ws_view_cell *cell)
{
	switch (cell->kind) {
	case WS_VIEW_INT:
	case WS_VIEW_UINT:
		sqlite3_result_int64(out, cell->i);
		break;
	case WS_VIEW_STRING:
		sqlite3_result_int64(out, cell->id);
		break;
	case WS_VIEW_REAL:
		sqlite3_result_double(out, cell->r);
		break;
	case WS_VIEW_TEXT:
		sqlite3_result_text64(out, ws_text_or(cell->text, ""), cell->n, SQLITE_STATIC,
				      SQLITE_UTF8);
		break;
	case WS_VIEW_BLOB:
		sqlite3_result_blob64(out, ws_text_or(cell->text, ""), cell->n, SQLITE_STATIC);
		break;
	case WS_VIEW_NULL:
		break; /* a result is NULL to begin with */
	}
}

#endif
