/* search.h - binary search in any ordered sequence. */
#ifndef WS_BASE_SEARCH_H
#define WS_BASE_SEARCH_H

#include <stddef.h>

/*
 * The first index in [from, to) for which `before` does not hold, or `to`. All indices for which it
 * holds must come first. `before` is an expression that uses the index by the name given as `i`.
 */
#define ws_find_first_not(from, to, i, before)                      \
	__extension__({                                             \
		size_t ws_low = (from), ws_high = (to);             \
		while (ws_low < ws_high) {                          \
			size_t i = ws_low + (ws_high - ws_low) / 2; \
			if (before)                                 \
				ws_low = i + 1;                     \
			else                                        \
				ws_high = i;                        \
		}                                                   \
		ws_low;                                             \
	})

#endif
