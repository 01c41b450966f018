/*
 * where.h - conditions on columns, such as `bytes > 1 MiB and stream = 7`: whether an event meets
 * them, and as SQL.
 */
#ifndef WS_SERVE_WHERE_H
#define WS_SERVE_WHERE_H

#include "serve/columns.h"

struct ws_where;
/* By parameter `where`; NULL with a sentence when it cannot be understood, or when a text is
 * compared with a column of numbers. An empty one holds. Free with ws_where_free. */
struct ws_where *ws_make_where(const struct ws_api_call *call, struct ws_err *err);
bool ws_where_holds(struct ws_where *where, const struct ws_level *level, uint32_t event);
void ws_where_free(struct ws_where *where);

/* ---- as SQL over the exported tables ---- */

/* " AND ..." for each condition, on the rows of a kind's table; -1 with a sentence when the export
 * has no column for one. */
int ws_where_put_sql(const struct ws_where *where, const struct ws_event_kind *kind,
		     const struct ws_names_by_id *who, struct ws_text *out, struct ws_err *err);
/* The duration of a row, ns; null for moments and what never ended. */
void ws_put_sql_duration(struct ws_text *out, const struct ws_event_kind *kind);
/* A text in quotes. */
void ws_put_sql_text(struct ws_text *out, const char *text);

#endif
