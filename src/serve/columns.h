/*
 * columns.h - columns of the tables that events come from: to sort events by one, and to show some
 * of each.
 */
#ifndef WS_SERVE_COLUMNS_H
#define WS_SERVE_COLUMNS_H

#include "serve/api.h"

/* What an event has in a column; threads and processes have a number and a name. */
struct ws_column_value {
	bool is_null, has_number;
	long double number; /* times: ns from time zero */
	const char *text;   /* valid as long as the report; NULL: none */
	size_t length;
};

/* Reads a column of whichever tables have it, block by block when an event is asked for. */
struct ws_column;
/* NULL when no table has a column of this name. The caller frees with ws_column_free. */
struct ws_column *ws_column_open(const struct ws_api_call *call, const char *name);
void ws_column_free(struct ws_column *column);
struct ws_column_value ws_column_read(struct ws_column *column, const struct ws_level *level,
				      uint32_t event);
/* The number and the name of a thread or a process. */
void ws_column_set_who(struct ws_column_value *value, const struct ws_names_by_id *who, uint32_t id,
		       bool is_thread);
/* What values of a column are: threads and processes are both. */
struct ws_column_holds {
	bool numbers, texts;
};
struct ws_column_holds ws_column_find_types(const struct ws_column *column);
/* The number of a table's column; -1 when it has none of this name. */
int ws_find_table_column(enum ws_table table, const char *name);
/* Ascending in what ws_column_read says as a number, as far as a double distinguishes numbers;
 * equal keys are ordered by the numbers themselves. */
uint64_t ws_column_key(const struct ws_column_value *value);
/* The event's value as members of a JSON object, as for details; none where its table lacks it. */
void ws_column_put(struct ws_column *column, const struct ws_level *level, uint32_t event);
/* "columns":[...]: those that events of these lanes have. */
void ws_put_columns(const struct ws_api_call *call, const uint32_t *lanes, size_t n);

#endif
