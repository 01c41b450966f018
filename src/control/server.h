/*
 * server.h - the socket of a session: other commands of the same user connect to it, and each
 * request is handed to a function, on a thread of its connection.
 */
#ifndef WS_CONTROL_SERVER_H
#define WS_CONTROL_SERVER_H

#include "base/err.h"
#include "control/message.h"

struct ws_server;

/* Answer `request` by appending the answer's members to `answer`. */
typedef void (*ws_server_handler)(void *ctx, const struct ws_message *request,
				  struct ws_text *answer);

/*
 * Make the socket of the session `name` and begin to answer. A socket that a killed recorder left
 * under this name is removed. -1 with a message, also when the session already exists.
 */
int ws_server_start(struct ws_server **server, const char *name, ws_server_handler handler,
		    void *ctx, struct ws_err *err);
/* Remove the socket: from now on nobody finds the session, and its name is free. Requests that have
 * already come are still answered. NULL does nothing. */
void ws_server_hide(struct ws_server *server);
/* Wait until all that came has been answered, and free. The handler must no longer wait for
 * anything. */
void ws_server_end(struct ws_server *server);

#endif
