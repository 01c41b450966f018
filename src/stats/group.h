/*
 * group.h - distributions by key: what "per name" means in every summary.
 *
 * Each worker has a table of its own, so that nothing is shared while scanning; afterwards the
 * groups of equal keys are merged. Keys are 64-bit numbers that the report composes (string id,
 * style, domain).
 */
#ifndef WS_STATS_GROUP_H
#define WS_STATS_GROUP_H

#include <stdbool.h>

#include "base/choose.h"
#include "base/mem.h"
#include "base/sort.h"
#include "stats/distribution.h"

struct ws_group {
	uint64_t key;
	struct ws_dist dist;
};

struct ws_groups {
	struct ws_group *groups;
	size_t count, capacity;
	uint64_t *slots; /* open addressing: low half of the hash, number of the group + 1 */
	size_t mask;	 /* slots - 1; 0 when there are none */
	size_t last;	 /* group of the last key: equal names often come in succession */
};

/*
 * Values of keys that were first seen when a table was already crowded. Looking up each of them,
 * and keeping an array for each of millions of keys, would miss the cache at every step. The first
 * value of each key is stored at the index that the low half of the key gives: where names never
 * repeat, that is all. Further values are appended to lists, in parts by the low half of the key,
 * and sorted in the end. Neighbouring numbers share a part, so that the strings they stand for are
 * read in order.
 */
enum { WS_GROUPS_CROWDED = 1 << 14, WS_SPILL_PARTS = 256, WS_FIRSTS = 8, WS_FIRSTS_PAGE = 1 << 13 };

/* First values of keys with one upper half. */
struct ws_firsts {
	uint64_t upper;	  /* upper half of the keys; the lower half is 0 */
	uint32_t *values; /* value + 1 by the lower half of the key, 0 for none */
	uint8_t *used;	  /* by page of WS_FIRSTS_PAGE values: nonzero if there may be any */
};

struct ws_spill {	/* of one worker; zeroed but for `shift` and `limit` */
	unsigned shift; /* the shift by which the low half of a key gives its part; from
			   ws_choose_spill_shift */
	size_t limit;	/* first values are kept for keys with a low half below this; 0: for none */
	struct ws_firsts first_values[WS_FIRSTS];
	unsigned firsts, last; /* number of entries in use of `first`; the entry of the last key */
	struct {
		struct ws_keyed_value *keyeds; /* key and value */
		size_t n, cap;
	} parts[WS_SPILL_PARTS];
};

void ws_spill_free(struct ws_spill *spill);
/* The first values of keys with the upper half of `key`, new and empty when there are none yet;
 * NULL when WS_FIRSTS upper halves are in use already. */
struct ws_firsts *ws_spill_get_firsts(struct ws_spill *spill, uint64_t key);

/* The shift that spreads low halves up to `most` over the parts; greater ones share the last. */
static inline unsigned ws_choose_spill_shift(uint32_t most)
{
	unsigned shift = 0;

	while (most >> shift >= WS_SPILL_PARTS)
		shift++;
	return shift;
}

static inline unsigned ws_get_spill_part(unsigned shift, uint64_t key)
{
	uint32_t part = (uint32_t)key >> shift;

	return ws_min(part, WS_SPILL_PARTS - 1u);
}

/* Keep the value if it is the first of its key; returns whether it was. */
static inline bool ws_spill_add_first(struct ws_spill *spill, uint64_t key, uint64_t value)
{
	struct ws_firsts *firsts = &spill->first_values[spill->last];
	uint32_t low = (uint32_t)key;

	if (low >= spill->limit || value >= UINT32_MAX)
		return false;
	if (ws_unlikely(!spill->firsts || firsts->upper != key - low)) {
		firsts = ws_spill_get_firsts(spill, key);
		if (!firsts)
			return false;
	}
	if (firsts->values[low])
		return false;
	firsts->values[low] = (uint32_t)value + 1;
	firsts->used[low / WS_FIRSTS_PAGE] = 1;
	return true;
}

/* Prefetch what ws_spill_add_first will read for a key with the upper half of the last one. */
static inline void ws_spill_prefetch(const struct ws_spill *spill, uint32_t low)
{
	if (spill->firsts && low < spill->limit)
		__builtin_prefetch(&spill->first_values[spill->last].values[low], 1);
}

static inline void ws_spill_add(struct ws_spill *spill, uint64_t key, uint64_t value)
{
	unsigned i = ws_get_spill_part(spill->shift, key);

	ws_grow(spill->parts[i].keyeds, spill->parts[i].cap, spill->parts[i].n + 1);
	spill->parts[i].keyeds[spill->parts[i].n++] = (struct ws_keyed_value){key, value};
}

/* The distribution of `key`, or NULL when it has none. */
struct ws_dist *ws_groups_find(struct ws_groups *groups, uint64_t key);
/* ws_groups_get for a key that is not the last one. */
struct ws_dist *ws_groups_look_up(struct ws_groups *groups, uint64_t key);
void ws_groups_free(struct ws_groups *groups);

/* The distribution of `key`, new and empty when it has none. Valid until the next call. */
static inline struct ws_dist *ws_groups_get(struct ws_groups *groups, uint64_t key)
{
	if (ws_likely(groups->count && groups->groups[groups->last].key == key))
		return &groups->groups[groups->last].dist;
	return ws_groups_look_up(groups, key);
}

/* One row of a summary: the statistics of all groups whose keys `canonical` maps to one. */
struct ws_group_sum {
	uint64_t key; /* the canonical one */
	struct ws_summary summary;
};

/*
 * Summaries of all keys of `tables`, in no particular order; *count gets their number. `canonical`
 * maps keys that mean the same to one key (NULL: keys are canonical already). Frees the
 * distributions on the way. The caller frees the result.
 */
struct ws_group_sum *ws_groups_merge(struct ws_groups *tables, size_t table_count,
				     uint64_t (*canonical)(void *context, size_t table,
							   uint64_t key),
				     void *context, size_t *count);

/* The summaries of one part. They stay in the parts in which they were made: to join millions of
 * them would take as long as to make them. */
struct ws_group_part {
	struct ws_group_sum *group_sums;
	size_t count;
};

/* How keys of a table become canonical, asked from several threads. */
struct ws_spill_keys {
	uint64_t (*canonical)(void *context, size_t table, uint64_t key);
	uint64_t (*spilled)(void *context, size_t table, uint64_t key);
	void *context;
};

/*
 * The same where values were spilled, into WS_SPILL_PARTS parts, each of which the caller frees.
 * `spills` has one entry for each table, all with the same shift and limit. The low half of a
 * spilled key must be canonical already; `keys->spilled` maps the key as a whole (NULL: it is
 * canonical). First values of keys that have no other value are in no part: they
 * stay in `spills`, whose upper halves are then canonical, and each is a summary by itself.
 */
void ws_groups_merge_spilled(struct ws_groups *tables, struct ws_spill *spills, size_t table_count,
			     const struct ws_spill_keys *keys, struct ws_group_part *parts);

#endif
