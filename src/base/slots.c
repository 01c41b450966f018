/* slots.c - see slots.h. Linear probing: what does not find its slot free lies in the next free one. */
#include "base/slots.h"

#include <stdlib.h>

#include "base/mem.h"

void ws_slots_grow(uint64_t **slots, size_t *mask, size_t first)
{
	size_t old = *mask ? *mask + 1 : 0, size = old ? old * 2 : first;
	uint64_t *from = *slots, *to = ws_calloc(size, sizeof(*to));

	for (size_t i = 0; i < old; i++) {
		size_t at = from[i] >> 32 & (size - 1);

		if (!from[i])
			continue;
		while (to[at])
			at = (at + 1) & (size - 1);
		to[at] = from[i];
	}
	free(from);
	*slots = to;
	*mask = size - 1;
}
