/*
 * place.h - passes a new thread the function that it should run: for wrappers of pthread_create
 * that begin the thread with code of their own.
 */
#ifndef WS_INJECT_PLACE_H
#define WS_INJECT_PLACE_H

#include <stdatomic.h>
#include <stdint.h>

struct ws_place_to_run {
	_Atomic uint32_t taken;
	uint32_t reserved;
	void *(*run)(void *);
	void *arg;
};

/* A place with `run` and `arg` in it; NULL when none is free: then the thread starts directly. Each
 * library has places of its own.
 */
struct ws_place_to_run *ws_take_start_place(void *(*run)(void *), void *arg);
/* Free it after the thread has read it or could not be created. */
void ws_give_start_place(struct ws_place_to_run *run);

#endif
