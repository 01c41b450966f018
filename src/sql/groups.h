/*
 * groups.h - numbers for combinations of values: of stored ones, row by row, and of what they mean,
 * once for each distinct one.
 */
#ifndef WS_SQL_GROUPS_H
#define WS_SQL_GROUPS_H

#include <string.h>

#include "views/cells.h"

/* ---- tuples of stored values ---- */

struct ws_sql_tuples {	  /* zeroed but for `words`; one for each thread */
	uint64_t *values; /* n * words */
	size_t n, cap;
	uint64_t *slots;
	size_t mask;
	uint32_t words, last;
} __attribute__((aligned(128)));

uint32_t ws_sql_tuple_slow(struct ws_sql_tuples *tuples, const uint64_t *values);
void ws_sql_tuples_free(struct ws_sql_tuples *tuples);

/* Number of the tuple, from 0, in order of first appearance. */
static inline uint32_t ws_sql_tuple(struct ws_sql_tuples *tuples, const uint64_t *values)
{
	if (tuples->n && !memcmp(tuples->values + (size_t)tuples->last * tuples->words, values,
				 tuples->words * 8))
		return tuples->last;
	return ws_sql_tuple_slow(tuples, values);
}

/* ---- groups of equal values ---- */

struct ws_sql_groups {	      /* zeroed */
	struct ws_text *keys; /* by group: its values as bytes */
	size_t n, cap;
	uint64_t *slots; /* group + 1 by hash of the bytes: base/slots.h */
	size_t mask;
};

/* Bytes that equal values have in common, whatever their type: appended to `t`. */
void ws_sql_key_cell(struct ws_text *text, const struct ws_xcell *cell);
/* Number of the group with these bytes, made when there is none: *made says so, and `key` is copied
 * then. */
uint32_t ws_sql_group(struct ws_sql_groups *groups, const struct ws_text *key, bool *made);
/* The same plus 1, or 0 when there is none. */
uint32_t ws_sql_group_find(const struct ws_sql_groups *groups, const struct ws_text *key);
void ws_sql_groups_free(struct ws_sql_groups *groups);

/* SQLite's order of values of one column: NULL, numbers, texts, blobs. */
int ws_sql_compare_cells(const struct ws_xcell *left, const struct ws_xcell *right);

#endif
