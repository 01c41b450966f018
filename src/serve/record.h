/*
 * record.h - recording from the page (`view --record -- COMMAND`): the command of the command line,
 * and nothing else, run under `warpsight profile` as often as the page asks for it, once at a time.
 */
#ifndef WS_SERVE_RECORD_H
#define WS_SERVE_RECORD_H

#include "serve/api.h"

/* `command` is ended by NULL and must live as long. Never NULL. */
struct ws_recorder *ws_recorder_new(struct ws_view *view, char **command);
/*
 * Start. Parameters say what to trace: nvtx, cuda, osrt, python-gil, sample, each 1 or 0 (as
 * without it). Returns 0, or -1 with a sentence: one is running, or it cannot be started.
 */
int ws_recorder_start(struct ws_recorder *recorder, const struct ws_params *params,
		      struct ws_err *err);
/* Have the command interrupted (SIGINT, from the second time on SIGTERM); the report is written
 * when it has ended. -1 when none runs. */
int ws_recorder_stop(struct ws_recorder *recorder, struct ws_err *err);
/* Ends what is running: interrupts, waits some seconds, then leaves it to itself. `r` may be NULL.
 */
void ws_recorder_free(struct ws_recorder *recorder);

#endif
