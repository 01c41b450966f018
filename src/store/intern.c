/* intern.c - an open hash table of (hash, place of the bytes, id); see intern.h. */
#include "store/intern.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/mem.h"

enum { FIRST_SLOTS = 4096, MOST_SLOTS = 1 << 16, MOST_TEXT = 4 << 20 };

struct ws_intern_slot {
	uint32_t hash, id; /* id 0: free */
	uint32_t at, len;
};

void ws_intern_free(struct ws_intern *n)
{
	free(n->slots);
	free(n->text);
	*n = (struct ws_intern){0};
}

uint64_t ws_intern_hash(const void *bytes, size_t len)
{
	return XXH3_64bits(bytes, len);
}

uint32_t ws_intern_find(const struct ws_intern *n, uint64_t hash, const void *bytes, size_t len)
{
	uint32_t mask = n->slot_count - 1, h = (uint32_t)(hash >> 32);

	if (!n->slot_count)
		return 0;
	for (uint32_t s = (uint32_t)hash & mask; n->slots[s].id; s = (s + 1) & mask) {
		const struct ws_intern_slot *x = &n->slots[s];

		if (x->hash == h && x->len == len && (!len || !memcmp(n->text + x->at, bytes, len)))
			return x->id;
	}
	return 0;
}

bool ws_intern_full(const struct ws_intern *n, size_t len)
{
	return n->used >= MOST_SLOTS / 2 || n->text_len + len > MOST_TEXT;
}

void ws_intern_clear(struct ws_intern *n)
{
	if (n->slots)
		memset(n->slots, 0, (size_t)n->slot_count * sizeof(*n->slots));
	n->used = 0;
	n->text_len = 0;
}

static void place(struct ws_intern *n, uint64_t hash, struct ws_intern_slot x)
{
	uint32_t mask = n->slot_count - 1, s = (uint32_t)hash & mask;

	while (n->slots[s].id)
		s = (s + 1) & mask;
	n->slots[s] = x;
}

static void more_slots(struct ws_intern *n)
{
	struct ws_intern_slot *old = n->slots;
	uint32_t count = n->slot_count;

	n->slot_count = count ? count * 2 : FIRST_SLOTS;
	n->slots = ws_calloc(n->slot_count, sizeof(*n->slots));
	for (uint32_t i = 0; i < count; i++)
		if (old[i].id)
			place(n, ws_intern_hash(n->text + old[i].at, old[i].len), old[i]);
	free(old);
}

void ws_intern_add(struct ws_intern *n, uint64_t hash, const void *bytes, size_t len, uint32_t id)
{
	if (n->used * 2 >= n->slot_count)
		more_slots(n);
	ws_grow(n->text, n->text_cap, n->text_len + len + 1);
	if (len)
		memcpy(n->text + n->text_len, bytes, len);
	place(n, hash,
	      (struct ws_intern_slot){(uint32_t)(hash >> 32), id, (uint32_t)n->text_len,
				      (uint32_t)len});
	n->text_len += len;
	n->used++;
}
