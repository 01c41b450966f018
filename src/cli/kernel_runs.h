/*
 * kernel_runs.h - the folder in which counters are kept between the runs of a program that
 * application replay makes. The kernel hook writes into it (inject/kernel_runs.c).
 */
#ifndef WS_CLI_KERNEL_RUNS_H
#define WS_CLI_KERNEL_RUNS_H

#include <stddef.h>

#include "base/err.h"

/* Make it in the folder for temporary files. The path is owned by the caller; NULL with a message.
 */
char *ws_make_run_folder(struct ws_err *err);
/* How many runs the metrics need; 0 when nothing was measured. */
size_t ws_read_run_count(const char *folder);
/* How many launches or ranges the runs before the last one counted, but not that one. */
size_t ws_count_unfinished_units(const char *folder);
/* Remove it with what is in it. */
void ws_remove_run_folder(const char *folder);

#endif
