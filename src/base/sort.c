/*
 * sort.c - see sort.h.
 *
 * By digits of 11 bits from the lowest, and only those in which keys differ: millions of records
 * take a few passes in order through memory, where comparing sorts would take twenty.
 */
#include "base/sort.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum { DIGIT = 11, VALUES = 1 << DIGIT };

static uint64_t differing(const struct ws_keyed_value *keyed, size_t n)
{
	uint64_t differ = 0;

	for (size_t i = 0; i < n; i++)
		differ |= keyed[i].key ^ keyed[0].key;
	return differ;
}

/* From one array to the other and back. Returns the one in which they are sorted. */
static struct ws_keyed_value *by_digits(struct ws_keyed_value *from, struct ws_keyed_value *to,
					size_t n, uint64_t differ)
{
	size_t at[VALUES];

	for (unsigned shift = 0; shift < 64; shift += DIGIT) {
		struct ws_keyed_value *keyed = from;
		size_t sum = 0;

		if (!(differ >> shift & (VALUES - 1)))
			continue;
		memset(at, 0, sizeof(at));
		for (size_t i = 0; i < n; i++)
			at[from[i].key >> shift & (VALUES - 1)]++;
		for (size_t d = 0; d < VALUES; d++) {
			size_t count = at[d];

			at[d] = sum;
			sum += count;
		}
		for (size_t i = 0; i < n; i++)
			to[at[from[i].key >> shift & (VALUES - 1)]++] = from[i];
		from = to;
		to = keyed;
	}
	return from;
}

struct ws_keyed_value *ws_sort_by_key(struct ws_keyed_value *keyed, size_t n)
{
	uint64_t differ = differing(keyed, n);
	struct ws_keyed_value *to, *sorted;

	if (!differ)
		return keyed;
	to = ws_malloc(n * sizeof(*to));
	sorted = by_digits(keyed, to, n, differ);
	free(sorted == keyed ? to : keyed);
	return sorted;
}

void ws_sort_in_room(struct ws_keyed_value *keyed, size_t n, struct ws_keyed_value *room)
{
	uint64_t differ = differing(keyed, n);

	if (differ && by_digits(keyed, room, n, differ) != keyed)
		memcpy(keyed, room, n * sizeof(*keyed));
}
