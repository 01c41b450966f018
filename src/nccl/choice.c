/*
 * choice.c - how NCCL decided to do an operation (algorithm, protocol, channels), as it tells its
 * profiler plug-in, and the call that this was decided for. NCCL decides when it launches: inside
 * the call or the group that the call belongs to, or later, in a thread of its own, if the
 * communicator does not block.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "nccl/choice.h"

enum { CHOICES_MOST = 1 << 16 }; /* kept; the oldest go first */

void ws_nccl_keep_choice(struct ws_nccl_choices *choices, const struct ws_nccl_choice *choice)
{
	size_t kept, at;

	if (choices->first == CHOICES_MOST ||
	    (choices->first > 64 && choices->first * 2 > choices->count)) {
		kept = choices->count - choices->first;
		memmove(choices->kept, choices->kept + choices->first,
			kept * sizeof(*choices->kept));
		choices->first = 0;
		choices->count = kept;
	}
	if (choices->count - choices->first == CHOICES_MOST)
		choices->first++;
	ws_grow(choices->kept, choices->capacity, choices->count + 1);
	at = choices->count++;
	/* Records of several threads are not in order. */
	while (at > choices->first && choices->kept[at - 1].start > choice->start) {
		choices->kept[at] = choices->kept[at - 1];
		at--;
	}
	choices->kept[at] = *choice;
	choices->kept[at].used = false;
}

static bool fits(const struct ws_nccl_choice *choice, const struct ws_nccl_wanted *wanted)
{
	if (choice->used || choice->operation != wanted->operation)
		return false;
	if (choice->communicator && choice->communicator != wanted->communicator)
		return false;
	if (choice->rank >= 0 && wanted->rank >= 0 && choice->rank != wanted->rank)
		return false;
	return wanted->peer < 0 || choice->peer < 0 || choice->peer == wanted->peer;
}

const struct ws_nccl_choice *ws_nccl_find_choice(struct ws_nccl_choices *choices,
						 const struct ws_nccl_wanted *wanted)
{
	size_t low = choices->first, high = choices->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (choices->kept[middle].start < wanted->from)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < choices->count && choices->kept[low].start <= wanted->to; low++) {
		if (!fits(&choices->kept[low], wanted))
			continue;
		return &choices->kept[low];
	}
	return NULL;
}

void ws_nccl_use_choice(struct ws_nccl_choices *choices, const struct ws_nccl_choice *choice)
{
	choices->kept[choice - choices->kept].used = true;
	while (choices->first < choices->count && choices->kept[choices->first].used)
		choices->first++;
}

void ws_nccl_free_choices(struct ws_nccl_choices *choices)
{
	free(choices->kept);
	*choices = (struct ws_nccl_choices){0};
}
