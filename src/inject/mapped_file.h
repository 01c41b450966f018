/*
 * mapped_file.h - which files the process has mapped, asked of the kernel: the dynamic loader would
 * say it too, but under a lock that somebody may hold who waits for this thread.
 */
#ifndef WS_MAPPED_FILE_H
#define WS_MAPPED_FILE_H

#include <stdbool.h>

/* Whether a mapped file's path contains `part`, at most 64 characters. Costs some 50 us. */
bool ws_is_file_mapped(const char *part);

#endif
