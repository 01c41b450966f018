/* map.c - see map.h. Open addressing with linear probing; removing an entry moves the rest of its
 * run up. */
#include "base/map.h"

#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "base/mem.h"

enum { FIRST_SLOTS = 64 };

static size_t home_slot(const struct ws_map *map, uint64_t key)
{
	key *= UINT64_C(0x9e3779b97f4a7c15);
	return (size_t)(key ^ key >> 32) & (map->size - 1);
}

static size_t find_slot(const struct ws_map *map, uint64_t key)
{
	size_t i = home_slot(map, key);

	while (map->used[i] && map->slots[i].key != key)
		i = (i + 1) & (map->size - 1);
	return i;
}

uint64_t ws_map_get(const struct ws_map *map, uint64_t key, bool *found)
{
	size_t i = 0;
	bool is_set = false;
	if (map->size) {
		i = find_slot(map, key);
		is_set = map->used[i];
	}
	if (found)
		*found = is_set;
	if (!is_set)
		return 0;
	return map->slots[i].value;
}

void ws_map_prefetch(const struct ws_map *map, uint64_t key)
{
	if (!map->size)
		return;
	__builtin_prefetch(&map->slots[home_slot(map, key)]);
	__builtin_prefetch(&map->used[home_slot(map, key)]);
}

static void double_slots(struct ws_map *map)
{
	struct ws_map old = *map;

	map->size = ws_max(old.size * 2, FIRST_SLOTS);
	map->slots = ws_calloc(map->size, sizeof(*map->slots));
	map->used = ws_calloc(map->size, 1);
	map->count = 0;
	for (size_t i = 0; i < old.size; i++)
		if (old.used[i])
			ws_map_set(map, old.slots[i].key, old.slots[i].value);
	free(old.slots);
	free(old.used);
}

void ws_map_set(struct ws_map *map, uint64_t key, uint64_t value)
{
	size_t i;

	if ((map->count + 1) * 4 > map->size * 3)
		double_slots(map);
	i = find_slot(map, key);
	map->count += !map->used[i];
	map->used[i] = 1;
	map->slots[i] = (struct ws_map_slot){key, value};
}

bool ws_map_remove(struct ws_map *map, uint64_t key, uint64_t *value)
{
	size_t mask = map->size - 1, i, j;

	if (!map->size || !map->used[i = find_slot(map, key)])
		return false;
	if (value)
		*value = map->slots[i].value;
	for (j = (i + 1) & mask; map->used[j]; j = (j + 1) & mask) {
		size_t home = home_slot(map, map->slots[j].key);

		/* The entry at j may move to i unless its home lies between them. */
		if (((j - home) & mask) >= ((j - i) & mask)) {
			map->slots[i] = map->slots[j];
			i = j;
		}
	}
	map->used[i] = 0;
	map->count--;
	return true;
}

void ws_map_free(struct ws_map *map)
{
	free(map->slots);
	free(map->used);
	memset(map, 0, sizeof(*map));
}
