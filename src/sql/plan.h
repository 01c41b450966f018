/*
 * plan.h - how a table of a report is scanned: what xBestIndex decides and xFilter reads back.
 */
#ifndef WS_SQL_PLAN_H
#define WS_SQL_PLAN_H

#include "sql/table.h"

enum { WS_SQL_PLAN_STEPS = 16 };

struct ws_sql_plan {
	const char *text; /* the idxStr that this was read from */
	uint64_t decode;
	struct {
		char op; /* of the letters in plan.c, those that have an argument in xFilter */
		uint8_t column;
	} steps[WS_SQL_PLAN_STEPS];
	uint32_t step_count;
	struct ws_sql_keys group; /* count 0: none */
	struct ws_sql_keys equal;
	bool descending; /* texts in descending order */
	bool join;	 /* values that are looked up come from other rows, so there will be many */
};

/* Whether the column is the start or the end by which the table's blocks are found. */
bool ws_sql_is_block_time(const struct ws_sql_table *table, size_t column);
/* Fill in `info`: which constraints a scan uses and what it costs. Returns SQLite's status. */
int ws_sql_plan_scan(const struct ws_sql_table *table, sqlite3_index_info *info);
/* Read the plan that ws_sql_plan_scan wrote as `text`, which must live as long as the plan. */
void ws_sql_parse_plan(struct ws_sql_plan *plan, const char *text);

#endif
