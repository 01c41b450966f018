/*
 * groups.c - see groups.h. Both are hash tables with open addressing; looking up the tuple that the
 * row before had costs almost nothing.
 */
#include "sql/groups.h"

#include <stdlib.h>

#include "base/mem.h"
#include "base/choose.h"
#include "base/slots.h"

/* ---- tuples ---- */

uint32_t ws_sql_look_up_tuple(struct ws_sql_tuples *tuples, const uint64_t *values)
{
	uint32_t slot_hash, found;
	uint64_t hash = 0;
	size_t slot;

	for (found = 0; found < tuples->words; found++)
		hash = ws_hash_word(hash, values[found]);
	slot_hash = (uint32_t)hash;
	for (slot = ws_begin_slot_search(&tuples->slots, &tuples->mask, tuples->count, 1024,
					 slot_hash);
	     (found = ws_next_in_slots(tuples->slots, tuples->mask, slot_hash, &slot)); slot++)
		if (!memcmp(tuples->values + (size_t)(found - 1) * tuples->words, values,
			    tuples->words * 8))
			return tuples->last = found - 1;
	if ((tuples->count + 1) * tuples->words > tuples->capacity) {
		tuples->capacity = ws_max(tuples->capacity * 2, (size_t)1024);
		tuples->values = ws_realloc(tuples->values, tuples->capacity * 8);
	}
	memcpy(tuples->values + tuples->count * tuples->words, values, tuples->words * 8);
	tuples->slots[slot] = ws_make_slot(slot_hash, (uint32_t)tuples->count + 1);
	return tuples->last = (uint32_t)tuples->count++;
}

void ws_sql_free_tuples(struct ws_sql_tuples *tuples)
{
	free(tuples->values);
	free(tuples->slots);
	tuples->values = NULL;
	tuples->slots = NULL;
	tuples->count = tuples->capacity = tuples->mask = tuples->last = 0;
}

/* ---- groups ---- */

void ws_sql_put_key_cell(struct ws_text *text, const struct ws_view_cell *cell)
{
	struct {
		uint8_t tag;
		uint64_t v;
	} __attribute__((packed)) number = {'i', (uint64_t)cell->i};

	switch (cell->kind) {
	case WS_VIEW_NULL:
		ws_text_add(text, "n", 1);
		return;
	case WS_VIEW_STRING:
		number.v = cell->id;
		break;
	case WS_VIEW_REAL: /* 5.0 is 5 */
		if (cell->r >= -9007199254740992.0 && cell->r <= 9007199254740992.0 &&
		    cell->r == (double)(int64_t)cell->r)
			number.v = (uint64_t)(int64_t)cell->r;
		else
			number.tag = 'r';
		break;
	case WS_VIEW_TEXT:
	case WS_VIEW_BLOB:
		number.tag = 'b';
		if (cell->kind == WS_VIEW_TEXT)
			number.tag = 't';
		number.v = cell->n;
		ws_text_add(text, &number, sizeof(number));
		ws_text_add(text, cell->text, cell->n);
		return;
	default:
		break;
	}
	ws_text_add(text, &number, sizeof(number));
}

static uint32_t hash_bytes(const char *text, size_t length)
{
	uint64_t hash = length;

	for (; length >= 8; text += 8, length -= 8) {
		uint64_t word;

		memcpy(&word, text, 8);
		hash = ws_hash_word(hash, word);
	}
	for (size_t i = 0; i < length; i++)
		hash = (hash ^ (uint8_t)text[i]) * UINT64_C(0x9e3779b97f4a7c15);
	return (uint32_t)(hash ^ hash >> 31);
}

/* The number of the group plus 1; or 0, and then *at is the slot for it. */
static uint32_t find_group(const struct ws_sql_groups *groups, const struct ws_text *key,
			   uint32_t hash, size_t *slot)
{
	uint32_t found;

	for (; (found = ws_next_in_slots(groups->slots, groups->mask, hash, slot)); ++*slot)
		if (groups->keys[found - 1].len == key->len &&
		    (!key->len || !memcmp(groups->keys[found - 1].text, key->text, key->len)))
			break;
	return found;
}

uint32_t ws_sql_number_group(struct ws_sql_groups *groups, const struct ws_text *key, bool *made)
{
	uint32_t hash = hash_bytes(key->text, key->len), found;
	size_t slot =
		ws_begin_slot_search(&groups->slots, &groups->mask, groups->count, 1024, hash);

	found = find_group(groups, key, hash, &slot);
	*made = !found;
	if (found)
		return found - 1;
	ws_grow(groups->keys, groups->capacity, groups->count + 1);
	groups->keys[groups->count] = (struct ws_text){0};
	if (key->len)
		ws_text_add(&groups->keys[groups->count], key->text, key->len);
	groups->slots[slot] = ws_make_slot(hash, (uint32_t)groups->count + 1);
	return (uint32_t)groups->count++;
}

uint32_t ws_sql_find_group(const struct ws_sql_groups *groups, const struct ws_text *key)
{
	uint32_t hash = hash_bytes(key->text, key->len);
	size_t slot = hash;

	if (!groups->mask)
		return 0;
	return find_group(groups, key, hash, &slot);
}

void ws_sql_free_groups(struct ws_sql_groups *groups)
{
	for (size_t i = 0; i < groups->count; i++)
		ws_text_free(&groups->keys[i]);
	free(groups->keys);
	free(groups->slots);
	*groups = (struct ws_sql_groups){0};
}

static int find_rank(const struct ws_view_cell *cell)
{
	switch (cell->kind) {
	case WS_VIEW_NULL:
		return 0;
	case WS_VIEW_TEXT:
		return 2;
	case WS_VIEW_BLOB:
		return 3;
	default:
		return 1;
	}
}

int ws_sql_compare_cells(const struct ws_view_cell *left, const struct ws_view_cell *right)
{
	int order = find_rank(left) - find_rank(right);

	if (order || left->kind == WS_VIEW_NULL)
		return order;
	if (find_rank(left) >= 2) {
		order = memcmp(left->text, right->text, ws_min(left->n, right->n));
		if (order)
			return order;
		return ws_compare(left->n, right->n);
	}
	if (left->kind == WS_VIEW_REAL) /* a column holds one kind of number */
		return ws_compare(left->r, right->r);
	if (left->kind == WS_VIEW_STRING)
		return ws_compare(left->id, right->id);
	return ws_compare(left->i, right->i);
}
