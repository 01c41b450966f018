/* slots.c - see slots.h. Linear probing: an entry whose slot is taken lies in the next free one. */
#include "base/slots.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define HUGE_BYTES ((size_t)4 << 20)

void ws_grow_slots(uint64_t **slots, size_t *mask, size_t first)
{
	size_t old_count = *mask + (*mask > 0), count = old_count * 2;
	uint64_t *from = *slots, *to;
	size_t bytes;

	if (!count)
		count = first;
	bytes = count * sizeof(uint64_t);
	if (bytes < HUGE_BYTES)
		to = ws_malloc(bytes);
	else
		to = ws_malloc_huge(bytes); /* Written here rather than allocated as zeros: a page
					       that is read first maps the kernel's shared page of
					       zeros and costs a second fault at the first write. */
	memset(to, 0, bytes);
	for (size_t i = 0; i < old_count; i++) {
		size_t at = from[i] >> 32 & (count - 1);

		if (!from[i])
			continue;
		while (to[at])
			at = (at + 1) & (count - 1);
		to[at] = from[i];
	}
	free(from);
	*slots = to;
	*mask = count - 1;
}
