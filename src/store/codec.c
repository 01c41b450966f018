/*
 * codec.c - byte planes.
 *
 * All lowest bytes of a column's numbers stand together, then all second bytes, and so on: each
 * plane is a stream of its own with its own statistics, which entropy coding makes more of than of
 * mixed bytes, and taking planes apart and putting them together is plain vector code. The number
 * of planes is what nearly all numbers need; the few that need more (a jump to the next thread's
 * rows) are patches: their row and the number itself, so that one outlier does not widen a block.
 */
#include "store/codec.h"

#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/choose.h"
#include "base/mem.h"

/* Level 1 with matches of 7 bytes or more: shorter ones cost time and gain nothing over Huffman
 * coding. */
enum { ZSTD_LEVEL = 1, ZSTD_MIN_MATCH = 7, MIN_COMPRESS = 64, MOST_SYMBOLS = 16, FEW = 192 };

uint8_t *ws_bytes_room(struct ws_bytes *bytes, size_t n)
{
	ws_grow(bytes->bytes, bytes->cap, bytes->len + n);
	return bytes->bytes + bytes->len;
}

void ws_bytes_add(struct ws_bytes *bytes, const void *memory, size_t n)
{
	if (!n)
		return;
	memcpy(ws_bytes_room(bytes, n), memory, n);
	bytes->len += n;
}

void ws_bytes_free(struct ws_bytes *bytes)
{
	free(bytes->bytes);
	*bytes = (struct ws_bytes){0};
}

void ws_packer_init(struct ws_packer *packer, uint32_t max_rows)
{
	*packer = (struct ws_packer){.z = ZSTD_createCCtx()};
	packer->plane = ws_malloc(max_rows);
	packer->packed = ws_malloc(max_rows / 2 + 1);
	packer->most = max_rows;
	if (packer->z) {
		ZSTD_CCtx_setParameter(packer->z, ZSTD_c_compressionLevel, ZSTD_LEVEL);
		ZSTD_CCtx_setParameter(packer->z, ZSTD_c_minMatch, ZSTD_MIN_MATCH);
	}
}

void ws_packer_free(struct ws_packer *packer)
{
	ZSTD_freeCCtx(packer->z);
	free(packer->plane);
	free(packer->packed);
	ws_bytes_free(&packer->patches);
	*packer = (struct ws_packer){0};
}

static bool one_byte_only(const uint8_t *bytes, size_t n)
{
	return n && (n == 1 || (bytes[0] == bytes[n - 1] && !memcmp(bytes, bytes + 1, n - 1)));
}

static void put_word(struct ws_bytes *out, size_t at, size_t length, uint32_t how)
{
	uint32_t word = (uint32_t)length | how << 30;

	memcpy(out->bytes + at, &word, 4);
}

static void put_plain(struct ws_packer *packer, struct ws_bytes *out, const uint8_t *bytes,
		      size_t n)
{
	size_t at = out->len;

	ws_bytes_room(out, 4);
	out->len += 4;
	if (n > 1 && one_byte_only(bytes, n)) {
		ws_bytes_add(out, bytes, 1);
		put_word(out, at, 1, WS_STREAM_RUN);
		return;
	}
	if (n >= MIN_COMPRESS && packer->z) {
		size_t bound = ZSTD_compressBound(n);
		size_t got = ZSTD_compress2(packer->z, ws_bytes_room(out, bound), bound, bytes, n);

		if (!ZSTD_isError(got) && got < n - n / 32) {
			out->len += got;
			put_word(out, at, got, WS_STREAM_ZSTD);
			return;
		}
	}
	ws_bytes_add(out, bytes, n);
	put_word(out, at, n, WS_STREAM_RAW);
}

/* The distinct bytes, in ascending order, and each one's number; returns how many, or MOST_SYMBOLS
 * + 1 when there are more than that. */
static uint32_t find_symbols(const uint8_t *bytes, size_t n, uint8_t symbol[MOST_SYMBOLS],
			     uint8_t number[256])
{
	uint8_t seen[256] = {0};
	uint32_t count = 0;

	for (size_t at = 0, end = 256; at < n;
	     at = end, end *= 4) { /* look early whether there are too many */
		end = ws_min(end, n);
		for (size_t i = at; i < end; i++)
			seen[bytes[i]] = 1;
		count = 0;
		for (uint32_t b = 0; b < 256; b++)
			if (seen[b] && count++ < MOST_SYMBOLS) {
				symbol[count - 1] = (uint8_t)b;
				number[b] = (uint8_t)(count - 1);
			}
		if (count > MOST_SYMBOLS)
			return MOST_SYMBOLS + 1;
	}
	return count;
}

static void pack_symbols(uint8_t *to, const uint8_t *bytes, size_t n, const uint8_t number[256],
			 uint32_t bits)
{
	uint32_t each = 8 / bits;

	for (size_t i = 0; i + each <= n; i += each) {
		uint32_t x = 0;

		for (uint32_t k = 0; k < each; k++)
			x |= (uint32_t)number[bytes[i + k]] << (k * bits);
		*to++ = (uint8_t)x;
	}
	if (n % each)
		*to = 0;
	for (size_t i = n - n % each, k = 0; i < n; i++, k++)
		*to |= (uint8_t)(number[bytes[i]] << (k * bits));
}

static void put_packed(struct ws_packer *packer, struct ws_bytes *out, const uint8_t *bytes,
		       size_t n, uint32_t count, const uint8_t *symbol, const uint8_t *number)
{
	uint8_t bits = count <= 2 ? 1 : count <= 4 ? 2 : 4;
	size_t at = out->len, packed = (n * bits + 7) / 8;

	ws_bytes_room(out, 4);
	out->len += 4;
	ws_bytes_add(out, &bits, 1);
	ws_bytes_add(out, symbol, 1u << bits);
	if (bits == 1)
		pack_symbols(packer->packed, bytes, n, number, 1);
	else if (bits == 2)
		pack_symbols(packer->packed, bytes, n, number, 2);
	else
		pack_symbols(packer->packed, bytes, n, number, 4);
	put_plain(packer, out, packer->packed, packed);
	put_word(out, at, out->len - at - 4, WS_STREAM_PACKED);
}

void ws_stream_put(struct ws_packer *packer, struct ws_bytes *out, const uint8_t *bytes, size_t n)
{
	uint8_t symbol[MOST_SYMBOLS] = {0}, number[256];
	uint32_t count = n >= 2 * MIN_COMPRESS && n <= packer->most
				 ? find_symbols(bytes, n, symbol, number)
				 : 0;

	if (count > 1 && count <= MOST_SYMBOLS)
		put_packed(packer, out, bytes, n, count, symbol, number);
	else
		put_plain(packer, out, bytes, n);
}

/* How many bytes nearly all numbers need; *patches gets how many need more. */
static uint32_t choose_width(const uint64_t *u, uint32_t n, uint32_t *patches)
{
	uint32_t count[2][9] = {{0}}, over = 0, limit = n / FEW, width = 8;

	for (uint32_t i = 0; i < n; i++)
		count[i & 1][u[i] ? (71 - __builtin_clzll(u[i])) / 8 : 0]++;
	while (width > 0 && over + count[0][width] + count[1][width] <= limit) {
		over += count[0][width] + count[1][width];
		width--;
	}
	*patches = over;
	return width;
}

/* Room for (row, number) pairs: first all rows, then all numbers. */
static uint8_t *new_patches(struct ws_packer *packer, uint32_t n)
{
	packer->patches.len = 0;
	return ws_bytes_room(&packer->patches, (size_t)n * 12);
}

static void put_patch(uint8_t *list, uint32_t count, uint32_t k, uint32_t row, uint64_t number)
{
	memcpy(list + (size_t)k * 4, &row, 4);
	memcpy(list + (size_t)count * 4 + (size_t)k * 8, &number, 8);
}

/* Takes the numbers that do not fit out of `u`. */
static void take_patches(struct ws_packer *packer, const struct ws_column_head *head, uint64_t *u,
			 uint32_t n)
{
	uint64_t over = UINT64_MAX
			<< (head->width * 8u); /* width is at most 7 where there are patches */
	uint8_t *list = new_patches(packer, head->patches);

	for (uint32_t i = 0, k = 0; i < n && k < head->patches; i++)
		if (u[i] & over) {
			put_patch(list, head->patches, k++, i, u[i]);
			u[i] = 0;
		}
}

/* The usual case in one pass: takes `low` off, fills the lowest plane, and counts the numbers that
 * need more. */
static uint32_t lowest_plane(uint8_t *restrict plane, const uint64_t *restrict u, uint32_t n,
			     uint64_t low)
{
	uint32_t over = 0;

	for (uint32_t i = 0; i < n; i++) {
		uint64_t x = u[i] - low;

		plane[i] = (uint8_t)x;
		over += x > 0xff;
	}
	return over;
}

/* The rows counted by lowest_plane are few: they become patches, and 0 in the plane. */
static void patch_plane(struct ws_packer *packer, uint32_t count, const uint64_t *u, uint32_t n,
			uint64_t low)
{
	uint8_t *list = new_patches(packer, count);

	for (uint32_t i = 0, k = 0; k < count && i < n; i++)
		if (ws_unlikely(u[i] - low > 0xff)) {
			put_patch(list, count, k++, i, u[i] - low);
			packer->plane[i] = 0;
		}
}

static void put_planes(struct ws_packer *packer, struct ws_bytes *out, struct ws_column_head *head,
		       uint64_t *u, uint32_t n, uint64_t low)
{
	for (uint32_t i = 0; low && i < n; i++)
		u[i] -= low;
	head->width = (uint8_t)choose_width(u, n, &head->patches);
	if (head->patches)
		take_patches(packer, head, u, n);
	for (uint32_t b = 0; b < head->width; b++) {
		uint8_t *plane = packer->plane;

		for (uint32_t i = 0; i < n; i++)
			plane[i] = (uint8_t)(u[i] >> (8 * b));
		ws_stream_put(packer, out, plane, n);
	}
}

void ws_ints_put(struct ws_packer *packer, struct ws_bytes *out, struct ws_column_head *head,
		 uint64_t *u, uint32_t n, uint64_t low)
{
	uint32_t over = lowest_plane(packer->plane, u, n, low);

	if (over <= n / FEW) {
		head->width = 1;
		head->patches = over;
		if (over)
			patch_plane(packer, over, u, n, low);
		ws_stream_put(packer, out, packer->plane, n);
	} else {
		put_planes(packer, out, head, u, n, low);
	}
	if (head->patches)
		ws_stream_put(packer, out, packer->patches.bytes, (size_t)head->patches * 12);
}

void ws_unpacker_init(struct ws_unpacker *unpacker)
{
	*unpacker = (struct ws_unpacker){.z = ZSTD_createDCtx()};
}

void ws_unpacker_free(struct ws_unpacker *unpacker)
{
	ZSTD_freeDCtx(unpacker->z);
	free(unpacker->planes);
	*unpacker = (struct ws_unpacker){0};
}

void ws_unpacker_rows(struct ws_unpacker *unpacker, uint32_t rows)
{
	if (rows <= unpacker->max_rows)
		return;
	unpacker->planes = ws_realloc(unpacker->planes, (size_t)rows * 8);
	unpacker->max_rows = rows;
}

/* Splits off the next stream; *how gets the way it is stored. */
static bool next_stream(struct ws_cut *cut, struct ws_cut *stream, uint32_t *how)
{
	uint32_t word;
	size_t length;

	if (cut->end - cut->bytes < 4)
		return false;
	memcpy(&word, cut->bytes, 4);
	length = word & WS_STREAM_LENGTH;
	if ((size_t)(cut->end - cut->bytes) - 4 < length)
		return false;
	*stream = (struct ws_cut){cut->bytes + 4, cut->bytes + 4 + length};
	*how = word >> 30;
	cut->bytes = stream->end;
	return true;
}

static bool get_plain(ZSTD_DCtx *z, struct ws_cut cut, uint32_t how, uint8_t *to, size_t n)
{
	size_t length = (size_t)(cut.end - cut.bytes);

	switch (how) {
	case WS_STREAM_RAW:
		if (length == n && n)
			memcpy(to, cut.bytes, n);
		return length == n;
	case WS_STREAM_RUN:
		if (length == 1)
			memset(to, *cut.bytes, n);
		return length == 1;
	case WS_STREAM_ZSTD:
		return z && ZSTD_decompressDCtx(z, to, n, cut.bytes, length) == n;
	default:
		return false;
	}
}

/* `from` and `to` may overlap as they do in get_packed: the packed bytes stand at the end of `to`,
 * and are read before they are reached. */
static void unpack_symbols(uint8_t *to, const uint8_t *from, size_t n, const uint8_t *symbol,
			   uint32_t bits)
{
	uint32_t each = 8 / bits, mask = (1u << bits) - 1;
	uint64_t table[256];
	size_t i = 0;

	for (uint32_t b = 0; b < 256; b++) {
		table[b] = 0;
		for (uint32_t k = 0; k < each; k++)
			table[b] |= (uint64_t)symbol[b >> (k * bits) & mask] << (k * 8);
	}
	for (; i + 8 <= n; i += each) {
		uint64_t x = table[*from++];

		memcpy(to + i, &x, each);
	}
	for (; i < n; i += each) {
		uint64_t x = table[*from++];

		memcpy(to + i, &x, n - i < each ? n - i : each);
	}
}

static bool get_packed(ZSTD_DCtx *z, struct ws_cut cut, uint8_t *to, size_t n)
{
	struct ws_cut inner;
	uint8_t symbol[MOST_SYMBOLS], *packed;
	uint32_t bits, how;
	size_t size;

	if (cut.end - cut.bytes < 1)
		return false;
	bits = *cut.bytes++;
	if ((bits != 1 && bits != 2 && bits != 4) || cut.end - cut.bytes < 1 << bits)
		return false;
	memcpy(symbol, cut.bytes, 1u << bits);
	cut.bytes += 1 << bits;
	size = (n * bits + 7) / 8;
	packed = to + n - size;
	if (!next_stream(&cut, &inner, &how) || cut.bytes != cut.end ||
	    !get_plain(z, inner, how, packed, size))
		return false;
	if (bits == 1)
		unpack_symbols(to, packed, n, symbol, 1);
	else if (bits == 2)
		unpack_symbols(to, packed, n, symbol, 2);
	else
		unpack_symbols(to, packed, n, symbol, 4);
	return true;
}

bool ws_stream_get(ZSTD_DCtx *z, struct ws_cut *cut, uint8_t *to, size_t n)
{
	struct ws_cut stream;
	uint32_t how;

	if (!next_stream(cut, &stream, &how))
		return false;
	return how == WS_STREAM_PACKED ? get_packed(z, stream, to, n)
				       : get_plain(z, stream, how, to, n);
}

static bool get_patches(struct ws_unpacker *unpacker, struct ws_cut *cut,
			const struct ws_column_head *head, uint64_t *u, uint32_t n)
{
	uint8_t *list;
	bool ok;

	if (head->patches > n || head->width > 7)
		return false;
	list = ws_malloc((size_t)head->patches * 12);
	ok = ws_stream_get(unpacker->z, cut, list, (size_t)head->patches * 12);
	for (uint32_t k = 0; ok && k < head->patches; k++) {
		uint64_t number;
		uint32_t i;

		memcpy(&i, list + (size_t)k * 4, 4);
		memcpy(&number, list + (size_t)head->patches * 4 + (size_t)k * 8, 8);
		ok = i < n;
		if (ok)
			u[i] = number;
	}
	free(list);
	return ok;
}

static void join_planes(uint64_t *restrict u, const uint8_t *restrict p, uint32_t width,
			size_t stride, uint32_t n)
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
			u[i] = p[i] | (uint64_t)p[stride + i] << 8 |
			       (uint64_t)p[2 * stride + i] << 16;
		for (uint32_t b = 3; b < width; b++)
			for (uint32_t i = 0; i < n; i++)
				u[i] |= (uint64_t)p[b * stride + i] << (8 * b);
	}
}

bool ws_ints_get(struct ws_unpacker *unpacker, struct ws_cut *cut,
		 const struct ws_column_head *head, uint64_t *u, uint32_t n)
{
	if (head->width > 8)
		return false;
	for (uint32_t b = 0; b < head->width; b++)
		if (!ws_stream_get(unpacker->z, cut, unpacker->planes + (size_t)b * n, n))
			return false;
	join_planes(u, unpacker->planes, head->width, n, n);
	return !head->patches || get_patches(unpacker, cut, head, u, n);
}
