/*
 * arena_name.h - what is encoded in the name of an arena. Hooks and recorder find the arena by the
 * path in WARPSIGHT_SESSION, whose last part is
 *
 *     warpsight-UID-PID-RANDOM               a file
 *     warpsight-UID-PID-RANDOM-FD-FILTERS    a socket; the memory is descriptor FD of process PID
 *
 * The memory behind a socket has no name in any folder and is sealed: nobody can make it shorter,
 * so that no access to it fails. A process that may look into the recorder's /proc opens it there.
 * All other processes (of another user, or in a user or pid namespace of their own) connect to the
 * socket, through which the recorder sends them the descriptor. FILTERS is how many seccomp filters
 * the recorder runs under: a process that runs under more of them does not try the socket, since it
 * might be killed for that.
 */
#ifndef WS_RING_ARENA_NAME_H
#define WS_RING_ARENA_NAME_H

#include <stdbool.h>
#include <stdint.h>

#define WS_ARENA_PREFIX "warpsight-"
#define WS_ARENA_RANDOM 16 /* hexadecimal digits */

struct ws_arena_name {
	uint32_t uid, pid;
	const char *random; /* WS_ARENA_RANDOM digits, in the path */
	bool sealed;
	uint32_t fd, filters; /* where it is sealed */
};

/* Read the last part of a path; false when it does not name an arena. Safe in hooks. */
bool ws_read_arena_name(const char *path, struct ws_arena_name *name);
/*
 * Write the path under which /proc shows the recorder's memory, and what that link must read, so
 * that another process with the same number is not mistaken for the recorder. Safe in hooks.
 */
#define WS_ARENA_LINK 64
void ws_write_arena_link(const struct ws_arena_name *name, char link[WS_ARENA_LINK],
			 char target[WS_ARENA_LINK]);

#endif
