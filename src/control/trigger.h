/*
 * trigger.h - what makes a flight recorder write a snapshot by itself, as set by --trigger.
 * record/watch.h compares the program's events with the triggers; the machine decides whether a
 * snapshot is then written.
 */
#ifndef WS_CONTROL_TRIGGER_H
#define WS_CONTROL_TRIGGER_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum ws_flight_trigger_kind {
	WS_TRIGGER_ON_RANGE,	/* an NVTX range of this name lasted longer */
	WS_TRIGGER_ON_STEP,	/* a range named as a step lasted longer */
	WS_TRIGGER_ON_MARK,	/* an NVTX mark of this text */
	WS_TRIGGER_ON_GPU_IDLE, /* a GPU had nothing to do for longer */
	WS_TRIGGER_ON_XID,	/* the driver reports an error of a GPU */
	WS_TRIGGER_KINDS
};

enum { WS_TRIGGERS_MOST = 32, WS_TRIGGER_LABEL = 40 };

struct ws_flight_trigger {
	enum ws_flight_trigger_kind kind;
	char *name;		      /* of RANGE and MARK; else NULL */
	uint64_t ns;		      /* longer than this; 0: use `factor` */
	double factor;		      /* longer than this many times the median */
	char *text;		      /* as it was written */
	char label[WS_TRIGGER_LABEL]; /* for file names, such as range-step */
};

struct ws_flight_triggers {
	struct ws_flight_trigger *triggers;
	size_t count, cap;
};

/* Read one trigger and append it. -1 with a message. */
int ws_trigger_read(const char *text, struct ws_flight_triggers *list, struct ws_err *err);
void ws_trigger_free(struct ws_flight_triggers *list);
/* A line for each kind of trigger, for help: how it is written, and what it means; NULL after the
 * last. */
const char *ws_trigger_form(size_t i);

#endif
