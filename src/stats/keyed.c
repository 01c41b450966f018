/* keyed.c - see keyed.h. */
#include "stats/keyed.h"

#include <stdlib.h>

#include "base/mem.h"

static uint64_t hash(const uint64_t *key, uint32_t words)
{
	uint64_t h = 0;

	for (uint32_t i = 0; i < words; i++) {
		h = (h ^ key[i]) * UINT64_C(0x9e3779b97f4a7c15);
		h ^= h >> 32;
	}
	return h;
}

static void rehash(struct ws_keyed *t)
{
	size_t size = t->mask ? (t->mask + 1) * 2 : 64;

	free(t->slots);
	t->slots = ws_calloc(size, sizeof(*t->slots));
	t->mask = size - 1;
	for (size_t i = 0; i < t->n; i++) {
		size_t at = hash(t->keys + i * t->words, t->words) & t->mask;

		while (t->slots[at])
			at = (at + 1) & t->mask;
		t->slots[at] = (uint32_t)i + 1;
	}
}

struct ws_dist *ws_keyed_slow(struct ws_keyed *t, const uint64_t *key)
{
	size_t bytes = t->words * sizeof(*key), at;

	if (t->n * 2 >= t->mask) /* at most half full */
		rehash(t);
	for (at = hash(key, t->words) & t->mask; t->slots[at]; at = (at + 1) & t->mask) {
		if (memcmp(t->keys + (t->slots[at] - 1) * (size_t)t->words, key, bytes))
			continue;
		t->last = t->slots[at] - 1;
		return t->dists + t->last * t->per;
	}
	ws_grow(t->keys, t->keys_cap, (t->n + 1) * t->words);
	ws_grow(t->dists, t->dists_cap, (t->n + 1) * t->per);
	t->last = t->n++;
	t->slots[at] = (uint32_t)t->n;
	memcpy(t->keys + t->last * t->words, key, bytes);
	memset(t->dists + t->last * t->per, 0, t->per * sizeof(*t->dists));
	return t->dists + t->last * t->per;
}

void ws_keyed_free(struct ws_keyed *t)
{
	for (size_t i = 0; i < t->n * t->per; i++)
		ws_dist_free(&t->dists[i]);
	free(t->keys);
	free(t->dists);
	free(t->slots);
	*t = (struct ws_keyed){.words = t->words, .per = t->per};
}

struct part {
	size_t number; /* of the canonical key */
	struct ws_dist *dists;
};

static int by_number(const void *a, const void *b)
{
	const struct part *x = a, *y = b;

	return x->number < y->number ? -1 : x->number > y->number;
}

/* The keys of all tables as numbers in `all`, whose own distributions stay empty. */
static struct part *number_parts(struct ws_keyed *tables, size_t table_count, struct ws_keyed *all,
				 void (*canonical)(void *ctx, size_t table, uint64_t *key), void *ctx, size_t *count)
{
	struct part *parts;
	size_t total = 0, n = 0;

	for (size_t t = 0; t < table_count; t++)
		total += tables[t].n;
	parts = ws_malloc(total * sizeof(*parts));
	for (size_t t = 0; t < table_count; t++)
		for (size_t i = 0; i < tables[t].n; i++) {
			uint64_t key[WS_KEYED_WORDS];

			memcpy(key, tables[t].keys + i * tables[t].words, tables[t].words * sizeof(*key));
			if (canonical)
				canonical(ctx, t, key);
			ws_keyed_get(all, key);
			parts[n++] = (struct part){all->last, tables[t].dists + i * tables[t].per};
		}
	*count = total;
	return parts;
}

void ws_keyed_merge(struct ws_keyed *tables, size_t table_count, void (*canonical)(void *ctx, size_t table, uint64_t *key),
		    void *ctx, struct ws_keyed_sums *out)
{
	uint32_t words = table_count ? tables[0].words : 1, per = table_count ? tables[0].per : 1;
	struct ws_keyed all = {.words = words, .per = per};
	size_t total, n;
	struct part *parts = number_parts(tables, table_count, &all, canonical, ctx, &total);
	struct ws_dist **same = ws_malloc(total * sizeof(*same));

	if (total)
		qsort(parts, total, sizeof(*parts), by_number);
	*out = (struct ws_keyed_sums){.n = all.n, .words = words, .per = per};
	out->s = ws_calloc(all.n * per, sizeof(*out->s));
	for (size_t i = 0; i < total; i += n) {
		for (n = 1; i + n < total && parts[i + n].number == parts[i].number;)
			n++;
		for (uint32_t p = 0; p < per; p++) {
			for (size_t k = 0; k < n; k++)
				same[k] = parts[i + k].dists + p;
			out->s[parts[i].number * per + p] = ws_dist_summary(same, n);
			for (size_t k = 0; k < n; k++) /* at once: memory peaks here */
				ws_dist_free(same[k]);
		}
	}
	out->keys = all.keys;
	all.keys = NULL;
	ws_keyed_free(&all);
	free(parts);
	free(same);
	for (size_t t = 0; t < table_count; t++) {
		memset(tables[t].dists, 0, tables[t].n * per * sizeof(*tables[t].dists));
		ws_keyed_free(&tables[t]);
	}
}

void ws_keyed_sums_free(struct ws_keyed_sums *s)
{
	free(s->keys);
	free(s->s);
	*s = (struct ws_keyed_sums){0};
}
