/*
 * tee.h - puts the target's output into the report, on request: pipes in place of its standard
 * streams, and a thread that copies what comes out of them to ours and keeps it for the recorder's
 * loop.
 */
#ifndef WS_RECORD_TEE_H
#define WS_RECORD_TEE_H

#include "record/record.h"
#include "record/sink.h"

struct ws_tee;

/* `show` copies to our own standard output and error. out_fd, err_fd are for the target; close them
 * with ws_tee_started once it runs. */
struct ws_tee *ws_tee_new(bool show, int *out_fd, int *err_fd, struct ws_err *err);
void ws_tee_started(struct ws_tee *tee);
/* Rows for what has arrived. */
void ws_tee_collect(struct ws_tee *tee, struct ws_sink *sink);
/* For a recorder that has run out of memory. Is the caller the thread that copies? */
bool ws_tee_is_this_thread(const struct ws_tee *tee);
/* Copy what comes within `wait_ms` without keeping it; false when nothing did. */
bool ws_tee_pass_on(struct ws_tee *tee, int wait_ms);
/* From now on nothing is kept, so that the thread that copies needs no memory. */
void ws_tee_forget(struct ws_tee *tee);
/* On the thread that copies, which has found no memory: go on without keeping anything, until
 * ws_tee_copy_rest is called. */
void ws_tee_copy_on(struct ws_tee *tee);
/* On another thread: wait until all that the target has written is copied. */
void ws_tee_copy_rest(struct ws_tee *tee);
/* Wait until the writers are gone, at most a moment when some keep the pipe open, and free. */
void ws_tee_finish(struct ws_tee *tee, struct ws_sink *sink);

#endif
