/*
 * choice.h - what NCCL's profiler plug-in says of operations, kept until the calls that asked for
 * them are known.
 */
#ifndef WS_NCCL_CHOICE_H
#define WS_NCCL_CHOICE_H

#include "nccl/nccl.h"

/* Zero-initialise; free with ws_nccl_free_choices. */
struct ws_nccl_choices {
	struct ws_nccl_choice *kept; /* in order of their starts */
	size_t first, count, capacity;
};

/* What a call asked for. */
struct ws_nccl_wanted {
	uint64_t communicator, from, to; /* times between which NCCL decided, session ns */
	int32_t rank, peer;		 /* -1: not known, or none */
	uint8_t operation;
};

/* Copies `choice`. When too many are kept, the oldest is dropped. */
void ws_nccl_keep_choice(struct ws_nccl_choices *choices, const struct ws_nccl_choice *choice);
/* The first that fits and has not been used; NULL when there is none. Valid until the next one is
 * kept. */
const struct ws_nccl_choice *ws_nccl_find_choice(struct ws_nccl_choices *choices,
						 const struct ws_nccl_wanted *wanted);
void ws_nccl_use_choice(struct ws_nccl_choices *choices, const struct ws_nccl_choice *choice);
void ws_nccl_free_choices(struct ws_nccl_choices *choices);

#endif
