/*
 * codec.h - from 64-bit numbers to compressed byte planes and back. What a number means (a
 * difference, an index into a dictionary) is up to encode.c and decode.c.
 */
#ifndef WS_CODEC_H
#define WS_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zstd.h>

#include "store/format.h"

/* More patches than one in so many rows cost more than a wider plane. */
enum { WS_ROWS_PER_PATCH = 192 };

/* How many bytes a number needs; 0 for 0. */
static inline uint32_t ws_byte_width(uint64_t number)
{
	return (71u - (uint32_t)__builtin_clzll(number | 1)) / 8 - !number;
}

/* A byte buffer that grows and is reused. */
struct ws_bytes {
	uint8_t *bytes;
	size_t len, cap;
};
/* Space for `size` more bytes after `len`, which stays as it is. */
uint8_t *ws_bytes_reserve(struct ws_bytes *bytes, size_t size);
void ws_bytes_add(struct ws_bytes *bytes, const void *memory, size_t size);
void ws_bytes_free(struct ws_bytes *bytes);

struct ws_packer {
	ZSTD_CCtx *zstd;
	uint8_t *plane, *packed;
	struct ws_bytes patches;
	size_t max_size; /* the most bytes that a plane may have */
};
void ws_packer_init(struct ws_packer *packer, uint32_t max_rows);
void ws_packer_free(struct ws_packer *packer);

/* Append `size` bytes as a stream, stored in whichever way is smallest. */
void ws_stream_put(struct ws_packer *packer, struct ws_bytes *out, const uint8_t *bytes,
		   size_t size);
/* Append numbers, less `low`, as byte planes; fills width and patches of `head`. What `numbers`
 * holds afterwards is undefined. */
void ws_ints_put(struct ws_packer *packer, struct ws_bytes *out, struct ws_column_head *head,
		 uint64_t *numbers, uint32_t count, uint64_t low);

/* Bytes being read; every read checks that they are there. */
struct ws_cut {
	const uint8_t *bytes, *end;
};

struct ws_unpacker {
	ZSTD_DCtx *zstd;
	uint8_t *planes; /* 8 planes of max_rows bytes */
	uint32_t max_rows;
};
void ws_unpacker_init(struct ws_unpacker *unpacker);
void ws_unpacker_free(struct ws_unpacker *unpacker);
/* Make space for blocks of `rows` rows. */
void ws_unpacker_reserve(struct ws_unpacker *unpacker, uint32_t rows);

/* Read the next stream, which must have exactly `size` bytes, into `to`. False when the stream is
 * damaged. */
bool ws_stream_get(ZSTD_DCtx *zstd, struct ws_cut *cut, uint8_t *to, size_t size);
/* The reverse of ws_ints_put. */
bool ws_ints_get(struct ws_unpacker *unpacker, struct ws_cut *cut,
		 const struct ws_column_head *head, uint64_t *numbers, uint32_t count);

#endif
