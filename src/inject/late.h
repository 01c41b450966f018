/*
 * late.h - joining a session in a running program: `profile --attach` loads the hooks into it and
 * calls ws_late_attach there, on a thread that it has stopped (record/attach.h).
 */
#ifndef WS_LATE_H
#define WS_LATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "ring/late.h"

/*
 * The functions that the recorder calls. `text`: the arena's path and the libraries to open beside
 * this one, each ended by a NUL, then an empty one.
 */
WS_EXPORT extern struct ws_late_state ws_late_state;
WS_EXPORT void ws_late_attach(const char *text);
WS_EXPORT void ws_late_detach(void);

/*
 * Each of the libraries may define these, which are called once the session is joined and before it
 * is left. They may count their work in ws_late_state.
 */
#define WS_LATE_BEGIN "ws_late_begin"
#define WS_LATE_END "ws_late_end"
typedef void ws_late_fn(void);

/* nvtx_late.c: make the tables of all modules that use NVTX point to our functions, and to none
 * again. */
void ws_nvtx_attach_modules(void);
void ws_nvtx_detach_modules(void);

#endif
