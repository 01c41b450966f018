/*
 * group.h - distributions by key: what "per name" means in every summary.
 *
 * One table a worker, so that nothing is shared while scanning; ws_groups_merge brings the same key
 * of all workers together. Keys are 64-bit numbers that the report makes up (string id, style,
 * domain).
 */
#ifndef WS_STATS_GROUP_H
#define WS_STATS_GROUP_H

#include <stdbool.h>

#include "base/mem.h"
#include "base/sort.h"
#include "stats/dist.h"

struct ws_group {
	uint64_t key;
	struct ws_dist dist;
};

struct ws_groups {
	struct ws_group *group;
	size_t n, cap;
	uint64_t *slots; /* low half of the hash, and number of the group + 1; open addressing */
	size_t mask;	 /* slots - 1; 0 when there are none */
	size_t last;	 /* group of the last key: names come in runs */
};

/*
 * Values of keys that came when a table was crowded already: looking each up, and keeping an array
 * for each of millions of keys, would miss the cache at every step. The first value of each is kept
 * at the place that the low half of the key says: where names never repeat, that is all. Further
 * ones are only written down, in parts by the low half of the key, to be sorted in the end.
 * Neighbouring numbers share a part, so that what they stand for is met in order.
 */
enum { WS_GROUPS_CROWDED = 1 << 14, WS_SPILL_PARTS = 256, WS_FIRSTS = 8, WS_FIRSTS_PAGE = 1 << 13 };

/* First values of keys of one upper half: value + 1 by the lower one, 0 for none. */
struct ws_firsts {
	uint64_t upper; /* of the key; the lower half is 0 */
	uint32_t *v;
	uint8_t *used; /* by page of WS_FIRSTS_PAGE of them: not 0 where there may be some */
};

struct ws_spill {	/* one worker's; zeroed but for `shift` and `limit` */
	unsigned shift; /* of the low half of a key, to make a part of it; from ws_spill_shift */
	size_t limit;	/* first values are kept of low halves below it; 0: all are written down */
	struct ws_firsts first[WS_FIRSTS];
	unsigned firsts, last; /* how many there are; the one of the last key */
	struct {
		struct ws_keyed_value *keyeds; /* key and value */
		size_t n, cap;
	} part[WS_SPILL_PARTS];
};

void ws_spill_free(struct ws_spill *spill);
/* The first values for keys with the upper half of `key`, or NULL where there is no room for one
 * more upper half. */
struct ws_firsts *ws_spill_firsts(struct ws_spill *spill, uint64_t key);

/* The shift for low halves up to `most`; greater ones share the last part. */
static inline unsigned ws_spill_shift(uint32_t most)
{
	unsigned shift = 0;

	while (most >> shift >= WS_SPILL_PARTS)
		shift++;
	return shift;
}

static inline unsigned ws_spill_part(unsigned shift, uint64_t key)
{
	uint32_t part = (uint32_t)key >> shift;

	return part < WS_SPILL_PARTS ? part : WS_SPILL_PARTS - 1;
}

/* Keep the value if it is the first of its key. */
static inline bool ws_spill_first(struct ws_spill *spill, uint64_t key, uint64_t value)
{
	struct ws_firsts *firsts = &spill->first[spill->last];
	uint32_t low = (uint32_t)key;

	if (low >= spill->limit || value >= UINT32_MAX)
		return false;
	if (ws_unlikely(!spill->firsts || firsts->upper != key - low)) {
		firsts = ws_spill_firsts(spill, key);
		if (!firsts)
			return false;
	}
	if (firsts->v[low])
		return false;
	firsts->v[low] = (uint32_t)value + 1;
	firsts->used[low / WS_FIRSTS_PAGE] = 1;
	return true;
}

/* Ask the memory for what ws_spill_first will look at, where the upper half is that of the last
 * key. */
static inline void ws_spill_fetch(const struct ws_spill *spill, uint32_t low)
{
	if (spill->firsts && low < spill->limit)
		__builtin_prefetch(&spill->first[spill->last].v[low], 1);
}

static inline void ws_spill_add(struct ws_spill *spill, uint64_t key, uint64_t value)
{
	unsigned i = ws_spill_part(spill->shift, key);

	ws_grow(spill->part[i].keyeds, spill->part[i].cap, spill->part[i].n + 1);
	spill->part[i].keyeds[spill->part[i].n++] = (struct ws_keyed_value){key, value};
}

/* The distribution of `key`, or NULL when it has none. */
struct ws_dist *ws_groups_find(struct ws_groups *groups, uint64_t key);
struct ws_dist *ws_groups_slow(struct ws_groups *groups, uint64_t key);
void ws_groups_free(struct ws_groups *groups);

/* The distribution of `key`, new and empty when it has none. Valid until the next call. */
static inline struct ws_dist *ws_groups_get(struct ws_groups *groups, uint64_t key)
{
	if (ws_likely(groups->n && groups->group[groups->last].key == key))
		return &groups->group[groups->last].dist;
	return ws_groups_slow(groups, key);
}

/* One line of a summary: the statistics of all groups whose keys `canonical` maps to one. */
struct ws_group_sum {
	uint64_t key; /* the canonical one */
	struct ws_std8 summary;
};

/*
 * Summaries of all keys over `tables`, in no order. `canonical` maps keys that mean the same to one
 * (NULL: each stands for itself). Frees the distributions on the way. The caller frees the result.
 */
struct ws_group_sum *ws_groups_merge(struct ws_groups *tables, size_t table_count,
				     uint64_t (*canonical)(void *ctx, size_t table, uint64_t key),
				     void *ctx, size_t *count);

/* Some of the summaries. They stay in the parts in which they were made: to join millions would
 * take as long as to make them. */
struct ws_group_part {
	struct ws_group_sum *group_sums;
	size_t n;
};

/*
 * The same where values were spilled, into WS_SPILL_PARTS parts, each of which the caller frees:
 * `spills` has one for each table, all of one shift and limit. Low halves of spilled keys are those
 * of canonical ones already; `spilled` says what the key is wholly, from several threads (NULL: it
 * is as it stands). First values of keys that have no other are in no part, but stay in the spills,
 * whose upper halves are canonical then: each is a summary of itself.
 */
void ws_groups_merge_spilled(struct ws_groups *tables, struct ws_spill *spills, size_t table_count,
			     uint64_t (*canonical)(void *ctx, size_t table, uint64_t key),
			     uint64_t (*spilled)(void *ctx, size_t table, uint64_t key), void *ctx,
			     struct ws_group_part *parts);

#endif
