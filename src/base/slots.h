/*
 * slots.h - the slots of open-addressing hash tables, for numbering things that are found again by
 * their key.
 *
 * A slot holds 32 bits of the hash in its upper half and a number, counted from 1, in its lower
 * half. So neither growing the table nor skipping another entry has to read the entries themselves.
 * 0 is a free slot. The owner keeps the entries by their numbers, `slots` (NULL at first, freed by
 * free) and `mask` (how many slots there are, less 1; 0 at first), and compares keys:
 *
 *	at = ws_begin_slot_search(&slots, &mask, count, 64, hash);
 *	for (; (number = ws_next_in_slots(slots, mask, hash, &at)); at++)
 *		if (same(&entries[number], key))
 *			return number;
 *	slots[at] = ws_make_slot(hash, ++count);
 *
 * Numbers go up to 2^32 - 1. Nothing is ever removed.
 */
#ifndef WS_BASE_SLOTS_H
#define WS_BASE_SLOTS_H

#include <stddef.h>
#include <stdint.h>

/*
 * Mix one more word of a key into its hash, which begins as 0. The lower half of the hash depends
 * on all of the word: many keys have the number of a process in their upper half, and real numbers
 * end in zeros.
 */
static inline uint64_t ws_hash_word(uint64_t hash, uint64_t word)
{
	hash ^= word;
	hash ^= hash >> 32;
	hash *= UINT64_C(0x9e3779b97f4a7c15); /* 2^64 divided by the golden ratio: spreads
						 neighbours far apart */
	return hash ^ hash >> 29;
}

static inline uint64_t ws_make_slot(uint32_t hash, uint32_t number)
{
	return (uint64_t)hash << 32 | number;
}

/* Double the slots, or make the `first` ones (a power of two); entries keep their numbers. */
void ws_grow_slots(uint64_t **slots, size_t *mask, size_t first);

/* Where a search for `hash` begins. Makes room for one more than `count` entries, with at most half
 * of the slots taken. `first` is the number of slots to begin with. */
static inline size_t ws_begin_slot_search(uint64_t **slots, size_t *mask, size_t count,
					  size_t first, uint32_t hash)
{
	if (count * 2 >= *mask)
		ws_grow_slots(slots, mask, first);
	return hash & *mask;
}

/* The next number entered with this hash, in the slots from *at on; 0 when there is none, and then
 * *at is a free slot. */
static inline uint32_t ws_next_in_slots(const uint64_t *slots, size_t mask, uint32_t hash,
					size_t *at)
{
	size_t i = *at & mask;

	while (slots[i] && slots[i] >> 32 != hash)
		i = (i + 1) & mask;
	*at = i;
	return (uint32_t)slots[i];
}

#endif
