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
				     uint64_t (*canonical)(void *ctx, size_t table, uint64_t key),
				     void *ctx, size_t *total)
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

			v[n++] = (struct ws_keyed_value){canonical ? canonical(ctx, t, key) : key,
							 t << 32 | i};
		}
	return ws_sort_by_key(v, n);
}

static struct ws_dist *dist_of(struct ws_groups *tables, const struct ws_keyed_value *v)
{
	return &tables[v->value >> 32].g[(uint32_t)v->value].dist;
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

void ws_spill_free(struct ws_spill *s)
{
	for (size_t i = 0; i < WS_SPILL_PARTS; i++)
		free(s->part[i].v);
	for (unsigned i = 0; i < s->firsts; i++) {
		free(s->first[i].v);
		free(s->first[i].used);
	}
	memset(s, 0, sizeof(*s));
}

struct ws_firsts *ws_spill_firsts(struct ws_spill *s, uint64_t key)
{
	uint64_t upper = key >> 32 << 32;
	struct ws_firsts *f;

	for (s->last = 0; s->last < s->firsts; s->last++)
		if (s->first[s->last].upper == upper)
			return &s->first[s->last];
	s->last = 0;
	if (s->firsts == WS_FIRSTS)
		return NULL;
	f = &s->first[s->firsts];
	f->upper = upper;
	f->v = calloc(s->limit, sizeof(*f->v)); /* of which only what is used is touched; without it
						   values are written down */
	f->used = ws_calloc(s->limit / WS_FIRSTS_PAGE + 1, 1);
	if (!f->v) {
		free(f->used);
		s->limit = 0;
		return NULL;
	}
	s->last = s->firsts++;
	return f;
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

static int by_upper(const void *a, const void *b)
{
	uint64_t x = (*(struct ws_firsts *const *)a)->upper,
		 y = (*(struct ws_firsts *const *)b)->upper;

	return x < y ? -1 : x > y;
}

static void gather_firsts(struct merging *m)
{
	m->firsts = ws_malloc(m->table_count * WS_FIRSTS * sizeof(*m->firsts));
	for (size_t t = 0; t < m->table_count; t++)
		for (unsigned i = 0; i < m->spills[t].firsts; i++) {
			struct ws_firsts *f = &m->spills[t].first[i];

			f->upper =
				m->spilled ? m->spilled(m->ctx, t, f->upper) >> 32 << 32 : f->upper;
			m->firsts[m->first_count++] = f;
		}
	if (m->first_count)
		qsort(m->firsts, m->first_count, sizeof(*m->firsts), by_upper);
}

struct values {
	struct ws_keyed_value *v;
	size_t n, cap;
};

static void add_value(struct values *v, uint64_t key, uint64_t value)
{
	ws_grow(v->v, v->cap, v->n + 1);
	v->v[v->n++] = (struct ws_keyed_value){key, value};
}

/* First values of one key that several workers have, and those of keys with other values: they are
 * no longer alone. */
static void take_first(struct ws_firsts *f, uint32_t low, struct values *to)
{
	if (!f->used[low / WS_FIRSTS_PAGE] || !f->v[low])
		return;
	add_value(to, f->upper | low, f->v[low] - 1);
	f->v[low] = 0;
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
static void take_firsts(const struct merging *m, size_t part, struct values *to)
{
	uint64_t limit = m->spills->limit, shift = m->spills->shift, low = part << shift,
		 end = (part + 1) << shift;
	size_t n, written = to->n;

	end = end < limit && part + 1 < WS_SPILL_PARTS ? end : limit;
	for (size_t i = 0; i < m->first_count; i += n) {
		struct ws_firsts *const *f = &m->firsts[i];

		for (n = 1; i + n < m->first_count && f[n]->upper == f[0]->upper;)
			n++;
		if (n > 1 && low < end)
			take_common(f, n, (uint32_t)low, (uint32_t)end, to);
		for (size_t k = 0; k < written; k++)
			for (size_t j = 0; j < n && to->v[k].key >> 32 == f[0]->upper >> 32 &&
					   (uint32_t)to->v[k].key < limit;
			     j++)
				take_first(f[j], (uint32_t)to->v[k].key, to);
		for (size_t g = m->first[part]; g < m->first[part + 1]; g++)
			for (size_t j = 0; j < n && m->groups[g].key >> 32 == f[0]->upper >> 32 &&
					   (uint32_t)m->groups[g].key < limit;
			     j++)
				take_first(f[j], (uint32_t)m->groups[g].key, to);
	}
}

/* All workers' values of one part, sorted by canonical key. */
static struct ws_keyed_value *part_values(const struct merging *m, size_t part, size_t *count)
{
	struct values all = {0};

	for (size_t t = 0; t < m->table_count; t++) {
		ws_grow(all.v, all.cap, all.n + m->spills[t].part[part].n + 1);
		for (size_t i = 0; i < m->spills[t].part[part].n; i++) {
			struct ws_keyed_value one = m->spills[t].part[part].v[i];

			add_value(&all, m->spilled ? m->spilled(m->ctx, t, one.key) : one.key,
				  one.value);
		}
		free(m->spills[t].part[part].v);
		m->spills[t].part[part].v = NULL;
	}
	take_firsts(m, part, &all);
	*count = all.n;
	return all.n ? ws_sort_by_key(all.v, all.n) : all.v;
}

/* A run of values as a distribution in `small` and `large`, which have room for them. */
static struct ws_dist written_down(const struct ws_keyed_value *v, size_t n, uint32_t *small,
				   struct ws_dist_large *large)
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
	struct ws_group_sum *sums =
		ws_malloc((n + end - g + 1) * sizeof(*sums)); /* what is not used is not touched */

	(void)worker;
	while (from < n || g < end) {
		uint64_t key = from < n && (g == end || v[from].key <= m->groups[g].key)
				       ? v[from].key
				       : m->groups[g].key;
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
			     uint64_t (*spilled)(void *ctx, size_t table, uint64_t key), void *ctx,
			     struct ws_group_part *parts)
{
	struct merging m = {.tables = tables,
			    .spills = spills,
			    .table_count = table_count,
			    .canonical = canonical,
			    .spilled = spilled,
			    .ctx = ctx,
			    .parts = parts};

	part_groups(&m);
	gather_firsts(&m);
	ws_parallel(ws_parallel_workers(), WS_SPILL_PARTS, merge_part, &m);
	free(m.groups);
	free(m.firsts);
}
