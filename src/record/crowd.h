/*
 * crowd.h - whether a core is free for the recorder. Where none is, each of its rounds stops a
 * thread of the target, and those that wait for it.
 */
#ifndef WS_RECORD_CROWD_H
#define WS_RECORD_CROWD_H

#include <stdbool.h>

struct ws_crowd {
	long cores;
	int fd; /* of /proc/loadavg; -1: it cannot be read */
};

void ws_crowd_begin(struct ws_crowd *crowd);
void ws_crowd_end(struct ws_crowd *crowd);
/* Whether more threads want to run now, the caller among them, than there are cores. */
bool ws_crowd_is_full(const struct ws_crowd *crowd);

#endif
