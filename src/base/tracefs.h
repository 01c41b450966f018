/* tracefs.h - the kernel's folder of tracepoints, whether it is mounted or not. */
#ifndef WS_BASE_TRACEFS_H
#define WS_BASE_TRACEFS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/*
 * Opens the folder `events`, which holds a folder for each subsystem, and returns a descriptor that
 * the caller closes. Where tracefs is mounted nowhere, it is mounted for this process alone, which
 * requires the right to mount (CAP_SYS_ADMIN) and changes nothing on the machine; that mount
 * disappears when the last descriptor is closed. `*place` (may be NULL) gets where it is mounted,
 * or NULL. Returns -1 with errno and a sentence that says why there is none.
 */
int ws_tracefs_open(const char **place, struct ws_err *err);

#endif
