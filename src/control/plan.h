/*
 * plan.h - what begins and ends the collections of a session, as set by the options.
 *
 * Whatever the source of a range is (a call of the program, an NVTX range, a step), its beginning
 * and end are the same two events for the machine (machine.h).
 */
#ifndef WS_CONTROL_PLAN_H
#define WS_CONTROL_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "control/flight.h"

/* What begins a collection. */
enum ws_capture {
	WS_CAPTURE_NONE,    /* the target's start, or the delay after it */
	WS_CAPTURE_CUDA,    /* cudaProfilerStart */
	WS_CAPTURE_NVTX,    /* an NVTX range of a certain name */
	WS_CAPTURE_PROGRAM, /* ws_start() of warpsight/control.h */
	WS_CAPTURE_HOTKEY,  /* a key of the display */
	WS_CAPTURE_STEPS,   /* steps of the program, by number */
	WS_CAPTURE_USER,    /* the command `start` */
	WS_CAPTURES
};

/* What the end of a range does. */
enum ws_range_end {
	WS_RANGE_END_NONE,	    /* nothing: the collection goes on */
	WS_RANGE_END_STOP,	    /* ends the collection; later ranges begin none */
	WS_RANGE_END_STOP_SHUTDOWN, /* ends the collection and the session, with the signal of
				       --kill */
	WS_RANGE_END_REPEAT,	    /* the next range begins another collection */
	WS_RANGE_END_REPEAT_SHUTDOWN,
	WS_RANGE_ENDS
};

struct ws_plan {
	enum ws_capture capture;
	enum ws_range_end range_end;
	uint32_t repeats;  /* collections after which REPEAT means STOP; 0: never */
	uint64_t delay;	   /* ns from the target's start before anything begins */
	uint64_t duration; /* ns that a collection lasts at most; 0: no limit */
	bool kill; /* the end of the duration and of the session sends the target a signal */
	struct ws_flight_plan flight;
	uint32_t first_step, last_step; /* of WS_CAPTURE_STEPS, both included */
	bool interactive; /* after a collection the session waits for the next `start` */
};

/* Read the value of --capture-range; 0, or -1 with a message that names the words. */
int ws_plan_read_capture(const char *text, enum ws_capture *capture, struct ws_err *err);
/* Read the value of --capture-range-end: none, stop, stop-shutdown, repeat[:N], repeat-shutdown:N.
 */
int ws_plan_read_range_end(const char *text, struct ws_plan *plan, struct ws_err *err);
/* Read the value of --steps (A-B, A or A-) into a plan that waits for these steps. 0, or -1 with a
 * message. */
int ws_plan_read_steps(const char *text, struct ws_plan *plan, struct ws_err *err);
/* The word of an option's value, for messages and status. */
enum { WS_FUNCTION_KEYS = 12 };
#define WS_DEFAULT_KEY "F12"

/* The number of a function key, F1 to F12; 0 when `name` is none. */
int ws_plan_read_key(const char *name);
const char *ws_plan_capture_name(enum ws_capture capture);
const char *ws_plan_range_end_name(enum ws_range_end end);

#endif
