/* map.c - see map.h. Open addressing with linear probing; taking an entry out moves the rest of its
 * run up. */
#include "base/map.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static size_t home(const struct ws_map *map, uint64_t key)
{
	key *= UINT64_C(0x9e3779b97f4a7c15);
	return (size_t)(key ^ key >> 32) & (map->size - 1);
}

static size_t find(const struct ws_map *map, uint64_t key)
{
	size_t i = home(map, key);

	while (map->used[i] && map->slots[i].key != key)
		i = (i + 1) & (map->size - 1);
	return i;
}

uint64_t ws_map_get(const struct ws_map *map, uint64_t key, bool *found)
{
	size_t i = map->size ? find(map, key) : 0;
	bool there = map->size && map->used[i];

	if (found)
		*found = there;
	return there ? map->slots[i].value : 0;
}

static void grow(struct ws_map *map)
{
	struct ws_map old = *map;

	map->size = old.size ? old.size * 2 : 64;
	map->slots = ws_calloc(map->size, sizeof(*map->slots));
	map->used = ws_calloc(map->size, 1);
	map->n = 0;
	for (size_t i = 0; i < old.size; i++)
		if (old.used[i])
			ws_map_set(map, old.slots[i].key, old.slots[i].value);
	free(old.slots);
	free(old.used);
}

void ws_map_set(struct ws_map *map, uint64_t key, uint64_t value)
{
	size_t i;

	if ((map->n + 1) * 4 > map->size * 3)
		grow(map);
	i = find(map, key);
	map->n += !map->used[i];
	map->used[i] = 1;
	map->slots[i] = (struct ws_map_slot){key, value};
}

bool ws_map_take(struct ws_map *map, uint64_t key, uint64_t *value)
{
	size_t mask = map->size - 1, i, j;

	if (!map->size || !map->used[i = find(map, key)])
		return false;
	if (value)
		*value = map->slots[i].value;
	for (j = (i + 1) & mask; map->used[j]; j = (j + 1) & mask) {
		size_t h = home(map, map->slots[j].key);

		/* May the entry at j move to i? Not when its home lies between them. */
		if (((j - h) & mask) >= ((j - i) & mask)) {
			map->slots[i] = map->slots[j];
			i = j;
		}
	}
	map->used[i] = 0;
	map->n--;
	return true;
}

void ws_map_free(struct ws_map *map)
{
	free(map->slots);
	free(map->used);
	memset(map, 0, sizeof(*map));
}
