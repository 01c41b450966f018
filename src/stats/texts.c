/* texts.c - see texts.h. */
#include "stats/texts.h"

#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "base/mem.h"

const char *ws_texts_get(const struct ws_texts *t, uint32_t number, size_t *len)
{
	*len = t->at[number + 1] - t->at[number];
	return t->s + t->at[number];
}

static void rehash(struct ws_texts *t)
{
	size_t size = t->mask ? (t->mask + 1) * 2 : 64, len;

	free(t->slots);
	t->slots = ws_calloc(size, sizeof(*t->slots));
	t->mask = size - 1;
	for (uint32_t i = 0; i < t->n; i++) {
		const char *s = ws_texts_get(t, i, &len);
		size_t at = XXH3_64bits(s, len) & t->mask;

		while (t->slots[at])
			at = (at + 1) & t->mask;
		t->slots[at] = i + 1;
	}
}

uint32_t ws_texts_number(struct ws_texts *t, const char *s, size_t len)
{
	size_t at, have;

	if ((size_t)t->n * 2 >= t->mask)
		rehash(t);
	for (at = XXH3_64bits(s, len) & t->mask; t->slots[at]; at = (at + 1) & t->mask) {
		const char *other = ws_texts_get(t, t->slots[at] - 1, &have);

		if (have == len && !memcmp(other, s, len))
			return t->slots[at] - 1;
	}
	ws_grow(t->s, t->cap, t->len + len + 1);
	ws_grow(t->at, t->at_cap, (size_t)t->n + 2);
	memcpy(t->s + t->len, s, len);
	t->at[t->n] = t->len;
	t->len += len;
	t->at[t->n + 1] = t->len;
	t->slots[at] = ++t->n;
	return t->n - 1;
}

void ws_texts_free(struct ws_texts *t)
{
	free(t->s);
	free(t->at);
	free(t->slots);
	*t = (struct ws_texts){0};
}
