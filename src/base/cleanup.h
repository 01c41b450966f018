/*
 * cleanup.h - cleans up when a signal ends the program: removes temporary files and folders, and
 * ends a program that was started.
 *
 * While anything is listed, SIGINT, SIGTERM and SIGHUP (those that are not ignored) first remove it
 * and then end the program as they would have anyway; once the list is empty, the previous signal
 * actions are restored. This is for code that runs to its end without checking whether it has been
 * interrupted; the exports, which do check, use ws_watch_interrupts.
 */
#ifndef WS_BASE_CLEANUP_H
#define WS_BASE_CLEANUP_H

#include <stdbool.h>
#include <sys/types.h>

/* List a file, or a folder that will be empty once everything listed after it is gone. Returns a
 * handle for ws_cleanup_forget, or -1 when the list is full or the path is too long. */
int ws_cleanup_add_path(const char *path, bool folder);
/* List a program, to which SIGTERM is sent. Returns a handle, or -1 when the list is full. */
int ws_cleanup_add_program(pid_t pid);
/*
 * List a file, or a folder with files, that its owner removes when a signal is noted
 * (ws_watch_interrupts): listing it does not change how signals are handled, and only the next
 * function removes it. Returns a handle, or -1 as above.
 */
int ws_cleanup_add_output(const char *path);
/* The same for what nobody wants once the program has ended, however it ended. */
int ws_cleanup_add_scratch(const char *path);
/* Remove that alone. Allocates nothing. */
void ws_cleanup_remove_scratch(void);
/* Remove a file, or a folder and the files in it. Allocates nothing. */
void ws_remove_output(const char *path);
/* Remove all listed files and folders and end the listed programs. Allocates nothing. */
void ws_cleanup_remove_all(void);
/* Take an entry off the list without touching what it names. Handle -1 is allowed. */
void ws_cleanup_forget(int handle);

#endif
