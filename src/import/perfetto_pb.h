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
	const uint8_t *p;
	size_t n; /* bytes */
};

struct message {
	const uint8_t *p, *end;
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
static inline bool ws_pb_next(struct message *m, struct field *f)
{
	uint64_t tag, length;

	if (m->p >= m->end || !ws_pb_varint(&m->p, m->end, &tag))
		return false;
	*f = (struct field){.number = (uint32_t)(tag >> 3), .wire = tag & 7};
	switch (f->wire) {
	case 0:
		return ws_pb_varint(&m->p, m->end, &f->value);
	case 1:
		if (m->end - m->p < 8)
			return false;
		memcpy(&f->value, m->p, 8);
		m->p += 8;
		return true;
	case 2:
		if (!ws_pb_varint(&m->p, m->end, &length) || length > (size_t)(m->end - m->p))
			return false;
		f->p = m->p;
		f->n = (size_t)length;
		m->p += length;
		return true;
	case 5: {
		uint32_t v;

		if (m->end - m->p < 4)
			return false;
		memcpy(&v, m->p, 4);
		f->value = v;
		m->p += 4;
		return true;
	}
	default:
		return false;
	}
}

static inline struct message ws_pb_inside(const struct field *f)
{
	return f->p ? (struct message){f->p, f->p + f->n} : (struct message){NULL, NULL};
}

/* The last field of a number; an empty one when it is not there. */
static inline struct field ws_pb_find(const struct field *in, uint32_t number)
{
	struct message m = ws_pb_inside(in);
	struct field f, found = {0};

	while (ws_pb_next(&m, &f))
		if (f.number == number)
			found = f;
	return found;
}

#endif
