/*
 * sealed.h - arena memory that nobody can make shorter, and the socket from which processes that
 * may not read our /proc get it; see ring/arena_name.h.
 */
#ifndef WS_RECORD_SEALED_H
#define WS_RECORD_SEALED_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct ws_doorman;

struct ws_sealed {
	int memory, socket; /* descriptors */
	char path[108];	    /* of the socket, at the longest possible length */
};

/*
 * Make memory of `size` bytes, of which the first `first` are allocated, and a socket in the folder
 * that leads to it. `owner` may open both; (uid_t)-1: our own user. 0, or -1 with errno.
 */
int ws_sealed_create(struct ws_sealed *sealed, const char *folder, uint64_t size, uint64_t first,
		     uid_t owner);
/* Start the thread that sends `memory` to those who connect, with the rights that the caller has
 * now. NULL when no thread can be started. */
struct ws_doorman *ws_doorman_start(int socket, int memory);
/* End it. NULL is allowed. The socket stays the caller's. */
void ws_doorman_stop(struct ws_doorman *doorman);
/* Whether somebody listens at the socket with this path. */
bool ws_is_socket_live(const char *path);

#endif
