/*
 * groups.h - numbers for combinations of values: tuples of values as they are stored, row by row,
 * and groups of the values that they stand for, once for each distinct tuple.
 */
#ifndef WS_SQL_GROUPS_H
#define WS_SQL_GROUPS_H

#include <stdlib.h>
#include <string.h>

#include "views/cells.h"

/* ---- tuples of stored values ---- */

/* Zero it but for `words`. Each thread has its own. */
struct ws_sql_tuples {
	uint64_t *values; /* n * words */
	size_t count, capacity;
	uint64_t *slots;
	size_t mask;
	uint32_t words, last;
} __attribute__((aligned(128)));

uint32_t ws_sql_look_up_tuple(struct ws_sql_tuples *tuples, const uint64_t *values);
void ws_sql_free_tuples(struct ws_sql_tuples *tuples);

/* The number of the tuple, from 0, in order of first appearance. */
static inline uint32_t ws_sql_number_tuple(struct ws_sql_tuples *tuples, const uint64_t *values)
{
	if (tuples->count && !memcmp(tuples->values + (size_t)tuples->last * tuples->words, values,
				     tuples->words * 8))
		return tuples->last;
	return ws_sql_look_up_tuple(tuples, values);
}

/* Zeroed memory for structs that threads write at the same time, which therefore begin at multiples
 * of two cache lines. Ends the program when there is none. Free with free. */
static inline void *ws_sql_calloc_aligned(size_t count, size_t size)
{
	void *memory = aligned_alloc(128, count * size);

	if (!memory) {
		ws_say("out of memory");
		abort();
	}
	return memset(memory, 0, count * size);
}

/* ---- groups of equal values ---- */

/* Zero it to begin with. */
struct ws_sql_groups {
	struct ws_text *keys; /* by group: its values as bytes */
	size_t count, capacity;
	uint64_t *slots; /* group + 1 by hash of the bytes: base/slots.h */
	size_t mask;
};

/* Append bytes that are the same for equal values, whatever their types. */
void ws_sql_put_key_cell(struct ws_text *text, const struct ws_view_cell *cell);
/* The number of the group with the bytes `key`. If there is none it is made, with a copy of `key`,
 * and *made is set. */
uint32_t ws_sql_number_group(struct ws_sql_groups *groups, const struct ws_text *key, bool *made);
/* The same plus 1, or 0 when there is none. */
uint32_t ws_sql_find_group(const struct ws_sql_groups *groups, const struct ws_text *key);
void ws_sql_free_groups(struct ws_sql_groups *groups);

/* SQLite's order of values of one column: NULL, numbers, texts, blobs. */
int ws_sql_compare_cells(const struct ws_view_cell *left, const struct ws_view_cell *right);

#endif
