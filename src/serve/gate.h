/*
 * gate.h - the server's listening socket. A connection uses no resources of the server until it is
 * known to come from a trusted user and has shown a secret in its first line.
 */
#ifndef WS_SERVE_GATE_H
#define WS_SERVE_GATE_H

#include <netinet/in.h>
#include <stdbool.h>

#include "base/err.h"

enum { WS_GATE_WORD = 32 }; /* letters of a secret: 128 bits in hexadecimal */

/* Called by the gate's thread. */
struct ws_gate_use {
	void *ctx;
	/* Whether the first part of a request's path, of WS_GATE_WORD letters, is a secret. */
	bool (*knows_word)(void *ctx, const char *word);
	/* Takes over the connection, from which nothing has been read yet; false when there are too
	 * many, and the gate keeps it. */
	bool (*take_connection)(void *ctx, int fd, const struct sockaddr_in *address);
};

struct ws_gate;

/* Listen on `port` (0: any) of 127.0.0.1. NULL with a message, and errno as it was left. */
struct ws_gate *ws_gate_open(int port, struct ws_err *err);
int ws_gate_port(const struct ws_gate *gate);
/* Whether the kernel says which user a connection belongs to. Where it does not, connections of all
 * users who know the secret are let through. */
bool ws_gate_knows_users(const struct ws_gate *gate);
/* How many connections may hold descriptors: `most`, or a quarter of those this process may have.
 */
size_t ws_share_of_descriptors(size_t most);
/* Begin to answer, in a thread. `use` outlives the gate. */
int ws_gate_start(struct ws_gate *gate, const struct ws_gate_use *use, struct ws_err *err);
/* Ends the thread and closes what was not taken over. NULL is allowed. */
void ws_gate_close(struct ws_gate *gate);

#endif
