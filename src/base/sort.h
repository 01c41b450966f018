/*
 * sort.h - sorting many records by a number, and finding one among what is sorted.
 */
#ifndef WS_BASE_SORT_H
#define WS_BASE_SORT_H

#include <stddef.h>
#include <stdint.h>

struct ws_keyed_value {
	uint64_t key, value;
};

/*
 * Sort `v` (from ws_malloc, n records) by key; records of equal keys keep their order. Returns
 * where the sorted records are: `v`, or an array of the same size in its stead, `v` being freed
 * then. The caller frees it.
 */
struct ws_keyed_value *ws_sort_by_key(struct ws_keyed_value *keyed, size_t n);
/* The same within `v`, with `room` for as many records, which need not be new for each of many
 * sorts. */
void ws_sort_in_room(struct ws_keyed_value *keyed, size_t n, struct ws_keyed_value *room);

/*
 * How many of `n` elements come first, those of which `before`, an expression of their number `i`,
 * holds: it must hold of none behind one of which it does not. That is also the place of the first
 * of which it does not hold.
 */
#define ws_bisect(n, i, before)                                     \
	({                                                          \
		size_t ws_low = 0, ws_high = (n);                   \
		while (ws_low < ws_high) {                          \
			size_t i = ws_low + (ws_high - ws_low) / 2; \
			if (before)                                 \
				ws_low = i + 1;                     \
			else                                        \
				ws_high = i;                        \
		}                                                   \
		ws_low;                                             \
	})

/* The place of the first of `n` ascending numbers that is at least `x`; n when there is none. */
static inline size_t ws_lower_bound(const uint64_t *values, size_t n, uint64_t x)
{
	return ws_bisect(n, i, values[i] < x);
}

#endif
