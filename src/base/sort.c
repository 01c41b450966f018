/*
 * sort.c - see sort.h.
 *
 * By digits of 11 bits from the lowest, and only those in which keys differ: millions of records take a few passes in order through
 * memory, where comparing sorts would take twenty.
 */
#include "base/sort.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum { DIGIT = 11, VALUES = 1 << DIGIT };

struct ws_keyed_value *ws_sort_by_key(struct ws_keyed_value *v, size_t n)
{
	struct ws_keyed_value *from = v, *to, *t;
	uint64_t differ = 0;
	size_t at[VALUES];

	for (size_t i = 0; i < n; i++)
		differ |= v[i].key ^ v[0].key;
	if (!differ)
		return v;
	to = ws_malloc(n * sizeof(*to));
	for (unsigned shift = 0; shift < 64; shift += DIGIT) {
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
		t = from;
		from = to;
		to = t;
	}
	free(to);
	return from;
}
