/* keyed.c - see keyed.h. */
#include "stats/keyed.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/mem.h"
#include "query/query.h"

static uint64_t hash(const uint64_t *key, uint32_t words)
{
	uint64_t h = 0;

	for (uint32_t i = 0; i < words; i++) {
		h = (h ^ key[i]) * UINT64_C(0x9e3779b97f4a7c15);
		h ^= h >> 32;
	}
	return h;
}

static bool equal(const uint64_t *a, const uint64_t *b, uint32_t words)
{
	uint64_t differ = 0;

	for (uint32_t i = 0; i < words; i++)
		differ |= a[i] ^ b[i];
	return !differ;
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
		if (!equal(t->keys + (t->slots[at] - 1) * (size_t)t->words, key, t->words))
			continue;
		t->last = t->slots[at] - 1;
		return t->per ? t->dists + t->last * t->per : NULL;
	}
	ws_grow(t->keys, t->keys_cap, (t->n + 1) * t->words);
	ws_grow(t->dists, t->dists_cap, (t->n + 1) * t->per);
	t->last = t->n++;
	t->slots[at] = (uint32_t)t->n;
	memcpy(t->keys + t->last * t->words, key, bytes);
	if (!t->per)
		return NULL;
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

/* The statistics of each canonical key: several threads, which take one key after the other. */
struct summing {
	const struct part *parts;
	const size_t *first; /* of each key, and one past the last */
	struct ws_keyed_sums *out;
	size_t next;
};

static void *sum_keys(void *arg)
{
	struct summing *m = arg;
	struct ws_dist **same = NULL;
	size_t cap = 0, i;

	while ((i = __atomic_fetch_add(&m->next, 1, __ATOMIC_RELAXED)) < m->out->n) {
		const struct part *parts = m->parts + m->first[i];
		size_t n = m->first[i + 1] - m->first[i];

		ws_grow(same, cap, n);
		for (uint32_t p = 0; p < m->out->per; p++) {
			for (size_t k = 0; k < n; k++)
				same[k] = parts[k].dists + p;
			m->out->s[i * m->out->per + p] = ws_dist_summary(same, n);
			for (size_t k = 0; k < n; k++) /* at once: memory peaks here */
				ws_dist_free(same[k]);
		}
	}
	free(same);
	return NULL;
}

static void sum_all(const struct part *parts, size_t total, struct ws_keyed_sums *out)
{
	struct ws_scan any = {.table = WS_TABLE_cuda_kernel};
	size_t *first = ws_calloc(out->n + 1, sizeof(*first));
	struct summing m = {.parts = parts, .first = first, .out = out};
	uint32_t workers = total > 16 ? ws_scan_workers(&any) : 1, started = 1;
	pthread_t *threads = ws_calloc(workers, sizeof(*threads));

	for (size_t i = 0; i < total; i++)
		first[parts[i].number + 1] = i + 1;
	for (; started < workers; started++)
		if (pthread_create(&threads[started], NULL, sum_keys, &m))
			break; /* fewer do it too */
	sum_keys(&m);
	for (uint32_t i = 1; i < started; i++)
		pthread_join(threads[i], NULL);
	free(threads);
	free(first);
}

void ws_keyed_merge(struct ws_keyed *tables, size_t table_count, void (*canonical)(void *ctx, size_t table, uint64_t *key),
		    void *ctx, struct ws_keyed_sums *out)
{
	uint32_t words = table_count ? tables[0].words : 1, per = table_count ? tables[0].per : 1;
	struct ws_keyed all = {.words = words};
	size_t total;
	struct part *parts = number_parts(tables, table_count, &all, canonical, ctx, &total);

	if (total)
		qsort(parts, total, sizeof(*parts), by_number);
	*out = (struct ws_keyed_sums){.n = all.n, .words = words, .per = per};
	out->s = ws_calloc(all.n * per, sizeof(*out->s));
	sum_all(parts, total, out);
	out->keys = all.keys;
	all.keys = NULL;
	ws_keyed_free(&all);
	free(parts);
	for (size_t t = 0; t < table_count; t++) /* whose distributions are free already */
		ws_keyed_free(&tables[t]);
}

void ws_keyed_sums_free(struct ws_keyed_sums *s)
{
	free(s->keys);
	free(s->s);
	*s = (struct ws_keyed_sums){0};
}
