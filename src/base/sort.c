/*
 * sort.c - see sort.h.
 *
 * A radix sort by digits of 11 bits from the lowest, skipping those in which no keys differ:
 * millions of records take a few sequential passes through memory, where a comparison sort would
 * take twenty.
 */
#include "base/sort.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum { DIGIT_BITS = 11, DIGIT_VALUES = 1 << DIGIT_BITS };

static uint64_t find_differing_bits(const struct ws_keyed_value *keyed, size_t count)
{
	uint64_t differ = 0;

	for (size_t i = 0; i < count; i++)
		differ |= keyed[i].key ^ keyed[0].key;
	return differ;
}

/* Moves the records from one array to the other and back. Returns the one in which they end up
 * sorted. */
static struct ws_keyed_value *sort_by_digits(struct ws_keyed_value *from, struct ws_keyed_value *to,
					     size_t count, uint64_t differ)
{
	size_t at[DIGIT_VALUES];

	for (unsigned shift = 0; shift < 64; shift += DIGIT_BITS) {
		struct ws_keyed_value *keyed = from;
		size_t sum = 0;

		if (!(differ >> shift & (DIGIT_VALUES - 1)))
			continue;
		memset(at, 0, sizeof(at));
		for (size_t i = 0; i < count; i++)
			at[from[i].key >> shift & (DIGIT_VALUES - 1)]++;
		for (size_t digit = 0; digit < DIGIT_VALUES; digit++) {
			size_t digit_count = at[digit];
			at[digit] = sum;
			sum += digit_count;
		}
		for (size_t i = 0; i < count; i++)
			to[at[from[i].key >> shift & (DIGIT_VALUES - 1)]++] = from[i];
		from = to;
		to = keyed;
	}
	return from;
}

struct ws_keyed_value *ws_sort_by_key(struct ws_keyed_value *keyed, size_t count)
{
	uint64_t differ = find_differing_bits(keyed, count);
	struct ws_keyed_value *to, *sorted;

	if (!differ)
		return keyed;
	to = ws_malloc(count * sizeof(*to));
	sorted = sort_by_digits(keyed, to, count, differ);
	if (sorted == keyed)
		free(to);
	else
		free(keyed);
	return sorted;
}

void ws_sort_in_buffer(struct ws_keyed_value *keyed, size_t count, struct ws_keyed_value *buffer)
{
	uint64_t differ = find_differing_bits(keyed, count);

	if (differ && sort_by_digits(keyed, buffer, count, differ) != keyed)
		memcpy(keyed, buffer, count * sizeof(*keyed));
}
