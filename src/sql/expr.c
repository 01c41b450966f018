/*
 * expr.c - see expr.h. Nodes are computed in their order, each for the whole chunk, so that what
 * expressions have in common is computed once and every loop is a simple one. Nulls hold 0, which
 * keeps them from overflowing.
 */
#include "sql/expr.h"

#include <math.h>
#include <string.h>

/* ---- making ---- */

static bool same_node(const struct ws_sql_node *a, const struct ws_sql_node *b)
{
	return a->op == b->op && a->real == b->real && a->column == b->column && a->a == b->a &&
	       a->b == b->b && a->c == b->c && a->i == b->i;
}

/* What the operands allow; `real` of the result. */
static bool fits(const struct ws_sql_exprs *x, struct ws_sql_node *n)
{
	bool a = x->node[n->a].real, b = x->node[n->b].real;

	switch (n->op) {
	case WS_N_ADD:
	case WS_N_SUB:
	case WS_N_MUL:
	case WS_N_DIV:
		n->real = a || b;
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
		n->real = true;
		return true;
	case WS_N_IF:
		n->real = b;
		return !a && (!n->c || x->node[n->c].real == b);
	default:
		return true;
	}
}

uint16_t ws_sql_node(struct ws_sql_exprs *x, struct ws_sql_node node)
{
	bool leaf = node.op <= WS_N_REAL;

	if (!x->n)
		x->n = 1;
	if ((!leaf && !node.a) || (node.op >= WS_N_ADD && node.op <= WS_N_OR && !node.b) ||
	    (node.op == WS_N_IF && !node.b))
		return 0; /* an operand could not be computed */
	if (!leaf && !fits(x, &node))
		return 0;
	for (size_t i = 1; i < x->n; i++)
		if (same_node(&x->node[i], &node))
			return (uint16_t)i;
	if (x->n == WS_SQL_NODES)
		return 0;
	x->node[x->n] = node;
	return (uint16_t)x->n++;
}

uint16_t ws_sql_node_column(struct ws_sql_exprs *x, size_t column)
{
	const struct ws_xcolumn *c = &x->t->columns[column];

	if (column > UINT8_MAX || (strcmp(c->type, "INTEGER") && strcmp(c->type, "REAL")))
		return 0;
	switch (c->from) {
	case WS_XF_CONST:
		return ws_sql_node(x, (struct ws_sql_node){.op = WS_N_INT, .i = (int64_t)c->value});
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
		x->reads |= UINT64_C(1) << c->source;
		return ws_sql_node(x, (struct ws_sql_node){.op = WS_N_COLUMN,
							   .column = (uint8_t)column,
							   .real = c->from == WS_XF_REAL});
	default:
		return 0;
	}
}

/* ---- columns ---- */

static void put_cells(const struct ws_sql_exprs *x, const struct ws_xcolumn *c, const uint64_t *v,
		      size_t n, struct ws_sql_vector *o)
{
	struct ws_export *e = &x->t->of->x;
	uint64_t last = 0;
	struct ws_xcell cell = ws_x_null();

	for (size_t i = 0; i < n; i++) {
		if (!i || v[i] != last) {
			last = v[i];
			if (c->from == WS_XF_STRING) { /* its number, as ws_x_string has it */
				uint32_t id = (uint32_t)last,
					 key = id && id <= e->string_count
						       ? ws_report_string_key(e->r, id)
						       : 0;

				cell = !key ? ws_x_null()
					    : ws_x_int(key > e->string_count ? id : key);
			} else {
				cell = c->from == WS_XF_THREAD ? ws_x_thread(e, last)
							       : ws_x_process(e, last);
			}
		}
		o->null[i] = cell.kind == WS_X_NULL;
		o->i[i] = o->null[i] ? 0 : cell.i;
	}
}

static void put_column(const struct ws_sql_exprs *x, const struct ws_xcolumn *c, const uint64_t *v,
		       size_t n, struct ws_sql_vector *o)
{
	uint64_t base = x->t->of->x.base, none = c->from == WS_XF_NTIME ? WS_NO_TIME
						 : c->from == WS_XF_ID	? 0
									: c->value;

	memset(o->null, 0, n);
	switch (c->from) {
	case WS_XF_INT:
	case WS_XF_UINT:
		memcpy(o->i, v, n * 8);
		break;
	case WS_XF_REAL:
		memcpy(o->r, v, n * 8);
		for (size_t i = 0; i < n; i++)
			if (isnan(o->r[i])) {
				o->i[i] = 0;
				o->null[i] = 1;
			}
		break;
	case WS_XF_TIME:
		for (size_t i = 0; i < n; i++)
			o->i[i] = (int64_t)(v[i] - base);
		break;
	case WS_XF_NTIME:
	case WS_XF_UNLESS:
	case WS_XF_ID:
		base = c->from == WS_XF_NTIME ? base : 0;
		for (size_t i = 0; i < n; i++) {
			o->null[i] = v[i] == none;
			o->i[i] = v[i] == none ? 0 : (int64_t)(v[i] - base);
		}
		break;
	default:
		put_cells(x, c, v, n, o);
	}
}

/* ---- arithmetic ---- */

static void either_null(struct ws_sql_vector *o, const struct ws_sql_vector *a,
			const struct ws_sql_vector *b, size_t n)
{
	for (size_t i = 0; i < n; i++)
		o->null[i] = a->null[i] | b->null[i];
}

static void clear_nulls(struct ws_sql_vector *o, size_t n)
{
	for (size_t i = 0; i < n; i++)
		o->i[i] = o->null[i] ? 0 : o->i[i];
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
static bool whole_numbers(unsigned op, const struct ws_sql_vector *a, const struct ws_sql_vector *b,
			  size_t n, struct ws_sql_vector *o)
{
	bool over = false;

	switch (op) {
	case WS_N_ADD:
		for (size_t i = 0; i < n; i++)
			over |= __builtin_add_overflow(a->i[i], b->i[i], &o->i[i]);
		break;
	case WS_N_SUB:
		for (size_t i = 0; i < n; i++)
			over |= __builtin_sub_overflow(a->i[i], b->i[i], &o->i[i]);
		break;
	case WS_N_MUL:
		for (size_t i = 0; i < n; i++)
			over |= __builtin_mul_overflow(a->i[i], b->i[i], &o->i[i]);
		break;
	case WS_N_DIV:
	case WS_N_MOD:
		for (size_t i = 0; i < n; i++) {
			int64_t d = b->i[i];

			o->null[i] |= !d;
			over |= op == WS_N_DIV && d == -1 && a->i[i] == INT64_MIN;
			d = d == 0 || (d == -1 && a->i[i] == INT64_MIN) ? 1 : d;
			o->i[i] = op == WS_N_DIV ? a->i[i] / d : a->i[i] % d;
		}
		break;
	case WS_N_AND_BITS:
		for (size_t i = 0; i < n; i++)
			o->i[i] = a->i[i] & b->i[i];
		break;
	case WS_N_OR_BITS:
		for (size_t i = 0; i < n; i++)
			o->i[i] = a->i[i] | b->i[i];
		break;
	default:
		for (size_t i = 0; i < n; i++)
			o->i[i] = shifted(a->i[i], b->i[i], op == WS_N_SHL);
	}
	return over;
}

static double number(const struct ws_sql_vector *v, bool real, size_t i)
{
	return real ? v->r[i] : (double)v->i[i];
}

static void real_numbers(unsigned op, const struct ws_sql_vector *a, bool ra,
			 const struct ws_sql_vector *b, bool rb, size_t n, struct ws_sql_vector *o)
{
	for (size_t i = 0; i < n; i++) {
		double x = number(a, ra, i), y = number(b, rb, i), v = 0;

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
			o->null[i] |= y == 0;
			v = y == 0 ? 0 : x / y;
		}
		o->null[i] |= isnan(v);
		o->r[i] = v;
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
	return d < r ? -1 : d > r;
}

static int compare(const struct ws_sql_vector *a, bool ra, const struct ws_sql_vector *b, bool rb,
		   size_t i)
{
	if (!ra && !rb)
		return a->i[i] < b->i[i] ? -1 : a->i[i] > b->i[i];
	if (ra && rb)
		return a->r[i] < b->r[i] ? -1 : a->r[i] > b->r[i];
	return ra ? -compare_mixed(b->i[i], a->r[i]) : compare_mixed(a->i[i], b->r[i]);
}

static void comparison(unsigned op, const struct ws_sql_vector *a, bool ra,
		       const struct ws_sql_vector *b, bool rb, size_t n, struct ws_sql_vector *o)
{
	for (size_t i = 0; i < n; i++) {
		int c = compare(a, ra, b, rb, i);

		o->i[i] = op == WS_N_EQ ? !c : op == WS_N_NE ? !!c : op == WS_N_LT ? c < 0 : c <= 0;
	}
}

/* Of three values: what is decided by one operand is not null because of the other. */
static void logic(unsigned op, const struct ws_sql_vector *a, const struct ws_sql_vector *b,
		  size_t n, struct ws_sql_vector *o)
{
	for (size_t i = 0; i < n; i++) {
		bool at = !a->null[i] && a->i[i], bt = !b->null[i] && b->i[i],
		     af = !a->null[i] && !a->i[i], bf = !b->null[i] && !b->i[i];
		bool yes = op == WS_N_AND ? at && bt : at || bt,
		     no = op == WS_N_AND ? af || bf : af && bf;

		o->null[i] = !yes && !no;
		o->i[i] = yes;
	}
}

/* ---- of one operand, or three ---- */

static int64_t to_int(double r)
{
	return r <= -9223372036854775808.0  ? INT64_MIN
	       : r >= 9223372036854775808.0 ? INT64_MAX
					    : (int64_t)r;
}

static void convert(unsigned op, const struct ws_sql_vector *a, bool real, size_t n,
		    struct ws_sql_vector *o)
{
	memcpy(o->null, a->null, n);
	for (size_t i = 0; i < n; i++) {
		if (op == WS_N_NOT)
			o->i[i] = !a->i[i];
		else if (op == WS_N_TO_INT)
			o->i[i] = real ? to_int(a->r[i]) : a->i[i];
		else if (op == WS_N_TO_REAL)
			o->r[i] = number(a, real, i);
	}
}

static void choose(const struct ws_sql_values *v, const struct ws_sql_node *d, size_t n,
		   struct ws_sql_vector *o)
{
	const struct ws_sql_vector *a = &v->node[d->a];

	for (size_t i = 0; i < n; i++) {
		uint16_t from = !a->null[i] && a->i[i] ? d->b : d->c;

		o->null[i] = !from || v->node[from].null[i];
		o->i[i] = from ? v->node[from].i[i] : 0;
	}
}

static void one(const struct ws_sql_exprs *x, const struct ws_sql_node *d, size_t n,
		struct ws_sql_values *out, struct ws_sql_vector *o)
{
	const struct ws_sql_vector *a = &out->node[d->a], *b = &out->node[d->b];
	bool ra = x->node[d->a].real, rb = x->node[d->b].real;

	switch (d->op) {
	case WS_N_COLUMN: /* was put there before */
		return;
	case WS_N_INT:
	case WS_N_REAL:
		memset(o->null, 0, n);
		for (size_t i = 0; i < n; i++)
			o->i[i] = d->i; /* the bits of either */
		return;
	case WS_N_AND:
	case WS_N_OR:
		logic(d->op, a, b, n, o);
		return;
	case WS_N_IS_NULL:
		memset(o->null, 0, n);
		for (size_t i = 0; i < n; i++)
			o->i[i] = a->null[i];
		return;
	case WS_N_NOT:
	case WS_N_TO_INT:
	case WS_N_TO_REAL:
		convert(d->op, a, ra, n, o);
		break;
	case WS_N_IF:
		choose(out, d, n, o);
		return;
	case WS_N_EQ:
	case WS_N_NE:
	case WS_N_LT:
	case WS_N_LE:
		either_null(o, a, b, n);
		comparison(d->op, a, ra, b, rb, n, o);
		break;
	default:
		either_null(o, a, b, n);
		if (d->real)
			real_numbers(d->op, a, ra, b, rb, n, o);
		else
			out->overflow |= whole_numbers(d->op, a, b, n, o);
	}
	clear_nulls(o, n);
}

void ws_sql_compute(const struct ws_sql_exprs *x, const uint64_t *const *col, size_t from, size_t n,
		    struct ws_sql_values *out)
{
	for (size_t k = 1; k < x->n; k++) {
		const struct ws_sql_node *d = &x->node[k];

		if (d->op == WS_N_COLUMN)
			put_column(x, &x->t->columns[d->column],
				   col[x->t->columns[d->column].source] + from, n, &out->node[k]);
		one(x, d, n, out, &out->node[k]);
	}
}
