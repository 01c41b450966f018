/*
 * codec.c - byte planes.
 *
 * All lowest bytes of a column's numbers are stored together, then all second bytes, and so on:
 * each plane is a stream of its own with its own statistics, which compresses better than mixed
 * bytes, and splitting and joining planes is plain vector code. The number of planes is what nearly
 * all numbers need; the few numbers that need more (a jump to the next thread's rows) are patches,
 * stored as their row and the number itself, so that one outlier does not widen a whole block.
 */
#include "store/codec.h"

#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/choose.h"
#include "base/mem.h"

/* Level 1 with matches of at least 7 bytes: shorter ones cost time and gain nothing over Huffman
 * coding. */
enum { ZSTD_LEVEL = 1, ZSTD_MIN_MATCH = 7, MIN_COMPRESS = 64, MAX_SYMBOLS = 16 };

uint8_t *ws_bytes_reserve(struct ws_bytes *bytes, size_t size)
{
	ws_grow(bytes->bytes, bytes->cap, bytes->len + size);
	return bytes->bytes + bytes->len;
}

void ws_bytes_add(struct ws_bytes *bytes, const void *memory, size_t size)
{
	if (!size)
		return;
	memcpy(ws_bytes_reserve(bytes, size), memory, size);
	bytes->len += size;
}

void ws_bytes_free(struct ws_bytes *bytes)
{
	free(bytes->bytes);
	*bytes = (struct ws_bytes){0};
}

void ws_packer_init(struct ws_packer *packer, uint32_t max_rows)
{
	*packer = (struct ws_packer){.zstd = ZSTD_createCCtx()};
	packer->plane = ws_malloc(max_rows);
	packer->packed = ws_malloc(max_rows / 2 + 1);
	packer->max_size = max_rows;
	if (packer->zstd) {
		ZSTD_CCtx_setParameter(packer->zstd, ZSTD_c_compressionLevel, ZSTD_LEVEL);
		ZSTD_CCtx_setParameter(packer->zstd, ZSTD_c_minMatch, ZSTD_MIN_MATCH);
	}
}

void ws_packer_free(struct ws_packer *packer)
{
	ZSTD_freeCCtx(packer->zstd);
	free(packer->plane);
	free(packer->packed);
	ws_bytes_free(&packer->patches);
	*packer = (struct ws_packer){0};
}

static bool is_one_byte(const uint8_t *bytes, size_t size)
{
	return size &&
	       (size == 1 || (bytes[0] == bytes[size - 1] && !memcmp(bytes, bytes + 1, size - 1)));
}

static void put_stream_word(struct ws_bytes *out, size_t offset, size_t length, uint32_t kind)
{
	uint32_t word = (uint32_t)length | kind << 30;

	memcpy(out->bytes + offset, &word, 4);
}

static void put_plain(struct ws_packer *packer, struct ws_bytes *out, const uint8_t *bytes,
		      size_t size)
{
	size_t offset = out->len;

	ws_bytes_reserve(out, 4);
	out->len += 4;
	if (size > 1 && is_one_byte(bytes, size)) {
		ws_bytes_add(out, bytes, 1);
		put_stream_word(out, offset, 1, WS_STREAM_RUN);
		return;
	}
	if (size >= MIN_COMPRESS && packer->zstd) {
		size_t bound = ZSTD_compressBound(size);
		size_t compressed = ZSTD_compress2(packer->zstd, ws_bytes_reserve(out, bound),
						   bound, bytes, size);

		if (!ZSTD_isError(compressed) && compressed < size - size / 32) {
			out->len += compressed;
			put_stream_word(out, offset, compressed, WS_STREAM_ZSTD);
			return;
		}
	}
	ws_bytes_add(out, bytes, size);
	put_stream_word(out, offset, size, WS_STREAM_RAW);
}

/* The distinct bytes of a stream in ascending order, and the number of each. */
struct symbols {
	uint32_t count; /* MAX_SYMBOLS + 1 when there are more */
	uint8_t symbol[MAX_SYMBOLS], number[256];
};

static void find_symbols(const uint8_t *bytes, size_t size, struct symbols *symbols)
{
	uint8_t seen[256] = {0};
	uint32_t count;

	for (size_t from = 0, end = 256; from < size;
	     from = end, end *= 4) { /* check early whether there are too many */
		end = ws_min(end, size);
		for (size_t i = from; i < end; i++)
			seen[bytes[i]] = 1;
		count = 0;
		for (uint32_t byte = 0; byte < 256; byte++)
			if (seen[byte] && count++ < MAX_SYMBOLS) {
				symbols->symbol[count - 1] = (uint8_t)byte;
				symbols->number[byte] = (uint8_t)(count - 1);
			}
		symbols->count = ws_min(count, MAX_SYMBOLS + 1u);
		if (count > MAX_SYMBOLS)
			return;
	}
}

static void pack_symbols(uint8_t *to, const uint8_t *bytes, size_t size, const uint8_t number[256],
			 uint32_t bits)
{
	uint32_t each = 8 / bits;

	for (size_t i = 0; i + each <= size; i += each) {
		uint32_t byte = 0;

		for (uint32_t k = 0; k < each; k++)
			byte |= (uint32_t)number[bytes[i + k]] << (k * bits);
		*to++ = (uint8_t)byte;
	}
	if (size % each)
		*to = 0;
	for (size_t i = size - size % each, k = 0; i < size; i++, k++)
		*to |= (uint8_t)(number[bytes[i]] << (k * bits));
}

static uint8_t bits_for_symbols(uint32_t count)
{
	if (count <= 2)
		return 1;
	if (count <= 4)
		return 2;
	return 4;
}

static void put_packed(struct ws_packer *packer, struct ws_bytes *out, const uint8_t *bytes,
		       size_t size, const struct symbols *symbols)
{
	const uint8_t *number = symbols->number;
	uint8_t bits = bits_for_symbols(symbols->count);
	size_t offset = out->len, packed_size = (size * bits + 7) / 8;

	ws_bytes_reserve(out, 4);
	out->len += 4;
	ws_bytes_add(out, &bits, 1);
	ws_bytes_add(out, symbols->symbol, 1u << bits);
	if (bits == 1)
		pack_symbols(packer->packed, bytes, size, number, 1);
	else if (bits == 2)
		pack_symbols(packer->packed, bytes, size, number, 2);
	else
		pack_symbols(packer->packed, bytes, size, number, 4);
	put_plain(packer, out, packer->packed, packed_size);
	put_stream_word(out, offset, out->len - offset - 4, WS_STREAM_PACKED);
}

void ws_stream_put(struct ws_packer *packer, struct ws_bytes *out, const uint8_t *bytes,
		   size_t size)
{
	struct symbols symbols;

	symbols.count = 0;
	memset(symbols.symbol, 0, sizeof(symbols.symbol)); /* unused entries are stored too */
	if (size >= 2 * MIN_COMPRESS && size <= packer->max_size)
		find_symbols(bytes, size, &symbols);

	if (symbols.count > 1 && symbols.count <= MAX_SYMBOLS)
		put_packed(packer, out, bytes, size, &symbols);
	else
		put_plain(packer, out, bytes, size);
}

/* Returns how many bytes nearly all numbers need; *patches gets the count of numbers that need
 * more. Two sets of counters, so that equal neighbours do not wait for each other's store. */
static uint32_t choose_width(const uint64_t *numbers, uint32_t rows, uint32_t *patches)
{
	uint32_t count[2][9] = {{0}}, over = 0, limit = rows / WS_ROWS_PER_PATCH, width = 8;

	for (uint32_t i = 0; i < rows; i++)
		count[i & 1][ws_byte_width(numbers[i])]++;
	while (width > 0 && over + count[0][width] + count[1][width] <= limit) {
		over += count[0][width] + count[1][width];
		width--;
	}
	*patches = over;
	return width;
}

/* Space for (row, number) pairs: first all rows, then all numbers. */
static uint8_t *new_patches(struct ws_packer *packer, uint32_t count)
{
	packer->patches.len = 0;
	return ws_bytes_reserve(&packer->patches, (size_t)count * 12);
}

static void put_patch(uint8_t *list, uint32_t count, uint32_t index, uint32_t row, uint64_t number)
{
	memcpy(list + (size_t)index * 4, &row, 4);
	memcpy(list + (size_t)count * 4 + (size_t)index * 8, &number, 8);
}

/* Moves the numbers that do not fit out of `u` into the patches. */
static void take_patches(struct ws_packer *packer, const struct ws_column_head *head,
			 uint64_t *numbers, uint32_t rows)
{
	uint64_t over = UINT64_MAX
			<< (head->width * 8u); /* width is at most 7 where there are patches */
	uint8_t *list = new_patches(packer, head->patches);

	for (uint32_t i = 0, patch = 0; i < rows && patch < head->patches; i++)
		if (numbers[i] & over) {
			put_patch(list, head->patches, patch++, i, numbers[i]);
			numbers[i] = 0;
		}
}

/* The usual case in one pass: subtracts `low`, fills the lowest plane, and counts the numbers that
 * need more. */
static uint32_t fill_lowest_plane(uint8_t *restrict plane, const uint64_t *restrict numbers,
				  uint32_t rows, uint64_t low)
{
	uint32_t over = 0;

	for (uint32_t i = 0; i < rows; i++) {
		uint64_t number = numbers[i] - low;

		plane[i] = (uint8_t)number;
		over += number > 0xff;
	}
	return over;
}

/* The rows counted by fill_lowest_plane are few: they become patches, and 0 in the plane. */
static void patch_plane(struct ws_packer *packer, uint32_t count, const uint64_t *numbers,
			uint32_t rows, uint64_t low)
{
	uint8_t *list = new_patches(packer, count);

	for (uint32_t i = 0, patch = 0; patch < count && i < rows; i++)
		if (ws_unlikely(numbers[i] - low > 0xff)) {
			put_patch(list, count, patch++, i, numbers[i] - low);
			packer->plane[i] = 0;
		}
}

static void put_planes(struct ws_packer *packer, struct ws_bytes *out, struct ws_column_head *head,
		       uint64_t *numbers, uint32_t rows, uint64_t low)
{
	for (uint32_t i = 0; low && i < rows; i++)
		numbers[i] -= low;
	head->width = (uint8_t)choose_width(numbers, rows, &head->patches);
	if (head->patches)
		take_patches(packer, head, numbers, rows);
	for (uint32_t byte = 0; byte < head->width; byte++) {
		uint8_t *plane = packer->plane;

		for (uint32_t i = 0; i < rows; i++)
			plane[i] = (uint8_t)(numbers[i] >> (8 * byte));
		ws_stream_put(packer, out, plane, rows);
	}
}

void ws_ints_put(struct ws_packer *packer, struct ws_bytes *out, struct ws_column_head *head,
		 uint64_t *numbers, uint32_t rows, uint64_t low)
{
	uint32_t over = fill_lowest_plane(packer->plane, numbers, rows, low);

	if (over <= rows / WS_ROWS_PER_PATCH) {
		head->width = 1;
		head->patches = over;
		if (over)
			patch_plane(packer, over, numbers, rows, low);
		ws_stream_put(packer, out, packer->plane, rows);
	} else {
		put_planes(packer, out, head, numbers, rows, low);
	}
	if (head->patches)
		ws_stream_put(packer, out, packer->patches.bytes, (size_t)head->patches * 12);
}

void ws_unpacker_init(struct ws_unpacker *unpacker)
{
	*unpacker = (struct ws_unpacker){.zstd = ZSTD_createDCtx()};
	if (!unpacker->zstd)
		ws_give_up_for_memory(); /* else everything would be taken for damaged */
}

void ws_unpacker_free(struct ws_unpacker *unpacker)
{
	ZSTD_freeDCtx(unpacker->zstd);
	free(unpacker->planes);
	*unpacker = (struct ws_unpacker){0};
}

void ws_unpacker_reserve(struct ws_unpacker *unpacker, uint32_t rows)
{
	if (rows <= unpacker->max_rows)
		return;
	unpacker->planes = ws_realloc(unpacker->planes, (size_t)rows * 8);
	unpacker->max_rows = rows;
}

/* Splits off the next stream; *kind gets how it is stored (enum ws_stream_kind). */
static bool next_stream(struct ws_cut *cut, struct ws_cut *stream, uint32_t *kind)
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
	*kind = word >> 30;
	cut->bytes = stream->end;
	return true;
}

static bool get_plain(ZSTD_DCtx *zstd, struct ws_cut cut, uint32_t kind, uint8_t *to, size_t size)
{
	size_t length = (size_t)(cut.end - cut.bytes);

	switch (kind) {
	case WS_STREAM_RAW:
		if (length == size && size)
			memcpy(to, cut.bytes, size);
		return length == size;
	case WS_STREAM_RUN:
		if (length == 1)
			memset(to, *cut.bytes, size);
		return length == 1;
	case WS_STREAM_ZSTD:
		return ZSTD_decompressDCtx(zstd, to, size, cut.bytes, length) == size;
	default:
		return false;
	}
}

/* `from` and `to` may overlap as they do in get_packed: the packed bytes stand at the end of `to`
 * and are read before they are overwritten. */
static void unpack_symbols(uint8_t *to, const uint8_t *from, size_t size, const uint8_t *symbol,
			   uint32_t bits)
{
	uint32_t each = 8 / bits, mask = (1u << bits) - 1;
	uint64_t table[256];
	size_t i = 0;

	for (uint32_t byte = 0; byte < 256; byte++) {
		table[byte] = 0;
		for (uint32_t place = 0; place < each; place++)
			table[byte] |= (uint64_t)symbol[byte >> (place * bits) & mask]
				       << (place * 8);
	}
	for (; i + 8 <= size; i += each) {
		uint64_t unpacked = table[*from++];

		memcpy(to + i, &unpacked, each);
	}
	for (; i < size; i += each) {
		uint64_t symbols = table[*from++];

		memcpy(to + i, &symbols, ws_min(size - i, (size_t)each));
	}
}

static bool get_packed(ZSTD_DCtx *zstd, struct ws_cut cut, uint8_t *to, size_t size)
{
	struct ws_cut inner;
	uint8_t symbol[MAX_SYMBOLS], *packed;
	uint32_t bits, kind;
	size_t packed_size;

	if (cut.end - cut.bytes < 1)
		return false;
	bits = *cut.bytes++;
	if ((bits != 1 && bits != 2 && bits != 4) || cut.end - cut.bytes < 1 << bits)
		return false;
	memcpy(symbol, cut.bytes, 1u << bits);
	cut.bytes += 1 << bits;
	packed_size = (size * bits + 7) / 8;
	packed = to + size - packed_size;
	if (!next_stream(&cut, &inner, &kind) || cut.bytes != cut.end ||
	    !get_plain(zstd, inner, kind, packed, packed_size))
		return false;
	if (bits == 1)
		unpack_symbols(to, packed, size, symbol, 1);
	else if (bits == 2)
		unpack_symbols(to, packed, size, symbol, 2);
	else
		unpack_symbols(to, packed, size, symbol, 4);
	return true;
}

bool ws_stream_get(ZSTD_DCtx *zstd, struct ws_cut *cut, uint8_t *to, size_t size)
{
	struct ws_cut stream;
	uint32_t kind;

	if (!next_stream(cut, &stream, &kind))
		return false;
	if (kind == WS_STREAM_PACKED)
		return get_packed(zstd, stream, to, size);
	return get_plain(zstd, stream, kind, to, size);
}

static bool get_patches(struct ws_unpacker *unpacker, struct ws_cut *cut,
			const struct ws_column_head *head, uint64_t *numbers, uint32_t rows)
{
	uint8_t *list;
	bool ok;

	if (head->patches > rows || head->width > 7)
		return false;
	list = ws_malloc((size_t)head->patches * 12);
	ok = ws_stream_get(unpacker->zstd, cut, list, (size_t)head->patches * 12);
	for (uint32_t patch = 0; ok && patch < head->patches; patch++) {
		uint64_t number;
		uint32_t row;

		memcpy(&row, list + (size_t)patch * 4, 4);
		memcpy(&number, list + (size_t)head->patches * 4 + (size_t)patch * 8, 8);
		ok = row < rows;
		if (ok)
			numbers[row] = number;
	}
	free(list);
	return ok;
}

static void join_planes(uint64_t *restrict numbers, const uint8_t *restrict planes, uint32_t width,
			size_t stride, uint32_t rows)
{
	switch (width) {
	case 0:
		memset(numbers, 0, (size_t)rows * 8);
		break;
	case 1:
		for (uint32_t i = 0; i < rows; i++)
			numbers[i] = planes[i];
		break;
	case 2:
		for (uint32_t i = 0; i < rows; i++)
			numbers[i] = planes[i] | (uint64_t)planes[stride + i] << 8;
		break;
	default:
		for (uint32_t i = 0; i < rows; i++)
			numbers[i] = planes[i] | (uint64_t)planes[stride + i] << 8 |
				     (uint64_t)planes[2 * stride + i] << 16;
		for (uint32_t plane = 3; plane < width; plane++)
			for (uint32_t i = 0; i < rows; i++)
				numbers[i] |= (uint64_t)planes[plane * stride + i] << (8 * plane);
	}
}

bool ws_ints_get(struct ws_unpacker *unpacker, struct ws_cut *cut,
		 const struct ws_column_head *head, uint64_t *numbers, uint32_t rows)
{
	if (head->width > 8)
		return false;
	for (uint32_t plane = 0; plane < head->width; plane++)
		if (!ws_stream_get(unpacker->zstd, cut, unpacker->planes + (size_t)plane * rows,
				   rows))
			return false;
	join_planes(numbers, unpacker->planes, head->width, rows, rows);
	return !head->patches || get_patches(unpacker, cut, head, numbers, rows);
}
