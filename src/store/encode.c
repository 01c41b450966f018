/*
 * encode.c - turns staged rows into a block.
 *
 * Most columns of most blocks are the same in every row. One pass over the rows, comparing each
 * with the first a machine word at a time, finds those: all-zero ones are left out, the others cost
 * a descriptor. What remains is taken out of the rows column by column, in sorted order, turned
 * into small numbers and handed to codec.c:
 *
 *   start   the gap since the end of the row before, or since its start where ranges nest,
 * whichever is smaller in a sample end     the duration both as steps of the clock where it has
 * such (lattice.h) and the numbers are large enough to gain by it others  the difference to the
 * smallest value, to the row before, or a number in a table of at most 256 values: whichever is
 *           cheaper in a sample
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

struct ws_block_head ws_block_head_new(uint32_t type, uint64_t sequence)
{
	return (struct ws_block_head){.type = type,
				      .sequence = sequence,
				      .time_max = UINT64_MAX,
				      .track_max = UINT32_MAX};
}

void ws_block_begin(struct ws_bytes *out)
{
	out->len = 0;
	memset(ws_bytes_room(out, sizeof(struct ws_block_header)), 0,
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

struct job {
	struct ws_encoder *encoder;
	const struct ws_table_desc *desc;
	const char *rows;
	const uint32_t *order; /* NULL when rows are in order */
	uint32_t n;
	uint32_t columns; /* written */
	int track, start, end;
	bool tracks; /* rows of several */
	bool spans;  /* end is stored as spans from start */
	bool gaps;   /* start is stored as gaps */
	uint64_t start_min, start_max, end_min, end_max;
	uint64_t scale; /* of both, in steps: e->steps and e->rest hold them then; 0 when in
			   nanoseconds */
};

typedef uint64_t pair __attribute__((vector_size(16), aligned(1), may_alias));

enum { TILE_ROWS = 256 };

/* The differences of some rows to the first in 48 bytes of the struct; accumulators in registers
 * are what makes it fast. */
static void vary_48(const char *at, const char *first, uint32_t n, uint32_t size, pair acc[3])
{
	pair a = acc[0], b = acc[1], c = acc[2];
	pair x = ((const pair *)first)[0], y = ((const pair *)first)[1],
	     z = ((const pair *)first)[2];

	for (uint32_t i = 0; i < n; i++, at += size) {
		a |= ((const pair *)at)[0] ^ x;
		b |= ((const pair *)at)[1] ^ y;
		c |= ((const pair *)at)[2] ^ z;
	}
	acc[0] = a;
	acc[1] = b;
	acc[2] = c;
}

static void vary_8(const char *at, const char *first, uint32_t n, uint32_t size, uint64_t *acc)
{
	uint64_t x, y, a = *acc;

	memcpy(&x, first, 8);
	for (uint32_t i = 0; i < n; i++, at += size) {
		memcpy(&y, at, 8);
		a |= x ^ y;
	}
	*acc = a;
}

/* ORs up in `diff`, byte by byte of the struct, how rows differ from the first. In tiles that stay
 * in the first-level cache. */
static void find_varying(const char *rows, uint32_t n, uint32_t size, uint8_t *diff)
{
	pair acc[(WS_MAX_COLUMNS + 1) / 2 + 3] = {{0}};
	uint64_t *words = (uint64_t *)acc;

	for (uint32_t i = 0; i < n; i += TILE_ROWS) {
		uint32_t tile = n - i < TILE_ROWS ? n - i : TILE_ROWS, at = 0;
		const char *from = rows + (size_t)i * size;

		for (; at + 48 <= size; at += 48)
			vary_48(from + at, rows + at, tile, size, acc + at / 16);
		for (; at + 8 <= size; at += 8)
			vary_8(from + at, rows + at, tile, size, words + at / 8);
		for (; at < size; at++)
			for (uint32_t k = 0; k < tile; k++)
				((uint8_t *)acc)[at] |=
					(uint8_t)(from[(size_t)k * size + at] ^ rows[at]);
	}
	memcpy(diff, acc, size);
}

#define TAKE(ctype, widen)                                                             \
	do {                                                                           \
		ctype v;                                                               \
		if (j->order)                                                          \
			for (uint32_t i = 0; i < j->n; i++) {                          \
				memcpy(&v, p + (size_t)j->order[i] * size, sizeof(v)); \
				to[i] = (uint64_t)(widen)v;                            \
			}                                                              \
		else                                                                   \
			for (uint32_t i = 0; i < j->n; i++) {                          \
				memcpy(&v, p + (size_t)i * size, sizeof(v));           \
				to[i] = (uint64_t)(widen)v;                            \
			}                                                              \
	} while (0)

static void take_column(const struct job *j, uint32_t c, uint64_t *restrict to)
{
	const struct ws_column_desc *desc = &j->desc->columns[c];
	const char *p = j->rows + desc->offset;
	size_t size = j->desc->row_size;

	if (desc->size == 1)
		TAKE(uint8_t, uint8_t);
	else if (desc->size == 8)
		TAKE(uint64_t, uint64_t);
	else if (ws_types[desc->type].is_signed)
		TAKE(int32_t, int64_t);
	else
		TAKE(uint32_t, uint32_t);
}

/* ---- numbers ---- */

static uint64_t zigzag(uint64_t d)
{
	return d << 1 ^ (uint64_t)((int64_t)d >> 63);
}

static uint32_t width_of(uint64_t v)
{
	return v ? (71u - (uint32_t)__builtin_clzll(v)) / 8 : 0;
}

/* The i-th of the rows that a sample looks at: a few runs spread over the block, so that
 * differences between neighbours show. */
static uint32_t sample_row(uint32_t n, uint32_t i)
{
	if (n <= SAMPLE)
		return i;
	return (uint32_t)((uint64_t)(n - SAMPLE_RUN) * (i / SAMPLE_RUN) / (SAMPLE_RUNS - 1)) +
	       i % SAMPLE_RUN;
}

static uint32_t sample_size(uint32_t n)
{
	return ws_min(n, SAMPLE);
}

/* Writes descriptor and streams of numbers of which `low` is the smallest. `rest`: corrections of a
 * SCALED column. */
static void put_numbers(struct job *job, struct ws_column_head *head, uint64_t *u, uint64_t low,
			const uint8_t *rest)
{
	struct ws_encoder *encoder = job->encoder;
	size_t at = encoder->streams.len;

	if (head->codec == WS_CODEC_DELTA || head->codec == WS_CODEC_GAP)
		u[0] = low; /* which nobody reads */
	ws_ints_put(&encoder->packer, &encoder->streams, head, u, job->n, low);
	if (rest)
		ws_stream_put(&encoder->packer, &encoder->streams, rest, job->n);
	head->base = low;
	head->bytes += (uint32_t)(encoder->streams.len - at);
	ws_bytes_add(&encoder->out, head, sizeof(*head));
	job->columns++;
}

static uint64_t lowest(const uint64_t *u, uint32_t n, uint32_t from)
{
	uint64_t low = UINT64_MAX;

	for (uint32_t i = from; i < n; i++)
		low = ws_min(u[i], low);
	return low;
}

static void put_const(struct job *job, uint32_t c, uint64_t v)
{
	struct ws_column_head head = {
		.column = (uint16_t)c, .codec = WS_CODEC_CONST, .base = v, .min = v, .max = v};

	ws_bytes_add(&job->encoder->out, &head, sizeof(head));
	job->columns++;
}

/* ---- columns without times ---- */

struct dict {
	uint64_t value[DICT_MAX];
	uint32_t n;
	uint64_t slot_value[DICT_SLOTS];
	int16_t slot[DICT_SLOTS]; /* -1 free */
};

static int dict_find(struct dict *dict, uint64_t v)
{
	uint32_t s = (uint32_t)(v * UINT64_C(0x9e3779b97f4a7c15) >> 54);

	while (dict->slot[s] >= 0 && dict->slot_value[s] != v)
		s = (s + 1) % DICT_SLOTS;
	if (dict->slot[s] >= 0)
		return dict->slot[s];
	if (dict->n == DICT_MAX)
		return -1;
	dict->slot[s] = (int16_t)dict->n;
	dict->slot_value[s] = v;
	dict->value[dict->n] = v;
	return (int)dict->n++;
}

static bool put_dict(struct job *job, struct ws_column_head *head, const uint64_t *values)
{
	struct ws_encoder *encoder = job->encoder;
	struct dict dict = {.n = 0};

	memset(dict.slot, 0xff, sizeof(dict.slot));
	for (uint32_t i = 0; i < job->n; i++) {
		int k = dict_find(&dict, values[i]);

		if (k < 0)
			return false;
		encoder->number[i] = (uint64_t)k;
	}
	head->codec = WS_CODEC_DICT;
	head->dict = dict.n;
	size_t at = encoder->streams.len;

	ws_stream_put(&encoder->packer, &encoder->streams, (const uint8_t *)dict.value,
		      dict.n * 8u);
	head->bytes = (uint32_t)(encoder->streams.len - at);
	put_numbers(job, head, encoder->number, 0, NULL);
	return true;
}

static uint32_t sample_delta_width(const uint64_t *values, uint32_t n)
{
	uint32_t count[9] = {0}, m = sample_size(n), over = 0, width = 8;

	for (uint32_t i = 0; i < m; i++) {
		uint32_t r = sample_row(n, i);

		if (r)
			count[width_of(zigzag(values[r] - values[r - 1]))]++;
	}
	while (width > 0 && over + count[width] <= m / 64) {
		over += count[width];
		width--;
	}
	return width;
}

/* Whether a sample has few enough distinct values for a table to be worth trying. */
static bool sample_few(const uint64_t *values, uint32_t n)
{
	struct dict dict = {.n = 0};
	uint32_t m = sample_size(n);

	memset(dict.slot, 0xff, sizeof(dict.slot));
	for (uint32_t i = 0; i < m; i++)
		if (dict_find(&dict, values[sample_row(n, i)]) < 0)
			return false;
	return dict.n <= m / 4 + 1;
}

/* The smallest and largest value as the column's type orders them. */
static void min_max(struct ws_column_head *head, const uint64_t *values, uint32_t n, bool is_signed)
{
	uint64_t flip = is_signed ? UINT64_C(1) << 63 : 0, lo = UINT64_MAX, hi = 0;

	for (uint32_t i = 0; i < n; i++) {
		uint64_t x = values[i] ^ flip;

		lo = ws_min(x, lo);
		hi = ws_max(x, hi);
	}
	head->min = lo ^ flip;
	head->max = hi ^ flip;
}

static void put_delta(struct job *job, struct ws_column_head *head, const uint64_t *values)
{
	uint64_t *u = job->encoder->number, low = UINT64_MAX;

	head->codec = WS_CODEC_DELTA;
	head->flags = WS_CODEC_ZIGZAG;
	head->first = values[0];
	for (uint32_t i = 1; i < job->n; i++) {
		u[i] = zigzag(values[i] - values[i - 1]);
		low = ws_min(u[i], low);
	}
	put_numbers(job, head, u, low, NULL);
}

static void put_values(struct job *job, uint32_t c, uint64_t *values)
{
	struct ws_column_head head = {.column = (uint16_t)c};
	uint32_t plain, delta;

	min_max(&head, values, job->n, ws_types[job->desc->columns[c].type].is_signed);
	plain = width_of(head.max - head.min);
	delta = sample_delta_width(values, job->n);
	if (plain > 1 && delta > 0 && job->n >= 32 && sample_few(values, job->n) &&
	    put_dict(job, &head, values))
		return;
	if (delta < plain) {
		put_delta(job, &head, values);
		return;
	}
	head.codec = WS_CODEC_PLAIN;
	put_numbers(job, &head, values, head.min, NULL);
}

/* ---- times ---- */

/* The end of a row as a following gap counts it. */
static uint64_t closed(uint64_t start, uint64_t end)
{
	return end == WS_NO_TIME ? start : end;
}

/* Starts: by gap since the last end, or by difference of starts? Bits of a sample decide. */
static bool gaps_are_smaller(const uint64_t *start, const uint64_t *end, uint32_t n)
{
	uint64_t gaps = 0, deltas = 0;
	uint32_t m = sample_size(n);

	for (uint32_t i = 0; i < m; i++) {
		uint32_t r = sample_row(n, i);

		if (!r)
			continue;
		gaps += width_of((start[r] - closed(start[r - 1], end[r - 1])) << 4);
		deltas += width_of((start[r] - start[r - 1]) << 4);
	}
	return gaps <= deltas;
}

/* A span is coded as end - start + 1 with 0 for null; an end one before its start would be taken
 * for null. */
static bool spans_fit(const uint64_t *start, const uint64_t *end, uint32_t n)
{
	bool bad = false;

	for (uint32_t i = 0; i < n; i++)
		bad |= end[i] != WS_NO_TIME && end[i] + 1 == start[i];
	return !bad;
}

static uint32_t count_negative(const uint64_t *u, uint32_t n)
{
	uint32_t negative = 0;

	for (uint32_t i = 1; i < n; i++)
		negative += u[i] >> 63;
	return negative;
}

/* More than patches are good for. */
static bool too_many(const struct job *job, uint32_t patches)
{
	return patches > job->n / 192;
}

/* Whether a good part of the differences needs more than a byte: below that, counting in steps
 * gains nothing. */
static bool large_enough(const struct job *job)
{
	const uint64_t *start = job->encoder->start, *end = job->encoder->end;
	uint32_t m = sample_size(job->n), large = 0;

	for (uint32_t i = 0; i < m; i++) {
		uint32_t r = sample_row(job->n, i);

		large += r &&
			 start[r] - (job->gaps ? closed(start[r - 1], end[r - 1]) : start[r - 1]) >
				 255;
		large += job->spans && end[r] != WS_NO_TIME && end[r] - start[r] > 255;
	}
	return large > m / 4;
}

/* The step of the clock for this block, from the last block's or by searching now and then; 0 for
 * none. */
static uint64_t find_step(struct ws_encoder *encoder, const uint64_t *end, uint32_t n)
{
	bool search = !encoder->scale_wait;
	uint64_t scale = ws_lattice_find(encoder->start, end, n, encoder->scale, search);

	if (scale) {
		encoder->scale_wait = encoder->scale_patience = 0;
	} else if (!search) {
		encoder->scale_wait--;
	} else { /* ever more rarely: most clocks have none */
		encoder->scale_patience =
			encoder->scale_patience ? encoder->scale_patience * 2 : 16;
		encoder->scale_patience = ws_min(encoder->scale_patience, 1024);
		encoder->scale_wait = encoder->scale_patience;
	}
	return scale;
}

/* Fills e->steps and e->rest and sets j->scale if the block's times are those of a clock with
 * steps. */
static void try_steps(struct job *job)
{
	struct ws_encoder *encoder = job->encoder;
	const uint64_t *end = job->spans ? encoder->end : NULL;
	struct ws_lattice lattice = {.gaps = job->gaps,
				     .n = job->n,
				     .start_steps = encoder->steps[0],
				     .span_steps = encoder->steps[1],
				     .start_rest = encoder->rest[0],
				     .span_rest = encoder->rest[1]};

	if (job->n < 256 || !large_enough(job) ||
	    !(lattice.scale = find_step(encoder, end, job->n)))
		return;
	for (int again = 0; again < 2; again++) {
		job->scale = 0;
		if (!ws_lattice_split(&lattice, encoder->start, end) ||
		    too_many(job, count_negative(encoder->steps[0], job->n)))
			return;
		job->scale = lattice.scale;
		encoder->scale = lattice.better;
		if (lattice.corrections < job->n / 32)
			return;
		lattice.scale =
			lattice.better; /* worth a second time with what the first has taught */
	}
}

/* Fill u[1..] and *low; return how many are negative. */
static uint32_t take_deltas(uint64_t *restrict u, const uint64_t *restrict start, uint32_t n,
			    uint64_t *low)
{
	uint64_t least = UINT64_MAX;
	uint32_t negative = 0;

	for (uint32_t i = 1; i < n; i++) {
		uint64_t x = start[i] - start[i - 1];

		u[i] = x;
		negative += x >> 63;
		least = ws_min(x, least);
	}
	*low = least;
	return negative;
}

static uint32_t take_gaps(uint64_t *restrict u, const uint64_t *restrict start,
			  const uint64_t *restrict end, uint32_t n, uint64_t *low)
{
	uint64_t least = UINT64_MAX;
	uint32_t negative = 0;

	for (uint32_t i = 1; i < n; i++) {
		uint64_t x = start[i] - closed(start[i - 1], end[i - 1]);

		u[i] = x;
		negative += x >> 63;
		least = ws_min(x, least);
	}
	*low = least;
	return negative;
}

static void put_start(struct job *job)
{
	struct ws_encoder *encoder = job->encoder;
	const uint64_t *values = encoder->start, *end = encoder->end;
	struct ws_column_head head = {.column = (uint16_t)job->start,
				      .codec = WS_CODEC_DELTA,
				      .first = values[0],
				      .scale = job->scale};
	uint64_t *u = job->scale ? encoder->steps[0] : encoder->number, low;
	uint32_t negative;

	head.min = job->start_min;
	head.max = job->start_max;
	if (job->gaps) {
		head.codec = WS_CODEC_GAP;
		head.ref = (uint16_t)job->end;
	}
	if (job->scale) {
		head.flags = WS_CODEC_SCALED;
		put_numbers(job, &head, u, lowest(u, job->n, 1), encoder->rest[0]);
		return;
	}
	negative = job->gaps ? take_gaps(u, values, end, job->n, &low)
			     : take_deltas(u, values, job->n, &low);
	if (too_many(job, negative)) {
		head.flags |= WS_CODEC_ZIGZAG;
		for (uint32_t i = 1; i < job->n; i++)
			u[i] = zigzag(u[i]);
		low = lowest(u, job->n, 1);
	}
	put_numbers(job, &head, u, low, NULL);
}

static void put_span(struct job *job)
{
	struct ws_encoder *encoder = job->encoder;
	struct ws_column_head head = {.column = (uint16_t)job->end,
				      .codec = WS_CODEC_SPAN,
				      .ref = (uint16_t)job->start,
				      .scale = job->scale};
	uint64_t *u = encoder->number, low = UINT64_MAX;

	head.min = job->end_min;
	head.max = job->end_max;
	if (job->scale) {
		head.flags = WS_CODEC_SCALED;
		put_numbers(job, &head, encoder->steps[1], lowest(encoder->steps[1], job->n, 0),
			    encoder->rest[1]);
		return;
	}
	for (uint32_t i = 0; i < job->n; i++) {
		u[i] = encoder->end[i] == WS_NO_TIME ? 0 : encoder->end[i] - encoder->start[i] + 1;
		low = ws_min(u[i], low);
	}
	put_numbers(job, &head, u, low, NULL);
}

/* ---- a block of rows ---- */

/* Smallest and largest end, and the largest that is not null (0: none). */
static uint64_t end_range(struct job *job)
{
	uint64_t lo = UINT64_MAX, hi = 0, last = 0;

	for (uint32_t i = 0; i < job->n; i++) {
		uint64_t x = job->encoder->end[i], y = x + 1; /* null becomes 0 */

		lo = ws_min(x, lo);
		hi = ws_max(x, hi);
		last = ws_max(y, last);
	}
	job->end_min = lo;
	job->end_max = hi;
	return last ? last - 1 : 0;
}

static void start_range(struct job *job)
{
	const uint64_t *values = job->encoder->start;

	job->start_min = values[0];
	job->start_max = values[job->n - 1];
	if (!job->tracks)
		return; /* in order */
	for (uint32_t i = 0; i < job->n; i++) {
		job->start_min = ws_min(values[i], job->start_min);
		job->start_max = ws_max(values[i], job->start_max);
	}
}

static void ranges(struct job *job, enum ws_table table, struct ws_block_head *head)
{
	if (job->track >= 0) { /* rows are in order of it */
		head->track_min = (uint32_t)(job->tracks ? job->encoder->track[0]
							 : ws_row_get(table, job->rows,
								      (uint32_t)job->track));
		head->track_max =
			job->tracks ? (uint32_t)job->encoder->track[job->n - 1] : head->track_min;
	}
	if (job->start < 0 && job->end < 0)
		return;
	head->time_min = UINT64_MAX;
	head->time_max = 0;
	if (job->start >= 0) {
		start_range(job);
		head->time_min = job->start_min;
		head->time_max = job->start_max;
	}
	if (job->end >= 0) {
		uint64_t last = end_range(job);

		head->time_min = ws_min(job->end_min, head->time_min);
		head->time_max = ws_max(last, head->time_max);
	}
}

/* Puts a column into the order of the rows; `spare` is another array, and the two change places. */
static void permute(const struct job *job, uint64_t **column, uint64_t **spare)
{
	const uint64_t *from = *column;
	uint64_t *to = *spare;

	for (uint32_t i = 0; i < job->n; i++)
		to[i] = from[job->order[i]];
	*spare = *column;
	*column = to;
}

/* Fetch the columns that order rows, find the order, and put them into it. */
static void order_rows(struct job *job)
{
	struct ws_encoder *encoder = job->encoder;

	if (job->tracks)
		take_column(job, (uint32_t)job->track, encoder->track);
	if (job->start >= 0)
		take_column(job, (uint32_t)job->start, encoder->start);
	if (job->end >= 0)
		take_column(job, (uint32_t)job->end, encoder->end);
	job->order = ws_sort_rows(&encoder->sorter, job->tracks ? encoder->track : NULL,
				  job->start >= 0 ? encoder->start : NULL,
				  job->end >= 0 ? encoder->end : NULL, job->n);
	if (!job->order)
		return;
	if (job->tracks)
		permute(job, &encoder->track, &encoder->number);
	if (job->start >= 0)
		permute(job, &encoder->start, &encoder->number);
	if (job->end >= 0)
		permute(job, &encoder->end, &encoder->number);
}

static bool varies(const struct job *job, const uint8_t *diff, uint32_t c)
{
	const struct ws_column_desc *desc = &job->desc->columns[c];

	for (uint32_t b = 0; b < desc->size; b++)
		if (diff[desc->offset + b])
			return true;
	return false;
}

static void put_column(struct job *job, enum ws_table table, uint32_t c, const uint8_t *diff)
{
	if (!varies(job, diff, c)) {
		uint64_t v = ws_row_get(table, job->rows, c);

		if (v)
			put_const(job, c, v);
	} else if ((int)c == job->start) {
		put_start(job);
	} else if ((int)c == job->end && job->spans) {
		put_span(job);
	} else if ((int)c == job->track) {
		put_values(job, c, job->encoder->track); /* nobody needs it after that */
	} else {
		take_column(job, c, job->encoder->value);
		put_values(job, c, job->encoder->value);
	}
}

void ws_encode_rows(struct ws_encoder *encoder, enum ws_table table, const void *rows, uint32_t n,
		    uint64_t first, uint64_t sequence)
{
	struct job job = {.encoder = encoder,
			  .desc = &ws_tables[table],
			  .rows = rows,
			  .n = n,
			  .track = ws_table_track(table),
			  .start = ws_table_start(table),
			  .end = ws_table_end(table)};
	struct ws_block_head head = ws_block_head_new(WS_BLOCK_ROWS, sequence);
	uint8_t diff[(WS_MAX_COLUMNS + 1) * 8] = {0};
	bool starts;

	find_varying(rows, n, job.desc->row_size, diff);
	job.tracks = job.track >= 0 && varies(&job, diff, (uint32_t)job.track);
	order_rows(&job);
	ranges(&job, table, &head);
	starts = job.start >= 0 && varies(&job, diff, (uint32_t)job.start);
	job.spans = starts && job.end >= 0 && varies(&job, diff, (uint32_t)job.end) &&
		    spans_fit(encoder->start, encoder->end, n);
	job.gaps = job.spans && gaps_are_smaller(encoder->start, encoder->end, n);
	if (starts)
		try_steps(&job);

	encoder->streams.len = 0;
	ws_block_begin(&encoder->out);
	for (uint32_t c = 0; c < job.desc->column_count; c++)
		put_column(&job, table, c, diff);
	ws_bytes_add(&encoder->out, encoder->streams.bytes, encoder->streams.len);
	head.table = table;
	head.rows = n;
	head.columns = job.columns;
	head.first = first;
	head.raw = (uint64_t)n * job.desc->row_size;
	ws_block_end(&encoder->out, &head);
}

/* ---- strings ---- */

static void put_length(struct ws_bytes *bytes, uint32_t v)
{
	uint8_t *data = ws_bytes_room(bytes, 5);

	for (; v > 0x7f; v >>= 7, bytes->len++)
		*data++ = (uint8_t)(v | 0x80);
	*data = (uint8_t)v;
	bytes->len++;
}

void ws_encode_strings(struct ws_encoder *encoder, uint64_t first, uint32_t n,
		       const uint32_t *lengths, const void *text, uint64_t bytes,
		       uint32_t generation, uint64_t sequence)
{
	struct ws_block_head head = ws_block_head_new(WS_BLOCK_STRINGS, sequence);
	uint32_t size;

	encoder->streams.len = 0;
	for (uint32_t i = 0; i < n; i++)
		put_length(&encoder->streams, lengths[i]);
	size = (uint32_t)encoder->streams.len;
	ws_block_begin(&encoder->out);
	ws_bytes_add(&encoder->out, &size, sizeof(size));
	ws_stream_put(&encoder->packer, &encoder->out, encoder->streams.bytes, size);
	ws_stream_put(&encoder->packer, &encoder->out, text, bytes);
	head.table = generation;
	head.rows = n;
	head.first = first;
	head.raw = bytes;
	ws_block_end(&encoder->out, &head);
}

/* ---- index ---- */

void ws_encode_index(struct ws_bytes *out, const struct ws_index_entry *index, size_t n,
		     uint64_t at, uint64_t total_rows, uint64_t sequence)
{
	struct ws_block_head head = ws_block_head_new(WS_BLOCK_INDEX, sequence);
	struct ws_trailer trailer = {.index_offset = at, .total_rows = total_rows};

	ws_block_begin(out);
	ws_bytes_add(out, index, n * sizeof(*index));
	head.rows = (uint32_t)n;
	ws_block_end(out, &head);
	trailer.file_bytes = at + out->len + sizeof(trailer);
	trailer.check = XXH3_64bits(&trailer, offsetof(struct ws_trailer, check));
	memcpy(trailer.magic, WS_TRAILER_MAGIC, 8);
	ws_bytes_add(out, &trailer, sizeof(trailer));
}

/* ---- schema ---- */

static void put_name(struct ws_bytes *bytes, const char *text)
{
	uint16_t n = (uint16_t)strlen(text);

	ws_bytes_add(bytes, &n, 2);
	ws_bytes_add(bytes, text, n);
}

void ws_encode_schema(struct ws_encoder *encoder, uint64_t sequence)
{
	struct ws_block_head head = ws_block_head_new(WS_BLOCK_SCHEMA, sequence);

	ws_block_begin(&encoder->out);
	for (uint16_t t = 0; t < WS_TABLE_COUNT; t++) {
		uint16_t columns = (uint16_t)ws_tables[t].column_count;

		ws_bytes_add(&encoder->out, &t, 2);
		ws_bytes_add(&encoder->out, &columns, 2);
		put_name(&encoder->out, ws_tables[t].name);
		for (uint32_t c = 0; c < columns; c++) {
			put_name(&encoder->out, ws_tables[t].columns[c].name);
			put_name(&encoder->out, ws_types[ws_tables[t].columns[c].type].name);
		}
	}
	head.rows = WS_TABLE_COUNT;
	ws_block_end(&encoder->out, &head);
}

uint64_t ws_schema_fingerprint(void)
{
	XXH3_state_t *s = XXH3_createState();
	uint64_t h;

	if (!s)
		return 0;
	XXH3_64bits_reset(s);
	for (uint32_t t = 0; t < WS_TABLE_COUNT; t++) {
		XXH3_64bits_update(s, ws_tables[t].name, strlen(ws_tables[t].name) + 1);
		XXH3_64bits_update(s, &ws_tables[t].row_size, sizeof(ws_tables[t].row_size));
		for (uint32_t c = 0; c < ws_tables[t].column_count; c++) {
			const struct ws_column_desc *desc = &ws_tables[t].columns[c];

			XXH3_64bits_update(s, desc->name, strlen(desc->name) + 1);
			XXH3_64bits_update(s, ws_types[desc->type].name,
					   strlen(ws_types[desc->type].name) + 1);
			XXH3_64bits_update(s, &desc->offset, sizeof(desc->offset));
		}
	}
	h = XXH3_64bits_digest(s);
	XXH3_freeState(s);
	return h;
}
