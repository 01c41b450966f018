/*
 * heap_record.h - what the malloc hook writes for a block that it has sampled: one record after the
 * stack when the block is allocated, and another when it is freed.
 */
#ifndef WS_RING_HEAP_RECORD_H
#define WS_RING_HEAP_RECORD_H

#include "ring/record.h"

struct ws_rec_heap {
	struct ws_rec rec; /* small: 1 freed, 0 allocated */
	uint64_t time;	   /* ticks */
	uint64_t born;	   /* when it was allocated; the same for an allocation */
	uint64_t address, bytes;
};

#endif
