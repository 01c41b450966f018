/*
 * trigger.h - what makes a flight recorder write a snapshot by itself, as --trigger says it. What
 * happens in the program is compared with it elsewhere (record/watch.h); whether a snapshot is
 * written then is the machine's decision.
 */
#ifndef WS_CONTROL_TRIGGER_H
#define WS_CONTROL_TRIGGER_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum ws_flight_trigger_kind {
	WS_TRIGGER_ON_RANGE,	/* an NVTX range of this name lasted longer */
	WS_TRIGGER_ON_STEP,	/* a range that is called a step did */
	WS_TRIGGER_ON_MARK,	/* an NVTX mark of this text */
	WS_TRIGGER_ON_GPU_IDLE, /* a GPU had nothing to do for longer */
	WS_TRIGGER_ON_XID,	/* the driver reports an error of a GPU */
	WS_TRIGGER_KINDS
};

enum { WS_TRIGGERS_MOST = 32, WS_TRIGGER_LABEL = 40 };

struct ws_flight_trigger {
	enum ws_flight_trigger_kind kind;
	char *name;		      /* of RANGE and MARK; else NULL */
	uint64_t ns;		      /* longer than this; 0: `factor` counts */
	double factor;		      /* longer than so many times the median */
	char *text;		      /* as it was written */
	char label[WS_TRIGGER_LABEL]; /* for names of files: range-step */
};

struct ws_flight_triggers {
	struct ws_flight_trigger *triggers;
	size_t count, cap;
};

/* Read one trigger and append it. -1 with a message. */
int ws_trigger_read(const char *text, struct ws_flight_triggers *list, struct ws_err *err);
void ws_trigger_free(struct ws_flight_triggers *list);
/* A line for each kind of trigger, for help: how it is written, and what it means; NULL past the
 * last. */
const char *ws_trigger_form(size_t i);

#endif
