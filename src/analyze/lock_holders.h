/*
 * lock_holders.h - what threads that hold a lock wait for themselves, while others wait for them:
 * that is what has to move out of the lock.
 */
#ifndef WS_ANALYZE_LOCK_HOLDERS_H
#define WS_ANALYZE_LOCK_HOLDERS_H

#include "analyze/model.h"

struct ws_held_wait {
	uint32_t function, stack; /* the call that takes most of it, 0 where not known */
	double share;		  /* of the time for which others wait for locks of the C library */
};

/* Follow such waits of a process, back from whoever ended each to whoever had the lock before. Of
 * very many, the first count. */
struct ws_held_wait ws_find_held_wait(const struct ws_model *model, uint32_t process);

#endif
