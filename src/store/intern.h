/*
 * intern.h - the strings of a report that have an id already. The table is bounded, so that it
 * stays in the cache (names that never repeat would otherwise make every lookup a miss): when it is
 * full it starts over, and strings seen again get a second id. The generation of the dictionary
 * block tells readers of it, who unify ids by content.
 */
#ifndef WS_INTERN_H
#define WS_INTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ws_intern {
	struct ws_intern_slot *slots;
	uint32_t slot_count, used;
	char *text;
	size_t text_len, text_cap;
};

enum { WS_INTERN_LONGEST = 1 << 16 }; /* longer strings are not remembered */

void ws_intern_free(struct ws_intern *intern);
uint64_t ws_intern_hash(const void *bytes, size_t len);
/* The id of the string, or 0 when it has none. */
uint32_t ws_intern_find(const struct ws_intern *intern, uint64_t hash, const void *bytes,
			size_t len);
/* Whether there is no space for one more string of `len` bytes: then call ws_intern_clear first. */
bool ws_intern_is_full(const struct ws_intern *intern, size_t len);
void ws_intern_clear(struct ws_intern *intern);
void ws_intern_add(struct ws_intern *intern, uint64_t hash, const void *bytes, size_t len,
		   uint32_t id);

#endif
