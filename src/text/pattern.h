/*
 * pattern.h - regular expressions that users write, compiled so that none can take the machine.
 *
 * The C library writes repetitions out and keeps every state that it ever met. Here the size of an
 * expression is known before it is compiled, back-references (which take time without bound) are
 * refused, each text is read once, and states are dropped from time to time.
 */
#ifndef WS_TEXT_PATTERN_H
#define WS_TEXT_PATTERN_H

#include <regex.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { WS_MOST_PATTERN_SIZE = 1000 }; /* characters after writing repetitions out */

struct ws_pattern {
	regex_t regex;
	char *text; /* what `regex` was compiled from */
	size_t size;
	int flags;
	uint64_t work; /* characters times size since `regex` was compiled */
};

/* How many characters `text` has when its repetitions are written out: SIZE_MAX when it has a
 * back-reference, a large number when there are too many to count. `extended`: as for
 * REG_EXTENDED. */
size_t ws_measure_pattern(const char *text, bool extended);
/*
 * Compile the expression `text` for finding it anywhere in a text, with regcomp's `flags`. Returns
 * 0, or -1 with the reason as the end of a sentence ("it is too large: ..."), and then nothing
 * needs freeing.
 */
int ws_compile_pattern(struct ws_pattern *pattern, const char *text, int flags, struct ws_err *err);
/* Whether it is somewhere in `text`. */
bool ws_match_pattern(struct ws_pattern *pattern, const char *text);
void ws_free_pattern(struct ws_pattern *pattern);

#endif
