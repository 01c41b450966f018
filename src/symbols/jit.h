/*
 * jit.h - names of generated code: perf maps (/tmp/perf-PID.map) and jitdump files (jit-PID.dump),
 * as their generators write them.
 *
 * The memory of generated code is reused for other code. Where several functions have been at an
 * address, it gets a name only if they all share it: which of them ran is no longer known.
 */
#ifndef WS_SYMBOLS_JIT_H
#define WS_SYMBOLS_JIT_H

#include "base/err.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ws_jit_code {
	uint64_t begin, size;
	uint32_t name, file, line; /* offsets in `text`; 0: none */
};

struct ws_jit {
	struct ws_jit_code *codes; /* sorted by begin once read */
	size_t count, cap;
	uint64_t widest; /* the largest size: how far back to search */
	char *text;	 /* NUL-terminated names; offset 0 is the empty one */
	size_t text_len, text_cap;
	struct ws_jit_line {
		uint64_t address;
		uint32_t file, line;
	} * lines;
	size_t line_count, lines_cap;
};

/* Add the names in a file. It is refused if it was last written before `since_s` or after
 * `until_s`, CLOCK_REALTIME seconds; 0 for any. 0, or -1 with a message. */
int ws_jit_read_file(struct ws_jit *jit, const char *path, uint64_t since_s, uint64_t until_s,
		     struct ws_err *err);
/* The same from memory: a jitdump begins with its magic number, anything else is taken for a perf
 * map. What does not parse is left out. */
void ws_jit_read_memory(struct ws_jit *jit, const void *data, size_t n);
/* Sort what was read; call it before ws_jit_find. */
void ws_jit_sort(struct ws_jit *jit);
/* The function at `address`, and where it begins; NULL when there is none, or more than one. *file
 * ("" when not known) and *line are those of the address. */
const char *ws_jit_find(const struct ws_jit *jit, uint64_t address, uint64_t *begin,
			const char **file, uint32_t *line);
void ws_jit_free(struct ws_jit *jit);

#endif
