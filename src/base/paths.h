/*
 * paths.h - where the program's own files are. They are located relative to the program, so that an
 * unpacked tarball, an installation under any prefix and a build tree all work without
 * configuration.
 */
#ifndef WS_BASE_PATHS_H
#define WS_BASE_PATHS_H

#include <stddef.h>

#include "base/err.h"

/*
 * Writes the path of a hook library ("libwarpsight-hooks.so") to `out`, absolute and fit for
 * LD_PRELOAD: if the true path contains a blank, a colon or a '$', which LD_PRELOAD cannot express,
 * the path goes through a symbolic link under /tmp, which is kept for later runs. Returns 0, or -1
 * with a message that names where it searched.
 */
int ws_find_hook_library(const char *lib, char *out, size_t size, struct ws_err *err);

/* Writes the path to execute to run this program again: in the relocatable tarball this is the
 * launcher. Returns 0, or -1 with a message. */
int ws_find_program(char *out, size_t size, struct ws_err *err);

/*
 * The launcher of the relocatable tarball hides LD_PRELOAD and LD_AUDIT from the bundled loader;
 * this puts them back for the target. Call it first thing in main.
 */
void ws_restore_environment(void);

/* Variables in which the launcher keeps what it hides. */
#define WS_KEPT_PRELOAD "WARPSIGHT_KEPT_LD_PRELOAD"
#define WS_KEPT_AUDIT "WARPSIGHT_KEPT_LD_AUDIT"

#endif
