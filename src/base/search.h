/* search.h - binary search in what is in order, whatever it is. */
#ifndef WS_BASE_SEARCH_H
#define WS_BASE_SEARCH_H

#include <stddef.h>

/*
 * Of the indices [from, to), those for which `before` holds come first: the first for which it does
 * not, or `to`. `before` is an expression in `i`, the name of the index that is asked about.
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
