/* message.c - see message.h. */
#include "control/message.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "text/json.h"
#include "text/json_write.h"

/* ---- reading ---- */

static char *copy_text(const struct ws_json_value *value)
{
	struct ws_text scratch = {0};
	size_t length;
	const char *text = ws_unescape_json_text(value, &scratch, &length);
	char *copy = NULL;

	if (!memchr(text, 0, length))
		copy = ws_strndup(text, length);
	ws_text_free(&scratch);
	return copy;
}

static int add_member(struct ws_message *message, const struct ws_json_value *key,
		      const struct ws_json_value *value, struct ws_err *err)
{
	struct ws_message_member member = {NULL, NULL};

	if (message->count == WS_MESSAGE_MOST_MEMBERS)
		return ws_fail(err, "the message has too many members");
	if (value->type == WS_JSON_STRING)
		member.text = copy_text(value);
	else if (value->type == WS_JSON_NUMBER || value->type == WS_JSON_TRUE ||
		 value->type == WS_JSON_FALSE)
		member.text = ws_strndup(value->text, value->length);
	if (member.text)
		member.key = copy_text(key);
	if (!member.key) {
		free(member.text);
		return ws_fail(err, "the message holds what is neither a text, a number, true nor "
				    "false");
	}
	ws_grow(message->members, message->cap, message->count + 1);
	message->members[message->count++] = member;
	return 0;
}

static int add_array(struct ws_message *message, const struct ws_json_value *key,
		     const struct ws_json_value *array, struct ws_err *err)
{
	struct ws_json_walk walk = ws_begin_json_walk(array);
	struct ws_json_value value;

	while (ws_next_json_member(&walk, NULL, &value))
		if (add_member(message, key, &value, err))
			return -1;
	return 0;
}

int ws_message_parse(struct ws_message *message, const char *bytes, size_t n, struct ws_err *err)
{
	struct ws_json_value object, key, value;
	const char *end, *last = bytes + n;
	struct ws_json_walk walk;
	bool more = false;

	*message = (struct ws_message){0};
	if (n > WS_MESSAGE_MOST_BYTES)
		return ws_fail(err, "the message is too long");
	end = ws_read_json_value(bytes, last, &object, &more);
	if (!end || end != last || object.type != WS_JSON_OBJECT)
		return ws_fail(err, "the message is not a JSON object");
	walk = ws_begin_json_walk(&object);
	while (ws_next_json_member(&walk, &key, &value)) {
		int rc;

		if (value.type == WS_JSON_ARRAY)
			rc = add_array(message, &key, &value, err);
		else
			rc = add_member(message, &key, &value, err);
		if (rc)
			return -1;
	}
	return 0;
}

void ws_message_free(struct ws_message *message)
{
	for (size_t i = 0; i < message->count; i++) {
		free(message->members[i].key);
		free(message->members[i].text);
	}
	free(message->members);
	*message = (struct ws_message){0};
}

const char *ws_message_next(const struct ws_message *message, const char *key, size_t *at)
{
	while (*at < message->count) {
		const struct ws_message_member *member = &message->members[(*at)++];

		if (!strcmp(member->key, key))
			return member->text;
	}
	return NULL;
}

const char *ws_message_text(const struct ws_message *message, const char *key)
{
	size_t at = 0;

	return ws_message_next(message, key, &at);
}

int64_t ws_message_number(const struct ws_message *message, const char *key, int64_t fallback)
{
	const char *text = ws_message_text(message, key);
	long long number;
	char *end;

	if (!text)
		return fallback;
	errno = 0;
	number = strtoll(text, &end, 10);
	return end == text || *end || errno ? fallback : number;
}

bool ws_message_flag(const struct ws_message *message, const char *key)
{
	const char *text = ws_message_text(message, key);

	return text && !strcmp(text, "true");
}

/* ---- writing ---- */

void ws_message_put_list(struct ws_text *out, const char *key, const char *const *texts, size_t n)
{
	ws_put_json_key(out, key);
	ws_text_puts(out, "[");
	for (size_t i = 0; i < n; i++) {
		ws_put_json_comma(out);
		ws_text_puts(out, "\"");
		ws_put_escaped_json(out, texts[i], strlen(texts[i]));
		ws_text_puts(out, "\"");
	}
	ws_text_puts(out, "]");
}

void ws_message_put_flag(struct ws_text *out, const char *key, bool value)
{
	ws_put_json_key(out, key);
	if (value)
		ws_text_puts(out, "true");
	else
		ws_text_puts(out, "false");
}

/* ---- sending ---- */

static int send_all(int fd, const char *bytes, size_t n, struct ws_err *err)
{
	while (n) {
		ssize_t sent = send(fd, bytes, n, MSG_NOSIGNAL);

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0)
			return ws_fail_errno(err, "the message cannot be sent");
		bytes += sent;
		n -= (size_t)sent;
	}
	return 0;
}

int ws_message_send(int fd, const struct ws_text *members, struct ws_err *err)
{
	struct ws_text frame = {0};
	size_t n = members->len + 2;
	int rc;

	if (n > WS_MESSAGE_MOST_BYTES)
		return ws_fail(err, "the message is too long: %zu bytes, %d at most", n,
			       WS_MESSAGE_MOST_BYTES);
	for (int i = 0; i < 4; i++)
		ws_text_add(&frame, &(char){(char)(n >> 8 * i)}, 1);
	ws_text_puts(&frame, "{");
	ws_text_add(&frame, ws_or(members->text, ""), members->len);
	ws_text_puts(&frame, "}");
	rc = send_all(fd, frame.text, frame.len, err);
	ws_text_free(&frame);
	return rc;
}

static int receive_all(int fd, char *bytes, size_t n, struct ws_err *err)
{
	while (n) {
		ssize_t got = recv(fd, bytes, n, 0);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return ws_fail_errno(err, "no message came");
		if (!got)
			return ws_fail(err, "the other side has closed the connection");
		bytes += got;
		n -= (size_t)got;
	}
	return 0;
}

int ws_message_receive(int fd, struct ws_message *message, struct ws_err *err)
{
	unsigned char head[4];
	char *bytes;
	size_t n;
	int rc;

	*message = (struct ws_message){0};
	if (receive_all(fd, (char *)head, sizeof(head), err))
		return -1;
	n = head[0] | (size_t)head[1] << 8 | (size_t)head[2] << 16 | (size_t)head[3] << 24;
	if (n > WS_MESSAGE_MOST_BYTES)
		return ws_fail(err, "the message is too long");
	bytes = ws_malloc(n + 1);
	rc = receive_all(fd, bytes, n, err);
	if (!rc)
		rc = ws_message_parse(message, bytes, n, err);
	free(bytes);
	return rc;
}
