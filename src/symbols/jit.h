/*
 * jit.h - names of generated code: perf maps (/tmp/perf-PID.map) and jitdump files (jit-PID.dump),
 * as their generators write them.
 *
 * Memory of generated code is used again for other code. Where several functions have had an
 * address, only a name that all of them share is given: which one ran is not known any more.
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
	size_t n, cap;
	uint64_t widest; /* the largest size: how far back to look */
	char *text;	 /* NUL-terminated names; offset 0 is the empty one */
	size_t text_len, text_cap;
	struct ws_jit_line {
		uint64_t address;
		uint32_t file, line;
	} * lines;
	size_t lines_n, lines_cap;
};

/* Add what the file says; 0, or -1 with a sentence. `since_s`, `until_s`: refuse a file last
 * written outside these CLOCK_REALTIME seconds; 0 for any. */
int ws_jit_read_file(struct ws_jit *jit, const char *path, uint64_t since_s, uint64_t until_s,
		     struct ws_err *err);
/* The same from memory: "JiTD" begins a jitdump, anything else is taken for a perf map. What does
 * not parse is left out. */
void ws_jit_read(struct ws_jit *jit, const void *data, size_t n);
/* To be called once after reading. */
void ws_jit_sort(struct ws_jit *jit);
/* The function at `address`; NULL when there is none, or more than one. *file ("" when not known)
 * and *line: of the address. */
const char *ws_jit_find(const struct ws_jit *jit, uint64_t address, uint64_t *begin,
			const char **file, uint32_t *line);
void ws_jit_free(struct ws_jit *jit);

#endif
