/*
 * ignored.h - keeps SIGURG ignored in new images, which inherit the ignored signals. If the program
 * ignores SIGURG but the sampler handles it, programs that it starts must still find it ignored.
 */
#ifndef WS_IGNORED_H
#define WS_IGNORED_H

#include <stdbool.h>

#include "base/compiler.h"

/* Set by the samplers: the program believes that it ignores SIGURG. */
WS_EXPORT extern _Atomic bool ws_ignores_signal;

/* Before an exec, and before a call that performs one in a new process. */
void ws_ignore_signal_for_exec(void);
/* After the exec has failed, or the call has returned. */
void ws_handle_signal_again(void);

#endif
