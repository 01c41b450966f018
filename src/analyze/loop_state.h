/*
 * loop_state.h - what a loop of machine code carries from one round to the next: nothing where it
 * only asks whether something has changed, a place that goes on where it looks for something.
 */
#ifndef WS_ANALYZE_LOOP_STATE_H
#define WS_ANALYZE_LOOP_STATE_H

#include "analyze/instructions.h"

struct ws_loop_state {
	bool only_asks; /* nothing is carried, written or called: only others can end it */
	uint64_t asked; /* the address of a variable that it reads; 0 where the code has none */
	/* It goes from item to item, computes nothing but whether to stop there, and has two ways
	 * out: the item was found, or there are no more. */
	bool searches;
	bool follows; /* a search: along pointers, rather than an array */
	bool calls;   /* other functions */
};

/* Look at the instructions of a loop, in the order of their addresses. */
void ws_find_loop_state(const struct ws_instruction *code, size_t count,
			struct ws_loop_state *state);

#endif
