/* operand.h - which report a word on the command line means. */
#ifndef WS_QUERY_OPERAND_H
#define WS_QUERY_OPERAND_H

#include "query/query.h"

/* The file meant by an operand: the operand itself, or with .wsrep appended where that exists and
 * the operand does not, or is a folder or a program. Owned by the caller. */
char *ws_find_operand_report(const char *path);
/* Open the report meant by an operand; what is damaged in it is printed on stderr. Returns NULL
 * when it cannot be opened, and prints the reason. */
struct ws_report *ws_open_operand_report(const char *path);

#endif
