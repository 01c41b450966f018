/*
 * groups.c - see groups.h. Both are hash tables of open addressing; a look-up of the tuple that the
 * row before had costs nothing.
 */
#include "sql/groups.h"

#include <stdlib.h>

#include "base/mem.h"
#include "base/choose.h"
#include "base/slots.h"

/* ---- tuples ---- */

uint32_t ws_sql_tuple_slow(struct ws_sql_tuples *tuples, const uint64_t *values)
{
	uint32_t h, i;
	uint64_t hash = 0;
	size_t at;

	for (i = 0; i < tuples->words; i++)
		hash = ws_hash_word(hash, values[i]);
	h = (uint32_t)hash;
	for (at = ws_slots_begin(&tuples->slots, &tuples->mask, tuples->n, 1024, h);
	     (i = ws_slots_next(tuples->slots, tuples->mask, h, &at)); at++)
		if (!memcmp(tuples->values + (size_t)(i - 1) * tuples->words, values,
			    tuples->words * 8))
			return tuples->last = i - 1;
	if ((tuples->n + 1) * tuples->words > tuples->cap) {
		tuples->cap = tuples->cap ? tuples->cap * 2 : 1024;
		tuples->values = ws_realloc(tuples->values, tuples->cap * 8);
	}
	memcpy(tuples->values + tuples->n * tuples->words, values, tuples->words * 8);
	tuples->slots[at] = ws_slot(h, (uint32_t)tuples->n + 1);
	return tuples->last = (uint32_t)tuples->n++;
}

void ws_sql_tuples_free(struct ws_sql_tuples *tuples)
{
	free(tuples->values);
	free(tuples->slots);
	tuples->values = NULL;
	tuples->slots = NULL;
	tuples->n = tuples->cap = tuples->mask = tuples->last = 0;
}

/* ---- groups ---- */

void ws_sql_key_cell(struct ws_text *text, const struct ws_xcell *cell)
{
	struct {
		uint8_t tag;
		uint64_t v;
	} __attribute__((packed)) number = {'i', (uint64_t)cell->i};

	switch (cell->kind) {
	case WS_X_NULL:
		ws_text_add(text, "n", 1);
		return;
	case WS_X_STRING:
		number.v = cell->id;
		break;
	case WS_X_REAL: /* 5.0 is 5 */
		if (cell->r >= -9007199254740992.0 && cell->r <= 9007199254740992.0 &&
		    cell->r == (double)(int64_t)cell->r)
			number.v = (uint64_t)(int64_t)cell->r;
		else
			number.tag = 'r';
		break;
	case WS_X_TEXT:
	case WS_X_BLOB:
		number.tag = cell->kind == WS_X_TEXT ? 't' : 'b';
		number.v = cell->n;
		ws_text_add(text, &number, sizeof(number));
		ws_text_add(text, cell->text, cell->n);
		return;
	default:
		break;
	}
	ws_text_add(text, &number, sizeof(number));
}

static uint32_t hash_bytes(const char *text, size_t n)
{
	uint64_t h = n;

	for (; n >= 8; text += 8, n -= 8) {
		uint64_t v;

		memcpy(&v, text, 8);
		h = ws_hash_word(h, v);
	}
	for (size_t i = 0; i < n; i++)
		h = (h ^ (uint8_t)text[i]) * UINT64_C(0x9e3779b97f4a7c15);
	return (uint32_t)(h ^ h >> 31);
}

/* The number of the group plus 1, or 0: then *at is where it would be. */
static uint32_t find(const struct ws_sql_groups *groups, const struct ws_text *key, uint32_t hash,
		     size_t *at)
{
	uint32_t i;

	for (; (i = ws_slots_next(groups->slots, groups->mask, hash, at)); ++*at)
		if (groups->keys[i - 1].len == key->len &&
		    (!key->len || !memcmp(groups->keys[i - 1].text, key->text, key->len)))
			break;
	return i;
}

uint32_t ws_sql_group(struct ws_sql_groups *groups, const struct ws_text *key, bool *made)
{
	uint32_t h = hash_bytes(key->text, key->len), i;
	size_t at = ws_slots_begin(&groups->slots, &groups->mask, groups->n, 1024, h);

	i = find(groups, key, h, &at);
	*made = !i;
	if (i)
		return i - 1;
	ws_grow(groups->keys, groups->cap, groups->n + 1);
	groups->keys[groups->n] = (struct ws_text){0};
	if (key->len)
		ws_text_add(&groups->keys[groups->n], key->text, key->len);
	groups->slots[at] = ws_slot(h, (uint32_t)groups->n + 1);
	return (uint32_t)groups->n++;
}

uint32_t ws_sql_group_find(const struct ws_sql_groups *groups, const struct ws_text *key)
{
	uint32_t h = hash_bytes(key->text, key->len);
	size_t at = h;

	return groups->mask ? find(groups, key, h, &at) : 0;
}

void ws_sql_groups_free(struct ws_sql_groups *groups)
{
	for (size_t i = 0; i < groups->n; i++)
		ws_text_free(&groups->keys[i]);
	free(groups->keys);
	free(groups->slots);
	*groups = (struct ws_sql_groups){0};
}

static int rank(const struct ws_xcell *cell)
{
	switch (cell->kind) {
	case WS_X_NULL:
		return 0;
	case WS_X_TEXT:
		return 2;
	case WS_X_BLOB:
		return 3;
	default:
		return 1;
	}
}

int ws_sql_compare_cells(const struct ws_xcell *left, const struct ws_xcell *right)
{
	int c = rank(left) - rank(right);

	if (c || left->kind == WS_X_NULL)
		return c;
	if (rank(left) >= 2) {
		c = memcmp(left->text, right->text, ws_min(left->n, right->n));
		return c ? c : ws_compare(left->n, right->n);
	}
	if (left->kind == WS_X_REAL) /* a column holds one kind of number */
		return ws_compare(left->r, right->r);
	if (left->kind == WS_X_STRING)
		return ws_compare(left->id, right->id);
	return ws_compare(left->i, right->i);
}
