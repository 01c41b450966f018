/* texts.c - see texts.h. */
#include "text/texts.h"

#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "base/mem.h"
#include "base/slots.h"

const char *ws_texts_get(const struct ws_texts *t, uint32_t number, size_t *len)
{
	*len = t->at[number + 1] - t->at[number];
	return t->s + t->at[number];
}

uint32_t ws_texts_number(struct ws_texts *t, const char *s, size_t len)
{
	uint32_t h = (uint32_t)XXH3_64bits(s, len), i;
	size_t at, have;

	for (at = ws_slots_begin(&t->slots, &t->mask, t->n, 64, h);
	     (i = ws_slots_next(t->slots, t->mask, h, &at)); at++) {
		const char *other = ws_texts_get(t, i - 1, &have);

		if (have == len && !memcmp(other, s, len))
			return i - 1;
	}
	ws_grow(t->s, t->cap, t->len + len + 1);
	ws_grow(t->at, t->at_cap, (size_t)t->n + 2);
	memcpy(t->s + t->len, s, len);
	t->at[t->n] = t->len;
	t->len += len;
	t->at[t->n + 1] = t->len;
	t->slots[at] = ws_slot(h, ++t->n);
	return t->n - 1;
}

void ws_texts_free(struct ws_texts *t)
{
	free(t->s);
	free(t->at);
	free(t->slots);
	*t = (struct ws_texts){0};
}
