/*
 * background.h - background processes that outlive the command which starts them: the one that
 * keeps a `start` until its `launch`, and the recorder of a host's ranks.
 */
#ifndef WS_CONTROL_BACKGROUND_H
#define WS_CONTROL_BACKGROUND_H

#include <stddef.h>

#include "base/err.h"

/*
 * Run `run` in a process that is nobody's child, and wait until it calls ws_background_ready or
 * ends. `run` does not return. Returns 0 with its message in `said` ("" when it is ready), or -1
 * with a message when the process could not be started.
 */
int ws_background_start(void (*run)(void *ctx, int ready), void *ctx, char *said, size_t size,
			struct ws_err *err);
/*
 * Called in that process: leave the session, the standard streams and all descriptors of the
 * process that started it, and take `name` (15 characters at most). Returns the descriptor to pass
 * to ws_background_ready in place of `ready`.
 */
int ws_background_detach(int ready, const char *name);
/* Report that the process is ready, or, with a message, that it is not. */
void ws_background_ready(int ready, const char *message);

#endif
