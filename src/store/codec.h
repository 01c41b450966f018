/*
 * codec.h - from 64-bit numbers to compressed byte planes and back. What a number means (a
 * difference, a dictionary index) is encode.c's and decode.c's business.
 */
#ifndef WS_CODEC_H
#define WS_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zstd.h>

#include "store/format.h"

/* A byte buffer that grows and is reused. */
struct ws_bytes {
	uint8_t *bytes;
	size_t len, cap;
};
uint8_t *ws_bytes_room(struct ws_bytes *bytes, size_t n); /* place for n more bytes after len */
void ws_bytes_add(struct ws_bytes *bytes, const void *memory, size_t n);
void ws_bytes_free(struct ws_bytes *bytes);

struct ws_packer {
	ZSTD_CCtx *z;
	uint8_t *plane, *packed;
	struct ws_bytes patches;
	size_t most; /* bytes in a plane */
};
void ws_packer_init(struct ws_packer *packer, uint32_t max_rows);
void ws_packer_free(struct ws_packer *packer);

/* Append `n` bytes as a stream, stored in the way that is smallest. */
void ws_stream_put(struct ws_packer *packer, struct ws_bytes *out, const uint8_t *bytes, size_t n);
/* Append numbers, less `low`, as byte planes; fills width and patches. What `u` holds afterwards is
 * undefined. */
void ws_ints_put(struct ws_packer *packer, struct ws_bytes *out, struct ws_column_head *head,
		 uint64_t *u, uint32_t n, uint64_t low);

/* Bytes being read; every take checks that they are there. */
struct ws_cut {
	const uint8_t *bytes, *end;
};

struct ws_unpacker {
	ZSTD_DCtx *z;
	uint8_t *planes; /* 8 planes of max_rows bytes */
	uint32_t max_rows;
};
void ws_unpacker_init(struct ws_unpacker *unpacker);
void ws_unpacker_free(struct ws_unpacker *unpacker);
void ws_unpacker_rows(struct ws_unpacker *unpacker, uint32_t rows); /* make room */

/* Read the next stream, which must have exactly `n` bytes, into `to`. False when it does not check
 * out. */
bool ws_stream_get(ZSTD_DCtx *z, struct ws_cut *cut, uint8_t *to, size_t n);
/* The reverse of ws_ints_put. */
bool ws_ints_get(struct ws_unpacker *unpacker, struct ws_cut *cut,
		 const struct ws_column_head *head, uint64_t *u, uint32_t n);

#endif
