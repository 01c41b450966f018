/*
 * groups.c - see groups.h. Both are hash tables of open addressing; a look-up of the tuple that the
 * row before had costs nothing.
 */
#include "sql/groups.h"

#include <stdlib.h>

#include "base/mem.h"
#include "base/slots.h"

/* ---- tuples ---- */

uint32_t ws_sql_tuple_slow(struct ws_sql_tuples *t, const uint64_t *v)
{
	uint32_t h, i;
	uint64_t hash = 0;
	size_t at;

	for (i = 0; i < t->words; i++)
		hash = ws_hash_word(hash, v[i]);
	h = (uint32_t)hash;
	for (at = ws_slots_begin(&t->slots, &t->mask, t->n, 1024, h);
	     (i = ws_slots_next(t->slots, t->mask, h, &at)); at++)
		if (!memcmp(t->v + (size_t)(i - 1) * t->words, v, t->words * 8))
			return t->last = i - 1;
	if ((t->n + 1) * t->words > t->cap) {
		t->cap = t->cap ? t->cap * 2 : 1024;
		t->v = ws_realloc(t->v, t->cap * 8);
	}
	memcpy(t->v + t->n * t->words, v, t->words * 8);
	t->slots[at] = ws_slot(h, (uint32_t)t->n + 1);
	return t->last = (uint32_t)t->n++;
}

void ws_sql_tuples_free(struct ws_sql_tuples *t)
{
	free(t->v);
	free(t->slots);
	t->v = NULL;
	t->slots = NULL;
	t->n = t->cap = t->mask = t->last = 0;
}

/* ---- groups ---- */

void ws_sql_key_cell(struct ws_text *t, const struct ws_xcell *c)
{
	struct {
		uint8_t tag;
		uint64_t v;
	} __attribute__((packed)) number = {'i', (uint64_t)c->i};

	switch (c->kind) {
	case WS_X_NULL:
		ws_text_add(t, "n", 1);
		return;
	case WS_X_STRING:
		number.v = c->id;
		break;
	case WS_X_REAL: /* 5.0 is 5 */
		if (c->r >= -9007199254740992.0 && c->r <= 9007199254740992.0 &&
		    c->r == (double)(int64_t)c->r)
			number.v = (uint64_t)(int64_t)c->r;
		else
			number.tag = 'r';
		break;
	case WS_X_TEXT:
	case WS_X_BLOB:
		number.tag = c->kind == WS_X_TEXT ? 't' : 'b';
		number.v = c->n;
		ws_text_add(t, &number, sizeof(number));
		ws_text_add(t, c->s, c->n);
		return;
	default:
		break;
	}
	ws_text_add(t, &number, sizeof(number));
}

static uint32_t hash_bytes(const char *s, size_t n)
{
	uint64_t h = n;

	for (; n >= 8; s += 8, n -= 8) {
		uint64_t v;

		memcpy(&v, s, 8);
		h = ws_hash_word(h, v);
	}
	for (size_t i = 0; i < n; i++)
		h = (h ^ (uint8_t)s[i]) * UINT64_C(0x9e3779b97f4a7c15);
	return (uint32_t)(h ^ h >> 31);
}

/* The number of the group plus 1, or 0: then *at is where it would be. */
static uint32_t find(const struct ws_sql_groups *g, const struct ws_text *key, uint32_t hash,
		     size_t *at)
{
	uint32_t i;

	for (; (i = ws_slots_next(g->slots, g->mask, hash, at)); ++*at)
		if (g->keys[i - 1].len == key->len &&
		    (!key->len || !memcmp(g->keys[i - 1].s, key->s, key->len)))
			break;
	return i;
}

uint32_t ws_sql_group(struct ws_sql_groups *g, const struct ws_text *key, bool *made)
{
	uint32_t h = hash_bytes(key->s, key->len), i;
	size_t at = ws_slots_begin(&g->slots, &g->mask, g->n, 1024, h);

	i = find(g, key, h, &at);
	*made = !i;
	if (i)
		return i - 1;
	ws_grow(g->keys, g->cap, g->n + 1);
	g->keys[g->n] = (struct ws_text){0};
	if (key->len)
		ws_text_add(&g->keys[g->n], key->s, key->len);
	g->slots[at] = ws_slot(h, (uint32_t)g->n + 1);
	return (uint32_t)g->n++;
}

uint32_t ws_sql_group_find(const struct ws_sql_groups *g, const struct ws_text *key)
{
	uint32_t h = hash_bytes(key->s, key->len);
	size_t at = h;

	return g->mask ? find(g, key, h, &at) : 0;
}

void ws_sql_groups_free(struct ws_sql_groups *g)
{
	for (size_t i = 0; i < g->n; i++)
		ws_text_free(&g->keys[i]);
	free(g->keys);
	free(g->slots);
	*g = (struct ws_sql_groups){0};
}

static int rank(const struct ws_xcell *c)
{
	switch (c->kind) {
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

int ws_sql_compare_cells(const struct ws_xcell *a, const struct ws_xcell *b)
{
	int c = rank(a) - rank(b);

	if (c || a->kind == WS_X_NULL)
		return c;
	if (rank(a) >= 2) {
		c = memcmp(a->s, b->s, a->n < b->n ? a->n : b->n);
		return c ? c : a->n < b->n ? -1 : a->n > b->n;
	}
	if (a->kind == WS_X_REAL) /* a column holds one kind of number */
		return a->r < b->r ? -1 : a->r > b->r;
	if (a->kind == WS_X_STRING)
		return a->id < b->id ? -1 : a->id > b->id;
	return a->i < b->i ? -1 : a->i > b->i;
}
