/* group.c - see group.h. */
#include "stats/group.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static inline uint64_t hash(uint64_t k)
{
	k ^= k >> 32;
	k *= UINT64_C(0x9e3779b97f4a7c15);
	return k ^ k >> 29;
}

static void rehash(struct ws_groups *t)
{
	size_t size = t->mask ? (t->mask + 1) * 2 : 64;

	free(t->slots);
	t->slots = ws_calloc(size, sizeof(*t->slots));
	t->mask = size - 1;
	for (size_t i = 0; i < t->n; i++) {
		size_t at = hash(t->g[i].key) & t->mask;

		while (t->slots[at])
			at = (at + 1) & t->mask;
		t->slots[at] = (uint32_t)i + 1;
	}
}

struct ws_dist *ws_groups_slow(struct ws_groups *t, uint64_t key)
{
	size_t at;

	if (t->n * 2 >= t->mask) /* at most half full */
		rehash(t);
	for (at = hash(key) & t->mask; t->slots[at]; at = (at + 1) & t->mask) {
		if (t->g[t->slots[at] - 1].key != key)
			continue;
		t->last = t->slots[at] - 1;
		return &t->g[t->last].dist;
	}
	ws_grow(t->g, t->cap, t->n + 1);
	t->last = t->n++;
	t->slots[at] = (uint32_t)t->n;
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

struct part {
	uint64_t key;
	struct ws_dist *dist;
};

static int by_key(const void *a, const void *b)
{
	const struct part *x = a, *y = b;

	return x->key < y->key ? -1 : x->key > y->key;
}

struct ws_group_sum *ws_groups_merge(struct ws_groups *tables, size_t table_count,
				     uint64_t (*canonical)(void *ctx, size_t table, uint64_t key), void *ctx, size_t *count)
{
	size_t total = 0, n = 0, out = 0;
	struct ws_group_sum *sums;
	struct ws_dist **same;
	struct part *parts;

	for (size_t t = 0; t < table_count; t++)
		total += tables[t].n;
	parts = ws_malloc(total * sizeof(*parts));
	same = ws_malloc(total * sizeof(*same));
	for (size_t t = 0; t < table_count; t++)
		for (size_t i = 0; i < tables[t].n; i++) {
			struct ws_group *g = &tables[t].g[i];

			parts[n++] = (struct part){canonical ? canonical(ctx, t, g->key) : g->key, &g->dist};
		}
	if (total)
		qsort(parts, total, sizeof(*parts), by_key);
	sums = ws_malloc(total * sizeof(*sums));
	for (size_t i = 0; i < total; i += n) {
		for (n = 0; i + n < total && parts[i + n].key == parts[i].key; n++)
			same[n] = parts[i + n].dist;
		sums[out++] = (struct ws_group_sum){parts[i].key, ws_dist_summary(same, n)};
		for (size_t k = 0; k < n; k++) /* at once: memory peaks here */
			ws_dist_free(same[k]);
	}
	free(parts);
	free(same);
	*count = out;
	return sums;
}
