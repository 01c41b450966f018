/* mistake.h - what may have been meant by a name in a statement that is none of the report's. */
#ifndef WS_SQL_MISTAKE_H
#define WS_SQL_MISTAKE_H

#include "sql/table.h"

/*
 * Append to `out` what could have been meant, if SQLite's message is about a table or a column that
 * there is not: the nearest name, or the number of a text that stands in place of it.
 */
void ws_sql_put_hint(const struct ws_sql_report *report, const char *message, struct ws_text *out);

#endif
