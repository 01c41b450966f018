/* texts.c - see texts.h. */
#include "text/texts.h"

#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "base/mem.h"
#include "base/slots.h"

const char *ws_texts_get(const struct ws_texts *texts, uint32_t number, size_t *len)
{
	*len = texts->at[number + 1] - texts->at[number];
	return texts->text + texts->at[number];
}

uint32_t ws_texts_number(struct ws_texts *texts, const char *text, size_t len)
{
	uint32_t hash = (uint32_t)XXH3_64bits(text, len), slot;
	size_t position, other_len;

	for (position = ws_slots_begin(&texts->slots, &texts->mask, texts->n, 64, hash);
	     (slot = ws_slots_next(texts->slots, texts->mask, hash, &position)); position++) {
		const char *other = ws_texts_get(texts, slot - 1, &other_len);

		if (other_len == len && !memcmp(other, text, len))
			return slot - 1;
	}
	ws_grow(texts->text, texts->cap, texts->len + len + 1);
	ws_grow(texts->at, texts->at_cap, (size_t)texts->n + 2);
	memcpy(texts->text + texts->len, text, len);
	texts->at[texts->n] = texts->len;
	texts->len += len;
	texts->at[texts->n + 1] = texts->len;
	texts->slots[position] = ws_slot(hash, ++texts->n);
	return texts->n - 1;
}

void ws_texts_free(struct ws_texts *texts)
{
	free(texts->text);
	free(texts->at);
	free(texts->slots);
	*texts = (struct ws_texts){0};
}
