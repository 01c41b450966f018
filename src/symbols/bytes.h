/* bytes.h - reading the numbers and texts that DWARF consists of from a range of bytes, never
 * beyond it: past the end everything reads as 0 and `bad` is set. */
#ifndef WS_SYMBOLS_BYTES_H
#define WS_SYMBOLS_BYTES_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct ws_byte_reader {
	const uint8_t *bytes, *end;
	bool bad;
};

/* A little-endian number of `n` bytes, 8 at most. */
static inline uint64_t ws_read_uint(struct ws_byte_reader *reader, unsigned n)
{
	uint64_t value = 0;

	if ((uint64_t)(reader->end - reader->bytes) < n) {
		reader->bad = true;
		reader->bytes = reader->end;
		return 0;
	}
	memcpy(&value, reader->bytes, n);
	reader->bytes += n;
	return value;
}

/* Skip `n` bytes; returns where they are, NULL when there are fewer. */
static inline const uint8_t *ws_skip_bytes(struct ws_byte_reader *reader, uint64_t n)
{
	const uint8_t *bytes = reader->bytes;

	if ((uint64_t)(reader->end - reader->bytes) < n) {
		reader->bad = true;
		reader->bytes = reader->end;
		return NULL;
	}
	reader->bytes += n;
	return bytes;
}

static inline uint64_t ws_read_uleb(struct ws_byte_reader *reader)
{
	uint64_t value = 0;

	for (unsigned shift = 0;; shift += 7) {
		uint8_t byte = (uint8_t)ws_read_uint(reader, 1);

		if (shift < 64)
			value |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return value;
	}
}

static inline int64_t ws_read_sleb(struct ws_byte_reader *reader)
{
	uint64_t value = 0;

	for (unsigned shift = 0;; shift += 7) {
		uint8_t byte = (uint8_t)ws_read_uint(reader, 1);

		if (shift < 64)
			value |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80)) {
			if (shift + 7 < 64 && (byte & 0x40))
				value |= ~UINT64_C(0) << (shift + 7);
			return (int64_t)value;
		}
	}
}

/* A NUL-terminated text; "" when it does not end within the range. */
static inline const char *ws_read_nul_text(struct ws_byte_reader *reader)
{
	const uint8_t *zero = memchr(reader->bytes, 0, (size_t)(reader->end - reader->bytes)),
		      *bytes = reader->bytes;

	if (!zero) {
		reader->bad = true;
		reader->bytes = reader->end;
		return "";
	}
	reader->bytes = zero + 1;
	return (const char *)bytes;
}

/* A block of bytes preceded by its length. When there are fewer, the block is bad. */
static inline struct ws_byte_reader ws_read_block(struct ws_byte_reader *reader)
{
	uint64_t length = ws_read_uleb(reader);
	const uint8_t *bytes = ws_skip_bytes(reader, length);

	if (!bytes)
		return (struct ws_byte_reader){NULL, NULL, true};
	return (struct ws_byte_reader){bytes, bytes + length, false};
}

#endif
