/*
 * cleanup.h - what must not stay behind when a signal ends the program: temporary files, folders, a
 * program that was started.
 *
 * While anything is listed, SIGINT, SIGTERM and SIGHUP (those that are not ignored) delete it and
 * then end the program as they would have; afterwards they do again what they did before. For code
 * that runs to its end without looking whether it should; the exports, which look, have
 * ws_outfile_watch.
 */
#ifndef WS_BASE_CLEANUP_H
#define WS_BASE_CLEANUP_H

#include <stdbool.h>
#include <sys/types.h>

/* List a file, or a folder that will be empty once what was listed after it is gone. Returns a
 * handle; -1 when it could not be. */
int ws_cleanup_path(const char *path, bool folder);
/* List a program: it gets SIGTERM. */
int ws_cleanup_program(pid_t pid);
/* Take it off the list without touching it. Handle -1 is fine. */
void ws_cleanup_forget(int handle);

#endif
