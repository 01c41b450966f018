/*
 * client.h - asking the recorder of a session for something.
 */
#ifndef WS_CONTROL_CLIENT_H
#define WS_CONTROL_CLIENT_H

#include "base/err.h"
#include "control/message.h"

/* Whether the session answers. */
bool ws_session_exists(const char *name);
/*
 * Send the members of `request` and wait for the answer. Returns 0; 1 with a message when there is
 * no such session; -1 with a message when it did not answer. Free `answer` in any case.
 */
int ws_session_ask(const char *name, const struct ws_text *request, struct ws_message *answer,
		   struct ws_err *err);

struct ws_session_names {
	char **names; /* sorted */
	size_t count, cap;
};
/* The user's sessions. Sockets left behind by recorders that were killed are removed. */
void ws_session_list(struct ws_session_names *list);
void ws_session_free_list(struct ws_session_names *list);

#endif
