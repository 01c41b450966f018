/* group.c - see group.h. */
#include "stats/group.h"

#include <stdlib.h>
#include <string.h>

#include "base/parallel.h"
#include "base/slots.h"

enum { AHEAD = 16 };

struct ws_dist *ws_groups_find(struct ws_groups *t, uint64_t key)
{
	uint64_t h = (uint32_t)ws_hash_word(0, key);

	if (t->n && t->g[t->last].key == key)
		return &t->g[t->last].dist;
	for (size_t at = h & t->mask; t->mask && t->slots[at]; at = (at + 1) & t->mask) {
		size_t number = (uint32_t)t->slots[at] - 1;

		if (t->slots[at] >> 32 != h || t->g[number].key != key)
			continue;
		t->last = number;
		return &t->g[number].dist;
	}
	return NULL;
}

struct ws_dist *ws_groups_slow(struct ws_groups *t, uint64_t key)
{
	uint64_t h = (uint32_t)ws_hash_word(0, key);
	size_t at;

	if (t->n * 2 >= t->mask) /* at most half full */
		ws_slots_grow(&t->slots, &t->mask, 64);
	for (at = h & t->mask; t->slots[at]; at = (at + 1) & t->mask) {
		size_t number = (uint32_t)t->slots[at] - 1;

		if (t->slots[at] >> 32 != h || t->g[number].key != key)
			continue;
		t->last = number;
		return &t->g[t->last].dist;
	}
	ws_grow(t->g, t->cap, t->n + 1);
	t->last = t->n++;
	t->slots[at] = h << 32 | (uint32_t)t->n;
	memset(&t->g[t->last], 0, sizeof(*t->g));
	t->g[t->last].key = key;
	return &t->g[t->last].dist;
}

void ws_groups_free(struct ws_groups *t)
{
	for (size_t i = 0; i < t->n; i++)
		ws_dist_free(&t->g[i].dist);
	free(t->g);
	free(t->slots);
	memset(t, 0, sizeof(*t));
}

/* The groups of all tables under their canonical keys, as (key, table << 32 | number). */
static struct ws_keyed_value *gather(const struct ws_groups *tables, size_t table_count,
				     uint64_t (*canonical)(void *ctx, size_t table, uint64_t key), void *ctx, size_t *total)
{
	struct ws_keyed_value *v;
	size_t n = 0;

	for (size_t t = 0; t < table_count; t++)
		n += tables[t].n;
	*total = n;
	v = ws_malloc(n * sizeof(*v));
	n = 0;
	for (size_t t = 0; t < table_count; t++)
		for (size_t i = 0; i < tables[t].n; i++) {
			uint64_t key = tables[t].g[i].key;

			v[n++] = (struct ws_keyed_value){canonical ? canonical(ctx, t, key) : key, t << 32 | i};
		}
	return ws_sort_by_key(v, n);
}

static struct ws_dist *dist_of(struct ws_groups *tables, const struct ws_keyed_value *v)
{
	return &tables[v->value >> 32].g[(uint32_t)v->value].dist;
}

struct ws_group_sum *ws_groups_merge(struct ws_groups *tables, size_t table_count,
				     uint64_t (*canonical)(void *ctx, size_t table, uint64_t key), void *ctx, size_t *count)
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

void ws_spill_free(struct ws_spill *s)
{
	for (size_t i = 0; i < WS_SPILL_PARTS; i++)
		free(s->part[i].v);
	memset(s, 0, sizeof(*s));
}

struct merging {
	struct ws_groups *tables;
	struct ws_spill *spills; /* freed on the way */
	size_t table_count;
	uint64_t (*canonical)(void *ctx, size_t table, uint64_t key);
	uint64_t (*spilled)(void *ctx, size_t table, uint64_t key);
	void *ctx;
	struct ws_keyed_value *groups; /* of the tables, by part of their canonical keys: as gather gives them */
	size_t first[WS_SPILL_PARTS + 1];
	struct ws_group_part *parts;
};

/* The groups of the tables, part after part, in order of key within each. */
static void part_groups(struct merging *m)
{
	size_t total, at[WS_SPILL_PARTS] = {0};
	struct ws_keyed_value *v = gather(m->tables, m->table_count, m->canonical, m->ctx, &total);

	for (size_t i = 0; i < total; i++)
		m->first[ws_spill_part(m->spills->shift, v[i].key) + 1]++;
	for (size_t i = 0; i < WS_SPILL_PARTS; i++) {
		m->first[i + 1] += m->first[i];
		at[i] = m->first[i];
	}
	m->groups = ws_malloc((total + 1) * sizeof(*m->groups));
	for (size_t i = 0; i < total; i++)
		m->groups[at[ws_spill_part(m->spills->shift, v[i].key)]++] = v[i];
	free(v);
}

/* All workers' values of one part, sorted by canonical key. */
static struct ws_keyed_value *part_values(const struct merging *m, size_t part, size_t *count)
{
	struct ws_keyed_value *v;
	size_t n = 0;

	for (size_t t = 0; t < m->table_count; t++)
		n += m->spills[t].part[part].n;
	v = ws_malloc((n + 1) * sizeof(*v));
	*count = n;
	n = 0;
	for (size_t t = 0; t < m->table_count; t++) {
		for (size_t i = 0; i < m->spills[t].part[part].n; i++) {
			struct ws_keyed_value one = m->spills[t].part[part].v[i];

			one.key = m->spilled ? m->spilled(m->ctx, t, one.key) : one.key;
			v[n++] = one;
		}
		free(m->spills[t].part[part].v);
		m->spills[t].part[part].v = NULL;
	}
	return n ? ws_sort_by_key(v, n) : v;
}

/* A run of values as a distribution in `small` and `large`, which have room for them. */
static struct ws_dist written_down(const struct ws_keyed_value *v, size_t n, uint32_t *small, struct ws_dist_large *large)
{
	struct ws_dist d = {.v = small};

	large->n = 0;
	for (size_t i = 0; i < n; i++)
		if (v[i].value > UINT32_MAX)
			large->v[large->n++] = v[i].value;
		else
			small[d.n++] = (uint32_t)v[i].value;
	d.cap = (uint32_t)(n ? n : 1);
	d.large = large->n ? large : NULL;
	return d;
}

static void merge_part(void *ctx, unsigned worker, size_t part)
{
	struct merging *m = ctx;
	size_t n, g = m->first[part], end = m->first[part + 1], from = 0, to, out = 0;
	struct ws_keyed_value *v = part_values(m, part, &n);
	uint32_t *small = ws_malloc((n + 1) * sizeof(*small));
	struct ws_dist_large large = {.v = ws_malloc((n + 1) * sizeof(*large.v))};
	struct ws_dist **same = ws_malloc((m->table_count + 1) * sizeof(*same));
	size_t same_cap = m->table_count + 1;
	struct ws_group_sum *sums = ws_malloc((n + end - g + 1) * sizeof(*sums)); /* what is not used is not touched */

	(void)worker;
	while (from < n || g < end) {
		uint64_t key = from < n && (g == end || v[from].key <= m->groups[g].key) ? v[from].key : m->groups[g].key;
		struct ws_dist d;
		size_t parts = 0;

		for (to = from; to < n && v[to].key == key;)
			to++;
		for (; g < end && m->groups[g].key == key; g++) {
			ws_grow(same, same_cap, parts + 2);
			same[parts++] = dist_of(m->tables, &m->groups[g]);
		}
		if (to > from) {
			d = written_down(v + from, to - from, small, &large);
			same[parts++] = &d;
		}
		sums[out++] = (struct ws_group_sum){key, ws_dist_summary(same, parts)};
		from = to;
	}
	m->parts[part] = (struct ws_group_part){ws_realloc(sums, (out + 1) * sizeof(*sums)), out};
	free(same);
	free(large.v);
	free(small);
	free(v);
}

void ws_groups_merge_spilled(struct ws_groups *tables, struct ws_spill *spills, size_t table_count,
			     uint64_t (*canonical)(void *ctx, size_t table, uint64_t key),
			     uint64_t (*spilled)(void *ctx, size_t table, uint64_t key), void *ctx, struct ws_group_part *parts)
{
	struct merging m = {.tables = tables,
			    .spills = spills,
			    .table_count = table_count,
			    .canonical = canonical,
			    .spilled = spilled,
			    .ctx = ctx,
			    .parts = parts};

	part_groups(&m);
	ws_parallel(ws_parallel_workers(), WS_SPILL_PARTS, merge_part, &m);
	free(m.groups);
}
