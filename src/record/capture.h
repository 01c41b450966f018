/*
 * capture.h - the recorder's side of ranges that begin and end collections (struct ws_capture_state
 * of ring.h): hooks turn collecting on and off, this says when they may and reads what they did.
 */
#ifndef WS_RECORD_CAPTURE_H
#define WS_RECORD_CAPTURE_H

#include "control/plan.h"
#include "ring/ring.h"

/* What hooks are to take for a range. The texts must be shorter than WS_CAPTURE_NAME. */
void ws_capture_set(struct ws_arena *arena, const struct ws_plan *plan, const char *range,
		    const char *domain);
/* The next range begins a collection. */
void ws_capture_arm(struct ws_arena *arena);
/* Ranges begin none; a collection that is on goes on, and is no longer a hook's to end. */
void ws_capture_disarm(struct ws_arena *arena);
/* The collection is over by another cause than the end of its range; the range is not a new one
 * when the next is armed. */
void ws_capture_end(struct ws_arena *arena);
/* What hooks have done. Ticks are what the program says: to be checked. */
struct ws_capture_look {
	bool begun, ended;
	uint64_t begin, end; /* ticks */
};
struct ws_capture_look ws_capture_look(struct ws_arena *arena);
/* A process has ended with so many ranges open. True when a collection ended with them. */
bool ws_capture_drop(struct ws_arena *arena, uint32_t ranges);
/* By what hooks know steps, the step that began the collection, and the last one that they saw. */
struct ws_capture_step {
	enum ws_step_source source;
	uint32_t begun, last;
	uint32_t launches; /* of one step, if it is known by them */
	char text[64];
};
struct ws_capture_step ws_capture_look_at_step(struct ws_arena *arena);
/* How many ranges waited without success since the last call. */
uint32_t ws_capture_take_skipped(struct ws_arena *arena);

#endif
