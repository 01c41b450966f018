/*
 * view.c - makes cells from rows as the columns of views say. The views are declared in tables*.c.
 */
#include "views/view.h"

#include <string.h>

static enum ws_xshape find_type_shape(const char *type)
{
	switch (*type) {
	case 'R':
		return WS_SHAPE_REAL;
	case 'T':
		return WS_SHAPE_TEXT;
	case 'B':
		return WS_SHAPE_BLOB;
	default:
		return WS_SHAPE_INT;
	}
}

enum ws_xshape ws_xcolumn_shape(const struct ws_xcolumn *column)
{
	switch (column->from) {
	case WS_XF_CALL:
		return column->shape;
	case WS_XF_UINT:
		return WS_SHAPE_UINT;
	case WS_XF_UNLESS: /* 32 bits fit in a signed number */
		if (column->value == WS_NO_U32)
			return WS_SHAPE_INT;
		return WS_SHAPE_UINT;
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
		return find_type_shape(column->type);
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

/* The unsigned number, null when it is the column's `value`. */
static struct ws_xcell make_unless_cell(const struct ws_xcolumn *column, uint64_t number)
{
	if (number == column->value)
		return ws_x_null();
	if (column->value == WS_NO_U32)
		return ws_x_int((int64_t)number);
	return ws_x_uint(number);
}

static struct ws_xcell make_real_cell(uint64_t bits)
{
	struct ws_xcell cell = {.kind = WS_X_REAL};

	memcpy(&cell.r, &bits, sizeof(cell.r));
	return cell;
}

static struct ws_xcell make_string_or_zero_cell(struct ws_export *export, uint64_t id)
{
	struct ws_xcell cell = ws_x_string(export, (uint32_t)id);

	if (cell.kind == WS_X_NULL)
		return ws_x_int(0);
	return cell;
}

struct ws_xcell ws_xcolumn_cell(struct ws_export *export, const struct ws_xcolumn *column,
				const uint64_t *values)
{
	uint64_t number = 0;

	if (column->from >= WS_XF_INT && column->from < WS_XF_CALL)
		number = values[column->source];
	switch (column->from) {
	case WS_XF_MADE:
	case WS_XF_NULL:
		return ws_x_null();
	case WS_XF_CONST:
		return ws_x_int((int64_t)column->value);
	case WS_XF_INT:
		return ws_x_int((int64_t)number);
	case WS_XF_UINT:
		return ws_x_uint(number);
	case WS_XF_REAL:
		return make_real_cell(number);
	case WS_XF_TIME:
		return ws_x_time(export, number);
	case WS_XF_NTIME:
		return ws_x_ntime(export, number);
	case WS_XF_UNLESS:
		return make_unless_cell(column, number);
	case WS_XF_ID:
		return ws_id_cell(number);
	case WS_XF_STRING:
		return ws_x_string(export, (uint32_t)number);
	case WS_XF_STRING0:
		return make_string_or_zero_cell(export, number);
	case WS_XF_TEXT:
		return ws_x_text(export, (uint32_t)number);
	case WS_XF_BLOB:
		return ws_x_blob(export, (uint32_t)number);
	case WS_XF_THREAD:
		return ws_x_thread(export, number);
	case WS_XF_PROCESS:
		return ws_x_process(export, number);
	case WS_XF_CALL:
		return column->cell(export, values);
	}
	return ws_x_null();
}

bool ws_xview_keeps(const struct ws_export *export, const struct ws_xview *view,
		    const uint64_t *values)
{
	uint64_t end_time = WS_NO_TIME;
	int start, end;

	if (view->keep && !view->keep(values))
		return false;
	if (!export->span_count || !view->timed || (view->fact && view->fact(values)))
		return true;
	start = ws_table_start(view->source);
	end = ws_table_end(view->source);
	if (end >= 0)
		end_time = values[end];
	return start < 0 || ws_export_in_time(export, values[start], end_time);
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
