/* view.c - makes cells from rows as the columns of views declare. The views are declared in
 * tables*.c. */
#include "views/view.h"

#include <string.h>

static enum ws_cell_shape find_type_shape(const char *type)
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

enum ws_cell_shape ws_find_column_shape(const struct ws_view_column *column)
{
	switch (column->from) {
	case WS_FROM_FUNCTION:
		return column->shape;
	case WS_FROM_UINT:
		return WS_SHAPE_UINT;
	case WS_FROM_UINT_UNLESS: /* 32 bits fit in a signed number */
		if (column->value == WS_NO_U32)
			return WS_SHAPE_INT;
		return WS_SHAPE_UINT;
	case WS_FROM_REAL:
		return WS_SHAPE_REAL;
	case WS_FROM_STRING:
	case WS_FROM_STRING_OR_ZERO:
		return WS_SHAPE_STRING;
	case WS_FROM_TEXT:
		return WS_SHAPE_TEXT;
	case WS_FROM_BLOB:
		return WS_SHAPE_BLOB;
	default:
		return find_type_shape(column->type);
	}
}

uint64_t ws_find_column_reads(const struct ws_view_column *column)
{
	switch (column->from) {
	case WS_FROM_ROWS:
	case WS_FROM_NULL:
	case WS_FROM_CONST:
		return 0;
	case WS_FROM_FUNCTION:
		return column->needs;
	default:
		return UINT64_C(1) << column->source;
	}
}

uint64_t ws_find_view_reads(const struct ws_table_view *view)
{
	int start = ws_table_start(view->source), end = ws_table_end(view->source);
	uint64_t reads = view->row_reads;

	for (size_t i = 0; i < view->table.column_count; i++)
		reads |= ws_find_column_reads(&view->table.columns[i]);
	if (view->timed && start >= 0)
		reads |= UINT64_C(1) << start;
	if (view->timed && end >= 0)
		reads |= UINT64_C(1) << end;
	return reads;
}

/* The unsigned number, null when it is the column's `value`. */
static struct ws_view_cell make_unless_cell(const struct ws_view_column *column, uint64_t number)
{
	if (number == column->value)
		return ws_make_null_cell();
	if (column->value == WS_NO_U32)
		return ws_make_int_cell((int64_t)number);
	return ws_make_uint_cell(number);
}

static struct ws_view_cell make_real_cell(uint64_t bits)
{
	struct ws_view_cell cell = {.kind = WS_VIEW_REAL};

	memcpy(&cell.r, &bits, sizeof(cell.r));
	return cell;
}

static struct ws_view_cell make_string_or_zero_cell(struct ws_cell_context *export, uint64_t id)
{
	struct ws_view_cell cell = ws_make_string_cell(export, (uint32_t)id);

	if (cell.kind == WS_VIEW_NULL)
		return ws_make_int_cell(0);
	return cell;
}

struct ws_view_cell ws_make_column_cell(struct ws_cell_context *export,
					const struct ws_view_column *column, const uint64_t *values)
{
	uint64_t number = 0;

	if (column->from >= WS_FROM_INT && column->from < WS_FROM_FUNCTION)
		number = values[column->source];
	switch (column->from) {
	case WS_FROM_ROWS:
	case WS_FROM_NULL:
		return ws_make_null_cell();
	case WS_FROM_CONST:
		return ws_make_int_cell((int64_t)column->value);
	case WS_FROM_INT:
		return ws_make_int_cell((int64_t)number);
	case WS_FROM_UINT:
		return ws_make_uint_cell(number);
	case WS_FROM_REAL:
		return make_real_cell(number);
	case WS_FROM_TIME:
		return ws_make_time_cell(export, number);
	case WS_FROM_TIME_OR_NULL:
		return ws_make_end_time_cell(export, number);
	case WS_FROM_UINT_UNLESS:
		return make_unless_cell(column, number);
	case WS_FROM_ID:
		return ws_make_id_cell(number);
	case WS_FROM_STRING:
		return ws_make_string_cell(export, (uint32_t)number);
	case WS_FROM_STRING_OR_ZERO:
		return make_string_or_zero_cell(export, number);
	case WS_FROM_TEXT:
		return ws_make_text_cell(export, (uint32_t)number);
	case WS_FROM_BLOB:
		return ws_make_blob_cell(export, (uint32_t)number);
	case WS_FROM_THREAD:
		return ws_make_thread_cell(export, number);
	case WS_FROM_PROCESS:
		return ws_make_process_cell(export, number);
	case WS_FROM_FUNCTION:
		return column->cell(export, values);
	}
	return ws_make_null_cell();
}

bool ws_keeps_view_row(const struct ws_cell_context *export, const struct ws_table_view *view,
		       const uint64_t *values)
{
	uint64_t end_time = WS_NO_TIME;
	int start, end;

	if (view->keeps_row && !view->keeps_row(values))
		return false;
	if (!export->span_count || !view->timed || (view->is_fact && view->is_fact(values)))
		return true;
	start = ws_table_start(view->source);
	end = ws_table_end(view->source);
	if (end >= 0)
		end_time = values[end];
	return start < 0 || ws_is_in_time(export, values[start], end_time);
}

bool ws_make_row_cells(struct ws_cell_context *export, const struct ws_table_view *view,
		       const uint64_t *values, struct ws_view_cell *cells)
{
	if (!ws_keeps_view_row(export, view, values))
		return false;
	for (size_t i = 0; i < view->table.column_count; i++)
		cells[i] = ws_make_column_cell(export, &view->table.columns[i], values);
	return true;
}
