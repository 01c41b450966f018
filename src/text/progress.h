/*
 * progress.h - "export: 42 %" on a terminal, rewritten in place; nothing anywhere else.
 */
#ifndef WS_TEXT_PROGRESS_H
#define WS_TEXT_PROGRESS_H

#include <stdint.h>

struct ws_progress;

/* `what` NULL: say nothing. NULL when there is nothing to show it on, which the others take.
 * `total` steps are the whole. */
struct ws_progress *ws_progress_begin(const char *what, uint64_t total);
/* So many more are done. From any thread. */
void ws_progress_step(struct ws_progress *progress, uint64_t steps);
/* Wipe the line and free. */
void ws_progress_end(struct ws_progress *progress);

#endif
