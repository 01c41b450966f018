/* tracefs.h - the kernel's folder of tracepoints, whether somebody has mounted it or not. */
#ifndef WS_BASE_TRACEFS_H
#define WS_BASE_TRACEFS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/*
 * A descriptor of the folder `events`, which holds a folder for each subsystem. Where tracefs is
 * mounted nowhere, one that only this process sees is made, which takes the right to mount
 * (CAP_SYS_ADMIN) and changes nothing on the machine; it is gone with the last descriptor. `*place`
 * (may be NULL) is where it is mounted, or NULL. -1 with a sentence that says why there is none,
 * and errno.
 */
int ws_tracefs_open(const char **place, struct ws_err *err);

#endif
