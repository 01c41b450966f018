/*
 * group_by.h - GROUP BY without SQLite's interpreter: groups and their aggregates, computed on all
 * cores while blocks are read.
 *
 * rewrite.c finds the parts of a statement that can be computed this way and replaces them with a
 * table of groups, which group_by.c makes. Both give up whenever the result might differ from
 * SQLite's in a single bit or in its order; then SQLite computes it.
 */
#ifndef WS_SQL_GROUP_BY_H
#define WS_SQL_GROUP_BY_H

#include "sql/expr.h"

enum {
	WS_SQL_FIELDS = 16,
	WS_SQL_JOINS = 4,
	WS_SQL_AGGREGATES = 32,
	WS_SQL_ARGUMENTS = 16,
	WS_SQL_FILTERS = 24
};

/* A field of a joined row: a column of the table, or the text or id of the StringIds that is joined
 * by that column. */
struct ws_sql_field {
	uint8_t column;
	enum {
		WS_FIELD_COLUMN,
		WS_FIELD_TEXT,
		WS_FIELD_ID
	} kind; /* TEXT and ID are null where StringIds has no such row */
};

struct ws_sql_grouping {
	struct ws_sql_table *table;
	struct ws_sql_exprs exprs;
	uint16_t filters[WS_SQL_FILTERS]; /* nodes of conditions, which must be true */
	uint32_t filter_count;
	struct {
		uint8_t column;
		bool left;
	} joins[WS_SQL_JOINS]; /* of StringIds, by its id */
	uint32_t join_count;
	struct ws_sql_field fields[WS_SQL_FIELDS];
	uint32_t field_count;
	struct ws_sql_group_term {
		enum { WS_BY_FIELD, WS_BY_NODE, WS_BY_SQLITE } how;
		uint16_t
			number; /* of the field, the node, or the expression that SQLite computes */
		bool descending;
	} terms[WS_SQL_KEYS];
	uint32_t term_count;
	struct ws_sql_aggregate {
		enum {
			WS_AGGREGATE_ROWS,
			WS_AGGREGATE_COUNT,
			WS_AGGREGATE_SUM,
			WS_AGGREGATE_AVG,
			WS_AGGREGATE_TOTAL,
			WS_AGGREGATE_MIN,
			WS_AGGREGATE_MAX
		} kind;
		uint8_t argument;
	} aggregates[WS_SQL_AGGREGATES];
	uint32_t aggregate_count;
	uint16_t arguments[WS_SQL_ARGUMENTS]; /* nodes */
	uint32_t argument_count;
	/*
	 * Expressions of fields that SQLite itself computes, once for each distinct combination of
	 * them: first those that are grouped by, then the conditions; separated by commas.
	 */
	struct ws_text sqlite_sql;
	uint32_t sqlite_key_count, sqlite_condition_count;
	bool ordered; /* SQLite would surely read the rows of a group in the file's order */
	uint64_t lower_time,
		upper_time; /* the range of times (session clock, ns) of rows that can pass */
	/* The result: groups in order, with columns a0... g0... f0... */
	uint32_t number; /* of the grouping: its table is "ws$N" */
	struct ws_sql_result *result;
};

/* Make the groups. False when SQLite has to compute them. */
bool ws_sql_make_grouping(struct ws_sql_grouping *grouping);
void ws_sql_free_grouping(struct ws_sql_grouping *grouping);

/* The groupings of one statement. */
struct ws_sql_groupings {
	struct ws_sql_grouping *grouping[8];
	uint32_t count;
};

/*
 * Rewrite the statement from `sql` to `end` into one that gives the same rows but reads groupings,
 * which it makes; NULL when no part of it can be rewritten. The caller frees it, and the groupings
 * once no open statement reads them.
 */
char *ws_sql_rewrite_statement(struct ws_sql *connection, const char *sql, const char *end,
			       struct ws_sql_groupings *groupings);
void ws_sql_free_groupings(struct ws_sql *sql, struct ws_sql_groupings *groupings);

#endif
