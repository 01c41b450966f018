/*
 * columns.h - columns of the tables that events come from: to sort events by one, to show some of
 * each, and to filter by conditions such as `bytes > 1 MiB and stream = 7`.
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
/* Ascending in what ws_column_read says as a number. */
uint64_t ws_column_key(const struct ws_column_value *value);
/* The event's value as members of a JSON object, as for details; none where its table lacks it. */
void ws_column_put(struct ws_column *column, const struct ws_level *level, uint32_t event);
/* "columns":[...]: those that events of these lanes have. */
void ws_put_columns(const struct ws_api_call *call, const uint32_t *lanes, size_t n);

/* ---- conditions ---- */

struct ws_where;
/* By parameter `where`; NULL with a sentence when it cannot be understood. An empty one holds. */
struct ws_where *ws_make_where(const struct ws_api_call *call, struct ws_err *err);
bool ws_where_holds(struct ws_where *where, const struct ws_level *level, uint32_t event);
void ws_where_free(struct ws_where *where);

#endif
