/*
 * keyed.h - distributions by a key of several words: what "per name, grid and block" means in the
 * summaries of CUDA.
 *
 * One table a worker, so that nothing is shared while scanning; ws_keyed_merge brings the same key
 * of all workers together. A key may carry several distributions side by side (a launch, its wait
 * and its run). Keys that are one number and come in runs are better served by group.h.
 */
#ifndef WS_STATS_KEYED_H
#define WS_STATS_KEYED_H

#include <string.h>

#include "stats/dist.h"

enum { WS_KEYED_WORDS = 6 }; /* most words of a key */

/* Zeroed but for `words` and `per`. Number i has keys + i * words and dists + i * per. */
struct ws_keyed {
	uint32_t words, per; /* words of a key; distributions of a key, 0 to number keys only */
	uint64_t *keys;
	struct ws_dist *dists;
	size_t n, keys_cap, dists_cap;
	uint64_t *slots; /* low half of the hash, and number of the key + 1; open addressing */
	size_t mask;	 /* slots - 1; 0 when there are none */
	size_t last;	 /* the last key: equal ones come in runs */
};

struct ws_dist *ws_keyed_slow(struct ws_keyed *keyed, const uint64_t *key);
/* Fetch what looking `key` up will touch: worth while a few keys ahead, where there are more keys
 * than the cache holds. */
void ws_keyed_prefetch(const struct ws_keyed *keyed, const uint64_t *key);
void ws_keyed_free(struct ws_keyed *keyed);

/*
 * The distributions of `key` (`per` of them; NULL for 0), new and empty when it has none, and its
 * number in `last`. Valid until the next call.
 */
static inline struct ws_dist *ws_keyed_get(struct ws_keyed *keyed, const uint64_t *key)
{
	uint32_t same = 0;

	if (keyed->n)
		for (const uint64_t *k = keyed->keys + keyed->last * keyed->words;
		     same < keyed->words && k[same] == key[same];)
			same++;
	if (ws_unlikely(same < keyed->words || !keyed->n))
		return ws_keyed_slow(keyed, key);
	return keyed->per ? keyed->dists + keyed->last * keyed->per : NULL;
}

/* Statistics of all keys, after the merge. */
struct ws_keyed_sums {
	size_t n;
	uint32_t words, per;
	uint64_t *keys;		 /* n * words */
	struct ws_std8 *summary; /* n * per */
};

/*
 * Statistics of all keys over `tables`, in order of first appearance. `canonical` turns a key into
 * the one that means the same everywhere (NULL: it does already). Frees the tables.
 */
void ws_keyed_merge(struct ws_keyed *tables, size_t table_count,
		    void (*canonical)(void *ctx, size_t table, uint64_t *key), void *ctx,
		    struct ws_keyed_sums *out);
void ws_keyed_sums_free(struct ws_keyed_sums *sums);

#endif
