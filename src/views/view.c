/*
 * view.c - cells out of rows, as columns of views say. What each view is, is in tables.c.
 */
#include "views/view.h"

#include <string.h>

enum ws_xshape ws_xcolumn_shape(const struct ws_xcolumn *column)
{
	switch (column->from) {
	case WS_XF_CALL:
		return column->shape;
	case WS_XF_UINT:
		return WS_SHAPE_UINT;
	case WS_XF_UNLESS: /* 32 bits fit in a signed number */
		return column->value == WS_NO_U32 ? WS_SHAPE_INT : WS_SHAPE_UINT;
	case WS_XF_REAL:
		return WS_SHAPE_REAL;
	case WS_XF_STRING:
	case WS_XF_STRING0:
		return WS_SHAPE_STRING;
	case WS_XF_TEXT:
		return WS_SHAPE_TEXT;
	case WS_XF_BLOB:
		return WS_SHAPE_BLOB;
	default:
		return *column->type == 'R'   ? WS_SHAPE_REAL
		       : *column->type == 'T' ? WS_SHAPE_TEXT
		       : *column->type == 'B' ? WS_SHAPE_BLOB
					      : WS_SHAPE_INT;
	}
}

uint64_t ws_xcolumn_reads(const struct ws_xcolumn *column)
{
	switch (column->from) {
	case WS_XF_MADE:
	case WS_XF_NULL:
	case WS_XF_CONST:
		return 0;
	case WS_XF_CALL:
		return column->needs;
	default:
		return UINT64_C(1) << column->source;
	}
}

uint64_t ws_xview_reads(const struct ws_xview *view)
{
	int start = ws_table_start(view->source), end = ws_table_end(view->source);
	uint64_t reads = view->keep_reads;

	for (size_t i = 0; i < view->table.column_count; i++)
		reads |= ws_xcolumn_reads(&view->table.columns[i]);
	if (view->timed && start >= 0)
		reads |= UINT64_C(1) << start;
	if (view->timed && end >= 0)
		reads |= UINT64_C(1) << end;
	return reads;
}

struct ws_xcell ws_xcolumn_cell(struct ws_export *export, const struct ws_xcolumn *column,
				const uint64_t *values)
{
	uint64_t v =
		column->from >= WS_XF_INT && column->from < WS_XF_CALL ? values[column->source] : 0;
	struct ws_xcell cell;

	switch (column->from) {
	case WS_XF_MADE:
	case WS_XF_NULL:
		return ws_x_null();
	case WS_XF_CONST:
		return ws_x_int((int64_t)column->value);
	case WS_XF_INT:
		return ws_x_int((int64_t)v);
	case WS_XF_UINT:
		return ws_x_uint(v);
	case WS_XF_REAL:
		cell = (struct ws_xcell){.kind = WS_X_REAL};
		memcpy(&cell.r, &v, 8);
		return cell;
	case WS_XF_TIME:
		return ws_x_time(export, v);
	case WS_XF_NTIME:
		return ws_x_ntime(export, v);
	case WS_XF_UNLESS:
		return v == column->value	    ? ws_x_null()
		       : column->value == WS_NO_U32 ? ws_x_int((int64_t)v)
						    : ws_x_uint(v);
	case WS_XF_ID:
		return v ? ws_x_int((int64_t)v) : ws_x_null();
	case WS_XF_STRING:
		return ws_x_string(export, (uint32_t)v);
	case WS_XF_STRING0:
		cell = ws_x_string(export, (uint32_t)v);
		return cell.kind == WS_X_NULL ? ws_x_int(0) : cell;
	case WS_XF_TEXT:
		return ws_x_text(export, (uint32_t)v);
	case WS_XF_BLOB:
		return ws_x_blob(export, (uint32_t)v);
	case WS_XF_THREAD:
		return ws_x_thread(export, v);
	case WS_XF_PROCESS:
		return ws_x_process(export, v);
	case WS_XF_CALL:
		return column->cell(export, values);
	}
	return ws_x_null();
}

bool ws_xview_keeps(const struct ws_export *export, const struct ws_xview *view,
		    const uint64_t *values)
{
	int start, end;

	if (view->keep && !view->keep(values))
		return false;
	if (!export->span_count || !view->timed || (view->fact && view->fact(values)))
		return true;
	start = ws_table_start(view->source);
	end = ws_table_end(view->source);
	return start < 0 ||
	       ws_export_in_time(export, values[start], end >= 0 ? values[end] : WS_NO_TIME);
}

bool ws_xview_cells(struct ws_export *export, const struct ws_xview *view, const uint64_t *values,
		    struct ws_xcell *cells)
{
	if (!ws_xview_keeps(export, view, values))
		return false;
	for (size_t i = 0; i < view->table.column_count; i++)
		cells[i] = ws_xcolumn_cell(export, &view->table.columns[i], values);
	return true;
}
