/* keyed.c - see keyed.h. */
#include "stats/keyed.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/slots.h"
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

static ws_fetching void fetch(const struct ws_keyed *keyed, const uint64_t *key)
{
	if (keyed->mask)
		__builtin_prefetch(&keyed->slots[(uint32_t)hash(key, keyed->words) & keyed->mask],
				   1);
}

void ws_keyed_prefetch(const struct ws_keyed *keyed, const uint64_t *key)
{
	fetch(keyed, key);
}

struct ws_dist *ws_keyed_slow(struct ws_keyed *keyed, const uint64_t *key)
{
	uint64_t h = (uint32_t)hash(key, keyed->words);
	size_t at;

	if (keyed->n * 2 >= keyed->mask) /* at most half full */
		ws_slots_grow(&keyed->slots, &keyed->mask, 64);
	for (at = h & keyed->mask; keyed->slots[at]; at = (at + 1) & keyed->mask) {
		uint32_t number = (uint32_t)keyed->slots[at] - 1;

		if (keyed->slots[at] >> 32 != h ||
		    !equal(keyed->keys + number * (size_t)keyed->words, key, keyed->words))
			continue;
		keyed->last = number;
		return keyed->per ? keyed->dists + keyed->last * keyed->per : NULL;
	}
	ws_grow(keyed->keys, keyed->keys_cap, (keyed->n + 1) * keyed->words);
	ws_grow(keyed->dists, keyed->dists_cap, (keyed->n + 1) * keyed->per);
	keyed->last = keyed->n++;
	keyed->slots[at] = h << 32 | (uint32_t)keyed->n;
	memcpy(keyed->keys + keyed->last * keyed->words, key, keyed->words * sizeof(*key));
	if (!keyed->per)
		return NULL;
	memset(keyed->dists + keyed->last * keyed->per, 0, keyed->per * sizeof(*keyed->dists));
	return keyed->dists + keyed->last * keyed->per;
}

void ws_keyed_free(struct ws_keyed *keyed)
{
	for (size_t i = 0; i < keyed->n * keyed->per; i++)
		ws_dist_free(&keyed->dists[i]);
	free(keyed->keys);
	free(keyed->dists);
	free(keyed->slots);
	*keyed = (struct ws_keyed){.words = keyed->words, .per = keyed->per};
}

struct part {
	struct ws_dist *dists;
	uint32_t number; /* of the canonical key */
};

enum { AHEAD = 16 }; /* keys that are made before they are looked up */

/* The keys of all tables as numbers in `all`, whose own distributions stay empty. */
static struct part *number_parts(struct ws_keyed *tables, size_t table_count, struct ws_keyed *all,
				 void (*canonical)(void *ctx, size_t table, uint64_t *key),
				 void *ctx, size_t *count)
{
	struct part *parts;
	size_t total = 0, n = 0;

	for (size_t t = 0; t < table_count; t++)
		total += tables[t].n;
	parts = ws_malloc(total * sizeof(*parts));
	for (size_t t = 0; t < table_count; t++)
		for (size_t from = 0, m; from < tables[t].n; from += m) {
			uint64_t keys[AHEAD][WS_KEYED_WORDS];

			m = tables[t].n - from < AHEAD ? tables[t].n - from : AHEAD;
			for (size_t i = 0; i < m; i++) {
				memcpy(keys[i], tables[t].keys + (from + i) * tables[t].words,
				       tables[t].words * sizeof(*keys[i]));
				if (canonical)
					canonical(ctx, t, keys[i]);
				fetch(all, keys[i]);
			}
			for (size_t i = 0; i < m; i++) {
				ws_keyed_get(all, keys[i]);
				parts[n++] =
					(struct part){tables[t].dists + (from + i) * tables[t].per,
						      (uint32_t)all->last};
			}
		}
	*count = total;
	return parts;
}

/* Put the parts of each number together, in their order; *first gets where each number's begin, and
 * the end after the last. */
static struct part *sort_parts(struct part *parts, size_t total, size_t numbers, size_t **first)
{
	size_t *at = ws_calloc(numbers + 1, sizeof(*at));
	struct part *to = ws_malloc((total + 1) * sizeof(*to));

	for (size_t i = 0; i < total; i++)
		at[parts[i].number]++;
	for (size_t i = 0, sum = 0; i <= numbers; i++) {
		size_t n = at[i];

		at[i] = sum;
		sum += n;
	}
	for (size_t i = 0; i < total; i++)
		to[at[parts[i].number]++] = parts[i];
	memmove(at + 1, at, numbers * sizeof(*at)); /* each stands at the end of its own now: where
						       the next begins */
	at[0] = 0;
	free(parts);
	*first = at;
	return to;
}

/* The statistics of each canonical key: several threads, which take some keys after the other. */
struct summing {
	const struct part *parts;
	const size_t *first; /* of each key, and one past the last */
	struct ws_keyed_sums *out;
	size_t next, step; /* of keys: one at a time where each may have many values */
};

static void sum_key(struct summing *summing, size_t i, struct ws_dist **same)
{
	const struct part *parts = summing->parts + summing->first[i];
	size_t n = summing->first[i + 1] - summing->first[i];

	if (i + AHEAD < summing->out->n)
		__builtin_prefetch(summing->parts[summing->first[i + AHEAD]].dists);
	for (uint32_t p = 0; p < summing->out->per; p++) {
		for (size_t k = 0; k < n; k++)
			same[k] = parts[k].dists + p;
		summing->out->summary[i * summing->out->per + p] = ws_dist_summary(same, n);
		for (size_t k = 0; k < n; k++) /* at once: memory peaks here */
			ws_dist_free(same[k]);
	}
}

static void *sum_keys(void *arg)
{
	struct summing *summing = arg;
	struct ws_dist **same = NULL;
	size_t cap = 0, from;

	while ((from = __atomic_fetch_add(&summing->next, summing->step, __ATOMIC_RELAXED)) <
	       summing->out->n)
		for (size_t i = from; i < from + summing->step && i < summing->out->n; i++) {
			ws_grow(same, cap, summing->first[i + 1] - summing->first[i]);
			sum_key(summing, i, same);
		}
	free(same);
	return NULL;
}

static void sum_all(const struct part *parts, const size_t *first, size_t total,
		    struct ws_keyed_sums *out)
{
	struct ws_scan any = {.table = WS_TABLE_cuda_kernel};
	struct summing summing = {
		.parts = parts, .first = first, .out = out, .step = out->n > 1 << 14 ? 1 << 10 : 1};
	uint32_t workers = total > 16 ? ws_scan_workers(&any) : 1, started = 1;
	pthread_t *threads = ws_calloc(workers, sizeof(*threads));

	for (; started < workers; started++)
		if (pthread_create(&threads[started], NULL, sum_keys, &summing))
			break; /* fewer do it too */
	sum_keys(&summing);
	for (uint32_t i = 1; i < started; i++)
		pthread_join(threads[i], NULL);
	free(threads);
}

void ws_keyed_merge(struct ws_keyed *tables, size_t table_count,
		    void (*canonical)(void *ctx, size_t table, uint64_t *key), void *ctx,
		    struct ws_keyed_sums *out)
{
	uint32_t words = table_count ? tables[0].words : 1, per = table_count ? tables[0].per : 1;
	struct ws_keyed all = {.words = words};
	size_t total, *first;
	struct part *parts = number_parts(tables, table_count, &all, canonical, ctx, &total);

	parts = sort_parts(parts, total, all.n, &first);
	*out = (struct ws_keyed_sums){.n = all.n, .words = words, .per = per};
	out->summary = ws_calloc(all.n * per, sizeof(*out->summary));
	sum_all(parts, first, total, out);
	out->keys = all.keys;
	all.keys = NULL;
	ws_keyed_free(&all);
	free(parts);
	free(first);
	for (size_t t = 0; t < table_count; t++) /* whose distributions are free already */
		ws_keyed_free(&tables[t]);
}

void ws_keyed_sums_free(struct ws_keyed_sums *sums)
{
	free(sums->keys);
	free(sums->summary);
	*sums = (struct ws_keyed_sums){0};
}
