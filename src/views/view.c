/*
 * view.c - cells out of rows, as columns of views say. What each view is, is in tables.c.
 */
#include "views/view.h"

#include <string.h>

enum ws_xshape ws_xcolumn_shape(const struct ws_xcolumn *c)
{
	switch (c->from) {
	case WS_XF_CALL:
		return c->shape;
	case WS_XF_UINT:
		return WS_SHAPE_UINT;
	case WS_XF_UNLESS: /* 32 bits fit in a signed number */
		return c->value == WS_NO_U32 ? WS_SHAPE_INT : WS_SHAPE_UINT;
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
		return *c->type == 'R'	 ? WS_SHAPE_REAL
		       : *c->type == 'T' ? WS_SHAPE_TEXT
		       : *c->type == 'B' ? WS_SHAPE_BLOB
					 : WS_SHAPE_INT;
	}
}

uint64_t ws_xcolumn_reads(const struct ws_xcolumn *c)
{
	switch (c->from) {
	case WS_XF_MADE:
	case WS_XF_NULL:
	case WS_XF_CONST:
		return 0;
	case WS_XF_CALL:
		return c->needs;
	default:
		return UINT64_C(1) << c->source;
	}
}

uint64_t ws_xview_reads(const struct ws_xview *v)
{
	int start = ws_table_start(v->source), end = ws_table_end(v->source);
	uint64_t reads = v->keep_reads;

	for (size_t i = 0; i < v->t.column_count; i++)
		reads |= ws_xcolumn_reads(&v->t.columns[i]);
	if (v->timed && start >= 0)
		reads |= UINT64_C(1) << start;
	if (v->timed && end >= 0)
		reads |= UINT64_C(1) << end;
	return reads;
}

struct ws_xcell ws_xcolumn_cell(struct ws_export *x, const struct ws_xcolumn *c,
				const uint64_t *values)
{
	uint64_t v = c->from >= WS_XF_INT && c->from < WS_XF_CALL ? values[c->source] : 0;
	struct ws_xcell cell;

	switch (c->from) {
	case WS_XF_MADE:
	case WS_XF_NULL:
		return ws_x_null();
	case WS_XF_CONST:
		return ws_x_int((int64_t)c->value);
	case WS_XF_INT:
		return ws_x_int((int64_t)v);
	case WS_XF_UINT:
		return ws_x_uint(v);
	case WS_XF_REAL:
		cell = (struct ws_xcell){.kind = WS_X_REAL};
		memcpy(&cell.r, &v, 8);
		return cell;
	case WS_XF_TIME:
		return ws_x_time(x, v);
	case WS_XF_NTIME:
		return ws_x_ntime(x, v);
	case WS_XF_UNLESS:
		return v == c->value	       ? ws_x_null()
		       : c->value == WS_NO_U32 ? ws_x_int((int64_t)v)
					       : ws_x_uint(v);
	case WS_XF_ID:
		return v ? ws_x_int((int64_t)v) : ws_x_null();
	case WS_XF_STRING:
		return ws_x_string(x, (uint32_t)v);
	case WS_XF_STRING0:
		cell = ws_x_string(x, (uint32_t)v);
		return cell.kind == WS_X_NULL ? ws_x_int(0) : cell;
	case WS_XF_TEXT:
		return ws_x_text(x, (uint32_t)v);
	case WS_XF_BLOB:
		return ws_x_blob(x, (uint32_t)v);
	case WS_XF_THREAD:
		return ws_x_thread(x, v);
	case WS_XF_PROCESS:
		return ws_x_process(x, v);
	case WS_XF_CALL:
		return c->cell(x, values);
	}
	return ws_x_null();
}

bool ws_xview_keeps(const struct ws_export *x, const struct ws_xview *v, const uint64_t *values)
{
	int start, end;

	if (v->keep && !v->keep(values))
		return false;
	if (!x->span_count || !v->timed || (v->fact && v->fact(values)))
		return true;
	start = ws_table_start(v->source);
	end = ws_table_end(v->source);
	return start < 0 ||
	       ws_export_in_time(x, values[start], end >= 0 ? values[end] : WS_NO_TIME);
}

bool ws_xview_cells(struct ws_export *x, const struct ws_xview *v, const uint64_t *values,
		    struct ws_xcell *cells)
{
	if (!ws_xview_keeps(x, v, values))
		return false;
	for (size_t i = 0; i < v->t.column_count; i++)
		cells[i] = ws_xcolumn_cell(x, &v->t.columns[i], values);
	return true;
}
