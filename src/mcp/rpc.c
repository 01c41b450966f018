/* rpc.c - see rpc.h. */
#include "mcp/rpc.h"

#include <string.h>

#include "text/json_write.h"
#include "text/text.h"

static void refuse_message(struct ws_rpc_message *message, enum ws_rpc_code code,
			   const char *problem)
{
	message->kind = WS_RPC_BAD;
	message->code = code;
	message->problem = problem;
}

/* A whole number or a string: what may name a request. */
static bool is_id(const struct ws_json_value *value)
{
	if (value->type == WS_JSON_STRING)
		return true;
	return value->type == WS_JSON_NUMBER && !memchr(value->text, '.', value->length) &&
	       !memchr(value->text, 'e', value->length) && !memchr(value->text, 'E', value->length);
}

struct ws_json_value ws_rpc_find_member(const struct ws_json_value *object, const char *key)
{
	struct ws_json_value name, value;
	struct ws_json_walk walk;

	if (object->type != WS_JSON_OBJECT)
		return (struct ws_json_value){.type = WS_JSON_NONE};
	walk = ws_begin_json_walk(object);
	while (ws_next_json_member(&walk, &name, &value))
		if (ws_is_json_string(&name, key))
			return value;
	return (struct ws_json_value){.type = WS_JSON_NONE};
}

/* The one value that the text is: it has been found to be valid JSON. False for a number, which the
 * reader thinks might go on. */
static bool read_whole(const char *text, size_t n, struct ws_json_value *value)
{
	bool more = false;

	while (n && strchr(" \t\r\n", *text)) {
		text++;
		n--;
	}
	return n && ws_read_json_value(text, text + n, value, &more) != NULL;
}

static void classify_message(struct ws_rpc_message *message, const struct ws_json_value *whole)
{
	struct ws_json_value version = ws_rpc_find_member(whole, "jsonrpc"),
			     id = ws_rpc_find_member(whole, "id");
	bool answers = ws_rpc_find_member(whole, "result").type != WS_JSON_NONE ||
		       ws_rpc_find_member(whole, "error").type != WS_JSON_NONE;

	if (id.type != WS_JSON_NONE && is_id(&id))
		message->id = id;
	message->method = ws_rpc_find_member(whole, "method");
	message->params = ws_rpc_find_member(whole, "params");
	if (!ws_is_json_string(&version, "2.0"))
		refuse_message(message, WS_RPC_INVALID_REQUEST, "\"jsonrpc\" must be \"2.0\"");
	else if (message->method.type == WS_JSON_NONE && answers)
		message->kind = WS_RPC_ANSWER;
	else if (message->method.type != WS_JSON_STRING)
		refuse_message(message, WS_RPC_INVALID_REQUEST, "\"method\" must be a string");
	else if (id.type != WS_JSON_NONE && !is_id(&id))
		refuse_message(message, WS_RPC_INVALID_REQUEST,
			       "\"id\" must be a string or a whole number");
	else if (message->params.type != WS_JSON_NONE && message->params.type != WS_JSON_OBJECT)
		refuse_message(message, WS_RPC_INVALID_PARAMS, "\"params\" must be an object");
	else if (id.type != WS_JSON_NONE)
		message->kind = WS_RPC_REQUEST;
}

void ws_rpc_parse(const char *text, size_t n, struct ws_rpc_message *message)
{
	struct ws_json_value whole;

	*message = (struct ws_rpc_message){.kind = WS_RPC_NOTIFICATION};
	if (!ws_is_valid_json(text, n))
		refuse_message(message, WS_RPC_PARSE_ERROR, "the message is not JSON");
	else if (!read_whole(text, n, &whole) || whole.type != WS_JSON_OBJECT)
		refuse_message(message, WS_RPC_INVALID_REQUEST, "a message must be an object");
	else
		classify_message(message, &whole);
}

bool ws_rpc_parse_batch(const char *text, size_t n, struct ws_json_walk *walk)
{
	struct ws_json_value whole, first;
	struct ws_json_walk trial;

	if (!ws_is_valid_json(text, n) || !read_whole(text, n, &whole) ||
	    whole.type != WS_JSON_ARRAY)
		return false;
	trial = *walk = ws_begin_json_walk(&whole);
	return ws_next_json_member(&trial, NULL, &first);
}

static void begin_answer(struct ws_text *out, const struct ws_json_value *id)
{
	ws_text_puts(out, "{\"jsonrpc\":\"2.0\",\"id\":");
	if (id->type == WS_JSON_STRING) {
		ws_text_puts(out, "\"");
		ws_text_add(out, id->text, id->length);
		ws_text_puts(out, "\"");
	} else if (id->type == WS_JSON_NUMBER) {
		ws_text_add(out, id->text, id->length);
	} else {
		ws_text_puts(out, "null");
	}
}

void ws_rpc_put_result(struct ws_text *out, const struct ws_json_value *id,
		       const struct ws_text *result)
{
	begin_answer(out, id);
	ws_text_puts(out, ",\"result\":");
	ws_text_add(out, result->text, result->len);
	ws_text_puts(out, "}");
}

void ws_rpc_put_error(struct ws_text *out, const struct ws_json_value *id, enum ws_rpc_code code,
		      const char *problem)
{
	begin_answer(out, id);
	ws_text_puts(out, ",\"error\":{");
	ws_put_json_int(out, "code", code);
	ws_put_json_string(out, "message", problem);
	ws_text_puts(out, "}}");
}
