/*
 * server.h - reports as tools for language-model agents, by the Model Context Protocol: requests
 * come in on one stream, a line each, and answers go out on another.
 *
 * A server reads reports and nothing else: it starts no program and writes no file. One request is
 * answered after the other. All limits are here.
 */
#ifndef WS_MCP_SERVER_H
#define WS_MCP_SERVER_H

#include <stdio.h>

#include "mcp/rpc.h"
#include "store/store.h"

enum {
	WS_MCP_MOST_MESSAGE = 1 << 20, /* bytes of a line */
	WS_MCP_MOST_REPORTS = 16,      /* open at a time */
	WS_MCP_MOST_ANSWER = 4 << 20,  /* bytes of rows in an answer */
	WS_MCP_MOST_ROWS = 10000,
	WS_MCP_USUAL_ROWS = 100,
	WS_MCP_MOST_SECONDS = 120, /* of a query */
	WS_MCP_USUAL_SECONDS = 30,
	WS_MCP_MOST_MEMORY_MIB = 1024 /* of queries */
};

struct ws_mcp_report {
	struct ws_report *report; /* NULL: the place is free */
	char *path;
	unsigned number; /* its id is "r" and this number */
};

struct ws_mcp_server {
	struct ws_mcp_report reports[WS_MCP_MOST_REPORTS];
	unsigned opened; /* so far: numbers are never used twice */
	/* Real paths of folders; only files below them are opened. Without any, all that the user
	 * can read. */
	char **roots;
	size_t root_count, root_cap;
	/* Open traces of other tools too. Importing them writes into the cache and may start the
	 * tool, so this is for files that the user named, not for those that a client asks for. */
	bool imports;
	const char *version; /* that was agreed on; NULL before */
};

/* Allow a folder. -1 with a message when there is none. */
int ws_mcp_add_root(struct ws_mcp_server *server, const char *folder, struct ws_err *err);
/* Open a report, or find it where it is open already. NULL with a message. */
struct ws_mcp_report *ws_mcp_open_report(struct ws_mcp_server *server, const char *path,
					 struct ws_err *err);
void ws_mcp_close_report(struct ws_mcp_report *report);
void ws_mcp_free(struct ws_mcp_server *server); /* closes the reports */

/* Append the answer to a line of `n` bytes, and a line end; nothing where none is due. */
void ws_mcp_answer_line(struct ws_mcp_server *server, const char *line, size_t n,
			struct ws_text *out);
/* Answer until the input ends. Returns 0; -1 when an answer could not be written (errno). */
int ws_mcp_serve(struct ws_mcp_server *server, int input, FILE *output);

#endif
