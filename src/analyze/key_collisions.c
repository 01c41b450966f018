/* key_collisions.c - see key_collisions.h. */
#include "analyze/key_collisions.h"

#include <string.h>

#include "analyze/stack_sums.h"

enum stack_part { PART_NONE, PART_LOOK_UP, PART_OWN_COMPARISON, PART_HASH };

static bool is_method(const struct ws_model *model, uint32_t frame, const char *ending)
{
	const struct ws_function *function =
		ws_stacks_get_function(model->stacks, ws_get_frame_function(model, frame));
	const char *dot = strrchr(function->name, '.');

	return function->kind == WS_FRAME_PYTHON && dot && !strcmp(dot, ending);
}

static bool is_look_up(const struct ws_model *model, uint32_t frame)
{
	static const char *const names[] = {"dictkeys_generic_lookup", "set_lookkey",
					    "set_add_entry", NULL};

	for (size_t i = 0; names[i]; i++)
		if (ws_is_frame_of(model, frame, names[i]))
			return true;
	return false;
}

static uint64_t classify_stack(const struct ws_model *model, const uint32_t *frames, size_t count,
			       void *context)
{
	bool compares = false;

	(void)context;
	for (size_t i = 0; i < count; i++) {
		if (is_method(model, frames[i], ".__hash__"))
			return PART_HASH;
		if (is_look_up(model, frames[i]))
			return compares ? PART_OWN_COMPARISON : PART_LOOK_UP;
		compares |= is_method(model, frames[i], ".__eq__");
	}
	return PART_NONE;
}

bool ws_do_keys_collide(const struct ws_model *model)
{
	enum { OFTEN = 3 };
	uint64_t ns[PART_HASH + 1] = {0};
	struct ws_stack_sums sums;

	ws_stack_sums_make(model, 0, classify_stack, NULL, &sums);
	for (size_t i = 0; i < sums.count; i++)
		ns[sums.sums[i].key] = sums.sums[i].ns;
	ws_stack_sums_free(&sums);
	return (ns[PART_HASH] || ns[PART_OWN_COMPARISON]) &&
	       ns[PART_LOOK_UP] + ns[PART_OWN_COMPARISON] > OFTEN * ns[PART_HASH];
}
