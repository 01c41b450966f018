/*
 * expr.c - see expr.h. Nodes are computed in their order, each for the whole chunk, so that what
 * expressions share is computed once and every loop is simple. Nulls hold 0, so that they do not
 * overflow.
 */
#include "sql/expr.h"
#include "base/choose.h"

#include <math.h>
#include <string.h>

/* ---- making ---- */

static bool is_same_node(const struct ws_sql_node *left, const struct ws_sql_node *right)
{
	return left->op == right->op && left->real == right->real &&
	       left->column == right->column && left->first == right->first &&
	       left->second == right->second && left->third == right->third && left->i == right->i;
}

/* Whether the operands allow the operation; sets `real` of the result. */
static bool check_operands(const struct ws_sql_exprs *exprs, struct ws_sql_node *node)
{
	bool left = exprs->nodes[node->first].real, right = exprs->nodes[node->second].real;

	switch (node->op) {
	case WS_N_ADD:
	case WS_N_SUB:
	case WS_N_MUL:
	case WS_N_DIV:
		node->real = left || right;
		return true;
	case WS_N_MOD:
	case WS_N_AND_BITS:
	case WS_N_OR_BITS:
	case WS_N_SHL:
	case WS_N_SHR:
		return !left && !right; /* SQLite would turn them into whole numbers first */
	case WS_N_AND:
	case WS_N_OR:
	case WS_N_NOT:
		return !left && !right;
	case WS_N_TO_REAL:
		node->real = true;
		return true;
	case WS_N_IF:
		node->real = right;
		return !left && (!node->third || exprs->nodes[node->third].real == right);
	default:
		return true;
	}
}

uint16_t ws_sql_add_node(struct ws_sql_exprs *exprs, struct ws_sql_node node)
{
	bool leaf = node.op <= WS_N_REAL;

	if (!exprs->node_count)
		exprs->node_count = 1;
	if ((!leaf && !node.first) || (node.op >= WS_N_ADD && node.op <= WS_N_OR && !node.second) ||
	    (node.op == WS_N_IF && !node.second))
		return 0; /* an operand could not be computed */
	if (!leaf && !check_operands(exprs, &node))
		return 0;
	for (size_t i = 1; i < exprs->node_count; i++)
		if (is_same_node(&exprs->nodes[i], &node))
			return (uint16_t)i;
	if (exprs->node_count == WS_SQL_NODES)
		return 0;
	exprs->nodes[exprs->node_count] = node;
	return (uint16_t)exprs->node_count++;
}

uint16_t ws_sql_add_column_node(struct ws_sql_exprs *exprs, size_t column)
{
	const struct ws_view_column *description = &exprs->table->columns[column];

	if (column > UINT8_MAX ||
	    (strcmp(description->type, "INTEGER") && strcmp(description->type, "REAL")))
		return 0;
	switch (description->from) {
	case WS_FROM_CONST:
		return ws_sql_add_node(exprs,
				       (struct ws_sql_node){.op = WS_N_INT,
							    .i = (int64_t)description->value});
	case WS_FROM_INT:
	case WS_FROM_UINT:
	case WS_FROM_REAL:
	case WS_FROM_TIME:
	case WS_FROM_TIME_OR_NULL:
	case WS_FROM_UINT_UNLESS:
	case WS_FROM_ID:
	case WS_FROM_STRING:
	case WS_FROM_THREAD:
	case WS_FROM_PROCESS:
		exprs->reads |= UINT64_C(1) << description->source;
		return ws_sql_add_node(exprs, (struct ws_sql_node){.op = WS_N_COLUMN,
								   .column = (uint8_t)column,
								   .real = description->from ==
									   WS_FROM_REAL});
	default:
		return 0;
	}
}

/* ---- columns ---- */

/* The cell of a value that is not stored as it is. */
static struct ws_view_cell make_indirect_cell(struct ws_cell_context *export,
					      const struct ws_view_column *column, uint64_t value)
{
	uint32_t key = 0;

	if (column->from == WS_FROM_THREAD)
		return ws_make_thread_cell(export, value);
	if (column->from != WS_FROM_STRING)
		return ws_make_process_cell(export, value);
	/* The id of a text, as in ws_make_string_cell. */
	if (value && (uint32_t)value <= export->string_count)
		key = ws_report_string_key(export->report, (uint32_t)value);
	if (key > export->string_count)
		key = (uint32_t)value;
	return ws_make_id_cell(key);
}

static void put_cell_column(const struct ws_sql_exprs *exprs, const struct ws_view_column *column,
			    const uint64_t *values, size_t rows, struct ws_sql_vector *vector)
{
	struct ws_cell_context *export = &exprs->table->report->export;
	uint64_t last = 0;
	struct ws_view_cell cell = ws_make_null_cell();

	for (size_t i = 0; i < rows; i++) {
		if (!i || values[i] != last) {
			last = values[i];
			cell = make_indirect_cell(export, column, last);
		}
		vector->nulls[i] = cell.kind == WS_VIEW_NULL;
		vector->integers[i] = 0;
		if (cell.kind != WS_VIEW_NULL)
			vector->integers[i] = cell.i;
	}
}

/* What is kept where a value is null: no bit; otherwise all of them. */
static inline int64_t make_null_mask(uint8_t null)
{
	return (int64_t)null - 1;
}

/* Values less `base`, null where they are `none`. */
static void put_unless_column(const uint64_t *values, size_t rows, uint64_t none, uint64_t base,
			      struct ws_sql_vector *vector)
{
	for (size_t i = 0; i < rows; i++) {
		vector->nulls[i] = values[i] == none;
		vector->integers[i] =
			(int64_t)(values[i] - base) & make_null_mask(vector->nulls[i]);
	}
}

static void put_column_values(const struct ws_sql_exprs *exprs, const struct ws_view_column *column,
			      const uint64_t *values, size_t rows, struct ws_sql_vector *vector)
{
	uint64_t base = exprs->table->report->export.base;

	memset(vector->nulls, 0, rows);
	switch (column->from) {
	case WS_FROM_INT:
	case WS_FROM_UINT:
		memcpy(vector->integers, values, rows * 8);
		break;
	case WS_FROM_REAL:
		memcpy(vector->reals, values, rows * 8);
		for (size_t i = 0; i < rows; i++)
			if (isnan(vector->reals[i])) {
				vector->integers[i] = 0;
				vector->nulls[i] = 1;
			}
		break;
	case WS_FROM_TIME:
		for (size_t i = 0; i < rows; i++)
			vector->integers[i] = (int64_t)(values[i] - base);
		break;
	case WS_FROM_TIME_OR_NULL:
		put_unless_column(values, rows, WS_NO_TIME, base, vector);
		break;
	case WS_FROM_UINT_UNLESS:
		put_unless_column(values, rows, column->value, 0, vector);
		break;
	case WS_FROM_ID:
		put_unless_column(values, rows, 0, 0, vector);
		break;
	default:
		put_cell_column(exprs, column, values, rows, vector);
	}
}

/* ---- arithmetic ---- */

/* The values of two operands, and whether each is real. Passed by value, so that loops need not
 * read it again after each store. */
struct operands {
	const struct ws_sql_vector *left, *right;
	bool left_real, right_real;
};

static void combine_nulls(struct ws_sql_vector *vector, const struct ws_sql_vector *left,
			  const struct ws_sql_vector *right, size_t rows)
{
	for (size_t i = 0; i < rows; i++)
		vector->nulls[i] = left->nulls[i] | right->nulls[i];
}

static void clear_nulls(struct ws_sql_vector *vector, size_t rows)
{
	for (size_t i = 0; i < rows; i++)
		vector->integers[i] &= make_null_mask(vector->nulls[i]);
}

/* SQLite's shifts: by a negative number the other way, by 64 and more everything is lost. */
static int64_t shift_number(int64_t number, int64_t by, bool left)
{
	uint64_t bits = (uint64_t)number;

	if (by < 0) {
		left = !left;
		by = ws_min(-(by + 1), 63) + 1; /* -INT64_MIN would overflow */
	}
	if (by >= 64)
		return -(number < 0 && !left);
	if (!by)
		return number;
	if (left)
		return (int64_t)(bits << by);
	bits >>= by;
	if (number < 0)
		bits |= UINT64_MAX << (64 - by);
	return (int64_t)bits;
}

/* Returns whether a result is beyond whole numbers. */
static bool compute_whole(unsigned op, const struct ws_sql_vector *left,
			  const struct ws_sql_vector *right, size_t rows,
			  struct ws_sql_vector *vector)
{
	bool over = false;

	switch (op) {
	case WS_N_ADD:
		for (size_t i = 0; i < rows; i++)
			over |= __builtin_add_overflow(left->integers[i], right->integers[i],
						       &vector->integers[i]);
		break;
	case WS_N_SUB:
		for (size_t i = 0; i < rows; i++)
			over |= __builtin_sub_overflow(left->integers[i], right->integers[i],
						       &vector->integers[i]);
		break;
	case WS_N_MUL:
		for (size_t i = 0; i < rows; i++)
			over |= __builtin_mul_overflow(left->integers[i], right->integers[i],
						       &vector->integers[i]);
		break;
	case WS_N_DIV:
	case WS_N_MOD:
		for (size_t i = 0; i < rows; i++) {
			int64_t divisor = right->integers[i];
			bool beyond = divisor == -1 && left->integers[i] == INT64_MIN;

			vector->nulls[i] |= !divisor;
			over |= op == WS_N_DIV && beyond;
			if (divisor == 0 || beyond)
				divisor = 1;
			if (op == WS_N_DIV)
				vector->integers[i] = left->integers[i] / divisor;
			else
				vector->integers[i] = left->integers[i] % divisor;
		}
		break;
	case WS_N_AND_BITS:
		for (size_t i = 0; i < rows; i++)
			vector->integers[i] = left->integers[i] & right->integers[i];
		break;
	case WS_N_OR_BITS:
		for (size_t i = 0; i < rows; i++)
			vector->integers[i] = left->integers[i] | right->integers[i];
		break;
	default:
		for (size_t i = 0; i < rows; i++)
			vector->integers[i] =
				shift_number(left->integers[i], right->integers[i], op == WS_N_SHL);
	}
	return over;
}

static inline double read_number(const struct ws_sql_vector *vector, bool real, size_t i)
{
	if (real)
		return vector->reals[i];
	return (double)vector->integers[i];
}

static void compute_real(unsigned op, struct operands operands, size_t rows,
			 struct ws_sql_vector *vector)
{
	for (size_t i = 0; i < rows; i++) {
		double left = read_number(operands.left, operands.left_real, i);
		double right = read_number(operands.right, operands.right_real, i);
		double result = 0;

		switch (op) {
		case WS_N_ADD:
			result = left + right;
			break;
		case WS_N_SUB:
			result = left - right;
			break;
		case WS_N_MUL:
			result = left * right;
			break;
		default:
			vector->nulls[i] |= right == 0;
			if (right != 0)
				result = left / right;
		}
		vector->nulls[i] |= isnan(result);
		vector->reals[i] = result;
	}
}

/* ---- comparing ---- */

/* As SQLite compares a whole number with a real one: without losing digits. */
static int compare_mixed(int64_t integer, double real)
{
	int64_t whole;
	double rounded = (double)integer;

	if (real < -9223372036854775808.0)
		return 1;
	if (real >= 9223372036854775808.0)
		return -1;
	whole = (int64_t)real;
	if (integer != whole)
		return ws_compare(integer, whole);
	return ws_compare(rounded, real);
}

static inline int compare_values(struct operands operands, size_t i)
{
	const struct ws_sql_vector *left = operands.left, *right = operands.right;

	if (!operands.left_real && !operands.right_real)
		return ws_compare(left->integers[i], right->integers[i]);
	if (operands.left_real && operands.right_real)
		return ws_compare(left->reals[i], right->reals[i]);
	if (operands.left_real)
		return -compare_mixed(right->integers[i], left->reals[i]);
	return compare_mixed(left->integers[i], right->reals[i]);
}

static inline bool does_order_hold(unsigned op, int order)
{
	switch (op) {
	case WS_N_EQ:
		return order == 0;
	case WS_N_NE:
		return order != 0;
	case WS_N_LT:
		return order < 0;
	default:
		return order <= 0;
	}
}

static void compute_comparison(unsigned op, struct operands operands, size_t rows,
			       struct ws_sql_vector *vector)
{
	for (size_t i = 0; i < rows; i++)
		vector->integers[i] = does_order_hold(op, compare_values(operands, i));
}

/* Three-valued logic: if one operand decides the result, it is not null even if the other is. */
static void compute_logic(unsigned op, const struct ws_sql_vector *left,
			  const struct ws_sql_vector *right, size_t rows,
			  struct ws_sql_vector *vector)
{
	for (size_t i = 0; i < rows; i++) {
		bool left_true = !left->nulls[i] && left->integers[i],
		     left_false = !left->nulls[i] && !left->integers[i];
		bool right_true = !right->nulls[i] && right->integers[i],
		     right_false = !right->nulls[i] && !right->integers[i];
		bool yes = left_true && right_true, no = left_false || right_false;

		if (op == WS_N_OR) {
			yes = left_true || right_true;
			no = left_false && right_false;
		}
		vector->nulls[i] = !yes && !no;
		vector->integers[i] = yes;
	}
}

/* ---- of one operand, or three ---- */

static int64_t convert_to_int(double number)
{
	if (number <= -9223372036854775808.0)
		return INT64_MIN;
	if (number >= 9223372036854775808.0)
		return INT64_MAX;
	return (int64_t)number;
}

static void compute_conversion(unsigned op, const struct ws_sql_vector *from, bool real,
			       size_t rows, struct ws_sql_vector *to)
{
	memcpy(to->nulls, from->nulls, rows);
	for (size_t i = 0; i < rows; i++) {
		if (op == WS_N_NOT)
			to->integers[i] = !from->integers[i];
		else if (op == WS_N_TO_INT && real)
			to->integers[i] = convert_to_int(from->reals[i]);
		else if (op == WS_N_TO_INT)
			to->integers[i] = from->integers[i];
		else if (op == WS_N_TO_REAL)
			to->reals[i] = read_number(from, real, i);
	}
}

static void compute_choice(const struct ws_sql_values *values, const struct ws_sql_node *node,
			   size_t rows, struct ws_sql_vector *vector)
{
	const struct ws_sql_vector *condition = &values->nodes[node->first];

	for (size_t i = 0; i < rows; i++) {
		uint16_t from = node->third;

		if (!condition->nulls[i] && condition->integers[i])
			from = node->second;
		vector->nulls[i] = 1;
		vector->integers[i] = 0;
		if (from) {
			vector->nulls[i] = values->nodes[from].nulls[i];
			vector->integers[i] = values->nodes[from].integers[i];
		}
	}
}

static void compute_node(const struct ws_sql_exprs *exprs, const struct ws_sql_node *node,
			 size_t rows, struct ws_sql_values *out, struct ws_sql_vector *vector)
{
	const struct ws_sql_vector *left = &out->nodes[node->first],
				   *right = &out->nodes[node->second];
	struct operands operands = {left, right, exprs->nodes[node->first].real,
				    exprs->nodes[node->second].real};

	switch (node->op) {
	case WS_N_COLUMN: /* was put there before */
		return;
	case WS_N_INT:
	case WS_N_REAL:
		memset(vector->nulls, 0, rows);
		for (size_t i = 0; i < rows; i++)
			vector->integers[i] = node->i; /* the bits of either */
		return;
	case WS_N_AND:
	case WS_N_OR:
		compute_logic(node->op, left, right, rows, vector);
		return;
	case WS_N_IS_NULL:
		memset(vector->nulls, 0, rows);
		for (size_t i = 0; i < rows; i++)
			vector->integers[i] = left->nulls[i];
		return;
	case WS_N_NOT:
	case WS_N_TO_INT:
	case WS_N_TO_REAL:
		compute_conversion(node->op, left, operands.left_real, rows, vector);
		break;
	case WS_N_IF:
		compute_choice(out, node, rows, vector);
		return;
	case WS_N_EQ:
	case WS_N_NE:
	case WS_N_LT:
	case WS_N_LE:
		combine_nulls(vector, left, right, rows);
		compute_comparison(node->op, operands, rows, vector);
		break;
	default:
		combine_nulls(vector, left, right, rows);
		if (node->real)
			compute_real(node->op, operands, rows, vector);
		else
			out->overflow |= compute_whole(node->op, left, right, rows, vector);
	}
	clear_nulls(vector, rows);
}

void ws_sql_compute_nodes(const struct ws_sql_exprs *exprs, const uint64_t *const *source_columns,
			  size_t from, size_t rows, struct ws_sql_values *out)
{
	for (size_t index = 1; index < exprs->node_count; index++) {
		const struct ws_sql_node *node = &exprs->nodes[index];

		if (node->op == WS_N_COLUMN)
			put_column_values(
				exprs, &exprs->table->columns[node->column],
				source_columns[exprs->table->columns[node->column].source] + from,
				rows, &out->nodes[index]);
		compute_node(exprs, node, rows, out, &out->nodes[index]);
	}
}
