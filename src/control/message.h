/*
 * message.h - the messages between the commands of a session and its recorder: a length in four
 * bytes, little-endian, and a JSON object of that many bytes. Its members are texts, numbers, true
 * or false, and arrays of texts. A request gets one answer, on a connection of its own.
 *
 * Requests are untrusted: anyone who may connect can send anything.
 */
#ifndef WS_CONTROL_MESSAGE_H
#define WS_CONTROL_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/mem.h"

enum { WS_MESSAGE_MOST_BYTES = 64 << 10, WS_MESSAGE_MOST_MEMBERS = 1024 };

/* Each element of an array is a member of its own, under the array's key. */
struct ws_message {
	struct ws_message_member {
		char *key, *text; /* a number as it was written; "true" or "false" */
	} * members;
	size_t count, cap;
};

/* Read an object. -1 with a message when it is not one, or holds something that no message may: a
 * null, a nested object, NUL bytes, too many members. Free it either way. */
int ws_message_parse(struct ws_message *message, const char *bytes, size_t n, struct ws_err *err);
void ws_message_free(struct ws_message *message);

/* The first text under this key; NULL for none. It lives as long as the message. */
const char *ws_message_text(const struct ws_message *message, const char *key);
/* The next text under the key from *at on (initially 0); NULL after the last. */
const char *ws_message_next(const struct ws_message *message, const char *key, size_t *at);
/* The number under the key; `fallback` when there is none or it is not a whole number. */
int64_t ws_message_number(const struct ws_message *message, const char *key, int64_t fallback);
bool ws_message_flag(const struct ws_message *message, const char *key);

/* Write an array of texts as a member. */
void ws_message_put_list(struct ws_text *out, const char *key, const char *const *texts, size_t n);
void ws_message_put_flag(struct ws_text *out, const char *key, bool value);

/* Send the object whose members `members` holds (without its braces). -1 with a message. */
int ws_message_send(int fd, const struct ws_text *members, struct ws_err *err);
/* Receive one. -1 with a message, also at end of file. Free it either way. */
int ws_message_receive(int fd, struct ws_message *message, struct ws_err *err);

#endif
