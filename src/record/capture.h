/*
 * capture.h - the recorder's side of ranges that begin and end collections (struct ws_capture_state
 * of ring.h): hooks turn collecting on and off; this module says when they may, and reads what they
 * did.
 */
#ifndef WS_RECORD_CAPTURE_H
#define WS_RECORD_CAPTURE_H

#include "control/plan.h"
#include "ring/ring.h"

/* Set what the hooks treat as a range. The texts must be shorter than WS_CAPTURE_NAME. */
void ws_capture_set(struct ws_arena *arena, const struct ws_plan *plan, const char *range,
		    const char *domain);
/* From now on the next range begins a collection. */
void ws_capture_arm(struct ws_arena *arena);
/* Ranges no longer begin a collection; one that is under way goes on, and hooks can no longer end
 * it. */
void ws_capture_disarm(struct ws_arena *arena);
/* The collection has ended by another cause than the end of its range. That range does not count as
 * a new one when collections are armed again. */
void ws_capture_end(struct ws_arena *arena);
/* What hooks have done. Ticks come from the program and must be checked. */
struct ws_capture_look {
	bool begun, ended;
	uint64_t begin, end; /* ticks */
};
struct ws_capture_look ws_capture_look(struct ws_arena *arena);
/* A process has ended with `ranges` ranges open. True when a collection ended with them. */
bool ws_capture_drop(struct ws_arena *arena, uint32_t ranges);
/* How hooks recognise steps, the step that began the collection, and the last step they saw. */
struct ws_capture_step {
	enum ws_step_source source;
	uint32_t begun, last;
	uint32_t launches; /* per step, if steps are recognised by launches */
	char text[64];
};
struct ws_capture_step ws_capture_look_at_step(struct ws_arena *arena);
/* How many ranges waited without success since the last call. */
uint32_t ws_capture_take_skipped(struct ws_arena *arena);

#endif
