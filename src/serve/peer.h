/* peer.h - which user of this machine is at the other end of a connection over loopback. */
#ifndef WS_SERVE_PEER_H
#define WS_SERVE_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum ws_peer {
	WS_PEER_USER,	   /* a socket of this machine, whose user is known */
	WS_PEER_GONE,	   /* it was closed: nobody would read an answer */
	WS_PEER_ELSEWHERE, /* no socket of this network namespace: forwarded from another one */
	WS_PEER_UNKNOWN,   /* the kernel does not say whose sockets are whose */
};

/*
 * Asks the kernel (sock_diag, else /proc/net/tcp) who holds the other end of `fd`, a connected TCP
 * socket over IPv4. *uid is set for WS_PEER_USER only. Costs some microseconds.
 */
enum ws_peer ws_find_peer(int fd, uid_t *uid);

/* Users whose connections are answered. */
struct ws_trusted_users {
	uid_t uid[5];
	size_t n;
};

/*
 * The user of this process and root, who can read its memory anyway. Where this process is root's:
 * also the user who became root by sudo or pkexec, and the one who logged in (su, doas), whose
 * browser or ssh the page is looked at with.
 */
void ws_find_trusted_users(struct ws_trusted_users *users);
bool ws_is_trusted_user(const struct ws_trusted_users *users, uid_t uid);

#endif
