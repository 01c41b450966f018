/* keyed.c - see keyed.h. */
#include "stats/keyed.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/choose.h"
#include "base/mem.h"
#include "base/slots.h"
#include "query/query.h"

static uint64_t hash_key(const uint64_t *key, uint32_t words)
{
	uint64_t hash = 0;

	for (uint32_t i = 0; i < words; i++) {
		hash = (hash ^ key[i]) * UINT64_C(0x9e3779b97f4a7c15);
		hash ^= hash >> 32;
	}
	return hash;
}

static bool are_keys_equal(const uint64_t *left, const uint64_t *right, uint32_t words)
{
	uint64_t differ = 0;

	for (uint32_t i = 0; i < words; i++)
		differ |= left[i] ^ right[i];
	return !differ;
}

static ws_fetching void prefetch_slot(const struct ws_keyed_dists *keyed, const uint64_t *key)
{
	if (keyed->mask)
		__builtin_prefetch(
			&keyed->slots[(uint32_t)hash_key(key, keyed->words) & keyed->mask], 1);
}

void ws_keyed_prefetch(const struct ws_keyed_dists *keyed, const uint64_t *key)
{
	prefetch_slot(keyed, key);
}

struct ws_dist *ws_keyed_look_up(struct ws_keyed_dists *keyed, const uint64_t *key)
{
	uint64_t hash = (uint32_t)hash_key(key, keyed->words);
	size_t at;

	if (keyed->count * 2 >= keyed->mask) /* at most half full */
		ws_grow_slots(&keyed->slots, &keyed->mask, 64);
	for (at = hash & keyed->mask; keyed->slots[at]; at = (at + 1) & keyed->mask) {
		uint32_t number = (uint32_t)keyed->slots[at] - 1;

		if (keyed->slots[at] >> 32 != hash ||
		    !are_keys_equal(keyed->keys + number * (size_t)keyed->words, key, keyed->words))
			continue;
		keyed->last = number;
		return ws_keyed_get_last(keyed);
	}
	ws_grow(keyed->keys, keyed->key_capacity, (keyed->count + 1) * keyed->words);
	ws_grow(keyed->dists, keyed->dist_capacity, (keyed->count + 1) * keyed->dists_per_key);
	keyed->last = keyed->count++;
	keyed->slots[at] = hash << 32 | (uint32_t)keyed->count;
	memcpy(keyed->keys + keyed->last * keyed->words, key, keyed->words * sizeof(*key));
	if (!keyed->dists_per_key)
		return NULL;
	memset(ws_keyed_get_last(keyed), 0, keyed->dists_per_key * sizeof(*keyed->dists));
	return ws_keyed_get_last(keyed);
}

void ws_keyed_free(struct ws_keyed_dists *keyed)
{
	for (size_t i = 0; i < keyed->count * keyed->dists_per_key; i++)
		ws_dist_free(&keyed->dists[i]);
	free(keyed->keys);
	free(keyed->dists);
	free(keyed->slots);
	*keyed = (struct ws_keyed_dists){.words = keyed->words,
					 .dists_per_key = keyed->dists_per_key};
}

/* A key of one table. */
struct key_part {
	struct ws_dist *dists;
	uint32_t number; /* of the canonical key */
};

enum { AHEAD = 16 }; /* keys that are prefetched before they are looked up */

/* Number the canonical keys of all tables in `all`, whose own distributions stay empty. */
static struct key_part *number_parts(struct ws_keyed_dists *tables, size_t table_count,
				     struct ws_keyed_dists *all,
				     void (*canonical)(void *context, size_t table, uint64_t *key),
				     void *context, size_t *count)
{
	struct key_part *parts;
	size_t total = 0, part_count = 0;

	for (size_t table = 0; table < table_count; table++)
		total += tables[table].count;
	parts = ws_malloc(total * sizeof(*parts));
	for (size_t table = 0; table < table_count; table++)
		for (size_t from = 0, step; from < tables[table].count; from += step) {
			uint64_t keys[AHEAD][WS_KEYED_WORDS];

			step = ws_min(tables[table].count - from, AHEAD);
			for (size_t i = 0; i < step; i++) {
				memcpy(keys[i],
				       tables[table].keys + (from + i) * tables[table].words,
				       tables[table].words * sizeof(*keys[i]));
				if (canonical)
					canonical(context, table, keys[i]);
				prefetch_slot(all, keys[i]);
			}
			for (size_t i = 0; i < step; i++) {
				ws_keyed_get(all, keys[i]);
				parts[part_count++] = (struct key_part){
					tables[table].dists +
						(from + i) * tables[table].dists_per_key,
					(uint32_t)all->last};
			}
		}
	*count = total;
	return parts;
}

/* Sort the parts by number, keeping the order of equal ones; (*first)[i] gets where those of number
 * i begin, and (*first)[numbers] the end. */
static struct key_part *sort_parts(struct key_part *parts, size_t total, size_t numbers,
				   size_t **first)
{
	size_t *at = ws_calloc(numbers + 1, sizeof(*at));
	struct key_part *sorted = ws_malloc((total + 1) * sizeof(*sorted));

	for (size_t i = 0; i < total; i++)
		at[parts[i].number]++;
	for (size_t i = 0, sum = 0; i <= numbers; i++) {
		size_t count = at[i];

		at[i] = sum;
		sum += count;
	}
	for (size_t i = 0; i < total; i++)
		sorted[at[parts[i].number]++] = parts[i];
	memmove(at + 1, at,
		numbers * sizeof(*at)); /* at[i] is now the end of i, where i + 1 begins */
	at[0] = 0;
	free(parts);
	*first = at;
	return sorted;
}

/* The statistics of each canonical key, computed by several threads. */
struct key_summing {
	const struct key_part *parts;
	const size_t *first; /* by key: the first of its parts; one more for the end */
	struct ws_keyed_sums *out;
	size_t next, step; /* the next key that no thread has taken; how many to take at once */
};

static void sum_one_key(struct key_summing *summing, size_t key, struct ws_dist **same)
{
	const struct key_part *parts = summing->parts + summing->first[key];
	size_t count = summing->first[key + 1] - summing->first[key];

	if (key + AHEAD < summing->out->count)
		__builtin_prefetch(summing->parts[summing->first[key + AHEAD]].dists);
	for (uint32_t dist = 0; dist < summing->out->dists_per_key; dist++) {
		for (size_t k = 0; k < count; k++)
			same[k] = parts[k].dists + dist;
		summing->out->summaries[key * summing->out->dists_per_key + dist] =
			ws_summarise_dists(same, count);
		for (size_t k = 0; k < count; k++) /* freed early: memory peaks here */
			ws_dist_free(same[k]);
	}
}

static void *sum_next_keys(void *arg)
{
	struct key_summing *summing = arg;
	struct ws_dist **same = NULL;
	size_t capacity = 0, from;

	while ((from = __atomic_fetch_add(&summing->next, summing->step, __ATOMIC_RELAXED)) <
	       summing->out->count)
		for (size_t i = from; i < from + summing->step && i < summing->out->count; i++) {
			ws_grow(same, capacity, summing->first[i + 1] - summing->first[i]);
			sum_one_key(summing, i, same);
		}
	free(same);
	return NULL;
}

static void sum_all_keys(const struct key_part *parts, const size_t *first, size_t total,
			 struct ws_keyed_sums *out)
{
	struct ws_scan any = {.table = WS_TABLE_cuda_kernel};
	struct key_summing summing = {.parts = parts, .first = first, .out = out, .step = 1};
	uint32_t workers = 1, started = 1;
	pthread_t *threads;

	if (out->count > 1 << 14) /* few keys may have many values each: one at a time */
		summing.step = 1 << 10;
	if (total > 16)
		workers = ws_count_scan_workers(&any);
	threads = ws_calloc(workers, sizeof(*threads));
	for (; started < workers; started++)
		if (pthread_create(&threads[started], NULL, sum_next_keys, &summing))
			break; /* the threads that did start are enough */
	sum_next_keys(&summing);
	for (uint32_t i = 1; i < started; i++)
		pthread_join(threads[i], NULL);
	free(threads);
}

void ws_keyed_merge(struct ws_keyed_dists *tables, size_t table_count,
		    void (*canonical)(void *context, size_t table, uint64_t *key), void *context,
		    struct ws_keyed_sums *out)
{
	struct ws_keyed_dists all = {.words = 1};
	uint32_t words = 1, per = 1;
	size_t total, *first;
	struct key_part *parts;

	if (table_count) {
		words = all.words = tables[0].words;
		per = tables[0].dists_per_key;
	}
	parts = number_parts(tables, table_count, &all, canonical, context, &total);
	parts = sort_parts(parts, total, all.count, &first);
	*out = (struct ws_keyed_sums){.count = all.count, .words = words, .dists_per_key = per};
	out->summaries = ws_calloc(all.count * per, sizeof(*out->summaries));
	sum_all_keys(parts, first, total, out);
	out->keys = all.keys;
	all.keys = NULL;
	ws_keyed_free(&all);
	free(parts);
	free(first);
	for (size_t table = 0; table < table_count;
	     table++) /* their distributions are empty by now */
		ws_keyed_free(&tables[table]);
}

void ws_keyed_sums_free(struct ws_keyed_sums *sums)
{
	free(sums->keys);
	free(sums->summaries);
	*sums = (struct ws_keyed_sums){0};
}
