/* slots.c - see slots.h. Linear probing: what does not find its slot free lies in the next free
 * one. */
#include "base/slots.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define HUGE_BYTES ((size_t)4 << 20)

void ws_slots_grow(uint64_t **slots, size_t *mask, size_t first)
{
	size_t old = *mask ? *mask + 1 : 0, size = old ? old * 2 : first;
	size_t bytes = size * sizeof(uint64_t);
	uint64_t *from = *slots,
		 *to = bytes < HUGE_BYTES ? ws_malloc(bytes) : ws_malloc_huge(bytes);

	/* Written, not only given as zeros: a page that is read first is the kernel's page of
	 * zeros, and changed for another at the first write. */
	memset(to, 0, bytes);
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
