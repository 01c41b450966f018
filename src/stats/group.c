/* group.c - see group.h. */
#include "stats/group.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/sort.h"

enum { AHEAD = 16 };

static inline uint64_t hash(uint64_t k)
{
	k ^= k >> 32;
	k *= UINT64_C(0x9e3779b97f4a7c15);
	return k ^ k >> 29;
}

/* Slots tell the hash: neither growing nor passing by another group has to touch that group. */
static void rehash(struct ws_groups *t)
{
	size_t old = t->mask ? t->mask + 1 : 0, size = old ? old * 2 : 64;
	uint64_t *from = t->slots;

	t->slots = ws_calloc(size, sizeof(*t->slots));
	t->mask = size - 1;
	for (size_t i = 0; i < old; i++) {
		size_t at = from[i] >> 32 & t->mask;

		if (!from[i])
			continue;
		while (t->slots[at])
			at = (at + 1) & t->mask;
		t->slots[at] = from[i];
	}
	free(from);
}

void ws_groups_prefetch(const struct ws_groups *t, uint64_t key)
{
	__builtin_prefetch(&t->slots[(uint32_t)hash(key) & t->mask], 1);
}

struct ws_dist *ws_groups_slow(struct ws_groups *t, uint64_t key)
{
	uint64_t h = (uint32_t)hash(key);
	size_t at;

	if (t->n * 2 >= t->mask) /* at most half full */
		rehash(t);
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
