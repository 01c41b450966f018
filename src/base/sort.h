/*
 * sort.h - sorting many records by a number, and searching in sorted arrays.
 */
#ifndef WS_BASE_SORT_H
#define WS_BASE_SORT_H

#include <stddef.h>
#include <stdint.h>

struct ws_keyed_value {
	uint64_t key, value;
};

/*
 * Sort `keyed` (from ws_malloc, `count` records) by key; records of equal keys keep their order.
 * Returns where the sorted records are: `keyed` itself, or another array of the same size, in which
 * case `keyed` has been freed. The caller frees it.
 */
struct ws_keyed_value *ws_sort_by_key(struct ws_keyed_value *keyed, size_t count);
/* The same, but the result is always in `keyed`. `buffer` has room for as many records and can be
 * used for many sorts. */
void ws_sort_in_buffer(struct ws_keyed_value *keyed, size_t count, struct ws_keyed_value *buffer);

/*
 * How many of `n` elements come first: those for which `before`, an expression of the index `i`,
 * holds. It must not hold for any element after one for which it does not. This is also the index
 * of the first element for which it does not hold.
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

/* The index of the first of `count` ascending numbers that is at least `value`; `count` when there
 * is none. */
static inline size_t ws_lower_bound(const uint64_t *values, size_t count, uint64_t value)
{
	return ws_bisect(count, i, values[i] < value);
}

/* The same among those from `from` up to `end`, for values that are mostly near `from`: steps that
 * grow, then bisection. */
static inline size_t ws_find_ahead(const uint64_t *values, size_t from, size_t end, uint64_t value)
{
	size_t stride = 1;

	while (from < end && values[from] < value) {
		size_t next = from + stride < end ? from + stride : end;

		if (next == end || values[next] >= value)
			return from + ws_lower_bound(values + from, next - from, value);
		from = next;
		stride *= 2;
	}
	return from;
}

#endif
