/*
 * proto.h - writing protobuf messages field by field: a tag, then a varint, eight bytes or a length
 * with bytes.
 */
#ifndef WS_EXPORT_PROTO_H
#define WS_EXPORT_PROTO_H

#include <stdint.h>
#include <string.h>

#include "base/mem.h"

static inline void ws_proto_varint(struct ws_text *text, uint64_t v)
{
	unsigned char b[10];
	size_t n = 0;

	do {
		b[n] = (unsigned char)(v & 127);
		v >>= 7;
		b[n++] |= v ? 128 : 0;
	} while (v);
	ws_text_add(text, b, n);
}

static inline void ws_proto_number(struct ws_text *text, unsigned field, uint64_t v)
{
	ws_proto_varint(text, field << 3);
	ws_proto_varint(text, v);
}

static inline void ws_proto_fixed64(struct ws_text *text, unsigned field, uint64_t v)
{
	ws_proto_varint(text, field << 3 | 1);
	ws_text_add(text, &v, 8); /* little-endian, as the machine */
}

static inline void ws_proto_double(struct ws_text *text, unsigned field, double v)
{
	uint64_t bits;

	memcpy(&bits, &v, 8);
	ws_proto_fixed64(text, field, bits);
}

static inline void ws_proto_bytes(struct ws_text *text, unsigned field, const void *s, size_t n)
{
	ws_proto_varint(text, field << 3 | 2);
	ws_proto_varint(text, n);
	ws_text_add(text, s, n);
}

static inline void ws_proto_text(struct ws_text *text, unsigned field, const char *word)
{
	ws_proto_bytes(text, field, word, strlen(word));
}

/* A message within another; `m` is emptied. */
static inline void ws_proto_message(struct ws_text *text, unsigned field, struct ws_text *out)
{
	ws_proto_bytes(text, field, out->len ? out->text : "", out->len);
	out->len = 0;
}

#endif
