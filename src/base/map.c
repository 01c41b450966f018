/* map.c - see map.h. Open addressing with linear probing; taking an entry out moves the rest of its
 * run up. */
#include "base/map.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static size_t home(const struct ws_map *m, uint64_t key)
{
	key *= UINT64_C(0x9e3779b97f4a7c15);
	return (size_t)(key ^ key >> 32) & (m->size - 1);
}

static size_t find(const struct ws_map *m, uint64_t key)
{
	size_t i = home(m, key);

	while (m->used[i] && m->slots[i].key != key)
		i = (i + 1) & (m->size - 1);
	return i;
}

uint64_t ws_map_get(const struct ws_map *m, uint64_t key, bool *found)
{
	size_t i = m->size ? find(m, key) : 0;
	bool there = m->size && m->used[i];

	if (found)
		*found = there;
	return there ? m->slots[i].value : 0;
}

static void grow(struct ws_map *m)
{
	struct ws_map old = *m;

	m->size = old.size ? old.size * 2 : 64;
	m->slots = ws_calloc(m->size, sizeof(*m->slots));
	m->used = ws_calloc(m->size, 1);
	m->n = 0;
	for (size_t i = 0; i < old.size; i++)
		if (old.used[i])
			ws_map_set(m, old.slots[i].key, old.slots[i].value);
	free(old.slots);
	free(old.used);
}

void ws_map_set(struct ws_map *m, uint64_t key, uint64_t value)
{
	size_t i;

	if ((m->n + 1) * 4 > m->size * 3)
		grow(m);
	i = find(m, key);
	m->n += !m->used[i];
	m->used[i] = 1;
	m->slots[i] = (struct ws_map_slot){key, value};
}

bool ws_map_take(struct ws_map *m, uint64_t key, uint64_t *value)
{
	size_t mask = m->size - 1, i, j;

	if (!m->size || !m->used[i = find(m, key)])
		return false;
	if (value)
		*value = m->slots[i].value;
	for (j = (i + 1) & mask; m->used[j]; j = (j + 1) & mask) {
		size_t h = home(m, m->slots[j].key);

		/* May the entry at j move to i? Not when its home lies between them. */
		if (((j - h) & mask) >= ((j - i) & mask)) {
			m->slots[i] = m->slots[j];
			i = j;
		}
	}
	m->used[i] = 0;
	m->n--;
	return true;
}

void ws_map_free(struct ws_map *m)
{
	free(m->slots);
	free(m->used);
	memset(m, 0, sizeof(*m));
}
