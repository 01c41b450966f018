/* child.h - this program again, as a child of the server: recordings and imports that the page asks
 * for. */
#ifndef WS_SERVE_CHILD_H
#define WS_SERVE_CHILD_H

#include <sys/types.h>

#include "base/err.h"

/* What happens to a child when the thread that started it ends, with the server or before. */
enum ws_child_end {
	WS_CHILD_INTERRUPTED, /* SIGINT, as by Ctrl+C: it ends in order */
	WS_CHILD_KILLED,      /* SIGKILL; and it is killed first when memory runs out */
};

/*
 * Run it with these arguments (argv[0] is for show; ended by NULL), by execv: no shell. It has a
 * process group of its own, so that Ctrl+C in the terminal reaches the server alone; no input; none
 * of the server's descriptors. *out is where what it writes can be read. The calling thread must
 * last as long as the child is to. 0, or -1 with a message.
 */
int ws_child_start(char *const *argv, enum ws_child_end end, pid_t *pid, int *out,
		   struct ws_err *err);

#endif
