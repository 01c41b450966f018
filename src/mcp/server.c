/* server.c - see server.h: what is answered to each method, and the loop around it. */
#include "mcp/server.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/choose.h"
#include "mcp/tools.h"
#include "text/json_write.h"
#include "text/text.h"

/* Published revisions of the protocol that are served, the latest first. */
static const char *const versions[] = {"2025-06-18", "2025-03-26", "2024-11-05"};

static const char instructions[] =
	"Reports of what programs did on CPUs and GPUs. Open a report, read its findings, follow "
	"the evidence with query (schema names the tables) or stats. All times are nanoseconds.";

struct exchange {
	struct ws_mcp_server *server;
	const struct ws_rpc_message *message;
	struct ws_text result; /* JSON */
	enum ws_rpc_code code; /* where `failed` */
	struct ws_err err;
};

static int fail_exchange(struct exchange *exchange, enum ws_rpc_code code)
{
	exchange->code = code;
	return -1;
}

/* The version that the client asks for, if it is served, else the latest. */
static const char *choose_version(const struct ws_json_value *wanted)
{
	for (size_t i = 0; i < WS_COUNT(versions); i++)
		if (ws_is_json_string(wanted, versions[i]))
			return versions[i];
	return versions[0];
}

static void put_reports(const struct ws_mcp_server *server, struct ws_text *out)
{
	for (size_t i = 0; i < WS_MCP_MOST_REPORTS; i++)
		if (server->reports[i].report)
			ws_text_printf(out, " Open: r%u is %s.", server->reports[i].number,
				       server->reports[i].path);
}

static int answer_initialize(struct exchange *exchange)
{
	struct ws_json_value wanted =
		ws_rpc_find_member(&exchange->message->params, "protocolVersion");
	struct ws_text *out = &exchange->result, text = {0};

	if (wanted.type != WS_JSON_STRING) {
		ws_fail(&exchange->err, "initialize: protocolVersion must be a string");
		return fail_exchange(exchange, WS_RPC_INVALID_PARAMS);
	}
	exchange->server->version = choose_version(&wanted);
	ws_text_puts(out, "{");
	ws_put_json_string(out, "protocolVersion", exchange->server->version);
	ws_text_puts(out, ",\"capabilities\":{\"tools\":{\"listChanged\":false}},\"serverInfo\":{");
	ws_put_json_string(out, "name", "warpsight");
	ws_put_json_string(out, "version", WS_VERSION);
	ws_text_puts(out, "}");
	ws_text_puts(&text, instructions);
	put_reports(exchange->server, &text);
	ws_put_json_string(out, "instructions", text.text);
	ws_text_puts(out, "}");
	ws_text_free(&text);
	return 0;
}

static int answer_ping(struct exchange *exchange)
{
	ws_text_puts(&exchange->result, "{}");
	return 0;
}

static int answer_list(struct exchange *exchange)
{
	ws_text_puts(&exchange->result, "{\"tools\":");
	ws_mcp_put_tools(&exchange->result);
	ws_text_puts(&exchange->result, "}");
	return 0;
}

/* What a tool could not do is for the model to read, and therefore a result. */
static void put_call_result(struct ws_text *out, const char *text, size_t length, bool failed)
{
	ws_text_puts(out, "{\"content\":[{\"type\":\"text\",\"text\":");
	ws_put_quoted_json(out, text, length);
	ws_text_printf(out, "}],\"isError\":%s}", failed ? "true" : "false");
}

static int answer_call(struct exchange *exchange)
{
	const struct ws_json_value *params = &exchange->message->params;
	struct ws_json_value name = ws_rpc_find_member(params, "name"),
			     arguments = ws_rpc_find_member(params, "arguments");
	const struct ws_mcp_tool *tool = NULL;
	struct ws_text text = {0};

	if (name.type == WS_JSON_STRING)
		tool = ws_mcp_find_tool(name.text, name.length);
	if (!tool) {
		ws_fail(&exchange->err, "tools/call: there is no such tool; tools/list names them");
		return fail_exchange(exchange, WS_RPC_INVALID_PARAMS);
	}
	if (ws_mcp_call_tool(exchange->server, tool, &arguments, &text, &exchange->err))
		put_call_result(&exchange->result, exchange->err.msg, strlen(exchange->err.msg),
				true);
	else
		put_call_result(&exchange->result, text.text, text.len, false);
	ws_text_free(&text);
	return 0;
}

static const struct method {
	const char *name;
	bool early; /* may come before initialize */
	int (*answer)(struct exchange *exchange);
} methods[] = {
	{"initialize", true, answer_initialize},
	{"ping", true, answer_ping},
	{"tools/list", false, answer_list},
	{"tools/call", false, answer_call},
};

static int answer_method(struct exchange *exchange)
{
	const struct ws_json_value *name = &exchange->message->method;

	for (size_t i = 0; i < WS_COUNT(methods); i++) {
		if (!ws_is_json_string(name, methods[i].name))
			continue;
		if (methods[i].early || exchange->server->version)
			return methods[i].answer(exchange);
		ws_fail(&exchange->err, "%s before initialize", methods[i].name);
		return fail_exchange(exchange, WS_RPC_NOT_INITIALIZED);
	}
	ws_fail(&exchange->err, "there is no method %.*s", (int)ws_min(name->length, (uint32_t)100),
		name->text);
	return fail_exchange(exchange, WS_RPC_METHOD_NOT_FOUND);
}

static void answer_message(struct ws_mcp_server *server, const struct ws_rpc_message *message,
			   struct ws_text *out)
{
	struct exchange exchange = {.server = server, .message = message};

	if (message->kind == WS_RPC_BAD) {
		ws_rpc_put_error(out, &message->id, message->code, message->problem);
	} else if (message->kind == WS_RPC_REQUEST) {
		if (answer_method(&exchange))
			ws_rpc_put_error(out, &message->id, exchange.code, exchange.err.msg);
		else
			ws_rpc_put_result(out, &message->id, &exchange.result);
	}
	ws_text_free(&exchange.result);
}

/* Several messages at once, which only one revision has. */
static void answer_batch(struct ws_mcp_server *server, struct ws_json_walk *walk,
			 struct ws_text *out)
{
	struct ws_rpc_message message;
	struct ws_text one = {0};
	struct ws_json_value value;
	bool any = false;

	while (ws_next_json_member(walk, NULL, &value)) {
		one.len = 0;
		ws_rpc_parse(value.text, value.length, &message);
		answer_message(server, &message, &one);
		if (!one.len)
			continue;
		ws_text_puts(out, any ? "," : "[");
		ws_text_add(out, one.text, one.len);
		any = true;
	}
	if (any)
		ws_text_puts(out, "]");
	ws_text_free(&one);
}

void ws_mcp_answer_line(struct ws_mcp_server *server, const char *line, size_t n,
			struct ws_text *out)
{
	size_t before = out->len;
	struct ws_rpc_message message;
	struct ws_json_walk walk;

	if (server->version && !strcmp(server->version, "2025-03-26") &&
	    ws_rpc_parse_batch(line, n, &walk)) {
		answer_batch(server, &walk, out);
	} else {
		ws_rpc_parse(line, n, &message);
		answer_message(server, &message, out);
	}
	if (out->len > before)
		ws_text_puts(out, "\n");
}

/* ---- lines ---- */

struct lines {
	struct ws_mcp_server *server;
	struct ws_text line; /* what has come of it */
	bool skipping;	     /* it was too long; what comes until its end is left out */
};

static bool is_blank(const struct ws_text *line)
{
	for (size_t i = 0; i < line->len; i++)
		if (!strchr(" \t\r", line->text[i]) || !line->text[i])
			return false;
	return true;
}

static void end_line(struct lines *lines, struct ws_text *out)
{
	if (!lines->skipping && !is_blank(&lines->line))
		ws_mcp_answer_line(lines->server, lines->line.text, lines->line.len, out);
	lines->skipping = false;
	lines->line.len = 0;
}

static void refuse_long_line(struct lines *lines, struct ws_text *out)
{
	char *problem = ws_format("the message is longer than %d bytes", (int)WS_MCP_MOST_MESSAGE);

	ws_rpc_put_error(out, &(struct ws_json_value){.type = WS_JSON_NONE}, WS_RPC_INVALID_REQUEST,
			 problem);
	ws_text_puts(out, "\n");
	free(problem);
	lines->skipping = true;
	lines->line.len = 0;
}

static void take_bytes(struct lines *lines, const char *bytes, size_t n, struct ws_text *out)
{
	while (n) {
		const char *end = memchr(bytes, '\n', n);
		size_t part = end ? (size_t)(end - bytes) : n;

		if (!lines->skipping && lines->line.len + part > WS_MCP_MOST_MESSAGE)
			refuse_long_line(lines, out);
		if (!lines->skipping)
			ws_text_add(&lines->line, bytes, part);
		if (end)
			end_line(lines, out);
		bytes += part + (end != NULL);
		n -= part + (end != NULL);
	}
}

static int write_answers(struct ws_text *out, FILE *output)
{
	size_t n = out->len;

	out->len = 0;
	if (n && fwrite(out->text, 1, n, output) < n)
		return -1;
	return fflush(output);
}

int ws_mcp_serve(struct ws_mcp_server *server, int input, FILE *output)
{
	struct lines lines = {.server = server};
	struct ws_text out = {0};
	char bytes[65536];
	bool goes_on;
	ssize_t n;
	int rc;

	do {
		n = read(input, bytes, sizeof(bytes));
		goes_on = n > 0 || (n < 0 && errno == EINTR);
		if (n > 0)
			take_bytes(&lines, bytes, (size_t)n, &out);
		else if (!n && lines.line.len)
			end_line(&lines, &out); /* the last line lacks its end */
		rc = write_answers(&out, output);
	} while (!rc && goes_on);
	ws_text_free(&lines.line);
	ws_text_free(&out);
	return rc;
}
