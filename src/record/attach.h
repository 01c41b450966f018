/*
 * attach.h - recording a program that already runs: finds out whether this is possible, and loads
 * the hooks into it.
 *
 * Samples and context switches of any process of the user come from the kernel; the process itself
 * is not needed. For NVTX, the OS runtime and CUDA the hooks are loaded into it: where that is not
 * possible, a sentence says why, and the rest is recorded.
 */
#ifndef WS_RECORD_ATTACH_H
#define WS_RECORD_ATTACH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "ring/late.h"

/* A process to record. */
struct ws_attach_target {
	int pid;
	uid_t user;
	char letter; /* state, as in /proc/PID/stat */
	int tracer;  /* pid of the debugger that traces it; 0 for none */
	int seccomp; /* 0 none, 1 strict, 2 filter */
	int filters; /* how many, where the kernel says so */
	int pidfd;   /* readable once the process has ended; -1 where pidfds are not available */
};

/* Look at the process. -1 with a sentence when it cannot be recorded at all: it does not exist, has
 * ended, belongs to another user, or is a thread or a part of the kernel. */
int ws_attach_look(int pid, struct ws_attach_target *target, struct ws_err *err);
/* Whether the process has ended. */
bool ws_attach_has_ended(const struct ws_attach_target *target);
void ws_attach_close(struct ws_attach_target *target);

/*
 * Load the hooks: `libraries` are paths separated by ':', the first of which is libwarpsight-hooks,
 * and have them join the session whose arena is `session`. *state gets the outcome. Returns 0; or
 * -1 with a sentence, in which case the process is unchanged.
 */
int ws_attach_load(const struct ws_attach_target *target, const char *libraries,
		   const char *session, struct ws_late_state *state, struct ws_err *err);
/* Have the hooks leave the session: calls of functions go where they went before. -1 with a
 * sentence when that was not possible; the hooks are idle in any case. */
int ws_attach_unload(const struct ws_attach_target *target, const char *libraries,
		     struct ws_err *err);

#endif
