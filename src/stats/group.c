/* group.c - see group.h. */
#include "stats/group.h"

#include <stdlib.h>
#include <string.h>

#include "base/parallel.h"
#include "base/choose.h"
#include "base/slots.h"

enum { AHEAD = 16 }; /* groups that are prefetched */

struct ws_dist *ws_groups_find(struct ws_groups *groups, uint64_t key)
{
	uint64_t hash = (uint32_t)ws_hash_word(0, key);

	if (groups->count && groups->groups[groups->last].key == key)
		return &groups->groups[groups->last].dist;
	for (size_t slot = hash & groups->mask; groups->mask && groups->slots[slot];
	     slot = (slot + 1) & groups->mask) {
		size_t number = (uint32_t)groups->slots[slot] - 1;

		if (groups->slots[slot] >> 32 != hash || groups->groups[number].key != key)
			continue;
		groups->last = number;
		return &groups->groups[number].dist;
	}
	return NULL;
}

struct ws_dist *ws_groups_look_up(struct ws_groups *groups, uint64_t key)
{
	uint64_t hash = (uint32_t)ws_hash_word(0, key);
	size_t slot;

	if (groups->count * 2 >= groups->mask) /* at most half full */
		ws_grow_slots(&groups->slots, &groups->mask, 64);
	for (slot = hash & groups->mask; groups->slots[slot]; slot = (slot + 1) & groups->mask) {
		size_t number = (uint32_t)groups->slots[slot] - 1;

		if (groups->slots[slot] >> 32 != hash || groups->groups[number].key != key)
			continue;
		groups->last = number;
		return &groups->groups[groups->last].dist;
	}
	ws_grow(groups->groups, groups->capacity, groups->count + 1);
	groups->last = groups->count++;
	groups->slots[slot] = hash << 32 | (uint32_t)groups->count;
	memset(&groups->groups[groups->last], 0, sizeof(*groups->groups));
	groups->groups[groups->last].key = key;
	return &groups->groups[groups->last].dist;
}

void ws_groups_free(struct ws_groups *groups)
{
	for (size_t i = 0; i < groups->count; i++)
		ws_dist_free(&groups->groups[i].dist);
	free(groups->groups);
	free(groups->slots);
	memset(groups, 0, sizeof(*groups));
}

/* The groups of all tables as (canonical key, table << 32 | number), sorted by key. *total gets
 * their number. */
static struct ws_keyed_value *gather_groups(const struct ws_groups *tables, size_t table_count,
					    uint64_t (*canonical)(void *context, size_t table,
								  uint64_t key),
					    void *context, size_t *total)
{
	struct ws_keyed_value *keyed;
	size_t count = 0;

	for (size_t table = 0; table < table_count; table++)
		count += tables[table].count;
	*total = count;
	keyed = ws_malloc(count * sizeof(*keyed));
	count = 0;
	for (size_t table = 0; table < table_count; table++)
		for (size_t i = 0; i < tables[table].count; i++) {
			uint64_t key = tables[table].groups[i].key;

			if (canonical)
				key = canonical(context, table, key);
			keyed[count++] = (struct ws_keyed_value){key, table << 32 | i};
		}
	return ws_sort_by_key(keyed, count);
}

static struct ws_dist *get_group_dist(struct ws_groups *tables, const struct ws_keyed_value *keyed)
{
	return &tables[keyed->value >> 32].groups[(uint32_t)keyed->value].dist;
}

struct ws_group_sum *ws_groups_merge(struct ws_groups *tables, size_t table_count,
				     uint64_t (*canonical)(void *context, size_t table,
							   uint64_t key),
				     void *context, size_t *count)
{
	size_t total, same_count, out = 0, capacity = 0;
	struct ws_keyed_value *parts =
		gather_groups(tables, table_count, canonical, context, &total);
	struct ws_group_sum *sums = ws_malloc(total * sizeof(*sums));
	struct ws_dist **same = NULL;

	for (size_t i = 0; i < total; i += same_count) {
		if (i + AHEAD < total)
			__builtin_prefetch(get_group_dist(tables, &parts[i + AHEAD]));
		for (same_count = 0;
		     i + same_count < total && parts[i + same_count].key == parts[i].key;
		     same_count++) {
			ws_grow(same, capacity, same_count + 1);
			same[same_count] = get_group_dist(tables, &parts[i + same_count]);
		}
		sums[out++] =
			(struct ws_group_sum){parts[i].key, ws_summarise_dists(same, same_count)};
		for (size_t k = 0; k < same_count; k++) /* freed early: memory peaks here */
			ws_dist_free(same[k]);
	}
	free(parts);
	free(same);
	*count = out;
	return sums;
}

/* ---- spilled values ---- */

void ws_spill_free(struct ws_spill *spill)
{
	for (size_t i = 0; i < WS_SPILL_PARTS; i++)
		free(spill->parts[i].keyeds);
	for (unsigned i = 0; i < spill->firsts; i++) {
		free(spill->first_values[i].values);
		free(spill->first_values[i].used);
	}
	memset(spill, 0, sizeof(*spill));
}

struct ws_firsts *ws_spill_get_firsts(struct ws_spill *spill, uint64_t key)
{
	uint64_t upper = key >> 32 << 32;
	struct ws_firsts *firsts;

	for (spill->last = 0; spill->last < spill->firsts; spill->last++)
		if (spill->first_values[spill->last].upper == upper)
			return &spill->first_values[spill->last];
	spill->last = 0;
	if (spill->firsts == WS_FIRSTS)
		return NULL;
	firsts = &spill->first_values[spill->firsts];
	firsts->upper = upper;
	/* Only the pages in use take memory. Without the array, values are appended to lists. */
	firsts->values = calloc(spill->limit, sizeof(*firsts->values));
	firsts->used = ws_calloc(spill->limit / WS_FIRSTS_PAGE + 1, 1);
	if (!firsts->values) {
		free(firsts->used);
		spill->limit = 0;
		return NULL;
	}
	spill->last = spill->firsts++;
	return firsts;
}

struct spill_merge {
	struct ws_groups *tables;
	struct ws_spill *spills; /* freed along the way */
	size_t table_count;
	const struct ws_spill_keys *keys;
	struct ws_keyed_value
		*groups; /* (canonical key, table << 32 | number), by part, then key */
	size_t first[WS_SPILL_PARTS + 1]; /* where the groups of each part begin */
	struct ws_group_part *parts;
	struct ws_firsts **firsts; /* those of all workers, sorted by upper half */
	size_t first_count;
};

/* Collect the groups of the tables, part after part, in order of key within each. */
static void sort_groups_by_part(struct spill_merge *merge)
{
	size_t total, next[WS_SPILL_PARTS] = {0};
	struct ws_keyed_value *keyed =
		gather_groups(merge->tables, merge->table_count, merge->keys->canonical,
			      merge->keys->context, &total);

	for (size_t i = 0; i < total; i++)
		merge->first[ws_get_spill_part(merge->spills->shift, keyed[i].key) + 1]++;
	for (size_t i = 0; i < WS_SPILL_PARTS; i++) {
		merge->first[i + 1] += merge->first[i];
		next[i] = merge->first[i];
	}
	merge->groups = ws_malloc((total + 1) * sizeof(*merge->groups));
	for (size_t i = 0; i < total; i++)
		merge->groups[next[ws_get_spill_part(merge->spills->shift, keyed[i].key)]++] =
			keyed[i];
	free(keyed);
}

static int compare_upper_halves(const void *first, const void *second)
{
	uint64_t left = (*(struct ws_firsts *const *)first)->upper,
		 right = (*(struct ws_firsts *const *)second)->upper;

	return ws_compare(left, right);
}

static void gather_firsts(struct spill_merge *merge)
{
	merge->firsts = ws_malloc(merge->table_count * WS_FIRSTS * sizeof(*merge->firsts));
	for (size_t table = 0; table < merge->table_count; table++)
		for (unsigned i = 0; i < merge->spills[table].firsts; i++) {
			struct ws_firsts *firsts = &merge->spills[table].first_values[i];

			if (merge->keys->spilled)
				firsts->upper = merge->keys->spilled(merge->keys->context, table,
								     firsts->upper) >>
						32 << 32;
			merge->firsts[merge->first_count++] = firsts;
		}
	if (merge->first_count)
		qsort(merge->firsts, merge->first_count, sizeof(*merge->firsts),
		      compare_upper_halves);
}

struct value_list {
	struct ws_keyed_value *keyeds;
	size_t count, capacity;
};

static void append_spilled_value(struct value_list *values, uint64_t key, uint64_t value)
{
	ws_grow(values->keyeds, values->capacity, values->count + 1);
	values->keyeds[values->count++] = (struct ws_keyed_value){key, value};
}

/* Move the first value of a key, if there is one, to the other values of the key. */
static void move_first_value(struct ws_firsts *firsts, uint32_t low, struct value_list *to)
{
	if (!firsts->used[low / WS_FIRSTS_PAGE] || !firsts->values[low])
		return;
	append_spilled_value(to, firsts->upper | low, firsts->values[low] - 1);
	firsts->values[low] = 0;
}

/* Move first values of keys that several workers have, with low halves from `low` up to `end`. All
 * of `firsts` have the same upper half. */
static void move_common_firsts(struct ws_firsts *const *firsts, size_t count, uint32_t low,
			       uint32_t end, struct value_list *to)
{
	while (low < end) {
		size_t page = low / WS_FIRSTS_PAGE, used = 0;
		uint32_t stop = (uint32_t)ws_min((page + 1) * WS_FIRSTS_PAGE, end);

		for (size_t i = 0; i < count; i++)
			used += firsts[i]->used[page];
		for (; used > 1 && low < stop; low++) {
			size_t have = 0;

			for (size_t i = 0; i < count; i++)
				have += firsts[i]->used[page] && firsts[i]->values[low];
			for (size_t i = 0; have > 1 && i < count; i++)
				move_first_value(firsts[i], low, to);
		}
		low = stop;
	}
}

/* Append first values to `to`, which has the other spilled values of the part, for keys that have
 * more values: another worker's first value, a value in `to`, or a group of the tables. */
static void move_firsts_of_part(const struct spill_merge *merge, size_t part, struct value_list *to)
{
	uint64_t limit = merge->spills->limit, shift = merge->spills->shift, low = part << shift,
		 end = (part + 1) << shift;
	size_t count, written = to->count;

	if (end > limit || part + 1 == WS_SPILL_PARTS)
		end = limit;
	for (size_t i = 0; i < merge->first_count; i += count) {
		struct ws_firsts *const *firsts = &merge->firsts[i];

		for (count = 1;
		     i + count < merge->first_count && firsts[count]->upper == firsts[0]->upper;)
			count++;
		if (count > 1 && low < end)
			move_common_firsts(firsts, count, (uint32_t)low, (uint32_t)end, to);
		for (size_t k = 0; k < written; k++)
			for (size_t j = 0;
			     j < count && to->keyeds[k].key >> 32 == firsts[0]->upper >> 32 &&
			     (uint32_t)to->keyeds[k].key < limit;
			     j++)
				move_first_value(firsts[j], (uint32_t)to->keyeds[k].key, to);
		for (size_t group = merge->first[part]; group < merge->first[part + 1]; group++)
			for (size_t j = 0;
			     j < count &&
			     merge->groups[group].key >> 32 == firsts[0]->upper >> 32 &&
			     (uint32_t)merge->groups[group].key < limit;
			     j++)
				move_first_value(firsts[j], (uint32_t)merge->groups[group].key, to);
	}
}

/* The spilled values of all workers in one part, sorted by canonical key. */
static struct ws_keyed_value *gather_part_values(const struct spill_merge *merge, size_t part,
						 size_t *count)
{
	struct value_list all = {0};

	for (size_t table = 0; table < merge->table_count; table++) {
		ws_grow(all.keyeds, all.capacity,
			all.count + merge->spills[table].parts[part].n + 1);
		for (size_t i = 0; i < merge->spills[table].parts[part].n; i++) {
			struct ws_keyed_value one = merge->spills[table].parts[part].keyeds[i];

			if (merge->keys->spilled)
				one.key =
					merge->keys->spilled(merge->keys->context, table, one.key);
			append_spilled_value(&all, one.key, one.value);
		}
		free(merge->spills[table].parts[part].keyeds);
		merge->spills[table].parts[part].keyeds = NULL;
	}
	move_firsts_of_part(merge, part, &all);
	*count = all.count;
	if (!all.count)
		return all.keyeds;
	return ws_sort_by_key(all.keyeds, all.count);
}

/* A distribution of the values, stored in `small` and `large`, which have space for all of them. */
static struct ws_dist make_spilled_dist(const struct ws_keyed_value *keyed, size_t count,
					uint32_t *small, struct ws_dist_large *large)
{
	struct ws_dist dist = {.v = small};

	large->count = 0;
	for (size_t i = 0; i < count; i++)
		if (keyed[i].value > UINT32_MAX)
			large->values[large->count++] = keyed[i].value;
		else
			small[dist.array_count++] = (uint32_t)keyed[i].value;
	dist.array_capacity = (uint32_t)ws_max(count, 1u);
	if (large->count)
		dist.large = large;
	return dist;
}

static void merge_spilled_part(void *context, unsigned worker, size_t part)
{
	struct spill_merge *merge = context;
	size_t value_count, group = merge->first[part], end = merge->first[part + 1], from = 0, to,
			    out = 0;
	struct ws_keyed_value *keyed = gather_part_values(merge, part, &value_count);
	uint32_t *small = ws_malloc((value_count + 1) * sizeof(*small));
	struct ws_dist_large large = {.values =
					      ws_malloc((value_count + 1) * sizeof(*large.values))};
	struct ws_dist **same = ws_malloc((merge->table_count + 1) * sizeof(*same));
	size_t same_cap = merge->table_count + 1;
	struct ws_group_sum *sums = ws_malloc((value_count + end - group + 1) *
					      sizeof(*sums)); /* unused pages take no memory */

	(void)worker;
	while (from < value_count || group < end) {
		struct ws_dist dist;
		uint64_t key;
		size_t parts = 0;

		if (from < value_count &&
		    (group == end || keyed[from].key <= merge->groups[group].key))
			key = keyed[from].key;
		else
			key = merge->groups[group].key;

		for (to = from; to < value_count && keyed[to].key == key;)
			to++;
		for (; group < end && merge->groups[group].key == key; group++) {
			ws_grow(same, same_cap, parts + 2);
			same[parts++] = get_group_dist(merge->tables, &merge->groups[group]);
		}
		if (to > from) {
			dist = make_spilled_dist(keyed + from, to - from, small, &large);
			same[parts++] = &dist;
		}
		sums[out++] = (struct ws_group_sum){key, ws_summarise_dists(same, parts)};
		from = to;
	}
	merge->parts[part] =
		(struct ws_group_part){ws_realloc(sums, (out + 1) * sizeof(*sums)), out};
	free(same);
	free(large.values);
	free(small);
	free(keyed);
}

void ws_groups_merge_spilled(struct ws_groups *tables, struct ws_spill *spills, size_t table_count,
			     const struct ws_spill_keys *keys, struct ws_group_part *parts)
{
	struct spill_merge merge = {.tables = tables,
				    .spills = spills,
				    .table_count = table_count,
				    .keys = keys,
				    .parts = parts};

	sort_groups_by_part(&merge);
	gather_firsts(&merge);
	ws_run_parallel(ws_count_workers(), WS_SPILL_PARTS, merge_spilled_part, &merge);
	free(merge.groups);
	free(merge.firsts);
}
