/*
 * progress.h - "export: 42 %" on a terminal, rewritten in place; nothing anywhere else.
 */
#ifndef WS_TEXT_PROGRESS_H
#define WS_TEXT_PROGRESS_H

#include <stdint.h>

struct ws_progress;

/* Start showing `title`, which must live as long; `total` steps are the whole. Returns NULL when
 * `title` is NULL, there is nothing to do, or standard error is no terminal; the other functions
 * accept that. */
struct ws_progress *ws_begin_progress(const char *title, uint64_t total);
/* Count `steps` more as done. May be called from any thread. */
void ws_step_progress(struct ws_progress *progress, uint64_t steps);
/* Wipe the line and free. */
void ws_end_progress(struct ws_progress *progress);

#endif
