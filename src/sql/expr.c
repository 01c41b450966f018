/*
 * expr.c - see expr.h. Nodes are computed in their order, each for the whole chunk, so that what
 * expressions have in common is computed once and every loop is a simple one. Nulls hold 0, which
 * keeps them from overflowing.
 */
#include "sql/expr.h"
#include "base/choose.h"

#include <math.h>
#include <string.h>

/* ---- making ---- */

static bool same_node(const struct ws_sql_node *left, const struct ws_sql_node *right)
{
	return left->op == right->op && left->real == right->real &&
	       left->column == right->column && left->a == right->a && left->b == right->b &&
	       left->c == right->c && left->i == right->i;
}

/* What the operands allow; `real` of the result. */
static bool fits(const struct ws_sql_exprs *exprs, struct ws_sql_node *node)
{
	bool a = exprs->node[node->a].real, b = exprs->node[node->b].real;

	switch (node->op) {
	case WS_N_ADD:
	case WS_N_SUB:
	case WS_N_MUL:
	case WS_N_DIV:
		node->real = a || b;
		return true;
	case WS_N_MOD:
	case WS_N_AND_BITS:
	case WS_N_OR_BITS:
	case WS_N_SHL:
	case WS_N_SHR:
		return !a && !b; /* SQLite would make whole numbers of them first */
	case WS_N_AND:
	case WS_N_OR:
	case WS_N_NOT:
		return !a && !b;
	case WS_N_TO_REAL:
		node->real = true;
		return true;
	case WS_N_IF:
		node->real = b;
		return !a && (!node->c || exprs->node[node->c].real == b);
	default:
		return true;
	}
}

uint16_t ws_sql_node(struct ws_sql_exprs *exprs, struct ws_sql_node node)
{
	bool leaf = node.op <= WS_N_REAL;

	if (!exprs->n)
		exprs->n = 1;
	if ((!leaf && !node.a) || (node.op >= WS_N_ADD && node.op <= WS_N_OR && !node.b) ||
	    (node.op == WS_N_IF && !node.b))
		return 0; /* an operand could not be computed */
	if (!leaf && !fits(exprs, &node))
		return 0;
	for (size_t i = 1; i < exprs->n; i++)
		if (same_node(&exprs->node[i], &node))
			return (uint16_t)i;
	if (exprs->n == WS_SQL_NODES)
		return 0;
	exprs->node[exprs->n] = node;
	return (uint16_t)exprs->n++;
}

uint16_t ws_sql_node_column(struct ws_sql_exprs *exprs, size_t column)
{
	const struct ws_xcolumn *xcolumn = &exprs->table->columns[column];

	if (column > UINT8_MAX ||
	    (strcmp(xcolumn->type, "INTEGER") && strcmp(xcolumn->type, "REAL")))
		return 0;
	switch (xcolumn->from) {
	case WS_XF_CONST:
		return ws_sql_node(exprs, (struct ws_sql_node){.op = WS_N_INT,
							       .i = (int64_t)xcolumn->value});
	case WS_XF_INT:
	case WS_XF_UINT:
	case WS_XF_REAL:
	case WS_XF_TIME:
	case WS_XF_NTIME:
	case WS_XF_UNLESS:
	case WS_XF_ID:
	case WS_XF_STRING:
	case WS_XF_THREAD:
	case WS_XF_PROCESS:
		exprs->reads |= UINT64_C(1) << xcolumn->source;
		return ws_sql_node(exprs,
				   (struct ws_sql_node){.op = WS_N_COLUMN,
							.column = (uint8_t)column,
							.real = xcolumn->from == WS_XF_REAL});
	default:
		return 0;
	}
}

/* ---- columns ---- */

static void put_cells(const struct ws_sql_exprs *exprs, const struct ws_xcolumn *column,
		      const uint64_t *values, size_t n, struct ws_sql_vector *vector)
{
	struct ws_export *export = &exprs->table->of->export;
	uint64_t last = 0;
	struct ws_xcell cell = ws_x_null();

	for (size_t i = 0; i < n; i++) {
		if (!i || values[i] != last) {
			last = values[i];
			if (column->from == WS_XF_STRING) { /* its number, as ws_x_string has it */
				uint32_t id = (uint32_t)last,
					 key = id && id <= export->string_count
						       ? ws_report_string_key(export->report, id)
						       : 0;

				cell = !key ? ws_x_null()
					    : ws_x_int(key > export->string_count ? id : key);
			} else {
				cell = column->from == WS_XF_THREAD ? ws_x_thread(export, last)
								    : ws_x_process(export, last);
			}
		}
		vector->null[i] = cell.kind == WS_X_NULL;
		vector->i[i] = vector->null[i] ? 0 : cell.i;
	}
}

static void put_column(const struct ws_sql_exprs *exprs, const struct ws_xcolumn *column,
		       const uint64_t *values, size_t n, struct ws_sql_vector *vector)
{
	uint64_t base = exprs->table->of->export.base,
		 none = column->from == WS_XF_NTIME ? WS_NO_TIME
			: column->from == WS_XF_ID  ? 0
						    : column->value;

	memset(vector->null, 0, n);
	switch (column->from) {
	case WS_XF_INT:
	case WS_XF_UINT:
		memcpy(vector->i, values, n * 8);
		break;
	case WS_XF_REAL:
		memcpy(vector->r, values, n * 8);
		for (size_t i = 0; i < n; i++)
			if (isnan(vector->r[i])) {
				vector->i[i] = 0;
				vector->null[i] = 1;
			}
		break;
	case WS_XF_TIME:
		for (size_t i = 0; i < n; i++)
			vector->i[i] = (int64_t)(values[i] - base);
		break;
	case WS_XF_NTIME:
	case WS_XF_UNLESS:
	case WS_XF_ID:
		base = column->from == WS_XF_NTIME ? base : 0;
		for (size_t i = 0; i < n; i++) {
			vector->null[i] = values[i] == none;
			vector->i[i] = values[i] == none ? 0 : (int64_t)(values[i] - base);
		}
		break;
	default:
		put_cells(exprs, column, values, n, vector);
	}
}

/* ---- arithmetic ---- */

static void either_null(struct ws_sql_vector *vector, const struct ws_sql_vector *left,
			const struct ws_sql_vector *right, size_t n)
{
	for (size_t i = 0; i < n; i++)
		vector->null[i] = left->null[i] | right->null[i];
}

static void clear_nulls(struct ws_sql_vector *vector, size_t n)
{
	for (size_t i = 0; i < n; i++)
		vector->i[i] = vector->null[i] ? 0 : vector->i[i];
}

static int64_t shifted(int64_t v, int64_t by, bool left)
{
	uint64_t u = (uint64_t)v;

	if (by < 0) {
		left = !left;
		by = by > -64 ? -by : 64;
	}
	if (by >= 64)
		return v >= 0 || left ? 0 : -1;
	if (!by)
		return v;
	if (left)
		return (int64_t)(u << by);
	u >>= by;
	return (int64_t)(v < 0 ? u | UINT64_MAX << (64 - by) : u);
}

/* Returns whether a result is beyond whole numbers. */
static bool whole_numbers(unsigned op, const struct ws_sql_vector *left,
			  const struct ws_sql_vector *right, size_t n, struct ws_sql_vector *vector)
{
	bool over = false;

	switch (op) {
	case WS_N_ADD:
		for (size_t i = 0; i < n; i++)
			over |= __builtin_add_overflow(left->i[i], right->i[i], &vector->i[i]);
		break;
	case WS_N_SUB:
		for (size_t i = 0; i < n; i++)
			over |= __builtin_sub_overflow(left->i[i], right->i[i], &vector->i[i]);
		break;
	case WS_N_MUL:
		for (size_t i = 0; i < n; i++)
			over |= __builtin_mul_overflow(left->i[i], right->i[i], &vector->i[i]);
		break;
	case WS_N_DIV:
	case WS_N_MOD:
		for (size_t i = 0; i < n; i++) {
			int64_t d = right->i[i];

			vector->null[i] |= !d;
			over |= op == WS_N_DIV && d == -1 && left->i[i] == INT64_MIN;
			d = d == 0 || (d == -1 && left->i[i] == INT64_MIN) ? 1 : d;
			vector->i[i] = op == WS_N_DIV ? left->i[i] / d : left->i[i] % d;
		}
		break;
	case WS_N_AND_BITS:
		for (size_t i = 0; i < n; i++)
			vector->i[i] = left->i[i] & right->i[i];
		break;
	case WS_N_OR_BITS:
		for (size_t i = 0; i < n; i++)
			vector->i[i] = left->i[i] | right->i[i];
		break;
	default:
		for (size_t i = 0; i < n; i++)
			vector->i[i] = shifted(left->i[i], right->i[i], op == WS_N_SHL);
	}
	return over;
}

static double number(const struct ws_sql_vector *vector, bool real, size_t i)
{
	return real ? vector->r[i] : (double)vector->i[i];
}

static void real_numbers(unsigned op, const struct ws_sql_vector *left, bool ra,
			 const struct ws_sql_vector *right, bool rb, size_t n,
			 struct ws_sql_vector *vector)
{
	for (size_t i = 0; i < n; i++) {
		double x = number(left, ra, i), y = number(right, rb, i), v = 0;

		switch (op) {
		case WS_N_ADD:
			v = x + y;
			break;
		case WS_N_SUB:
			v = x - y;
			break;
		case WS_N_MUL:
			v = x * y;
			break;
		default:
			vector->null[i] |= y == 0;
			v = y == 0 ? 0 : x / y;
		}
		vector->null[i] |= isnan(v);
		vector->r[i] = v;
	}
}

/* ---- comparing ---- */

/* As SQLite compares a whole number with a real one: without losing digits. */
static int compare_mixed(int64_t i, double r)
{
	int64_t whole;
	double d = (double)i;

	if (r < -9223372036854775808.0)
		return 1;
	if (r >= 9223372036854775808.0)
		return -1;
	whole = (int64_t)r;
	if (i != whole)
		return i < whole ? -1 : 1;
	return ws_compare(d, r);
}

static int compare(const struct ws_sql_vector *left, bool ra, const struct ws_sql_vector *right,
		   bool rb, size_t i)
{
	if (!ra && !rb)
		return ws_compare(left->i[i], right->i[i]);
	if (ra && rb)
		return ws_compare(left->r[i], right->r[i]);
	return ra ? -compare_mixed(right->i[i], left->r[i])
		  : compare_mixed(left->i[i], right->r[i]);
}

static void comparison(unsigned op, const struct ws_sql_vector *left, bool ra,
		       const struct ws_sql_vector *right, bool rb, size_t n,
		       struct ws_sql_vector *vector)
{
	for (size_t i = 0; i < n; i++) {
		int c = compare(left, ra, right, rb, i);

		vector->i[i] = op == WS_N_EQ   ? !c
			       : op == WS_N_NE ? !!c
			       : op == WS_N_LT ? c < 0
					       : c <= 0;
	}
}

/* Of three values: what is decided by one operand is not null because of the other. */
static void logic(unsigned op, const struct ws_sql_vector *left, const struct ws_sql_vector *right,
		  size_t n, struct ws_sql_vector *vector)
{
	for (size_t i = 0; i < n; i++) {
		bool at = !left->null[i] && left->i[i], bt = !right->null[i] && right->i[i],
		     af = !left->null[i] && !left->i[i], bf = !right->null[i] && !right->i[i];
		bool yes = op == WS_N_AND ? at && bt : at || bt,
		     no = op == WS_N_AND ? af || bf : af && bf;

		vector->null[i] = !yes && !no;
		vector->i[i] = yes;
	}
}

/* ---- of one operand, or three ---- */

static int64_t to_int(double r)
{
	return r <= -9223372036854775808.0  ? INT64_MIN
	       : r >= 9223372036854775808.0 ? INT64_MAX
					    : (int64_t)r;
}

static void convert(unsigned op, const struct ws_sql_vector *vector, bool real, size_t n,
		    struct ws_sql_vector *sql_vector)
{
	memcpy(sql_vector->null, vector->null, n);
	for (size_t i = 0; i < n; i++) {
		if (op == WS_N_NOT)
			sql_vector->i[i] = !vector->i[i];
		else if (op == WS_N_TO_INT)
			sql_vector->i[i] = real ? to_int(vector->r[i]) : vector->i[i];
		else if (op == WS_N_TO_REAL)
			sql_vector->r[i] = number(vector, real, i);
	}
}

static void choose(const struct ws_sql_values *values, const struct ws_sql_node *node, size_t n,
		   struct ws_sql_vector *vector)
{
	const struct ws_sql_vector *sql_vector = &values->node[node->a];

	for (size_t i = 0; i < n; i++) {
		uint16_t from = !sql_vector->null[i] && sql_vector->i[i] ? node->b : node->c;

		vector->null[i] = !from || values->node[from].null[i];
		vector->i[i] = from ? values->node[from].i[i] : 0;
	}
}

static void one(const struct ws_sql_exprs *exprs, const struct ws_sql_node *node, size_t n,
		struct ws_sql_values *out, struct ws_sql_vector *vector)
{
	const struct ws_sql_vector *left = &out->node[node->a], *right = &out->node[node->b];
	bool ra = exprs->node[node->a].real, rb = exprs->node[node->b].real;

	switch (node->op) {
	case WS_N_COLUMN: /* was put there before */
		return;
	case WS_N_INT:
	case WS_N_REAL:
		memset(vector->null, 0, n);
		for (size_t i = 0; i < n; i++)
			vector->i[i] = node->i; /* the bits of either */
		return;
	case WS_N_AND:
	case WS_N_OR:
		logic(node->op, left, right, n, vector);
		return;
	case WS_N_IS_NULL:
		memset(vector->null, 0, n);
		for (size_t i = 0; i < n; i++)
			vector->i[i] = left->null[i];
		return;
	case WS_N_NOT:
	case WS_N_TO_INT:
	case WS_N_TO_REAL:
		convert(node->op, left, ra, n, vector);
		break;
	case WS_N_IF:
		choose(out, node, n, vector);
		return;
	case WS_N_EQ:
	case WS_N_NE:
	case WS_N_LT:
	case WS_N_LE:
		either_null(vector, left, right, n);
		comparison(node->op, left, ra, right, rb, n, vector);
		break;
	default:
		either_null(vector, left, right, n);
		if (node->real)
			real_numbers(node->op, left, ra, right, rb, n, vector);
		else
			out->overflow |= whole_numbers(node->op, left, right, n, vector);
	}
	clear_nulls(vector, n);
}

void ws_sql_compute(const struct ws_sql_exprs *exprs, const uint64_t *const *col, size_t from,
		    size_t n, struct ws_sql_values *out)
{
	for (size_t k = 1; k < exprs->n; k++) {
		const struct ws_sql_node *node = &exprs->node[k];

		if (node->op == WS_N_COLUMN)
			put_column(exprs, &exprs->table->columns[node->column],
				   col[exprs->table->columns[node->column].source] + from, n,
				   &out->node[k]);
		one(exprs, node, n, out, &out->node[k]);
	}
}
