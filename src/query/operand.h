/* operand.h - which report a word on the command line means. */
#ifndef WS_QUERY_OPERAND_H
#define WS_QUERY_OPERAND_H

#include "query/query.h"

/* The file meant by an operand: itself, or with .wsrep where that exists and it does not, or is a
 * folder or a program. Owned by the caller. */
char *ws_report_operand(const char *path);
/* The report meant by an operand, opened, with what is damaged in it said on stderr; NULL, and the
 * reason said, when it cannot be.
 */
struct ws_report *ws_report_of_operand(const char *path);

#endif
