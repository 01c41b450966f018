/*
 * groups.c - see groups.h. Both are hash tables of open addressing; a look-up of the tuple that the row before had costs nothing.
 */
#include "sql/groups.h"

#include <stdlib.h>

#include "base/mem.h"

/* ---- tuples ---- */

static uint64_t hash_words(const uint64_t *v, uint32_t words)
{
	uint64_t h = 0;

	for (uint32_t i = 0; i < words; i++) {
		h = (h ^ v[i]) * UINT64_C(0x9e3779b97f4a7c15);
		h ^= h >> 29;
	}
	return h;
}

static void grow_tuples(struct ws_sql_tuples *t)
{
	size_t size = t->mask ? (t->mask + 1) * 2 : 1024;

	free(t->slots);
	t->slots = ws_calloc(size, sizeof(*t->slots));
	t->mask = size - 1;
	for (size_t i = 0; i < t->n; i++) {
		size_t at = hash_words(t->v + i * t->words, t->words) & t->mask;

		while (t->slots[at])
			at = (at + 1) & t->mask;
		t->slots[at] = (uint32_t)i + 1;
	}
}

uint32_t ws_sql_tuple_slow(struct ws_sql_tuples *t, const uint64_t *v)
{
	size_t at;

	if (t->n * 2 >= t->mask)
		grow_tuples(t);
	for (at = hash_words(v, t->words) & t->mask; t->slots[at]; at = (at + 1) & t->mask)
		if (!memcmp(t->v + (size_t)(t->slots[at] - 1) * t->words, v, t->words * 8))
			return t->last = t->slots[at] - 1;
	if ((t->n + 1) * t->words > t->cap) {
		t->cap = t->cap ? t->cap * 2 : 1024;
		t->v = ws_realloc(t->v, t->cap * 8);
	}
	memcpy(t->v + t->n * t->words, v, t->words * 8);
	t->slots[at] = (uint32_t)t->n + 1;
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
		if (c->r >= -9007199254740992.0 && c->r <= 9007199254740992.0 && c->r == (double)(int64_t)c->r)
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

static uint64_t hash_bytes(const char *s, size_t n)
{
	uint64_t h = n;

	for (; n >= 8; s += 8, n -= 8) {
		uint64_t v;

		memcpy(&v, s, 8);
		h = hash_words((uint64_t[]){h ^ v}, 1);
	}
	for (size_t i = 0; i < n; i++)
		h = (h ^ (uint8_t)s[i]) * UINT64_C(0x9e3779b97f4a7c15);
	return h ^ h >> 31;
}

static size_t slot_of(const struct ws_sql_groups *g, const struct ws_text *key)
{
	size_t at = hash_bytes(key->s, key->len) & g->mask;

	for (; g->slots[at]; at = (at + 1) & g->mask) {
		const struct ws_text *k = &g->keys[g->slots[at] - 1];

		if (k->len == key->len && (!k->len || !memcmp(k->s, key->s, key->len)))
			break;
	}
	return at;
}

static void grow_slots(struct ws_sql_groups *g)
{
	size_t size = g->mask ? (g->mask + 1) * 2 : 1024;

	free(g->slots);
	g->slots = ws_calloc(size, sizeof(*g->slots));
	g->mask = size - 1;
	for (size_t i = 0; i < g->n; i++)
		g->slots[slot_of(g, &g->keys[i])] = (uint32_t)i + 1;
}

uint32_t ws_sql_group(struct ws_sql_groups *g, const struct ws_text *key, bool *made)
{
	size_t at;

	if (g->n * 2 >= g->mask)
		grow_slots(g);
	at = slot_of(g, key);
	*made = !g->slots[at];
	if (!*made)
		return g->slots[at] - 1;
	ws_grow(g->keys, g->cap, g->n + 1);
	g->keys[g->n] = (struct ws_text){0};
	if (key->len)
		ws_text_add(&g->keys[g->n], key->s, key->len);
	g->slots[at] = (uint32_t)g->n + 1;
	return (uint32_t)g->n++;
}

uint32_t ws_sql_group_find(const struct ws_sql_groups *g, const struct ws_text *key)
{
	return g->mask ? g->slots[slot_of(g, key)] : 0;
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
