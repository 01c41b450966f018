/*
 * rpc.h - messages of JSON-RPC 2.0, as the Model Context Protocol exchanges them over standard
 * input and output: one message a line.
 *
 * What comes in is untrusted. A line must be one JSON value, nested no deeper than 64 levels; how
 * long it may be is the reader's affair (server.h).
 */
#ifndef WS_MCP_RPC_H
#define WS_MCP_RPC_H

#include "base/mem.h"
#include "text/json.h"

enum ws_rpc_code {
	WS_RPC_PARSE_ERROR = -32700,
	WS_RPC_INVALID_REQUEST = -32600,
	WS_RPC_METHOD_NOT_FOUND = -32601,
	WS_RPC_INVALID_PARAMS = -32602,
	WS_RPC_NOT_INITIALIZED = -32002
};

enum ws_rpc_kind {
	WS_RPC_REQUEST,	     /* has an id and wants an answer */
	WS_RPC_NOTIFICATION, /* wants none */
	WS_RPC_ANSWER,	     /* to a request of ours; there are none */
	WS_RPC_BAD	     /* `problem` says why, `code` is what to answer with */
};

/* A message; everything points into its text. */
struct ws_rpc_message {
	enum ws_rpc_kind kind;
	struct ws_json_value id; /* a string or a whole number; type NONE where there is none */
	struct ws_json_value method;
	struct ws_json_value params; /* an object, or type NONE */
	enum ws_rpc_code code;
	const char *problem;
};

/* Read one message from `n` bytes. An array is BAD here: see ws_rpc_parse_batch. */
void ws_rpc_parse(const char *text, size_t n, struct ws_rpc_message *message);
/* Whether the bytes are an array of at least one value, which `walk` then goes through: the
 * revision of 2025-03-26 allows several messages at once. */
bool ws_rpc_parse_batch(const char *text, size_t n, struct ws_json_walk *walk);

/* Append an answer, without a line end. `result` is JSON. Without a usable id it is null. */
void ws_rpc_put_result(struct ws_text *out, const struct ws_json_value *id,
		       const struct ws_text *result);
void ws_rpc_put_error(struct ws_text *out, const struct ws_json_value *id, enum ws_rpc_code code,
		      const char *problem);

/* The member `key` of an object; type NONE when it has none, or `object` is not one. */
struct ws_json_value ws_rpc_find_member(const struct ws_json_value *object, const char *key);

#endif
