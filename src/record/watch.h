/*
 * watch.h - looks in the rows of a report for what --trigger names, as they are written.
 *
 * A watch belongs to one writer, whose ids it knows.
 */
#ifndef WS_RECORD_WATCH_H
#define WS_RECORD_WATCH_H

#include "control/trigger.h"
#include "store/store.h"

struct ws_watch;

/* A trigger that has fired. */
struct ws_fired {
	unsigned trigger;  /* its number in the list */
	uint64_t time;	   /* session ns */
	uint64_t duration; /* ns of what was too long; 0: it has none */
};

/* Watch the writer, for its whole life. `list` must stay. */
struct ws_watch *ws_watch_new(struct ws_writer *writer, const struct ws_flight_triggers *list);
void ws_watch_free(struct ws_watch *watch);
/* The first trigger that has fired since this was last called, and in *more how many others have;
 * `now` is the session's time, since some fire by waiting. False for none. */
bool ws_watch_take(struct ws_watch *watch, uint64_t now, struct ws_fired *fired, uint32_t *more);

#endif
