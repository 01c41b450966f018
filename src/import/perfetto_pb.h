/*
 * perfetto_pb.h - reading protobuf: the fields of a message one after the other, by their numbers,
 * without copying.
 *
 * Nothing is allocated and nothing beyond a message's end is read. A damaged field ends its
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
	uint64_t value;	      /* of wire types 0, 1 and 5 */
	const uint8_t *bytes; /* of wire type 2: a text or a message */
	size_t length;	      /* their number */
};

struct message {
	const uint8_t *bytes, *end;
};

/* Read a number at *p and move past it; false when it is damaged. */
static inline bool ws_pb_read_varint(const uint8_t **p, const uint8_t *end, uint64_t *out)
{
	uint64_t value = 0;

	for (int shift = 0; *p < end && shift < 70; shift += 7) {
		uint8_t byte = *(*p)++;

		if (shift < 64)
			value |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80)) {
			*out = value;
			return true;
		}
	}
	return false;
}

/* The next field; false at the end or where the message is damaged. */
static inline bool ws_pb_next_field(struct message *message, struct field *field)
{
	uint64_t tag, length;

	if (message->bytes >= message->end ||
	    !ws_pb_read_varint(&message->bytes, message->end, &tag))
		return false;
	*field = (struct field){.number = (uint32_t)(tag >> 3), .wire = tag & 7};
	switch (field->wire) {
	case 0:
		return ws_pb_read_varint(&message->bytes, message->end, &field->value);
	case 1:
		if (message->end - message->bytes < 8)
			return false;
		memcpy(&field->value, message->bytes, 8);
		message->bytes += 8;
		return true;
	case 2:
		if (!ws_pb_read_varint(&message->bytes, message->end, &length) ||
		    length > (size_t)(message->end - message->bytes))
			return false;
		field->bytes = message->bytes;
		field->length = (size_t)length;
		message->bytes += length;
		return true;
	case 5: {
		uint32_t value;

		if (message->end - message->bytes < 4)
			return false;
		memcpy(&value, message->bytes, 4);
		field->value = value;
		message->bytes += 4;
		return true;
	}
	default:
		return false;
	}
}

/* The message in a field; an empty one when it holds none. */
static inline struct message ws_pb_open_message(const struct field *field)
{
	if (!field->bytes)
		return (struct message){NULL, NULL};
	return (struct message){field->bytes, field->bytes + field->length};
}

/* The last field with a number; an empty one when there is none. */
static inline struct field ws_pb_find_field(const struct field *in, uint32_t number)
{
	struct message message = ws_pb_open_message(in);
	struct field field, found = {0};

	while (ws_pb_next_field(&message, &field))
		if (field.number == number)
			found = field;
	return found;
}

#endif
