/*
 * pending.h - a `start` that came before its `launch`: a process of its own keeps what was asked
 * for, under the session's name, until `launch` takes it over, or `cancel` or `shutdown` ends it.
 * It records nothing and sleeps.
 */
#ifndef WS_CONTROL_PENDING_H
#define WS_CONTROL_PENDING_H

#include "base/err.h"
#include "control/message.h"

/* Start that process, which keeps the request of `start`. Returns once the session exists. -1 with
 * a message. */
int ws_pending_start(const char *name, const struct ws_text *request, struct ws_err *err);
/*
 * Take over the request that a session keeps. The session then ends and its name is free. Returns 0
 * with the request in `kept`; 1 when the session does not wait for a launch, or does not exist; -1
 * with a message. Free `kept` in any case.
 */
int ws_pending_take(const char *name, struct ws_message *kept, struct ws_err *err);

#endif
