/*
 * driver_calls.h - what libwarpsight-driver.so offers to the kernel hook: it stands before calls of
 * the CUDA driver in each of the ways by which programs get them (as symbols, by dlsym, by
 * cuGetProcAddress), and tells a listener of each. Without a listener, a call costs a jump.
 *
 * It is preloaded, and finds nothing until the program has loaded libcuda.
 */
#ifndef WS_DRIVER_CALLS_H
#define WS_DRIVER_CALLS_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

enum { WS_DRIVER_WORDS = 11 };

/* Called before and after a call, in the thread that makes it. The words are its parameters; what
 * is beyond them, and in the upper half of shorter ones, is arbitrary. */
struct ws_driver_listener {
	void (*enter)(unsigned call, const uint64_t *words);
	void (*leave)(unsigned call, const uint64_t *words, int result);
};

/* The library has one object of this kind, which ws_driver_calls() returns. */
struct ws_driver_calls {
	size_t count;
	const char *const *names; /* of the calls, by their numbers */
	/* NULL for none. Calls in progress tell the former one of their end. */
	void (*listen)(const struct ws_driver_listener *listener);
	/* The driver's own function, where `function` is the one that stands before it. */
	void *(*strip)(void *function);
	/* Why calls of the program may go unseen; NULL where nothing indicates it. */
	const char *(*find_gap)(void);
};
WS_EXPORT const struct ws_driver_calls *ws_driver_calls(void);

#endif
