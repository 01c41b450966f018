/*
 * map.h - a hash map from 64-bit keys to 64-bit values, for the tool side. Zero-initialise it and
 * free it with ws_map_free; any number may be a key.
 */
#ifndef WS_BASE_MAP_H
#define WS_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ws_map_slot {
	uint64_t key, value;
};

struct ws_map {
	struct ws_map_slot *slots; /* size is a power of two */
	uint8_t *used;
	size_t size, count;
};

/* The value of `key`, or 0 if the map does not have the key; *found, unless NULL, says whether it
 * does. */
uint64_t ws_map_get(const struct ws_map *map, uint64_t key, bool *found);
/* Brings what ws_map_get will look at into the processor's caches. */
void ws_map_prefetch(const struct ws_map *map, uint64_t key);
void ws_map_set(struct ws_map *map, uint64_t key, uint64_t value);
/* Remove `key` and give its value (`value` may be NULL); false when it was not there. */
bool ws_map_remove(struct ws_map *map, uint64_t key, uint64_t *value);
void ws_map_free(struct ws_map *map);

#endif
