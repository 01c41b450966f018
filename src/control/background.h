/*
 * background.h - processes of ours that outlive the command which starts them: what keeps a
 * `start` until its `launch`, and the recorder of a host's ranks.
 */
#ifndef WS_CONTROL_BACKGROUND_H
#define WS_CONTROL_BACKGROUND_H

#include <stddef.h>

#include "base/err.h"

/*
 * Run `run` in a process that is nobody's child, and wait until it calls ws_background_ready or
 * ends. `run` does not return. 0, with what it said in `said` ("" when it is ready); -1 with a
 * message when there is no such process.
 */
int ws_background_start(void (*run)(void *ctx, int ready), void *ctx, char *said, size_t size,
			struct ws_err *err);
/*
 * In that process: leave the session, the standard streams and all descriptors of the one that
 * started it, and take `name` (15 characters at most). Returns the descriptor to be passed to the
 * next in place of `ready`.
 */
int ws_background_detach(int ready, const char *name);
/* It is ready, or, with a message, it is not. */
void ws_background_ready(int ready, const char *message);

#endif
