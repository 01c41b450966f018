/* bytes.h - reading what DWARF is made of from a range of bytes, never beyond it: past the end
 * everything reads 0 and `bad` is set.
 */
#ifndef WS_SYMBOLS_BYTES_H
#define WS_SYMBOLS_BYTES_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct ws_cursor {
	const uint8_t *bytes, *end;
	bool bad;
};

static inline uint64_t ws_take(struct ws_cursor *cursor, unsigned n)
{
	uint64_t v = 0;

	if ((uint64_t)(cursor->end - cursor->bytes) < n) {
		cursor->bad = true;
		cursor->bytes = cursor->end;
		return 0;
	}
	memcpy(&v, cursor->bytes, n);
	cursor->bytes += n;
	return v;
}

static inline const uint8_t *ws_take_bytes(struct ws_cursor *cursor, uint64_t n)
{
	const uint8_t *bytes = cursor->bytes;

	if ((uint64_t)(cursor->end - cursor->bytes) < n) {
		cursor->bad = true;
		cursor->bytes = cursor->end;
		return NULL;
	}
	cursor->bytes += n;
	return bytes;
}

static inline uint64_t ws_take_uleb(struct ws_cursor *cursor)
{
	uint64_t v = 0;

	for (unsigned shift = 0;; shift += 7) {
		uint8_t b = (uint8_t)ws_take(cursor, 1);

		if (shift < 64)
			v |= (uint64_t)(b & 0x7f) << shift;
		if (!(b & 0x80))
			return v;
	}
}

static inline int64_t ws_take_sleb(struct ws_cursor *cursor)
{
	uint64_t v = 0;

	for (unsigned shift = 0;; shift += 7) {
		uint8_t b = (uint8_t)ws_take(cursor, 1);

		if (shift < 64)
			v |= (uint64_t)(b & 0x7f) << shift;
		if (!(b & 0x80)) {
			if (shift + 7 < 64 && (b & 0x40))
				v |= ~UINT64_C(0) << (shift + 7);
			return (int64_t)v;
		}
	}
}

/* The text at the cursor, "" when it does not end in the range. */
static inline const char *ws_take_text(struct ws_cursor *cursor)
{
	const uint8_t *zero = memchr(cursor->bytes, 0, (size_t)(cursor->end - cursor->bytes)),
		      *bytes = cursor->bytes;

	if (!zero) {
		cursor->bad = true;
		cursor->bytes = cursor->end;
		return "";
	}
	cursor->bytes = zero + 1;
	return (const char *)bytes;
}

#endif
