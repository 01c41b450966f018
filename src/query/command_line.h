/*
 * command_line.h - words for commands that users can paste into a shell, and the recorded program
 * as such.
 */
#ifndef WS_QUERY_COMMAND_LINE_H
#define WS_QUERY_COMMAND_LINE_H

#include "base/mem.h"
#include "query/query.h"

/* Append a word of a shell's command line, in quotes where it needs them. */
void ws_put_shell_word(struct ws_text *text, const char *word);
/* The program's command line; a placeholder when it is not known, or when word boundaries may be
 * lost because the report holds its words without quotes. Lives as long as the report. */
const char *ws_find_program_line(const struct ws_report *report);

#endif
