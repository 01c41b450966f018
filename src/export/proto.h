/*
 * proto.h - writing protobuf messages field by field: a tag, then a varint, eight bytes or a length
 * with bytes.
 */
#ifndef WS_EXPORT_PROTO_H
#define WS_EXPORT_PROTO_H

#include <stdint.h>
#include <string.h>

#include "base/mem.h"

static inline void ws_put_proto_varint(struct ws_text *text, uint64_t number)
{
	unsigned char bytes[10];
	size_t count = 0;

	do {
		bytes[count] = (unsigned char)(number & 127);
		number >>= 7;
		bytes[count++] |= (unsigned char)((number != 0) << 7);
	} while (number);
	ws_text_add(text, bytes, count);
}

static inline void ws_put_proto_number(struct ws_text *text, unsigned field, uint64_t number)
{
	ws_put_proto_varint(text, field << 3);
	ws_put_proto_varint(text, number);
}

static inline void ws_put_proto_fixed64(struct ws_text *text, unsigned field, uint64_t number)
{
	ws_put_proto_varint(text, field << 3 | 1);
	ws_text_add(text, &number, 8); /* little-endian, as the machine */
}

static inline void ws_put_proto_double(struct ws_text *text, unsigned field, double number)
{
	uint64_t bits;

	memcpy(&bits, &number, 8);
	ws_put_proto_fixed64(text, field, bits);
}

static inline void ws_put_proto_bytes(struct ws_text *text, unsigned field, const void *bytes,
				      size_t length)
{
	ws_put_proto_varint(text, field << 3 | 2);
	ws_put_proto_varint(text, length);
	ws_text_add(text, bytes, length);
}

static inline void ws_put_proto_text(struct ws_text *text, unsigned field, const char *word)
{
	ws_put_proto_bytes(text, field, word, strlen(word));
}

/* A message within another; `message` is emptied. */
static inline void ws_put_proto_message(struct ws_text *text, unsigned field,
					struct ws_text *message)
{
	const char *bytes = "";

	if (message->len)
		bytes = message->text;
	ws_put_proto_bytes(text, field, bytes, message->len);
	message->len = 0;
}

#endif
