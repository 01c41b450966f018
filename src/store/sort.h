/*
 * sort.h - the order of rows in a block: (track, start, longer first), equal rows as they came.
 */
#ifndef WS_SORT_H
#define WS_SORT_H

#include <stdbool.h>
#include <stdint.h>

struct ws_sort_key {
	uint64_t key;
	uint32_t row;
};

struct ws_sorter {
	struct ws_sort_key *keys, *scratch;
	uint32_t *order;
	uint32_t cap;
};
void ws_sorter_free(struct ws_sorter *sorter);

/*
 * The order of `rows` rows given by columns; any of these may be NULL and is then ignored. `end`
 * may hold WS_NO_TIME, which is longest. Returns NULL when they are in order already, else row
 * numbers in order, valid until the next call.
 */
const uint32_t *ws_find_row_order(struct ws_sorter *sorter, const uint64_t *track,
				  const uint64_t *start, const uint64_t *end, uint32_t rows);

#endif
