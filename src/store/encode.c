/*
 * encode.c - turns staged rows into a block.
 *
 * Most columns of most blocks are the same in every row. One pass over the rows, comparing each
 * with the first a machine word at a time, finds those: all-zero ones are left out, the others cost
 * a descriptor. What remains is copied out of the rows column by column, in sorted order, turned
 * into small numbers and handed to codec.c:
 *
 *	start   the gap since the end of the row before, or since its start where ranges nest:
 *	        whichever is smaller in a sample
 *	end     the duration
 *	        (both as steps of the clock where it advances in steps, see lattice.h, and the
 *	        numbers are large enough to gain by it)
 *	others  the difference to the smallest value, the difference to the row before, or a
 *	        number in a table of at most 256 values: whichever is cheaper in a sample
 */
#include "store/encode.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/mem.h"
#include "base/choose.h"
#include "store/lattice.h"

enum {
	SAMPLE_RUN = 128,
	SAMPLE_RUNS = 4,
	SAMPLE = SAMPLE_RUN * SAMPLE_RUNS,
	DICT_MAX = 256,
	DICT_SLOTS = 1024
};

void ws_encoder_init(struct ws_encoder *encoder, uint32_t max_rows)
{
	*encoder = (struct ws_encoder){.max_rows = max_rows};
	ws_packer_init(&encoder->packer, max_rows);
	encoder->value = ws_malloc((size_t)max_rows * 8);
	encoder->number = ws_malloc((size_t)max_rows * 8);
	encoder->track = ws_malloc((size_t)max_rows * 8);
	encoder->start = ws_malloc((size_t)max_rows * 8);
	encoder->end = ws_malloc((size_t)max_rows * 8);
	for (int i = 0; i < 2; i++) {
		encoder->steps[i] = ws_malloc((size_t)max_rows * 8);
		encoder->rest[i] = ws_malloc(max_rows);
	}
}

void ws_encoder_free(struct ws_encoder *encoder)
{
	ws_packer_free(&encoder->packer);
	ws_sorter_free(&encoder->sorter);
	ws_bytes_free(&encoder->out);
	ws_bytes_free(&encoder->streams);
	free(encoder->value);
	free(encoder->number);
	free(encoder->track);
	free(encoder->start);
	free(encoder->end);
	for (int i = 0; i < 2; i++) {
		free(encoder->steps[i]);
		free(encoder->rest[i]);
	}
	*encoder = (struct ws_encoder){0};
}

/* ---- blocks ---- */

struct ws_block_head ws_make_block_head(uint32_t type, uint64_t sequence)
{
	return (struct ws_block_head){.type = type,
				      .sequence = sequence,
				      .time_max = UINT64_MAX,
				      .track_max = UINT32_MAX};
}

void ws_block_begin(struct ws_bytes *out)
{
	out->len = 0;
	memset(ws_bytes_reserve(out, sizeof(struct ws_block_header)), 0,
	       sizeof(struct ws_block_header));
	out->len = sizeof(struct ws_block_header);
}

void ws_block_end(struct ws_bytes *out, const struct ws_block_head *head)
{
	static const uint8_t zeros[WS_BLOCK_ALIGN];
	struct ws_block_header header = {.head = *head};
	size_t body = out->len - sizeof(header);

	memcpy(header.magic, WS_BLOCK_MAGIC, 8);
	header.head.body_bytes = body;
	header.head.body_check = XXH3_64bits(out->bytes + sizeof(header), body);
	header.check = XXH3_64bits(&header.head, sizeof(header.head));
	memcpy(out->bytes, &header, sizeof(header));
	ws_bytes_add(out, zeros, WS_ALIGN_UP(body, WS_BLOCK_ALIGN) - body);
}

/* ---- rows to columns ---- */

struct row_block {
	struct ws_encoder *encoder;
	const struct ws_table_desc *desc;
	const char *data;
	const uint32_t *order; /* NULL when rows are in order */
	uint32_t rows;
	uint32_t columns; /* written */
	int track, start, end;
	bool tracks; /* rows of several */
	bool spans;  /* end is stored as spans from start */
	bool gaps;   /* start is stored as gaps */
	uint64_t start_min, start_max, end_min, end_max;
	uint64_t scale; /* of both when they are in steps, which encoder->steps and encoder->rest
			   then hold; 0 when they are in nanoseconds */
};

typedef uint64_t pair __attribute__((vector_size(16), aligned(1), may_alias));

enum { TILE_ROWS = 256 };

/* ORs the differences of some rows from the first, in 48 bytes of the struct, into `acc`; it is
 * fast because the accumulators stay in registers. */
static void or_differences_48(const char *at, const char *first, uint32_t count, uint32_t size,
			      pair acc[3])
{
	pair diff0 = acc[0], diff1 = acc[1], diff2 = acc[2];
	pair first0 = ((const pair *)first)[0], first1 = ((const pair *)first)[1],
	     first2 = ((const pair *)first)[2];

	for (uint32_t i = 0; i < count; i++, at += size) {
		diff0 |= ((const pair *)at)[0] ^ first0;
		diff1 |= ((const pair *)at)[1] ^ first1;
		diff2 |= ((const pair *)at)[2] ^ first2;
	}
	acc[0] = diff0;
	acc[1] = diff1;
	acc[2] = diff2;
}

static void or_differences_16(const char *at, const char *first, uint32_t count, uint32_t size,
			      pair *acc)
{
	pair first_pair = *(const pair *)first, diff = *acc;

	for (uint32_t i = 0; i < count; i++, at += size)
		diff |= *(const pair *)at ^ first_pair;
	*acc = diff;
}

static void or_differences_8(const char *at, const char *first, uint32_t count, uint32_t size,
			     uint64_t *acc)
{
	uint64_t first_word, word, diff = *acc;
	memcpy(&first_word, first, 8);
	for (uint32_t i = 0; i < count; i++, at += size) {
		memcpy(&word, at, 8);
		diff |= first_word ^ word;
	}
	*acc = diff;
}

/* ORs into `diff`, byte by byte of the struct, how rows differ from the first. Works in tiles that
 * stay in the first-level cache. */
static void find_varying(const char *rows, uint32_t count, uint32_t size, uint8_t *diff)
{
	pair acc[(WS_MAX_COLUMNS + 1) / 2 + 3] = {{0}};
	uint64_t *words = (uint64_t *)acc;

	for (uint32_t i = 0; i < count; i += TILE_ROWS) {
		uint32_t tile = ws_min(count - i, (uint32_t)TILE_ROWS), at = 0;
		const char *from = rows + (size_t)i * size;

		for (; at + 48 <= size; at += 48)
			or_differences_48(from + at, rows + at, tile, size, acc + at / 16);
		for (; at + 16 <= size; at += 16)
			or_differences_16(from + at, rows + at, tile, size, acc + at / 16);
		for (; at + 8 <= size; at += 8)
			or_differences_8(from + at, rows + at, tile, size, words + at / 8);
		for (; at < size; at++)
			for (uint32_t row = 0; row < tile; row++)
				((uint8_t *)acc)[at] |=
					(uint8_t)(from[(size_t)row * size + at] ^ rows[at]);
	}
	memcpy(diff, acc, size);
}

#define COPY_COLUMN(ctype, widen)                                                              \
	do {                                                                                   \
		ctype value;                                                                   \
		if (order)                                                                     \
			for (uint32_t i = 0; i < rows; i++) {                                  \
				memcpy(&value, from + (size_t)order[i] * size, sizeof(value)); \
				to[i] = (uint64_t)(widen)value;                                \
			}                                                                      \
		else                                                                           \
			for (uint32_t i = 0; i < rows; i++) {                                  \
				memcpy(&value, from + (size_t)i * size, sizeof(value));        \
				to[i] = (uint64_t)(widen)value;                                \
			}                                                                      \
	} while (0)

static void copy_column(const struct row_block *block, uint32_t number, uint64_t *restrict to)
{
	const struct ws_column_desc *desc = &block->desc->columns[number];
	const char *from = block->data + desc->offset;
	const uint32_t *order = block->order;
	size_t size = block->desc->row_size;
	uint32_t rows = block->rows;

	if (desc->size == 1)
		COPY_COLUMN(uint8_t, uint8_t);
	else if (desc->size == 8)
		COPY_COLUMN(uint64_t, uint64_t);
	else if (ws_types[desc->type].is_signed)
		COPY_COLUMN(int32_t, int64_t);
	else
		COPY_COLUMN(uint32_t, uint32_t);
}

/* ---- numbers ---- */

static uint64_t encode_zigzag(uint64_t difference)
{
	return difference << 1 ^ (uint64_t)((int64_t)difference >> 63);
}

/* The i-th of the rows that a sample consists of: a few runs spread over the block, so that
 * differences between neighbours are seen. */
static uint32_t sample_row(uint32_t count, uint32_t i)
{
	if (count <= SAMPLE)
		return i;
	return (uint32_t)((uint64_t)(count - SAMPLE_RUN) * (i / SAMPLE_RUN) / (SAMPLE_RUNS - 1)) +
	       i % SAMPLE_RUN;
}

static uint32_t sample_size(uint32_t count)
{
	return ws_min(count, SAMPLE);
}

/* Writes descriptor and streams of numbers, the smallest of which is `low`. `rest`: corrections of
 * a SCALED column, or NULL. */
static void put_numbers(struct row_block *block, struct ws_column_head *head, uint64_t *numbers,
			uint64_t low, const uint8_t *rest)
{
	struct ws_encoder *encoder = block->encoder;
	size_t at = encoder->streams.len;

	if (head->codec == WS_CODEC_DELTA || head->codec == WS_CODEC_GAP)
		numbers[0] = low; /* which nobody reads */
	ws_ints_put(&encoder->packer, &encoder->streams, head, numbers, block->rows, low);
	if (rest)
		ws_stream_put(&encoder->packer, &encoder->streams, rest, block->rows);
	head->base = low;
	head->bytes += (uint32_t)(encoder->streams.len - at);
	ws_bytes_add(&encoder->out, head, sizeof(*head));
	block->columns++;
}

static uint64_t find_lowest(const uint64_t *numbers, uint32_t count, uint32_t from)
{
	uint64_t low = UINT64_MAX;

	for (uint32_t i = from; i < count; i++)
		low = ws_min(numbers[i], low);
	return low;
}

static void put_constant(struct row_block *block, uint32_t column, uint64_t value)
{
	struct ws_column_head head = {.column = (uint16_t)column,
				      .codec = WS_CODEC_CONST,
				      .base = value,
				      .min = value,
				      .max = value};

	ws_bytes_add(&block->encoder->out, &head, sizeof(head));
	block->columns++;
}

/* ---- columns without times ---- */

struct dict {
	uint64_t value[DICT_MAX];
	uint32_t count;
	uint64_t slot_value[DICT_SLOTS];
	int16_t slot[DICT_SLOTS]; /* -1 free */
};

static int find_in_dict(struct dict *dict, uint64_t value)
{
	uint32_t slot = (uint32_t)(value * UINT64_C(0x9e3779b97f4a7c15) >> 54);

	while (dict->slot[slot] >= 0 && dict->slot_value[slot] != value)
		slot = (slot + 1) % DICT_SLOTS;
	if (dict->slot[slot] >= 0)
		return dict->slot[slot];
	if (dict->count == DICT_MAX)
		return -1;
	dict->slot[slot] = (int16_t)dict->count;
	dict->slot_value[slot] = value;
	dict->value[dict->count] = value;
	return (int)dict->count++;
}

static bool put_dict(struct row_block *block, struct ws_column_head *head, const uint64_t *values)
{
	struct ws_encoder *encoder = block->encoder;
	struct dict dict = {.count = 0};

	memset(dict.slot, 0xff, sizeof(dict.slot));
	for (uint32_t i = 0; i < block->rows; i++) {
		int number = find_in_dict(&dict, values[i]);

		if (number < 0)
			return false;
		encoder->number[i] = (uint64_t)number;
	}
	head->codec = WS_CODEC_DICT;
	head->dict = dict.count;
	size_t at = encoder->streams.len;

	ws_stream_put(&encoder->packer, &encoder->streams, (const uint8_t *)dict.value,
		      dict.count * 8u);
	head->bytes = (uint32_t)(encoder->streams.len - at);
	put_numbers(block, head, encoder->number, 0, NULL);
	return true;
}

static uint32_t sample_delta_width(const uint64_t *values, uint32_t rows)
{
	uint32_t count[9] = {0}, sampled = sample_size(rows), over = 0, width = 8;

	for (uint32_t i = 0; i < sampled; i++) {
		uint32_t row = sample_row(rows, i);

		if (row)
			count[ws_byte_width(encode_zigzag(values[row] - values[row - 1]))]++;
	}
	while (width > 0 && over + count[width] <= sampled / 64) {
		over += count[width];
		width--;
	}
	return width;
}

/* Whether a sample has few enough distinct values for a table to be worth trying. */
static bool sample_has_few_values(const uint64_t *values, uint32_t rows)
{
	struct dict dict = {.count = 0};
	uint32_t sampled = sample_size(rows);

	memset(dict.slot, 0xff, sizeof(dict.slot));
	for (uint32_t i = 0; i < sampled; i++)
		if (find_in_dict(&dict, values[sample_row(rows, i)]) < 0)
			return false;
	return dict.count <= sampled / 4 + 1;
}

/* Sets the smallest and largest value as the column's type orders them. */
static void set_min_max(struct ws_column_head *head, const uint64_t *values, uint32_t count,
			bool is_signed)
{
	uint64_t flip = (uint64_t)is_signed << 63, low = UINT64_MAX, high = 0;

	for (uint32_t i = 0; i < count; i++) {
		uint64_t value = values[i] ^ flip;

		low = ws_min(value, low);
		high = ws_max(value, high);
	}
	head->min = low ^ flip;
	head->max = high ^ flip;
}

static void put_delta(struct row_block *block, struct ws_column_head *head, const uint64_t *values)
{
	uint64_t *numbers = block->encoder->number, low = UINT64_MAX;

	head->codec = WS_CODEC_DELTA;
	head->flags = WS_CODEC_ZIGZAG;
	head->first = values[0];
	for (uint32_t i = 1; i < block->rows; i++) {
		numbers[i] = encode_zigzag(values[i] - values[i - 1]);
		low = ws_min(numbers[i], low);
	}
	put_numbers(block, head, numbers, low, NULL);
}

static void put_values(struct row_block *block, uint32_t column, uint64_t *values)
{
	struct ws_column_head head = {.column = (uint16_t)column};
	uint32_t plain, delta;

	set_min_max(&head, values, block->rows,
		    ws_types[block->desc->columns[column].type].is_signed);
	plain = ws_byte_width(head.max - head.min);
	delta = sample_delta_width(values, block->rows);
	if (plain > 1 && delta > 0 && block->rows >= 32 &&
	    sample_has_few_values(values, block->rows) && put_dict(block, &head, values))
		return;
	if (delta < plain) {
		put_delta(block, &head, values);
		return;
	}
	head.codec = WS_CODEC_PLAIN;
	put_numbers(block, &head, values, head.min, NULL);
}

/* ---- times ---- */

/* The end of a row from which the following gap is counted. */
static inline uint64_t closed_end(uint64_t start, uint64_t end)
{
	if (end == WS_NO_TIME)
		return start;
	return end;
}

/* A span as it is stored: the duration + 1, or 0 for an end that is not known. */
static inline uint64_t encode_span(uint64_t start, uint64_t end)
{
	if (end == WS_NO_TIME)
		return 0;
	return end - start + 1;
}

/* Whether starts take fewer bits as gaps since the last end than as differences of starts, in a
 * sample. */
static bool gaps_are_smaller(const uint64_t *start, const uint64_t *end, uint32_t rows)
{
	uint64_t gaps = 0, deltas = 0;
	uint32_t sampled = sample_size(rows);

	for (uint32_t i = 0; i < sampled; i++) {
		uint32_t row = sample_row(rows, i);

		if (!row)
			continue;
		gaps += ws_byte_width((start[row] - closed_end(start[row - 1], end[row - 1])) << 4);
		deltas += ws_byte_width((start[row] - start[row - 1]) << 4);
	}
	return gaps <= deltas;
}

/* Whether all ends can be stored as spans: an end that is one before its start would be read as
 * unknown. */
static bool spans_fit(const uint64_t *start, const uint64_t *end, uint32_t rows)
{
	bool misfit = false;

	for (uint32_t i = 0; i < rows; i++)
		misfit |= end[i] != WS_NO_TIME && end[i] + 1 == start[i];
	return !misfit;
}

static uint32_t count_negative(const uint64_t *numbers, uint32_t count)
{
	uint32_t negative = 0;

	for (uint32_t i = 1; i < count; i++)
		negative += numbers[i] >> 63;
	return negative;
}

/* More patches than are worthwhile. */
static bool too_many_patches(const struct row_block *block, uint32_t patches)
{
	return patches > block->rows / WS_ROWS_PER_PATCH;
}

/* Whether many of the differences need more than a byte: otherwise counting in steps gains nothing.
 */
static bool gaps_need_steps(const struct row_block *block)
{
	const uint64_t *start = block->encoder->start, *end = block->encoder->end;
	uint32_t sampled = sample_size(block->rows), large = 0;

	for (uint32_t i = 0; i < sampled; i++) {
		uint32_t row = sample_row(block->rows, i);
		if (row && block->gaps)
			large += start[row] - closed_end(start[row - 1], end[row - 1]) > 255;
		else if (row)
			large += start[row] - start[row - 1] > 255;
		large += block->spans && end[row] != WS_NO_TIME && end[row] - start[row] > 255;
	}
	return large > sampled / 4;
}

/* The step of the clock for this block: the last block's, or one found by a search that is made now
 * and then; 0 for none. */
static uint64_t find_step(struct ws_encoder *encoder, const uint64_t *end, uint32_t rows)
{
	bool search = !encoder->scale_wait;
	uint64_t scale = ws_find_clock_step(encoder->start, end, rows, encoder->scale, search);

	if (scale) {
		encoder->scale_wait = encoder->scale_patience = 0;
	} else if (!search) {
		encoder->scale_wait--;
	} else { /* ever more rarely: most clocks have none */
		encoder->scale_patience = ws_max(encoder->scale_patience * 2, 16u);
		encoder->scale_patience = ws_min(encoder->scale_patience, 1024);
		encoder->scale_wait = encoder->scale_patience;
	}
	return scale;
}

/* Fills encoder->steps and encoder->rest and sets `scale` if the block's times are those of a clock
 * with steps. */
static void try_steps(struct row_block *block)
{
	struct ws_encoder *encoder = block->encoder;
	const uint64_t *end = NULL;
	struct ws_lattice lattice = {.gaps = block->gaps,
				     .rows = block->rows,
				     .start_steps = encoder->steps[0],
				     .span_steps = encoder->steps[1],
				     .start_rest = encoder->rest[0],
				     .span_rest = encoder->rest[1]};

	if (block->spans)
		end = encoder->end;
	if (block->rows < 256 || !gaps_need_steps(block))
		return;
	lattice.scale = find_step(encoder, end, block->rows);
	if (!lattice.scale)
		return;
	for (int again = 0; again < 2; again++) {
		block->scale = 0;
		if (!ws_split_times(&lattice, encoder->start, end) ||
		    too_many_patches(block, count_negative(encoder->steps[0], block->rows)))
			return;
		block->scale = lattice.scale;
		encoder->scale = lattice.better;
		if (lattice.corrections < block->rows / 32)
			return;
		/* A second pass with the results of the first is worth its cost. */
		lattice.scale = lattice.better;
	}
}

/* Fill numbers[1..] and *low; return how many are negative. */
static uint32_t take_deltas(uint64_t *restrict numbers, const uint64_t *restrict start,
			    uint32_t rows, uint64_t *low)
{
	uint64_t least = UINT64_MAX;
	uint32_t negative = 0;

	for (uint32_t i = 1; i < rows; i++) {
		uint64_t delta = start[i] - start[i - 1];

		numbers[i] = delta;
		negative += delta >> 63;
		least = ws_min(delta, least);
	}
	*low = least;
	return negative;
}

static uint32_t take_gaps(uint64_t *restrict numbers, const uint64_t *restrict start,
			  const uint64_t *restrict end, uint32_t rows, uint64_t *low)
{
	uint64_t least = UINT64_MAX;
	uint32_t negative = 0;

	for (uint32_t i = 1; i < rows; i++) {
		uint64_t gap = start[i] - closed_end(start[i - 1], end[i - 1]);

		numbers[i] = gap;
		negative += gap >> 63;
		least = ws_min(gap, least);
	}
	*low = least;
	return negative;
}

static void put_start(struct row_block *block)
{
	struct ws_encoder *encoder = block->encoder;
	const uint64_t *values = encoder->start, *end = encoder->end;
	struct ws_column_head head = {.column = (uint16_t)block->start,
				      .codec = WS_CODEC_DELTA,
				      .first = values[0],
				      .scale = block->scale};
	uint64_t *numbers = encoder->number, low;
	uint32_t negative;

	head.min = block->start_min;
	head.max = block->start_max;
	if (block->gaps) {
		head.codec = WS_CODEC_GAP;
		head.ref = (uint16_t)block->end;
	}
	if (block->scale) {
		head.flags = WS_CODEC_SCALED;
		numbers = encoder->steps[0];
		put_numbers(block, &head, numbers, find_lowest(numbers, block->rows, 1),
			    encoder->rest[0]);
		return;
	}
	if (block->gaps)
		negative = take_gaps(numbers, values, end, block->rows, &low);
	else
		negative = take_deltas(numbers, values, block->rows, &low);
	if (too_many_patches(block, negative)) {
		head.flags |= WS_CODEC_ZIGZAG;
		for (uint32_t i = 1; i < block->rows; i++)
			numbers[i] = encode_zigzag(numbers[i]);
		low = find_lowest(numbers, block->rows, 1);
	}
	put_numbers(block, &head, numbers, low, NULL);
}

static void put_span(struct row_block *block)
{
	struct ws_encoder *encoder = block->encoder;
	struct ws_column_head head = {.column = (uint16_t)block->end,
				      .codec = WS_CODEC_SPAN,
				      .ref = (uint16_t)block->start,
				      .scale = block->scale};
	uint64_t *numbers = encoder->number, low = UINT64_MAX;

	head.min = block->end_min;
	head.max = block->end_max;
	if (block->scale) {
		head.flags = WS_CODEC_SCALED;
		put_numbers(block, &head, encoder->steps[1],
			    find_lowest(encoder->steps[1], block->rows, 0), encoder->rest[1]);
		return;
	}
	for (uint32_t i = 0; i < block->rows; i++) {
		numbers[i] = encode_span(encoder->start[i], encoder->end[i]);
		low = ws_min(numbers[i], low);
	}
	put_numbers(block, &head, numbers, low, NULL);
}

/* ---- a block of rows ---- */

/* Sets the smallest and largest end, and returns the largest that is known (0: none). */
static uint64_t find_end_range(struct row_block *block)
{
	uint64_t low = UINT64_MAX, high = 0, last = 0;

	for (uint32_t i = 0; i < block->rows; i++) {
		uint64_t end = block->encoder->end[i], closed = end + 1; /* null becomes 0 */

		low = ws_min(end, low);
		high = ws_max(end, high);
		last = ws_max(closed, last);
	}
	block->end_min = low;
	block->end_max = high;
	return last - (last != 0);
}

static void find_start_range(struct row_block *block)
{
	const uint64_t *values = block->encoder->start;

	block->start_min = values[0];
	block->start_max = values[block->rows - 1];
	if (!block->tracks)
		return; /* in order */
	for (uint32_t i = 0; i < block->rows; i++) {
		block->start_min = ws_min(values[i], block->start_min);
		block->start_max = ws_max(values[i], block->start_max);
	}
}

static void set_block_range(struct row_block *block, enum ws_table table,
			    struct ws_block_head *head)
{
	if (block->track >= 0 && block->tracks) { /* rows are in order of it */
		head->track_min = (uint32_t)block->encoder->track[0];
		head->track_max = (uint32_t)block->encoder->track[block->rows - 1];
	} else if (block->track >= 0) {
		head->track_min = (uint32_t)ws_row_get(table, block->data, (uint32_t)block->track);
		head->track_max = head->track_min;
	}
	if (block->start < 0 && block->end < 0)
		return;
	head->time_min = UINT64_MAX;
	head->time_max = 0;
	if (block->start >= 0) {
		find_start_range(block);
		head->time_min = block->start_min;
		head->time_max = block->start_max;
	}
	if (block->end >= 0) {
		uint64_t last = find_end_range(block);

		head->time_min = ws_min(block->end_min, head->time_min);
		head->time_max = ws_max(last, head->time_max);
	}
}

/* Puts a column into the order of the rows; `scratch` is another array, and the two swap places. */
static void permute_column(const struct row_block *block, uint64_t **column, uint64_t **scratch)
{
	const uint64_t *from = *column;
	uint64_t *to = *scratch;

	for (uint32_t i = 0; i < block->rows; i++)
		to[i] = from[block->order[i]];
	*scratch = *column;
	*column = to;
}

/* Copies the columns that order rows, finds the order, and puts them into it. */
static void order_rows(struct row_block *block)
{
	struct ws_encoder *encoder = block->encoder;
	const uint64_t *track = NULL, *start = NULL, *end = NULL;

	if (block->tracks) {
		copy_column(block, (uint32_t)block->track, encoder->track);
		track = encoder->track;
	}
	if (block->start >= 0) {
		copy_column(block, (uint32_t)block->start, encoder->start);
		start = encoder->start;
	}
	if (block->end >= 0) {
		copy_column(block, (uint32_t)block->end, encoder->end);
		end = encoder->end;
	}
	block->order = ws_find_row_order(&encoder->sorter, track, start, end, block->rows);
	if (!block->order)
		return;
	if (block->tracks)
		permute_column(block, &encoder->track, &encoder->number);
	if (block->start >= 0)
		permute_column(block, &encoder->start, &encoder->number);
	if (block->end >= 0)
		permute_column(block, &encoder->end, &encoder->number);
}

static bool column_varies(const struct row_block *block, const uint8_t *diff, uint32_t column)
{
	const struct ws_column_desc *desc = &block->desc->columns[column];

	for (uint32_t byte = 0; byte < desc->size; byte++)
		if (diff[desc->offset + byte])
			return true;
	return false;
}

static void put_column(struct row_block *block, enum ws_table table, uint32_t column,
		       const uint8_t *diff)
{
	if (!column_varies(block, diff, column)) {
		uint64_t value = ws_row_get(table, block->data, column);

		if (value)
			put_constant(block, column, value);
	} else if ((int)column == block->start) {
		put_start(block);
	} else if ((int)column == block->end && block->spans) {
		put_span(block);
	} else if ((int)column == block->track) {
		put_values(block, column, block->encoder->track); /* nothing needs it afterwards */
	} else {
		copy_column(block, column, block->encoder->value);
		put_values(block, column, block->encoder->value);
	}
}

void ws_encode_rows(struct ws_encoder *encoder, enum ws_table table, const void *rows,
		    uint32_t count, uint64_t first, uint64_t sequence)
{
	struct row_block block = {.encoder = encoder,
				  .desc = &ws_tables[table],
				  .data = rows,
				  .rows = count,
				  .track = ws_table_track(table),
				  .start = ws_table_start(table),
				  .end = ws_table_end(table)};
	struct ws_block_head head = ws_make_block_head(WS_BLOCK_ROWS, sequence);
	uint8_t diff[(WS_MAX_COLUMNS + 1) * 8] = {0};
	bool starts;

	find_varying(rows, count, block.desc->row_size, diff);
	block.tracks = block.track >= 0 && column_varies(&block, diff, (uint32_t)block.track);
	order_rows(&block);
	set_block_range(&block, table, &head);
	starts = block.start >= 0 && column_varies(&block, diff, (uint32_t)block.start);
	block.spans = starts && block.end >= 0 &&
		      column_varies(&block, diff, (uint32_t)block.end) &&
		      spans_fit(encoder->start, encoder->end, count);
	block.gaps = block.spans && gaps_are_smaller(encoder->start, encoder->end, count);
	if (starts)
		try_steps(&block);

	encoder->streams.len = 0;
	ws_block_begin(&encoder->out);
	for (uint32_t column = 0; column < block.desc->column_count; column++)
		put_column(&block, table, column, diff);
	ws_bytes_add(&encoder->out, encoder->streams.bytes, encoder->streams.len);
	head.table = table;
	head.rows = count;
	head.columns = block.columns;
	head.first = first;
	head.raw = (uint64_t)count * block.desc->row_size;
	ws_block_end(&encoder->out, &head);
}

/* ---- strings ---- */

static void put_length(struct ws_bytes *bytes, uint32_t length)
{
	uint8_t *data = ws_bytes_reserve(bytes, 5);

	for (; length > 0x7f; length >>= 7, bytes->len++)
		*data++ = (uint8_t)(length | 0x80);
	*data = (uint8_t)length;
	bytes->len++;
}

void ws_encode_strings(struct ws_encoder *encoder, const struct ws_string_run *strings,
		       uint64_t sequence)
{
	struct ws_block_head head = ws_make_block_head(WS_BLOCK_STRINGS, sequence);
	uint32_t size;

	encoder->streams.len = 0;
	for (uint32_t i = 0; i < strings->count; i++)
		put_length(&encoder->streams, strings->lengths[i]);
	size = (uint32_t)encoder->streams.len;
	ws_block_begin(&encoder->out);
	ws_bytes_add(&encoder->out, &size, sizeof(size));
	ws_stream_put(&encoder->packer, &encoder->out, encoder->streams.bytes, size);
	ws_stream_put(&encoder->packer, &encoder->out, strings->text, strings->bytes);
	head.table = strings->generation;
	head.rows = strings->count;
	head.first = strings->first;
	head.raw = strings->bytes;
	ws_block_end(&encoder->out, &head);
}

/* ---- index ---- */

void ws_encode_index(struct ws_bytes *out, const struct ws_index_entry *index, size_t count,
		     uint64_t at, uint64_t total_rows, uint64_t sequence)
{
	struct ws_block_head head = ws_make_block_head(WS_BLOCK_INDEX, sequence);
	struct ws_trailer trailer = {.index_offset = at, .total_rows = total_rows};

	ws_block_begin(out);
	ws_bytes_add(out, index, count * sizeof(*index));
	head.rows = (uint32_t)count;
	ws_block_end(out, &head);
	trailer.file_bytes = at + out->len + sizeof(trailer);
	trailer.check = XXH3_64bits(&trailer, offsetof(struct ws_trailer, check));
	memcpy(trailer.magic, WS_TRAILER_MAGIC, 8);
	ws_bytes_add(out, &trailer, sizeof(trailer));
}

/* ---- schema ---- */

static void put_name(struct ws_bytes *bytes, const char *text)
{
	uint16_t length = (uint16_t)strlen(text);

	ws_bytes_add(bytes, &length, 2);
	ws_bytes_add(bytes, text, length);
}

void ws_encode_schema(struct ws_encoder *encoder, uint64_t sequence)
{
	struct ws_block_head head = ws_make_block_head(WS_BLOCK_SCHEMA, sequence);

	ws_block_begin(&encoder->out);
	for (uint16_t table = 0; table < WS_TABLE_COUNT; table++) {
		uint16_t columns = (uint16_t)ws_tables[table].column_count;

		ws_bytes_add(&encoder->out, &table, 2);
		ws_bytes_add(&encoder->out, &columns, 2);
		put_name(&encoder->out, ws_tables[table].name);
		for (uint32_t column = 0; column < columns; column++) {
			put_name(&encoder->out, ws_tables[table].columns[column].name);
			put_name(&encoder->out,
				 ws_types[ws_tables[table].columns[column].type].name);
		}
	}
	head.rows = WS_TABLE_COUNT;
	ws_block_end(&encoder->out, &head);
}

uint64_t ws_hash_schema(void)
{
	XXH3_state_t *state = XXH3_createState();
	uint64_t fingerprint;

	if (!state)
		return 0;
	XXH3_64bits_reset(state);
	for (uint32_t table = 0; table < WS_TABLE_COUNT; table++) {
		XXH3_64bits_update(state, ws_tables[table].name, strlen(ws_tables[table].name) + 1);
		XXH3_64bits_update(state, &ws_tables[table].row_size,
				   sizeof(ws_tables[table].row_size));
		for (uint32_t column = 0; column < ws_tables[table].column_count; column++) {
			const struct ws_column_desc *desc = &ws_tables[table].columns[column];

			XXH3_64bits_update(state, desc->name, strlen(desc->name) + 1);
			XXH3_64bits_update(state, ws_types[desc->type].name,
					   strlen(ws_types[desc->type].name) + 1);
			XXH3_64bits_update(state, &desc->offset, sizeof(desc->offset));
		}
	}
	fingerprint = XXH3_64bits_digest(state);
	XXH3_freeState(state);
	return fingerprint;
}
