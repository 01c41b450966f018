/*
 * stack_keys.h - one key for all stacks that go through the same functions below the same callers.
 *
 * A function that takes long is sampled at many of its addresses. What a stack does depends on its
 * functions and their source files alone, so it is looked up by such keys: there are far fewer of
 * them than of stacks.
 */
#ifndef WS_ANALYZE_STACK_KEYS_H
#define WS_ANALYZE_STACK_KEYS_H

#include "query/stacks.h"

struct ws_stack_keys {
	uint32_t *kind_of; /* by frame: the same number for frames with the same functions */
	uint32_t highest_frame, highest_stack;
	uint32_t kinds; /* numbers go from 0 to this less 1 */
};

void ws_stack_keys_make(const struct ws_stacks *stacks, struct ws_stack_keys *keys);
void ws_stack_keys_free(struct ws_stack_keys *keys);

/* The key of the innermost frame of a stack and of its callers (ids as in a sample). */
static inline uint64_t ws_get_stack_key(const struct ws_stack_keys *keys, uint32_t frame,
					uint32_t callers)
{
	if (frame > keys->highest_frame)
		frame = 0;
	if (callers > keys->highest_stack)
		callers = 0;
	return (uint64_t)keys->kind_of[frame] << 32 | callers;
}

/* How many keys there can be, and the number of one, from 0 to this less 1. */
static inline uint64_t ws_count_stack_keys(const struct ws_stack_keys *keys)
{
	return keys->kinds * ((uint64_t)keys->highest_stack + 1);
}
static inline uint64_t ws_number_stack_key(const struct ws_stack_keys *keys, uint64_t key)
{
	return (key >> 32) * ((uint64_t)keys->highest_stack + 1) + (uint32_t)key;
}

#endif
