/*
 * folder.h - where the sockets of a user's sessions lie, and what sessions may be called.
 *
 * The folder is $XDG_RUNTIME_DIR/warpsight where that variable names a folder of the user's, else
 * /tmp/warpsight-UID. Sessions are looked for in both, since not every way to log in sets the
 * variable. It is the user's, closed to others, and not followed if it is a link.
 */
#ifndef WS_CONTROL_FOLDER_H
#define WS_CONTROL_FOLDER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

#define WS_DEFAULT_SESSION "[default]"
enum { WS_SESSION_NAME_MOST = 64 };

/* -1 with a message when no session may have this name. */
int ws_session_check_name(const char *name, struct ws_err *err);

/* Open the folder in which new sessions go, made if it is not there; -1 with a message. */
int ws_session_make_folder(struct ws_err *err);
/* Open the i-th folder in which sessions may be; -1 when it is not there or not to be trusted, -2
 * behind the last. */
int ws_session_open_folder(unsigned i);
/* Hold off others who make or remove sockets in the folder. */
void ws_session_lock_folder(int folder);
void ws_session_unlock_folder(int folder);

#endif
