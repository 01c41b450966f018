/*
 * err.h - errors are values with a message.
 *
 * A function that can fail takes `struct ws_err *err` last and returns 0 or -1 (or NULL). The
 * message is one sentence that names the file, the option or the cause and needs no prefix. `err`
 * may be NULL when the caller does not care. Not for the hook side, which never reports by message.
 */
#ifndef WS_BASE_ERR_H
#define WS_BASE_ERR_H

#include "base/compiler.h"

struct ws_err {
	char msg[1024];
};

/* Set the message (printf style, truncated to fit); always returns -1. */
int ws_fail(struct ws_err *err, const char *fmt, ...) WS_PRINTF(2, 3);
/* The same with ": strerror(errno)" appended; keeps errno. */
int ws_fail_errno(struct ws_err *err, const char *fmt, ...) WS_PRINTF(2, 3);

/*
 * Messages of the tool to the user: "warpsight: <text>\n" on stderr, never on stdout.
 * ws_warn adds "warning: ". Both keep errno.
 */
void ws_say(const char *fmt, ...) WS_PRINTF(1, 2);
void ws_warn(const char *fmt, ...) WS_PRINTF(1, 2);

#endif
