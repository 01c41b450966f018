/*
 * fold.h - GROUP BY without SQLite's interpreter: groups and their figures, computed on all cores
 * while blocks are read.
 *
 * core.c finds what can be answered so in a statement and puts a table of the groups in its place;
 * fold.c makes them. Both give up whenever the answer might not be the one that SQLite gives, to
 * the last bit and in its order, and then SQLite answers.
 */
#ifndef WS_SQL_FOLD_H
#define WS_SQL_FOLD_H

#include "sql/expr.h"

enum {
	WS_SQL_ATOMS = 16,
	WS_SQL_JOINS = 4,
	WS_SQL_FIGURES = 32,
	WS_SQL_ARGS = 16,
	WS_SQL_FILTERS = 24
};

/* What is known of a row's group besides figures: a column of the table, or what StringIds has for
 * it. */
struct ws_sql_atom {
	uint8_t column;
	enum {
		WS_ATOM_COLUMN,
		WS_ATOM_TEXT,
		WS_ATOM_ID
	} what; /* ID: NULL where StringIds has none */
};

struct ws_sql_fold {
	struct ws_sql_table *table;
	struct ws_sql_exprs exprs;
	uint16_t filter[WS_SQL_FILTERS]; /* nodes that must be true */
	uint32_t filters;
	struct {
		uint8_t column;
		bool left;
	} join[WS_SQL_JOINS]; /* StringIds, by its id */
	uint32_t joins;
	struct ws_sql_atom atom[WS_SQL_ATOMS];
	uint32_t atoms;
	struct ws_sql_group_by {
		enum { WS_BY_ATOM, WS_BY_NODE, WS_BY_HARD } how;
		uint16_t number; /* of the atom, node, or column of `hard` */
		bool descending;
	} by[WS_SQL_KEYS];
	uint32_t bys;
	struct ws_sql_figure {
		enum {
			WS_F_ROWS,
			WS_F_COUNT,
			WS_F_SUM,
			WS_F_AVG,
			WS_F_TOTAL,
			WS_F_MIN,
			WS_F_MAX
		} what;
		uint8_t arg;
	} figure[WS_SQL_FIGURES];
	uint32_t figures;
	uint16_t arg[WS_SQL_ARGS]; /* nodes */
	uint32_t args;
	/*
	 * Expressions of atoms that SQLite itself computes, once for each distinct combination of
	 * theirs: those grouped by, then conditions; separated by commas.
	 */
	struct ws_text hard;
	uint32_t hard_keys, hard_conditions;
	bool ordered; /* SQLite would surely read the rows of a group in the order of the file */
	uint64_t lower, upper; /* the times of rows that can pass */
	/* the answer: groups in order, columns a0... g0... f0... */
	uint32_t number; /* of the fold: its table is "ws$N" */
	struct ws_sql_result *result;
};

/* Make the groups. False when SQLite has to answer. */
bool ws_sql_fold_run(struct ws_sql_fold *fold);
void ws_sql_fold_free(struct ws_sql_fold *fold);

/* Folds of one statement. */
struct ws_sql_folds {
	struct ws_sql_fold *fold[8];
	uint32_t n;
};

/*
 * A statement that gives the same rows as the one from `sql` to `end`, with the folds it reads;
 * NULL when there is none. The caller frees it, and the folds once no statement is open that reads
 * them.
 */
char *ws_sql_fold_statement(struct ws_sql *sql_s, const char *sql, const char *end,
			    struct ws_sql_folds *folds);
void ws_sql_folds_free(struct ws_sql *sql, struct ws_sql_folds *folds);

#endif
