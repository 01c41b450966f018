/* text_numbers.c - see text_numbers.h. */
#include "text/text_numbers.h"

#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "base/mem.h"
#include "base/slots.h"

const char *ws_get_numbered_text(const struct ws_text_numbers *texts, uint32_t number, size_t *len)
{
	*len = texts->offsets[number + 1] - texts->offsets[number];
	return texts->text + texts->offsets[number];
}

uint32_t ws_number_text(struct ws_text_numbers *texts, const char *text, size_t len)
{
	uint32_t hash = (uint32_t)XXH3_64bits(text, len), slot;
	size_t position, other_len;

	for (position = ws_begin_slot_search(&texts->slots, &texts->mask, texts->count, 64, hash);
	     (slot = ws_next_in_slots(texts->slots, texts->mask, hash, &position)); position++) {
		const char *other = ws_get_numbered_text(texts, slot - 1, &other_len);

		if (other_len == len && !memcmp(other, text, len))
			return slot - 1;
	}
	ws_grow(texts->text, texts->capacity, texts->length + len + 1);
	ws_grow(texts->offsets, texts->offset_capacity, (size_t)texts->count + 2);
	memcpy(texts->text + texts->length, text, len);
	texts->offsets[texts->count] = texts->length;
	texts->length += len;
	texts->offsets[texts->count + 1] = texts->length;
	texts->slots[position] = ws_make_slot(hash, ++texts->count);
	return texts->count - 1;
}

void ws_free_text_numbers(struct ws_text_numbers *texts)
{
	free(texts->text);
	free(texts->offsets);
	free(texts->slots);
	*texts = (struct ws_text_numbers){0};
}
