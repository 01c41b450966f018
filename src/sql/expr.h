/*
 * expr.h - computes expressions of numbers for many rows at a time, with the values that SQLite
 * gives.
 *
 * A value is a whole number, a real number or null, and which of the two kinds of numbers it is
 * must be known beforehand: where SQLite would change from one to the other (a whole number
 * overflows), the computation sets `overflow` and its results must not be used.
 */
#ifndef WS_SQL_EXPR_H
#define WS_SQL_EXPR_H

#include "sql/lex.h"
#include "sql/table.h"

enum { WS_SQL_NODES = 96, WS_SQL_CHUNK = 1024 /* rows at a time */ };

struct ws_sql_node {
	enum {
		WS_N_COLUMN, /* `column` of the table */
		WS_N_INT,
		WS_N_REAL, /* literals */
		WS_N_ADD,
		WS_N_SUB,
		WS_N_MUL,
		WS_N_DIV,
		WS_N_MOD,
		WS_N_AND_BITS,
		WS_N_OR_BITS,
		WS_N_SHL,
		WS_N_SHR,
		WS_N_EQ,
		WS_N_NE,
		WS_N_LT,
		WS_N_LE,
		WS_N_AND,
		WS_N_OR,
		WS_N_NOT,
		WS_N_IS_NULL,
		WS_N_TO_INT, /* CAST */
		WS_N_TO_REAL,
		WS_N_IF, /* b if a, else c; c is 0 for null */
	} op;
	bool real;
	uint8_t column;
	uint16_t first, second, third; /* operands: nodes before this one */
	union {
		int64_t i;
		double r;
	};
};

struct ws_sql_exprs { /* of one table; operands stand before what uses them; node 0 is not used */
	const struct ws_sql_table *table;
	struct ws_sql_node nodes[WS_SQL_NODES];
	size_t node_count;
	uint64_t reads; /* columns of the source, as bits */
};

/* Values of all nodes for a chunk of rows. */
struct ws_sql_values {
	struct ws_sql_vector {
		union {
			int64_t integers[WS_SQL_CHUNK]; /* 0 where null */
			double reals[WS_SQL_CHUNK];
		};
		uint8_t nulls[WS_SQL_CHUNK];
	} nodes[WS_SQL_NODES];
	bool overflow; /* somewhere SQLite would give real numbers: none of the values may be used
			*/
};

/* The node of this operation, which is made unless it is there already; 0 when it cannot be
 * computed here. */
uint16_t ws_sql_add_node(struct ws_sql_exprs *exprs, struct ws_sql_node node);
/* The node of a column, by number; 0 when the column does not hold numbers. */
uint16_t ws_sql_add_column_node(struct ws_sql_exprs *exprs, size_t column);
/* Compute all nodes for `rows` rows, at most WS_SQL_CHUNK, of the source columns, beginning at
 * `from`. */
void ws_sql_compute_nodes(const struct ws_sql_exprs *exprs, const uint64_t *const *source_columns,
			  size_t from, size_t rows, struct ws_sql_values *out);

#endif
