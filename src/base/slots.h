/*
 * slots.h - the slots of hash tables of open addressing, for numbering what is found again by its
 *key.
 *
 * A slot holds 32 bits of the hash above a number from 1 below: neither growing nor passing by
 *another entry has to touch what is entered. 0 is a free slot. The owner keeps the entries by their
 *numbers, `slots` (NULL to begin with, freed by free) and `mask` (how many there are, less 1; 0 to
 *begin with), and compares keys:
 *
 *	for (at = ws_slots_begin(&t->slots, &t->mask, t->n, 64, h); (i = ws_slots_next(t->slots,
 *t->mask, h, &at)); at++) if (same(&t->entry[i], key)) return i; t->slots[at] = ws_slot(h, ++t->n);
 *
 * Numbers go up to 2^32 - 1. Nothing is taken out.
 */
#ifndef WS_BASE_SLOTS_H
#define WS_BASE_SLOTS_H

#include <stddef.h>
#include <stdint.h>

/*
 * One more word of a key in its hash, which begins as 0. The lower half of the hash depends on all
 * of the word: numbers of processes stand in the upper half of many a key, and real numbers end in
 * zeros.
 */
static inline uint64_t ws_hash_word(uint64_t h, uint64_t word)
{
	h ^= word;
	h ^= h >> 32;
	h *= UINT64_C(0x9e3779b97f4a7c15); /* 2^64 divided by the golden ratio: neighbours come to
					      lie far apart */
	return h ^ h >> 29;
}

static inline uint64_t ws_slot(uint32_t hash, uint32_t number)
{
	return (uint64_t)hash << 32 | number;
}

/* Twice as many slots, or `first` (a power of two); what is in them keeps its number. */
void ws_slots_grow(uint64_t **slots, size_t *mask, size_t first);

/* Where a search for `hash` begins, with room for one more than `n` entries: at most half of the
 * slots are taken. */
static inline size_t ws_slots_begin(uint64_t **slots, size_t *mask, size_t n, size_t first,
				    uint32_t hash)
{
	if (n * 2 >= *mask)
		ws_slots_grow(slots, mask, first);
	return hash & *mask;
}

/* The next number entered with this hash, in the slots from *at on; 0 when there is none: then *at
 * is a free slot. */
static inline uint32_t ws_slots_next(const uint64_t *slots, size_t mask, uint32_t hash, size_t *at)
{
	size_t i = *at & mask;

	while (slots[i] && slots[i] >> 32 != hash)
		i = (i + 1) & mask;
	*at = i;
	return (uint32_t)slots[i];
}

#endif
