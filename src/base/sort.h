/*
 * sort.h - sorting many records by a number, and finding one among sorted numbers.
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
/* The same within `v`, with `room` for as many records, which need not be new for each of many sorts. */
void ws_sort_in_room(struct ws_keyed_value *v, size_t n, struct ws_keyed_value *room);

/* The place of the first of `n` ascending numbers that is at least `x`; n when there is none. */
static inline size_t ws_lower_bound(const uint64_t *v, size_t n, uint64_t x)
{
	size_t low = 0, high = n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (v[mid] < x)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

#endif
