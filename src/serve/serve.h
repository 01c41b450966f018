/* serve.h - showing reports in a browser. */
#ifndef WS_SERVE_H
#define WS_SERVE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct ws_serve_request {
	const char *const *files;
	size_t n;
	int port;	  /* 0: any that is free */
	bool open;	  /* start the desktop's browser */
	bool remote_hint; /* say how to reach it through ssh */
	char **record;	  /* ended by NULL: what the page may record; NULL for nothing */
};

/*
 * Open the reports, listen on the loopback interface, print the address on standard output, and
 * serve until a signal (INT, TERM, HUP). Returns 0, or -1 with a message.
 */
int ws_view_serve(const struct ws_serve_request *request, struct ws_err *err);

#endif
