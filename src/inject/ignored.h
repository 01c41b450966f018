/*
 * ignored.h - a new image inherits which signals are ignored. Where the program has SIGURG ignored
 * and the sampler handles it all the same, what the program starts must find it ignored.
 */
#ifndef WS_IGNORED_H
#define WS_IGNORED_H

#include <stdbool.h>

#include "base/compiler.h"

/* Set by the samplers: the program believes that it ignores SIGURG. */
WS_EXPORT extern _Atomic bool ws_ignores_signal;

/* Before an exec, and before a call that makes one in a process of its own. */
void ws_ignore_signal_for_exec(void);
/* When the exec has failed, or the call has returned. */
void ws_handle_signal_again(void);

#endif
