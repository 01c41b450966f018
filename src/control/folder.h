/*
 * folder.h - where the sockets of a user's sessions are, and what sessions may be called.
 *
 * The folder is $XDG_RUNTIME_DIR/warpsight where that variable names a folder of the user's, else
 * /tmp/warpsight-UID. Sessions are looked for in both, since not every way to log in sets the
 * variable. The folder belongs to the user, is closed to others, and is not followed if it is a
 * link.
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

/* Open the folder for new sessions, making it if needed; -1 with a message. */
int ws_session_make_folder(struct ws_err *err);
/* Open the i-th folder in which sessions may be; -1 when it does not exist or cannot be trusted, -2
 * after the last. */
int ws_session_open_folder(unsigned i);
/* Hold off others who make or remove sockets in the folder. */
void ws_session_lock_folder(int folder);
void ws_session_unlock_folder(int folder);

#endif
