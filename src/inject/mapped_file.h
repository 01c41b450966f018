/*
 * mapped_file.h - asks the kernel which files the process has mapped. The dynamic loader knows this
 * too, but its lock may be held by a thread that waits for this one.
 */
#ifndef WS_MAPPED_FILE_H
#define WS_MAPPED_FILE_H

#include <stdbool.h>

/* Whether a mapped file's path contains `part`, at most 64 characters. Costs some 50 us. */
bool ws_is_file_mapped(const char *part);

#endif
