/*
 * tools.h - the tools of the server: each is declared once, with its arguments, in the table of
 * tools.c. The schemas that clients see and the checks of what they send are made from it.
 */
#ifndef WS_MCP_TOOLS_H
#define WS_MCP_TOOLS_H

#include "mcp/server.h"

enum ws_mcp_type { WS_MCP_TEXT, WS_MCP_INTEGER };

struct ws_mcp_argument {
	const char *name;
	enum ws_mcp_type type;
	bool required;
	int64_t least, most, usual; /* of an integer; `usual` where it is not given */
	const char *about;
};

enum { WS_MCP_MOST_ARGUMENTS = 6 };

/* A call that is being answered: the arguments, checked, by their place in the declaration. */
struct ws_mcp_call {
	struct ws_mcp_server *server;
	char *texts[WS_MCP_MOST_ARGUMENTS]; /* NULL where not given */
	int64_t numbers[WS_MCP_MOST_ARGUMENTS];
	struct ws_text *out; /* the answer, JSON */
};

struct ws_mcp_tool {
	const char *name, *title, *about;
	struct ws_mcp_argument arguments[WS_MCP_MOST_ARGUMENTS]; /* ended by one without a name */
	/* Append the answer. -1 with a message for the caller. */
	int (*answer)(struct ws_mcp_call *call, struct ws_err *err);
};

extern const struct ws_mcp_tool ws_mcp_tools[]; /* ended by one without a name */
const struct ws_mcp_tool *ws_mcp_find_tool(const char *name, size_t length);
/* Append the array of tools with their schemas. */
void ws_mcp_put_tools(struct ws_text *out);
/* Check `arguments` (an object, or type NONE) and have the tool answer. -1 with a message. */
int ws_mcp_call_tool(struct ws_mcp_server *server, const struct ws_mcp_tool *tool,
		     const struct ws_json_value *arguments, struct ws_text *out,
		     struct ws_err *err);

/* The open report of this id ("r1"), or NULL with a message. */
struct ws_mcp_report *ws_mcp_find_report(struct ws_mcp_server *server, const char *id,
					 struct ws_err *err);
/* The one that argument `i` names. */
struct ws_mcp_report *ws_mcp_get_report(struct ws_mcp_call *call, size_t i, struct ws_err *err);

/* The tools. */
int ws_mcp_open(struct ws_mcp_call *call, struct ws_err *err);
int ws_mcp_close(struct ws_mcp_call *call, struct ws_err *err);
int ws_mcp_info(struct ws_mcp_call *call, struct ws_err *err);
int ws_mcp_schema(struct ws_mcp_call *call, struct ws_err *err);
int ws_mcp_findings(struct ws_mcp_call *call, struct ws_err *err);
int ws_mcp_ranks(struct ws_mcp_call *call, struct ws_err *err);
int ws_mcp_explain(struct ws_mcp_call *call, struct ws_err *err);
int ws_mcp_query(struct ws_mcp_call *call, struct ws_err *err);
int ws_mcp_stats(struct ws_mcp_call *call, struct ws_err *err);
int ws_mcp_compare(struct ws_mcp_call *call, struct ws_err *err);

#endif
