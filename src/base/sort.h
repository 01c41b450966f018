/*
 * sort.h - sorting many records by a number.
 */
#ifndef WS_BASE_SORT_H
#define WS_BASE_SORT_H

#include <stddef.h>
#include <stdint.h>

struct ws_keyed_value {
	uint64_t key, value;
};

/*
 * Sort `v` (from ws_malloc, n records) by key; records of equal keys keep their order. Returns where the sorted records are: `v`,
 * or an array of the same size in its stead, `v` being freed then. The caller frees it.
 */
struct ws_keyed_value *ws_sort_by_key(struct ws_keyed_value *v, size_t n);

#endif
