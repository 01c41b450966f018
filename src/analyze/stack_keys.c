/* stack_keys.c - see stack_keys.h. */
#include "analyze/stack_keys.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/slots.h"

static bool has_same_functions(const struct ws_stacks *stacks, uint32_t left, uint32_t right)
{
	const struct ws_frame_info *first = ws_stacks_get_frame(stacks, left),
				   *second = ws_stacks_get_frame(stacks, right);
	const struct ws_place *of_first = ws_stacks_get_places(stacks, first),
			      *of_second = ws_stacks_get_places(stacks, second);

	if (first->count != second->count)
		return false;
	for (uint32_t i = 0; i < first->count; i++)
		if (of_first[i].function != of_second[i].function ||
		    of_first[i].file != of_second[i].file)
			return false;
	return true;
}

static uint64_t hash_functions(const struct ws_stacks *stacks, uint32_t frame)
{
	const struct ws_frame_info *info = ws_stacks_get_frame(stacks, frame);
	const struct ws_place *places = ws_stacks_get_places(stacks, info);
	uint64_t hash = 0;

	for (uint32_t i = 0; i < info->count; i++)
		hash = ws_hash_word(hash, (uint64_t)places[i].function << 32 | places[i].file);
	return hash;
}

void ws_stack_keys_make(const struct ws_stacks *stacks, struct ws_stack_keys *keys)
{
	struct ws_map first = {0}; /* by hash: 1 + the first frame of a kind */

	memset(keys, 0, sizeof(*keys));
	keys->highest_frame = ws_stacks_highest_frame(stacks);
	keys->highest_stack = ws_stacks_highest_id(stacks);
	keys->kind_of = ws_malloc((keys->highest_frame + (size_t)1) * sizeof(*keys->kind_of));
	for (uint32_t frame = 0; frame <= keys->highest_frame; frame++) {
		uint64_t hash = hash_functions(stacks, frame), at;

		while ((at = ws_map_get(&first, hash, NULL)) &&
		       !has_same_functions(stacks, (uint32_t)(at - 1), frame))
			hash++;
		if (!at)
			ws_map_set(&first, hash, frame + UINT64_C(1));
		keys->kind_of[frame] = at ? keys->kind_of[at - 1] : keys->kinds++;
	}
	ws_map_free(&first);
}

void ws_stack_keys_free(struct ws_stack_keys *keys)
{
	free(keys->kind_of);
	memset(keys, 0, sizeof(*keys));
}
