/* intern.c - an open hash table of (hash, place of the bytes, id); see intern.h. */
#include "store/intern.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/choose.h"
#include "base/mem.h"

enum { FIRST_SLOTS = 4096, MAX_SLOTS = 1 << 16, MAX_TEXT = 4 << 20 };

struct ws_intern_slot {
	uint32_t hash, id; /* id 0: free */
	uint32_t at, len;
};

void ws_intern_free(struct ws_intern *intern)
{
	free(intern->slots);
	free(intern->text);
	*intern = (struct ws_intern){0};
}

uint64_t ws_intern_hash(const void *bytes, size_t len)
{
	return XXH3_64bits(bytes, len);
}

uint32_t ws_intern_find(const struct ws_intern *intern, uint64_t hash, const void *bytes,
			size_t len)
{
	uint32_t mask = intern->slot_count - 1, high_bits = (uint32_t)(hash >> 32);

	if (!intern->slot_count)
		return 0;
	for (uint32_t at = (uint32_t)hash & mask; intern->slots[at].id; at = (at + 1) & mask) {
		const struct ws_intern_slot *slot = &intern->slots[at];

		if (slot->hash == high_bits && slot->len == len &&
		    (!len || !memcmp(intern->text + slot->at, bytes, len)))
			return slot->id;
	}
	return 0;
}

bool ws_intern_is_full(const struct ws_intern *intern, size_t len)
{
	return intern->used >= MAX_SLOTS / 2 || intern->text_len + len > MAX_TEXT;
}

void ws_intern_clear(struct ws_intern *intern)
{
	if (intern->slots)
		memset(intern->slots, 0, (size_t)intern->slot_count * sizeof(*intern->slots));
	intern->used = 0;
	intern->text_len = 0;
}

static void store_slot(struct ws_intern *intern, uint64_t hash, struct ws_intern_slot slot)
{
	uint32_t mask = intern->slot_count - 1, at = (uint32_t)hash & mask;

	while (intern->slots[at].id)
		at = (at + 1) & mask;
	intern->slots[at] = slot;
}

static void double_slots(struct ws_intern *intern)
{
	struct ws_intern_slot *old = intern->slots;
	uint32_t count = intern->slot_count;

	intern->slot_count = ws_max(count * 2, (uint32_t)FIRST_SLOTS);
	intern->slots = ws_calloc(intern->slot_count, sizeof(*intern->slots));
	for (uint32_t i = 0; i < count; i++)
		if (old[i].id)
			store_slot(intern, ws_intern_hash(intern->text + old[i].at, old[i].len),
				   old[i]);
	free(old);
}

void ws_intern_add(struct ws_intern *intern, uint64_t hash, const void *bytes, size_t len,
		   uint32_t id)
{
	if (intern->used * 2 >= intern->slot_count)
		double_slots(intern);
	ws_grow(intern->text, intern->text_cap, intern->text_len + len + 1);
	if (len)
		memcpy(intern->text + intern->text_len, bytes, len);
	store_slot(intern, hash,
		   (struct ws_intern_slot){(uint32_t)(hash >> 32), id, (uint32_t)intern->text_len,
					   (uint32_t)len});
	intern->text_len += len;
	intern->used++;
}
