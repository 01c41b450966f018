/* source_line.h - the text of a source line that a finding is about, where its file is here. */
#ifndef WS_ANALYZE_SOURCE_LINE_H
#define WS_ANALYZE_SOURCE_LINE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/mem.h"

/*
 * Append a line (from 1) of a file, without the blanks around it, cut at a length that fits a
 * terminal. False, with nothing appended, where the path is not absolute, the file cannot be read,
 * was changed after `until` (nanoseconds since 1970), or has no such line, and for an empty line.
 */
bool ws_put_source_line(const char *path, uint32_t line, uint64_t until, struct ws_text *text);

#endif
