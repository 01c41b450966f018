/*
 * recordings.h - which recordings of the user are running on this machine, and into which reports.
 * There is no register that could be out of date: a running recorder holds its arena
 * (ws_area_is_live), whose name has its pid, and has its report open with the journal next to it.
 */
#ifndef WS_RECORD_RECORDINGS_H
#define WS_RECORD_RECORDINGS_H

#include <stddef.h>

struct ws_recordings {
	struct ws_recording {
		int recorder; /* pid */
		char *report; /* path, as the system knows it */
	} * list;	      /* by pid, then path */
	size_t count, cap;
};

/* The recordings whose recorders this user runs. Zero it to begin with. */
void ws_recordings_find(struct ws_recordings *recordings);
void ws_recordings_free(struct ws_recordings *recordings);

#endif
