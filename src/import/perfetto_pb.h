/*
 * perfetto_pb.h - reading protobuf: the fields of a message one after the other, by their numbers,
 * without copying.
 *
 * Nothing is allocated and nothing beyond a message's end is read; a field that is broken ends its
 * message.
 */
#ifndef WS_IMPORT_PERFETTO_PB_H
#define WS_IMPORT_PERFETTO_PB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct field {
	uint32_t number, wire;
	uint64_t value; /* varint, fixed */
	const uint8_t *bytes;
	size_t n; /* bytes */
};

struct message {
	const uint8_t *bytes, *end;
};

/* Take a number off *p; false when it is broken. */
static inline bool ws_pb_varint(const uint8_t **p, const uint8_t *end, uint64_t *out)
{
	uint64_t v = 0;

	for (int shift = 0; *p < end && shift < 70; shift += 7) {
		uint8_t b = *(*p)++;

		if (shift < 64)
			v |= (uint64_t)(b & 0x7f) << shift;
		if (!(b & 0x80)) {
			*out = v;
			return true;
		}
	}
	return false;
}

/* The next field; false at the end or where it is broken. */
static inline bool ws_pb_next(struct message *message, struct field *field)
{
	uint64_t tag, length;

	if (message->bytes >= message->end || !ws_pb_varint(&message->bytes, message->end, &tag))
		return false;
	*field = (struct field){.number = (uint32_t)(tag >> 3), .wire = tag & 7};
	switch (field->wire) {
	case 0:
		return ws_pb_varint(&message->bytes, message->end, &field->value);
	case 1:
		if (message->end - message->bytes < 8)
			return false;
		memcpy(&field->value, message->bytes, 8);
		message->bytes += 8;
		return true;
	case 2:
		if (!ws_pb_varint(&message->bytes, message->end, &length) ||
		    length > (size_t)(message->end - message->bytes))
			return false;
		field->bytes = message->bytes;
		field->n = (size_t)length;
		message->bytes += length;
		return true;
	case 5: {
		uint32_t v;

		if (message->end - message->bytes < 4)
			return false;
		memcpy(&v, message->bytes, 4);
		field->value = v;
		message->bytes += 4;
		return true;
	}
	default:
		return false;
	}
}

static inline struct message ws_pb_inside(const struct field *field)
{
	return field->bytes ? (struct message){field->bytes, field->bytes + field->n}
			    : (struct message){NULL, NULL};
}

/* The last field of a number; an empty one when it is not there. */
static inline struct field ws_pb_find(const struct field *in, uint32_t number)
{
	struct message message = ws_pb_inside(in);
	struct field field, found = {0};

	while (ws_pb_next(&message, &field))
		if (field.number == number)
			found = field;
	return found;
}

#endif
