/*
 * keyed.h - distributions by a key of several words: what "per name, grid and block" means in the
 * summaries of CUDA.
 *
 * Each worker has a table of its own, so that nothing is shared while scanning; ws_keyed_merge
 * brings equal keys of all workers together. A key may have several distributions (the times of a
 * launch, of the wait after it and of the kernel). group.h is faster for keys that are one number
 * and often repeat at once.
 */
#ifndef WS_STATS_KEYED_H
#define WS_STATS_KEYED_H

#include <string.h>

#include "stats/distribution.h"

enum { WS_KEYED_WORDS = 8 }; /* most words of a key */

/* Zeroed but for `words` and `per`. Number i has keys + i * words and dists + i * per. */
struct ws_keyed_dists {
	uint32_t words,
		dists_per_key; /* words of a key; distributions per key, 0 to only number keys */
	uint64_t *keys;
	struct ws_dist *dists;
	size_t count, key_capacity, dist_capacity;
	uint64_t *slots; /* open addressing: low half of the hash, number of the key + 1 */
	size_t mask;	 /* slots - 1; 0 when there are none */
	size_t last;	 /* number of the last key: equal keys often follow each other */
};

/* ws_keyed_get for a key that is not the last one. */
struct ws_dist *ws_keyed_look_up(struct ws_keyed_dists *keyed, const uint64_t *key);
/* Prefetch what looking `key` up will read: worthwhile a few keys ahead, where there are more keys
 * than the cache holds. */
void ws_keyed_prefetch(const struct ws_keyed_dists *keyed, const uint64_t *key);
void ws_keyed_free(struct ws_keyed_dists *keyed);

/* The distributions of the last key; NULL for keys that are only numbered. */
static inline struct ws_dist *ws_keyed_get_last(const struct ws_keyed_dists *keyed)
{
	if (!keyed->dists_per_key)
		return NULL;
	return keyed->dists + keyed->last * keyed->dists_per_key;
}

/*
 * The distributions of `key` (`per` of them; NULL for 0), new and empty when it has none; sets
 * `last` to its number. Valid until the next call.
 */
static inline struct ws_dist *ws_keyed_get(struct ws_keyed_dists *keyed, const uint64_t *key)
{
	uint32_t same = 0;

	if (keyed->count)
		for (const uint64_t *k = keyed->keys + keyed->last * keyed->words;
		     same < keyed->words && k[same] == key[same];)
			same++;
	if (ws_unlikely(same < keyed->words || !keyed->count))
		return ws_keyed_look_up(keyed, key);
	return ws_keyed_get_last(keyed);
}

/* Statistics of all keys, after the merge. */
struct ws_keyed_sums {
	size_t count;
	uint32_t words, dists_per_key;
	uint64_t *keys;		      /* n * words */
	struct ws_summary *summaries; /* n * per */
};

/*
 * Statistics of all keys of `tables`, in order of first appearance; ws_keyed_sums_free frees them.
 * `canonical` turns a worker's key into the one that is valid for all (NULL: it is already). Frees
 * the tables.
 */
void ws_keyed_merge(struct ws_keyed_dists *tables, size_t table_count,
		    void (*canonical)(void *context, size_t table, uint64_t *key), void *context,
		    struct ws_keyed_sums *out);
void ws_keyed_sums_free(struct ws_keyed_sums *sums);

#endif
