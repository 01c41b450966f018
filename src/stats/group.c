/* group.c - see group.h. */
#include "stats/group.h"

#include <stdlib.h>
#include <string.h>

#include "base/parallel.h"
#include "base/choose.h"
#include "base/slots.h"

enum { AHEAD = 16 };

struct ws_dist *ws_groups_find(struct ws_groups *groups, uint64_t key)
{
	uint64_t h = (uint32_t)ws_hash_word(0, key);

	if (groups->n && groups->group[groups->last].key == key)
		return &groups->group[groups->last].dist;
	for (size_t at = h & groups->mask; groups->mask && groups->slots[at];
	     at = (at + 1) & groups->mask) {
		size_t number = (uint32_t)groups->slots[at] - 1;

		if (groups->slots[at] >> 32 != h || groups->group[number].key != key)
			continue;
		groups->last = number;
		return &groups->group[number].dist;
	}
	return NULL;
}

struct ws_dist *ws_groups_slow(struct ws_groups *groups, uint64_t key)
{
	uint64_t h = (uint32_t)ws_hash_word(0, key);
	size_t at;

	if (groups->n * 2 >= groups->mask) /* at most half full */
		ws_slots_grow(&groups->slots, &groups->mask, 64);
	for (at = h & groups->mask; groups->slots[at]; at = (at + 1) & groups->mask) {
		size_t number = (uint32_t)groups->slots[at] - 1;

		if (groups->slots[at] >> 32 != h || groups->group[number].key != key)
			continue;
		groups->last = number;
		return &groups->group[groups->last].dist;
	}
	ws_grow(groups->group, groups->cap, groups->n + 1);
	groups->last = groups->n++;
	groups->slots[at] = h << 32 | (uint32_t)groups->n;
	memset(&groups->group[groups->last], 0, sizeof(*groups->group));
	groups->group[groups->last].key = key;
	return &groups->group[groups->last].dist;
}

void ws_groups_free(struct ws_groups *groups)
{
	for (size_t i = 0; i < groups->n; i++)
		ws_dist_free(&groups->group[i].dist);
	free(groups->group);
	free(groups->slots);
	memset(groups, 0, sizeof(*groups));
}

/* The groups of all tables under their canonical keys, as (key, table << 32 | number). */
static struct ws_keyed_value *gather(const struct ws_groups *tables, size_t table_count,
				     uint64_t (*canonical)(void *ctx, size_t table, uint64_t key),
				     void *ctx, size_t *total)
{
	struct ws_keyed_value *keyed;
	size_t n = 0;

	for (size_t t = 0; t < table_count; t++)
		n += tables[t].n;
	*total = n;
	keyed = ws_malloc(n * sizeof(*keyed));
	n = 0;
	for (size_t t = 0; t < table_count; t++)
		for (size_t i = 0; i < tables[t].n; i++) {
			uint64_t key = tables[t].group[i].key;

			keyed[n++] = (struct ws_keyed_value){
				canonical ? canonical(ctx, t, key) : key, t << 32 | i};
		}
	return ws_sort_by_key(keyed, n);
}

static struct ws_dist *dist_of(struct ws_groups *tables, const struct ws_keyed_value *keyed)
{
	return &tables[keyed->value >> 32].group[(uint32_t)keyed->value].dist;
}

struct ws_group_sum *ws_groups_merge(struct ws_groups *tables, size_t table_count,
				     uint64_t (*canonical)(void *ctx, size_t table, uint64_t key),
				     void *ctx, size_t *count)
{
	size_t total, n, out = 0, cap = 0;
	struct ws_keyed_value *parts = gather(tables, table_count, canonical, ctx, &total);
	struct ws_group_sum *sums = ws_malloc(total * sizeof(*sums));
	struct ws_dist **same = NULL;

	for (size_t i = 0; i < total; i += n) {
		if (i + AHEAD < total)
			__builtin_prefetch(dist_of(tables, &parts[i + AHEAD]));
		for (n = 0; i + n < total && parts[i + n].key == parts[i].key; n++) {
			ws_grow(same, cap, n + 1);
			same[n] = dist_of(tables, &parts[i + n]);
		}
		sums[out++] = (struct ws_group_sum){parts[i].key, ws_dist_summary(same, n)};
		for (size_t k = 0; k < n; k++) /* at once: memory peaks here */
			ws_dist_free(same[k]);
	}
	free(parts);
	free(same);
	*count = out;
	return sums;
}

/* ---- with values that were only written down ---- */

void ws_spill_free(struct ws_spill *spill)
{
	for (size_t i = 0; i < WS_SPILL_PARTS; i++)
		free(spill->part[i].keyeds);
	for (unsigned i = 0; i < spill->firsts; i++) {
		free(spill->first[i].v);
		free(spill->first[i].used);
	}
	memset(spill, 0, sizeof(*spill));
}

struct ws_firsts *ws_spill_firsts(struct ws_spill *spill, uint64_t key)
{
	uint64_t upper = key >> 32 << 32;
	struct ws_firsts *firsts;

	for (spill->last = 0; spill->last < spill->firsts; spill->last++)
		if (spill->first[spill->last].upper == upper)
			return &spill->first[spill->last];
	spill->last = 0;
	if (spill->firsts == WS_FIRSTS)
		return NULL;
	firsts = &spill->first[spill->firsts];
	firsts->upper = upper;
	firsts->v = calloc(spill->limit, sizeof(*firsts->v)); /* of which only what is used is
						   touched; without it values are written down */
	firsts->used = ws_calloc(spill->limit / WS_FIRSTS_PAGE + 1, 1);
	if (!firsts->v) {
		free(firsts->used);
		spill->limit = 0;
		return NULL;
	}
	spill->last = spill->firsts++;
	return firsts;
}

struct merging {
	struct ws_groups *tables;
	struct ws_spill *spills; /* freed on the way */
	size_t table_count;
	uint64_t (*canonical)(void *ctx, size_t table, uint64_t key);
	uint64_t (*spilled)(void *ctx, size_t table, uint64_t key);
	void *ctx;
	struct ws_keyed_value
		*groups; /* of the tables, by part of their canonical keys: as gather gives them */
	size_t first[WS_SPILL_PARTS + 1];
	struct ws_group_part *parts;
	struct ws_firsts **firsts; /* of all workers, those of one upper half together */
	size_t first_count;
};

/* The groups of the tables, part after part, in order of key within each. */
static void part_groups(struct merging *merging)
{
	size_t total, at[WS_SPILL_PARTS] = {0};
	struct ws_keyed_value *keyed = gather(merging->tables, merging->table_count,
					      merging->canonical, merging->ctx, &total);

	for (size_t i = 0; i < total; i++)
		merging->first[ws_spill_part(merging->spills->shift, keyed[i].key) + 1]++;
	for (size_t i = 0; i < WS_SPILL_PARTS; i++) {
		merging->first[i + 1] += merging->first[i];
		at[i] = merging->first[i];
	}
	merging->groups = ws_malloc((total + 1) * sizeof(*merging->groups));
	for (size_t i = 0; i < total; i++)
		merging->groups[at[ws_spill_part(merging->spills->shift, keyed[i].key)]++] =
			keyed[i];
	free(keyed);
}

static int by_upper(const void *first, const void *second)
{
	uint64_t x = (*(struct ws_firsts *const *)first)->upper,
		 y = (*(struct ws_firsts *const *)second)->upper;

	return ws_compare(x, y);
}

static void gather_firsts(struct merging *merging)
{
	merging->firsts = ws_malloc(merging->table_count * WS_FIRSTS * sizeof(*merging->firsts));
	for (size_t t = 0; t < merging->table_count; t++)
		for (unsigned i = 0; i < merging->spills[t].firsts; i++) {
			struct ws_firsts *firsts = &merging->spills[t].first[i];

			firsts->upper = merging->spilled ? merging->spilled(merging->ctx, t,
									    firsts->upper) >>
								   32 << 32
							 : firsts->upper;
			merging->firsts[merging->first_count++] = firsts;
		}
	if (merging->first_count)
		qsort(merging->firsts, merging->first_count, sizeof(*merging->firsts), by_upper);
}

struct values {
	struct ws_keyed_value *keyeds;
	size_t n, cap;
};

static void add_value(struct values *values, uint64_t key, uint64_t value)
{
	ws_grow(values->keyeds, values->cap, values->n + 1);
	values->keyeds[values->n++] = (struct ws_keyed_value){key, value};
}

/* First values of one key that several workers have, and those of keys with other values: they are
 * no longer alone. */
static void take_first(struct ws_firsts *firsts, uint32_t low, struct values *to)
{
	if (!firsts->used[low / WS_FIRSTS_PAGE] || !firsts->v[low])
		return;
	add_value(to, firsts->upper | low, firsts->v[low] - 1);
	firsts->v[low] = 0;
}

/* Of low halves from `low` to `end`; f[0] to f[n - 1] are of one upper half. */
static void take_common(struct ws_firsts *const *f, size_t n, uint32_t low, uint32_t end,
			struct values *to)
{
	while (low < end) {
		size_t page = low / WS_FIRSTS_PAGE, used = 0;
		uint32_t stop = (page + 1) * WS_FIRSTS_PAGE < end
					? (uint32_t)((page + 1) * WS_FIRSTS_PAGE)
					: end;

		for (size_t i = 0; i < n; i++)
			used += f[i]->used[page];
		for (; used > 1 && low < stop; low++) {
			size_t have = 0;

			for (size_t i = 0; i < n; i++)
				have += f[i]->used[page] && f[i]->v[low];
			for (size_t i = 0; have > 1 && i < n; i++)
				take_first(f[i], low, to);
		}
		low = stop;
	}
}

/* First values that go into the part's summaries. `to` has what was written down, m->groups what
 * the tables have. */
static void take_firsts(const struct merging *merging, size_t part, struct values *to)
{
	uint64_t limit = merging->spills->limit, shift = merging->spills->shift,
		 low = part << shift, end = (part + 1) << shift;
	size_t n, written = to->n;

	end = end < limit && part + 1 < WS_SPILL_PARTS ? end : limit;
	for (size_t i = 0; i < merging->first_count; i += n) {
		struct ws_firsts *const *f = &merging->firsts[i];

		for (n = 1; i + n < merging->first_count && f[n]->upper == f[0]->upper;)
			n++;
		if (n > 1 && low < end)
			take_common(f, n, (uint32_t)low, (uint32_t)end, to);
		for (size_t k = 0; k < written; k++)
			for (size_t j = 0; j < n && to->keyeds[k].key >> 32 == f[0]->upper >> 32 &&
					   (uint32_t)to->keyeds[k].key < limit;
			     j++)
				take_first(f[j], (uint32_t)to->keyeds[k].key, to);
		for (size_t g = merging->first[part]; g < merging->first[part + 1]; g++)
			for (size_t j = 0;
			     j < n && merging->groups[g].key >> 32 == f[0]->upper >> 32 &&
			     (uint32_t)merging->groups[g].key < limit;
			     j++)
				take_first(f[j], (uint32_t)merging->groups[g].key, to);
	}
}

/* All workers' values of one part, sorted by canonical key. */
static struct ws_keyed_value *part_values(const struct merging *merging, size_t part, size_t *count)
{
	struct values all = {0};

	for (size_t t = 0; t < merging->table_count; t++) {
		ws_grow(all.keyeds, all.cap, all.n + merging->spills[t].part[part].n + 1);
		for (size_t i = 0; i < merging->spills[t].part[part].n; i++) {
			struct ws_keyed_value one = merging->spills[t].part[part].keyeds[i];

			add_value(&all,
				  merging->spilled ? merging->spilled(merging->ctx, t, one.key)
						   : one.key,
				  one.value);
		}
		free(merging->spills[t].part[part].keyeds);
		merging->spills[t].part[part].keyeds = NULL;
	}
	take_firsts(merging, part, &all);
	*count = all.n;
	return all.n ? ws_sort_by_key(all.keyeds, all.n) : all.keyeds;
}

/* A run of values as a distribution in `small` and `large`, which have room for them. */
static struct ws_dist written_down(const struct ws_keyed_value *keyed, size_t n, uint32_t *small,
				   struct ws_dist_large *large)
{
	struct ws_dist dist = {.v = small};

	large->n = 0;
	for (size_t i = 0; i < n; i++)
		if (keyed[i].value > UINT32_MAX)
			large->values[large->n++] = keyed[i].value;
		else
			small[dist.n++] = (uint32_t)keyed[i].value;
	dist.cap = (uint32_t)(n ? n : 1);
	dist.large = large->n ? large : NULL;
	return dist;
}

static void merge_part(void *ctx, unsigned worker, size_t part)
{
	struct merging *merging = ctx;
	size_t n, g = merging->first[part], end = merging->first[part + 1], from = 0, to, out = 0;
	struct ws_keyed_value *keyed = part_values(merging, part, &n);
	uint32_t *small = ws_malloc((n + 1) * sizeof(*small));
	struct ws_dist_large large = {.values = ws_malloc((n + 1) * sizeof(*large.values))};
	struct ws_dist **same = ws_malloc((merging->table_count + 1) * sizeof(*same));
	size_t same_cap = merging->table_count + 1;
	struct ws_group_sum *sums =
		ws_malloc((n + end - g + 1) * sizeof(*sums)); /* what is not used is not touched */

	(void)worker;
	while (from < n || g < end) {
		uint64_t key = from < n && (g == end || keyed[from].key <= merging->groups[g].key)
				       ? keyed[from].key
				       : merging->groups[g].key;
		struct ws_dist dist;
		size_t parts = 0;

		for (to = from; to < n && keyed[to].key == key;)
			to++;
		for (; g < end && merging->groups[g].key == key; g++) {
			ws_grow(same, same_cap, parts + 2);
			same[parts++] = dist_of(merging->tables, &merging->groups[g]);
		}
		if (to > from) {
			dist = written_down(keyed + from, to - from, small, &large);
			same[parts++] = &dist;
		}
		sums[out++] = (struct ws_group_sum){key, ws_dist_summary(same, parts)};
		from = to;
	}
	merging->parts[part] =
		(struct ws_group_part){ws_realloc(sums, (out + 1) * sizeof(*sums)), out};
	free(same);
	free(large.values);
	free(small);
	free(keyed);
}

void ws_groups_merge_spilled(struct ws_groups *tables, struct ws_spill *spills, size_t table_count,
			     uint64_t (*canonical)(void *ctx, size_t table, uint64_t key),
			     uint64_t (*spilled)(void *ctx, size_t table, uint64_t key), void *ctx,
			     struct ws_group_part *parts)
{
	struct merging merging = {.tables = tables,
				  .spills = spills,
				  .table_count = table_count,
				  .canonical = canonical,
				  .spilled = spilled,
				  .ctx = ctx,
				  .parts = parts};

	part_groups(&merging);
	gather_firsts(&merging);
	ws_parallel(ws_parallel_workers(), WS_SPILL_PARTS, merge_part, &merging);
	free(merging.groups);
	free(merging.firsts);
}
