/*
 * codec.c - byte planes.
 *
 * All lowest bytes of a column's numbers stand together, then all second bytes, and so on: each plane is a stream of its own
 * with its own statistics, which entropy coding makes more of than of mixed bytes, and taking planes apart and putting them together is
 * plain vector code. The number of planes is what nearly all numbers need; the few that need more (a jump to the next
 * thread's rows) are patches: their row and the rest of their bits, so that one outlier does not widen a block.
 */
#include "store/codec.h"

#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/mem.h"

/* Level 1 with matches of 7 bytes or more: short matches among few distinct bytes cost time and gain nothing over Huffman coding. */
enum { ZSTD_LEVEL = 1, ZSTD_MIN_MATCH = 7, MIN_COMPRESS = 64 };

uint8_t *ws_bytes_room(struct ws_bytes *b, size_t n)
{
	ws_grow(b->p, b->cap, b->len + n);
	return b->p + b->len;
}

void ws_bytes_add(struct ws_bytes *b, const void *p, size_t n)
{
	if (!n)
		return;
	memcpy(ws_bytes_room(b, n), p, n);
	b->len += n;
}

void ws_bytes_free(struct ws_bytes *b)
{
	free(b->p);
	*b = (struct ws_bytes){0};
}

void ws_packer_init(struct ws_packer *p, uint32_t max_rows)
{
	p->z = ZSTD_createCCtx();
	p->plane = ws_malloc(max_rows);
	if (p->z) {
		ZSTD_CCtx_setParameter(p->z, ZSTD_c_compressionLevel, ZSTD_LEVEL);
		ZSTD_CCtx_setParameter(p->z, ZSTD_c_minMatch, ZSTD_MIN_MATCH);
	}
}

void ws_packer_free(struct ws_packer *p)
{
	ZSTD_freeCCtx(p->z);
	free(p->plane);
	*p = (struct ws_packer){0};
}

static bool one_byte_only(const uint8_t *p, size_t n)
{
	return n && (n == 1 || (p[0] == p[n - 1] && !memcmp(p, p + 1, n - 1)));
}

static void put_word(struct ws_bytes *out, size_t at, size_t length, uint32_t how)
{
	uint32_t word = (uint32_t)length | how << 30;

	memcpy(out->p + at, &word, 4);
}

void ws_stream_put(struct ws_packer *p, struct ws_bytes *out, const uint8_t *bytes, size_t n)
{
	size_t at = out->len;

	ws_bytes_room(out, 4);
	out->len += 4;
	if (n > 1 && one_byte_only(bytes, n)) {
		ws_bytes_add(out, bytes, 1);
		put_word(out, at, 1, WS_STREAM_RUN);
		return;
	}
	if (n >= MIN_COMPRESS && p->z) {
		size_t bound = ZSTD_compressBound(n);
		size_t got = ZSTD_compress2(p->z, ws_bytes_room(out, bound), bound, bytes, n);

		if (!ZSTD_isError(got) && got < n - n / 32) {
			out->len += got;
			put_word(out, at, got, WS_STREAM_ZSTD);
			return;
		}
	}
	ws_bytes_add(out, bytes, n);
	put_word(out, at, n, WS_STREAM_RAW);
}

/* How many bytes nearly all numbers need; *patches gets how many need more. */
static uint32_t choose_width(const uint64_t *u, uint32_t n, uint32_t *patches)
{
	uint32_t count[2][9] = {{0}}, over = 0, limit = n / 192, width = 8;

	for (uint32_t i = 0; i < n; i++)
		count[i & 1][u[i] ? (71 - __builtin_clzll(u[i])) / 8 : 0]++;
	while (width > 0 && over + count[0][width] + count[1][width] <= limit) {
		over += count[0][width] + count[1][width];
		width--;
	}
	*patches = over;
	return width;
}

static void put_patches(struct ws_packer *p, struct ws_bytes *out, const struct ws_column_head *h, const uint64_t *u, uint32_t n)
{
	uint32_t shift = h->width * 8u, k = 0;
	uint64_t over = UINT64_MAX << shift; /* width is at most 7 where there are patches */
	uint8_t *list = ws_malloc((size_t)h->patches * 12);

	for (uint32_t i = 0; i < n && k < h->patches; i++)
		if (u[i] & over) {
			uint64_t rest = u[i] >> shift;

			memcpy(list + (size_t)k * 4, &i, 4);
			memcpy(list + (size_t)h->patches * 4 + (size_t)k * 8, &rest, 8);
			k++;
		}
	ws_stream_put(p, out, list, (size_t)h->patches * 12);
	free(list);
}

void ws_ints_put(struct ws_packer *p, struct ws_bytes *out, struct ws_column_head *h, const uint64_t *u, uint32_t n)
{
	uint32_t patches;

	h->width = (uint8_t)choose_width(u, n, &patches);
	h->patches = patches;
	for (uint32_t b = 0; b < h->width; b++) {
		uint8_t *plane = p->plane;

		for (uint32_t i = 0; i < n; i++)
			plane[i] = (uint8_t)(u[i] >> (8 * b));
		ws_stream_put(p, out, plane, n);
	}
	if (patches)
		put_patches(p, out, h, u, n);
}

void ws_unpacker_init(struct ws_unpacker *p)
{
	*p = (struct ws_unpacker){.z = ZSTD_createDCtx()};
}

void ws_unpacker_free(struct ws_unpacker *p)
{
	ZSTD_freeDCtx(p->z);
	free(p->planes);
	*p = (struct ws_unpacker){0};
}

void ws_unpacker_rows(struct ws_unpacker *p, uint32_t rows)
{
	if (rows <= p->max_rows)
		return;
	p->planes = ws_realloc(p->planes, (size_t)rows * 8);
	p->max_rows = rows;
}

bool ws_stream_get(ZSTD_DCtx *z, struct ws_cut *c, uint8_t *to, size_t n)
{
	uint32_t word;
	size_t length;

	if (c->end - c->p < 4)
		return false;
	memcpy(&word, c->p, 4);
	length = word & WS_STREAM_LENGTH;
	if ((size_t)(c->end - c->p) - 4 < length)
		return false;
	const uint8_t *from = c->p + 4;

	c->p = from + length;
	switch (word >> 30) {
	case WS_STREAM_RAW:
		if (length == n && n)
			memcpy(to, from, n);
		return length == n;
	case WS_STREAM_RUN:
		if (length == 1)
			memset(to, *from, n);
		return length == 1;
	case WS_STREAM_ZSTD:
		return z && ZSTD_decompressDCtx(z, to, n, from, length) == n;
	default:
		return false;
	}
}

static bool get_patches(struct ws_unpacker *p, struct ws_cut *c, const struct ws_column_head *h, uint64_t *u, uint32_t n)
{
	uint32_t shift = h->width * 8u;
	uint8_t *list;
	bool ok;

	if (h->patches > n || h->width > 7)
		return false;
	list = ws_malloc((size_t)h->patches * 12);
	ok = ws_stream_get(p->z, c, list, (size_t)h->patches * 12);
	for (uint32_t k = 0; ok && k < h->patches; k++) {
		uint64_t rest;
		uint32_t i;

		memcpy(&i, list + (size_t)k * 4, 4);
		memcpy(&rest, list + (size_t)h->patches * 4 + (size_t)k * 8, 8);
		ok = i < n;
		if (ok)
			u[i] += rest << shift;
	}
	free(list);
	return ok;
}

static void join_planes(uint64_t *restrict u, const uint8_t *restrict p, uint32_t width, size_t stride, uint32_t n)
{
	switch (width) {
	case 0:
		memset(u, 0, (size_t)n * 8);
		break;
	case 1:
		for (uint32_t i = 0; i < n; i++)
			u[i] = p[i];
		break;
	case 2:
		for (uint32_t i = 0; i < n; i++)
			u[i] = p[i] | (uint64_t)p[stride + i] << 8;
		break;
	default:
		for (uint32_t i = 0; i < n; i++)
			u[i] = p[i] | (uint64_t)p[stride + i] << 8 | (uint64_t)p[2 * stride + i] << 16;
		for (uint32_t b = 3; b < width; b++)
			for (uint32_t i = 0; i < n; i++)
				u[i] |= (uint64_t)p[b * stride + i] << (8 * b);
	}
}

bool ws_ints_get(struct ws_unpacker *p, struct ws_cut *c, const struct ws_column_head *h, uint64_t *u, uint32_t n)
{
	if (h->width > 8)
		return false;
	for (uint32_t b = 0; b < h->width; b++)
		if (!ws_stream_get(p->z, c, p->planes + (size_t)b * n, n))
			return false;
	join_planes(u, p->planes, h->width, n, n);
	return !h->patches || get_patches(p, c, h, u, n);
}
