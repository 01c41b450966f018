/*
 * group.h - distributions by key: what "per name" means in every summary.
 *
 * One table a worker, so that nothing is shared while scanning; ws_groups_merge brings the same key of all workers together. Keys
 * are 64-bit numbers that the report makes up (string id, style, domain).
 */
#ifndef WS_STATS_GROUP_H
#define WS_STATS_GROUP_H

#include "stats/dist.h"

struct ws_group {
	uint64_t key;
	struct ws_dist dist;
};

struct ws_groups {
	struct ws_group *g;
	size_t n, cap;
	uint64_t *slots; /* low half of the hash, and number of the group + 1; open addressing */
	size_t mask;	 /* slots - 1; 0 when there are none */
	size_t last;	 /* group of the last key: names come in runs */
};

struct ws_dist *ws_groups_slow(struct ws_groups *t, uint64_t key);
/* Fetch what looking `key` up will touch; the table must not be empty. Worth while where there are more groups than the cache
 * holds. */
void ws_groups_prefetch(const struct ws_groups *t, uint64_t key);
void ws_groups_free(struct ws_groups *t);

/* The distribution of `key`, new and empty when it has none. Valid until the next call. */
static inline struct ws_dist *ws_groups_get(struct ws_groups *t, uint64_t key)
{
	if (ws_likely(t->n && t->g[t->last].key == key))
		return &t->g[t->last].dist;
	return ws_groups_slow(t, key);
}

/* One line of a summary: the statistics of all groups whose keys `canonical` maps to one. */
struct ws_group_sum {
	uint64_t key; /* the canonical one */
	struct ws_std8 s;
};

/*
 * Summaries of all keys over `tables`, in no order. `canonical` maps keys that mean the same to one (NULL: each stands for itself).
 * Frees the distributions on the way. The caller frees the result.
 */
struct ws_group_sum *ws_groups_merge(struct ws_groups *tables, size_t table_count,
				     uint64_t (*canonical)(void *ctx, size_t table, uint64_t key), void *ctx, size_t *count);

#endif
