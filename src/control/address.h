/* address.h - the address of a session's socket; private to src/control. */
#ifndef WS_CONTROL_ADDRESS_H
#define WS_CONTROL_ADDRESS_H

#include <stdbool.h>
#include <sys/un.h>

/* The socket of session `name` in the open folder, however long the folder's path is. */
void ws_address_fill(struct sockaddr_un *address, int folder, const char *name);
/* Whether the socket's file exists but nobody listens on it. */
bool ws_address_is_dead(const struct sockaddr_un *address);

#endif
