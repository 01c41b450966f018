/* bytes.h - reading what DWARF is made of from a range of bytes, never beyond it: past the end
 * everything reads 0 and `bad` is set.
 */
#ifndef WS_SYMBOLS_BYTES_H
#define WS_SYMBOLS_BYTES_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct ws_cursor {
	const uint8_t *p, *end;
	bool bad;
};

static inline uint64_t ws_take(struct ws_cursor *c, unsigned n)
{
	uint64_t v = 0;

	if ((uint64_t)(c->end - c->p) < n) {
		c->bad = true;
		c->p = c->end;
		return 0;
	}
	memcpy(&v, c->p, n);
	c->p += n;
	return v;
}

static inline const uint8_t *ws_take_bytes(struct ws_cursor *c, uint64_t n)
{
	const uint8_t *p = c->p;

	if ((uint64_t)(c->end - c->p) < n) {
		c->bad = true;
		c->p = c->end;
		return NULL;
	}
	c->p += n;
	return p;
}

static inline uint64_t ws_take_uleb(struct ws_cursor *c)
{
	uint64_t v = 0;

	for (unsigned shift = 0;; shift += 7) {
		uint8_t b = (uint8_t)ws_take(c, 1);

		if (shift < 64)
			v |= (uint64_t)(b & 0x7f) << shift;
		if (!(b & 0x80))
			return v;
	}
}

static inline int64_t ws_take_sleb(struct ws_cursor *c)
{
	uint64_t v = 0;

	for (unsigned shift = 0;; shift += 7) {
		uint8_t b = (uint8_t)ws_take(c, 1);

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
static inline const char *ws_take_text(struct ws_cursor *c)
{
	const uint8_t *zero = memchr(c->p, 0, (size_t)(c->end - c->p)), *p = c->p;

	if (!zero) {
		c->bad = true;
		c->p = c->end;
		return "";
	}
	c->p = zero + 1;
	return (const char *)p;
}

#endif
