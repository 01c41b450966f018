/*
 * gathered.h - the programs of a session that several ranks of a host have joined (--per-node):
 * which they are, and whether the last of them has ended.
 *
 * Each is started by a process of its own (cli/per_node.c), which asks the recorder to follow it
 * before it calls exec.
 */
#ifndef WS_RECORD_GATHERED_H
#define WS_RECORD_GATHERED_H

#include "record/attach.h"

struct ws_gathered {
	struct ws_gathered_rank {
		struct ws_attach_target program, starter;
		bool left; /* the starter has announced its end */
	} * ranks;
	size_t count, cap;
	unsigned expected;    /* number of ranks on the host; 0: not known */
	uint64_t quiet_since; /* session ns since when none has run; 0: one runs */
};

/* Follow a program that the process `starter` has started. -1 with a message when either of them
 * does not belong to this user. */
int ws_gathered_add(struct ws_gathered *gathered, int program, int starter, struct ws_err *err);
/* A starter ends. Returns whether it is the last one present. */
bool ws_gathered_leave(struct ws_gathered *gathered, int starter);
/* Whether all programs and starters have ended, and the wait for further ones is over. `now` in
 * session ns. */
bool ws_gathered_is_over(struct ws_gathered *gathered, uint64_t now);
/* Send a signal to the programs that run. */
void ws_gathered_kill(const struct ws_gathered *gathered, int sig);
void ws_gathered_free(struct ws_gathered *gathered);

#endif
