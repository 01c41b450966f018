/*
 * flight.h - what a flight recorder keeps and when it writes a snapshot of it, as the options say.
 */
#ifndef WS_CONTROL_FLIGHT_H
#define WS_CONTROL_FLIGHT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* Why a snapshot is written. */
enum ws_snapshot_cause {
	WS_SNAPSHOT_COMMAND, /* `warpsight snapshot` */
	WS_SNAPSHOT_SIGNAL,  /* WS_SNAPSHOT_SIGNO, sent to the recorder */
	WS_SNAPSHOT_DEATH,   /* the program ended by a signal or with a status other than 0 */
	WS_SNAPSHOT_TRIGGER, /* this value plus the number of the trigger */
};

/* Ignored by default, so that it does no harm if it is sent to another process. */
#define WS_SNAPSHOT_SIGNO SIGURG

enum { WS_SNAPSHOTS_BY_TRIGGERS = 100 }; /* per recording, so that the disk does not fill up */

struct ws_flight_plan {
	bool on;
	uint64_t keep;	/* ns */
	uint64_t bytes; /* of memory for what is kept */
};

/* Read TIME[,MEMORY], such as 30s,256M; 0, or -1 with a message. */
int ws_flight_read(const char *text, struct ws_flight_plan *plan, struct ws_err *err);
/* Read a time with its unit (ns, us, ms, s, m, h) into *ns; -1 when `text` does not begin with one.
 * *end gets what follows it. */
int ws_flight_read_time(const char *text, uint64_t *ns, const char **end);

#endif
