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
#include "store/lattice.h"

enum {
	SAMPLE_RUN = 128,
	SAMPLE_RUNS = 4,
	SAMPLE = SAMPLE_RUN * SAMPLE_RUNS,
	DICT_MAX = 256,
	DICT_SLOTS = 1024
};

void ws_encoder_init(struct ws_encoder *e, uint32_t max_rows)
{
	*e = (struct ws_encoder){.max_rows = max_rows};
	ws_packer_init(&e->packer, max_rows);
	e->value = ws_malloc((size_t)max_rows * 8);
	e->number = ws_malloc((size_t)max_rows * 8);
	e->track = ws_malloc((size_t)max_rows * 8);
	e->start = ws_malloc((size_t)max_rows * 8);
	e->end = ws_malloc((size_t)max_rows * 8);
	for (int i = 0; i < 2; i++) {
		e->steps[i] = ws_malloc((size_t)max_rows * 8);
		e->rest[i] = ws_malloc(max_rows);
	}
}

void ws_encoder_free(struct ws_encoder *e)
{
	ws_packer_free(&e->packer);
	ws_sorter_free(&e->sorter);
	ws_bytes_free(&e->out);
	ws_bytes_free(&e->streams);
	free(e->value);
	free(e->number);
	free(e->track);
	free(e->start);
	free(e->end);
	for (int i = 0; i < 2; i++) {
		free(e->steps[i]);
		free(e->rest[i]);
	}
	*e = (struct ws_encoder){0};
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
	struct ws_block_header h = {.head = *head};
	size_t body = out->len - sizeof(h);

	memcpy(h.magic, WS_BLOCK_MAGIC, 8);
	h.head.body_bytes = body;
	h.head.body_check = XXH3_64bits(out->p + sizeof(h), body);
	h.check = XXH3_64bits(&h.head, sizeof(h.head));
	memcpy(out->p, &h, sizeof(h));
	ws_bytes_add(out, zeros, WS_ALIGN_UP(body, WS_BLOCK_ALIGN) - body);
}

/* ---- rows to columns ---- */

struct job {
	struct ws_encoder *e;
	const struct ws_table_desc *t;
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
static void vary_48(const char *p, const char *first, uint32_t n, uint32_t size, pair acc[3])
{
	pair a = acc[0], b = acc[1], c = acc[2];
	pair x = ((const pair *)first)[0], y = ((const pair *)first)[1],
	     z = ((const pair *)first)[2];

	for (uint32_t i = 0; i < n; i++, p += size) {
		a |= ((const pair *)p)[0] ^ x;
		b |= ((const pair *)p)[1] ^ y;
		c |= ((const pair *)p)[2] ^ z;
	}
	acc[0] = a;
	acc[1] = b;
	acc[2] = c;
}

static void vary_8(const char *p, const char *first, uint32_t n, uint32_t size, uint64_t *acc)
{
	uint64_t x, y, a = *acc;

	memcpy(&x, first, 8);
	for (uint32_t i = 0; i < n; i++, p += size) {
		memcpy(&y, p, 8);
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
		const char *p = rows + (size_t)i * size;

		for (; at + 48 <= size; at += 48)
			vary_48(p + at, rows + at, tile, size, acc + at / 16);
		for (; at + 8 <= size; at += 8)
			vary_8(p + at, rows + at, tile, size, words + at / 8);
		for (; at < size; at++)
			for (uint32_t k = 0; k < tile; k++)
				((uint8_t *)acc)[at] |=
					(uint8_t)(p[(size_t)k * size + at] ^ rows[at]);
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
	const struct ws_column_desc *d = &j->t->columns[c];
	const char *p = j->rows + d->offset;
	size_t size = j->t->row_size;

	if (d->size == 1)
		TAKE(uint8_t, uint8_t);
	else if (d->size == 8)
		TAKE(uint64_t, uint64_t);
	else if (ws_types[d->type].is_signed)
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
	return n < SAMPLE ? n : SAMPLE;
}

/* Writes descriptor and streams of numbers of which `low` is the smallest. `rest`: corrections of a
 * SCALED column. */
static void put_numbers(struct job *j, struct ws_column_head *h, uint64_t *u, uint64_t low,
			const uint8_t *rest)
{
	struct ws_encoder *e = j->e;
	size_t at = e->streams.len;

	if (h->codec == WS_CODEC_DELTA || h->codec == WS_CODEC_GAP)
		u[0] = low; /* which nobody reads */
	ws_ints_put(&e->packer, &e->streams, h, u, j->n, low);
	if (rest)
		ws_stream_put(&e->packer, &e->streams, rest, j->n);
	h->base = low;
	h->bytes += (uint32_t)(e->streams.len - at);
	ws_bytes_add(&e->out, h, sizeof(*h));
	j->columns++;
}

static uint64_t lowest(const uint64_t *u, uint32_t n, uint32_t from)
{
	uint64_t low = UINT64_MAX;

	for (uint32_t i = from; i < n; i++)
		low = u[i] < low ? u[i] : low;
	return low;
}

static void put_const(struct job *j, uint32_t c, uint64_t v)
{
	struct ws_column_head h = {
		.column = (uint16_t)c, .codec = WS_CODEC_CONST, .base = v, .min = v, .max = v};

	ws_bytes_add(&j->e->out, &h, sizeof(h));
	j->columns++;
}

/* ---- columns without times ---- */

struct dict {
	uint64_t value[DICT_MAX];
	uint32_t n;
	uint64_t slot_value[DICT_SLOTS];
	int16_t slot[DICT_SLOTS]; /* -1 free */
};

static int dict_find(struct dict *d, uint64_t v)
{
	uint32_t s = (uint32_t)(v * UINT64_C(0x9e3779b97f4a7c15) >> 54);

	while (d->slot[s] >= 0 && d->slot_value[s] != v)
		s = (s + 1) % DICT_SLOTS;
	if (d->slot[s] >= 0)
		return d->slot[s];
	if (d->n == DICT_MAX)
		return -1;
	d->slot[s] = (int16_t)d->n;
	d->slot_value[s] = v;
	d->value[d->n] = v;
	return (int)d->n++;
}

static bool put_dict(struct job *j, struct ws_column_head *h, const uint64_t *v)
{
	struct ws_encoder *e = j->e;
	struct dict d = {.n = 0};

	memset(d.slot, 0xff, sizeof(d.slot));
	for (uint32_t i = 0; i < j->n; i++) {
		int k = dict_find(&d, v[i]);

		if (k < 0)
			return false;
		e->number[i] = (uint64_t)k;
	}
	h->codec = WS_CODEC_DICT;
	h->dict = d.n;
	size_t at = e->streams.len;

	ws_stream_put(&e->packer, &e->streams, (const uint8_t *)d.value, d.n * 8u);
	h->bytes = (uint32_t)(e->streams.len - at);
	put_numbers(j, h, e->number, 0, NULL);
	return true;
}

static uint32_t sample_delta_width(const uint64_t *v, uint32_t n)
{
	uint32_t count[9] = {0}, m = sample_size(n), over = 0, width = 8;

	for (uint32_t i = 0; i < m; i++) {
		uint32_t r = sample_row(n, i);

		if (r)
			count[width_of(zigzag(v[r] - v[r - 1]))]++;
	}
	while (width > 0 && over + count[width] <= m / 64) {
		over += count[width];
		width--;
	}
	return width;
}

/* Whether a sample has few enough distinct values for a table to be worth trying. */
static bool sample_few(const uint64_t *v, uint32_t n)
{
	struct dict d = {.n = 0};
	uint32_t m = sample_size(n);

	memset(d.slot, 0xff, sizeof(d.slot));
	for (uint32_t i = 0; i < m; i++)
		if (dict_find(&d, v[sample_row(n, i)]) < 0)
			return false;
	return d.n <= m / 4 + 1;
}

/* The smallest and largest value as the column's type orders them. */
static void min_max(struct ws_column_head *h, const uint64_t *v, uint32_t n, bool is_signed)
{
	uint64_t flip = is_signed ? UINT64_C(1) << 63 : 0, lo = UINT64_MAX, hi = 0;

	for (uint32_t i = 0; i < n; i++) {
		uint64_t x = v[i] ^ flip;

		lo = x < lo ? x : lo;
		hi = x > hi ? x : hi;
	}
	h->min = lo ^ flip;
	h->max = hi ^ flip;
}

static void put_delta(struct job *j, struct ws_column_head *h, const uint64_t *v)
{
	uint64_t *u = j->e->number, low = UINT64_MAX;

	h->codec = WS_CODEC_DELTA;
	h->flags = WS_CODEC_ZIGZAG;
	h->first = v[0];
	for (uint32_t i = 1; i < j->n; i++) {
		u[i] = zigzag(v[i] - v[i - 1]);
		low = u[i] < low ? u[i] : low;
	}
	put_numbers(j, h, u, low, NULL);
}

static void put_values(struct job *j, uint32_t c, uint64_t *v)
{
	struct ws_column_head h = {.column = (uint16_t)c};
	uint32_t plain, delta;

	min_max(&h, v, j->n, ws_types[j->t->columns[c].type].is_signed);
	plain = width_of(h.max - h.min);
	delta = sample_delta_width(v, j->n);
	if (plain > 1 && delta > 0 && j->n >= 32 && sample_few(v, j->n) && put_dict(j, &h, v))
		return;
	if (delta < plain) {
		put_delta(j, &h, v);
		return;
	}
	h.codec = WS_CODEC_PLAIN;
	put_numbers(j, &h, v, h.min, NULL);
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
static bool too_many(const struct job *j, uint32_t patches)
{
	return patches > j->n / 192;
}

/* Whether a good part of the differences needs more than a byte: below that, counting in steps
 * gains nothing. */
static bool large_enough(const struct job *j)
{
	const uint64_t *start = j->e->start, *end = j->e->end;
	uint32_t m = sample_size(j->n), large = 0;

	for (uint32_t i = 0; i < m; i++) {
		uint32_t r = sample_row(j->n, i);

		large += r &&
			 start[r] - (j->gaps ? closed(start[r - 1], end[r - 1]) : start[r - 1]) >
				 255;
		large += j->spans && end[r] != WS_NO_TIME && end[r] - start[r] > 255;
	}
	return large > m / 4;
}

/* The step of the clock for this block, from the last block's or by searching now and then; 0 for
 * none. */
static uint64_t find_step(struct ws_encoder *e, const uint64_t *end, uint32_t n)
{
	bool search = !e->scale_wait;
	uint64_t scale = ws_lattice_find(e->start, end, n, e->scale, search);

	if (scale) {
		e->scale_wait = e->scale_patience = 0;
	} else if (!search) {
		e->scale_wait--;
	} else { /* ever more rarely: most clocks have none */
		e->scale_patience = e->scale_patience ? e->scale_patience * 2 : 16;
		e->scale_patience = e->scale_patience < 1024 ? e->scale_patience : 1024;
		e->scale_wait = e->scale_patience;
	}
	return scale;
}

/* Fills e->steps and e->rest and sets j->scale if the block's times are those of a clock with
 * steps. */
static void try_steps(struct job *j)
{
	struct ws_encoder *e = j->e;
	const uint64_t *end = j->spans ? e->end : NULL;
	struct ws_lattice l = {.gaps = j->gaps,
			       .n = j->n,
			       .start_steps = e->steps[0],
			       .span_steps = e->steps[1],
			       .start_rest = e->rest[0],
			       .span_rest = e->rest[1]};

	if (j->n < 256 || !large_enough(j) || !(l.scale = find_step(e, end, j->n)))
		return;
	for (int again = 0; again < 2; again++) {
		j->scale = 0;
		if (!ws_lattice_split(&l, e->start, end) ||
		    too_many(j, count_negative(e->steps[0], j->n)))
			return;
		j->scale = l.scale;
		e->scale = l.better;
		if (l.corrections < j->n / 32)
			return;
		l.scale = l.better; /* worth a second time with what the first has taught */
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
		least = x < least ? x : least;
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
		least = x < least ? x : least;
	}
	*low = least;
	return negative;
}

static void put_start(struct job *j)
{
	struct ws_encoder *e = j->e;
	const uint64_t *v = e->start, *end = e->end;
	struct ws_column_head h = {.column = (uint16_t)j->start,
				   .codec = WS_CODEC_DELTA,
				   .first = v[0],
				   .scale = j->scale};
	uint64_t *u = j->scale ? e->steps[0] : e->number, low;
	uint32_t negative;

	h.min = j->start_min;
	h.max = j->start_max;
	if (j->gaps) {
		h.codec = WS_CODEC_GAP;
		h.ref = (uint16_t)j->end;
	}
	if (j->scale) {
		h.flags = WS_CODEC_SCALED;
		put_numbers(j, &h, u, lowest(u, j->n, 1), e->rest[0]);
		return;
	}
	negative = j->gaps ? take_gaps(u, v, end, j->n, &low) : take_deltas(u, v, j->n, &low);
	if (too_many(j, negative)) {
		h.flags |= WS_CODEC_ZIGZAG;
		for (uint32_t i = 1; i < j->n; i++)
			u[i] = zigzag(u[i]);
		low = lowest(u, j->n, 1);
	}
	put_numbers(j, &h, u, low, NULL);
}

static void put_span(struct job *j)
{
	struct ws_encoder *e = j->e;
	struct ws_column_head h = {.column = (uint16_t)j->end,
				   .codec = WS_CODEC_SPAN,
				   .ref = (uint16_t)j->start,
				   .scale = j->scale};
	uint64_t *u = e->number, low = UINT64_MAX;

	h.min = j->end_min;
	h.max = j->end_max;
	if (j->scale) {
		h.flags = WS_CODEC_SCALED;
		put_numbers(j, &h, e->steps[1], lowest(e->steps[1], j->n, 0), e->rest[1]);
		return;
	}
	for (uint32_t i = 0; i < j->n; i++) {
		u[i] = e->end[i] == WS_NO_TIME ? 0 : e->end[i] - e->start[i] + 1;
		low = u[i] < low ? u[i] : low;
	}
	put_numbers(j, &h, u, low, NULL);
}

/* ---- a block of rows ---- */

/* Smallest and largest end, and the largest that is not null (0: none). */
static uint64_t end_range(struct job *j)
{
	uint64_t lo = UINT64_MAX, hi = 0, last = 0;

	for (uint32_t i = 0; i < j->n; i++) {
		uint64_t x = j->e->end[i], y = x + 1; /* null becomes 0 */

		lo = x < lo ? x : lo;
		hi = x > hi ? x : hi;
		last = y > last ? y : last;
	}
	j->end_min = lo;
	j->end_max = hi;
	return last ? last - 1 : 0;
}

static void start_range(struct job *j)
{
	const uint64_t *v = j->e->start;

	j->start_min = v[0];
	j->start_max = v[j->n - 1];
	if (!j->tracks)
		return; /* in order */
	for (uint32_t i = 0; i < j->n; i++) {
		j->start_min = v[i] < j->start_min ? v[i] : j->start_min;
		j->start_max = v[i] > j->start_max ? v[i] : j->start_max;
	}
}

static void ranges(struct job *j, enum ws_table t, struct ws_block_head *h)
{
	if (j->track >= 0) { /* rows are in order of it */
		h->track_min = (uint32_t)(j->tracks ? j->e->track[0]
						    : ws_row_get(t, j->rows, (uint32_t)j->track));
		h->track_max = j->tracks ? (uint32_t)j->e->track[j->n - 1] : h->track_min;
	}
	if (j->start < 0 && j->end < 0)
		return;
	h->time_min = UINT64_MAX;
	h->time_max = 0;
	if (j->start >= 0) {
		start_range(j);
		h->time_min = j->start_min;
		h->time_max = j->start_max;
	}
	if (j->end >= 0) {
		uint64_t last = end_range(j);

		h->time_min = j->end_min < h->time_min ? j->end_min : h->time_min;
		h->time_max = last > h->time_max ? last : h->time_max;
	}
}

/* Puts a column into the order of the rows; `spare` is another array, and the two change places. */
static void permute(const struct job *j, uint64_t **column, uint64_t **spare)
{
	const uint64_t *from = *column;
	uint64_t *to = *spare;

	for (uint32_t i = 0; i < j->n; i++)
		to[i] = from[j->order[i]];
	*spare = *column;
	*column = to;
}

/* Fetch the columns that order rows, find the order, and put them into it. */
static void order_rows(struct job *j)
{
	struct ws_encoder *e = j->e;

	if (j->tracks)
		take_column(j, (uint32_t)j->track, e->track);
	if (j->start >= 0)
		take_column(j, (uint32_t)j->start, e->start);
	if (j->end >= 0)
		take_column(j, (uint32_t)j->end, e->end);
	j->order = ws_sort_rows(&e->sorter, j->tracks ? e->track : NULL,
				j->start >= 0 ? e->start : NULL, j->end >= 0 ? e->end : NULL, j->n);
	if (!j->order)
		return;
	if (j->tracks)
		permute(j, &e->track, &e->number);
	if (j->start >= 0)
		permute(j, &e->start, &e->number);
	if (j->end >= 0)
		permute(j, &e->end, &e->number);
}

static bool varies(const struct job *j, const uint8_t *diff, uint32_t c)
{
	const struct ws_column_desc *d = &j->t->columns[c];

	for (uint32_t b = 0; b < d->size; b++)
		if (diff[d->offset + b])
			return true;
	return false;
}

static void put_column(struct job *j, enum ws_table t, uint32_t c, const uint8_t *diff)
{
	if (!varies(j, diff, c)) {
		uint64_t v = ws_row_get(t, j->rows, c);

		if (v)
			put_const(j, c, v);
	} else if ((int)c == j->start) {
		put_start(j);
	} else if ((int)c == j->end && j->spans) {
		put_span(j);
	} else if ((int)c == j->track) {
		put_values(j, c, j->e->track); /* nobody needs it after that */
	} else {
		take_column(j, c, j->e->value);
		put_values(j, c, j->e->value);
	}
}

void ws_encode_rows(struct ws_encoder *e, enum ws_table t, const void *rows, uint32_t n,
		    uint64_t first, uint64_t sequence)
{
	struct job j = {.e = e,
			.t = &ws_tables[t],
			.rows = rows,
			.n = n,
			.track = ws_table_track(t),
			.start = ws_table_start(t),
			.end = ws_table_end(t)};
	struct ws_block_head head = ws_block_head_new(WS_BLOCK_ROWS, sequence);
	uint8_t diff[(WS_MAX_COLUMNS + 1) * 8] = {0};
	bool starts;

	find_varying(rows, n, j.t->row_size, diff);
	j.tracks = j.track >= 0 && varies(&j, diff, (uint32_t)j.track);
	order_rows(&j);
	ranges(&j, t, &head);
	starts = j.start >= 0 && varies(&j, diff, (uint32_t)j.start);
	j.spans = starts && j.end >= 0 && varies(&j, diff, (uint32_t)j.end) &&
		  spans_fit(e->start, e->end, n);
	j.gaps = j.spans && gaps_are_smaller(e->start, e->end, n);
	if (starts)
		try_steps(&j);

	e->streams.len = 0;
	ws_block_begin(&e->out);
	for (uint32_t c = 0; c < j.t->column_count; c++)
		put_column(&j, t, c, diff);
	ws_bytes_add(&e->out, e->streams.p, e->streams.len);
	head.table = t;
	head.rows = n;
	head.columns = j.columns;
	head.first = first;
	head.raw = (uint64_t)n * j.t->row_size;
	ws_block_end(&e->out, &head);
}

/* ---- strings ---- */

static void put_length(struct ws_bytes *b, uint32_t v)
{
	uint8_t *p = ws_bytes_room(b, 5);

	for (; v > 0x7f; v >>= 7, b->len++)
		*p++ = (uint8_t)(v | 0x80);
	*p = (uint8_t)v;
	b->len++;
}

void ws_encode_strings(struct ws_encoder *e, uint64_t first, uint32_t n, const uint32_t *lengths,
		       const void *text, uint64_t bytes, uint32_t generation, uint64_t sequence)
{
	struct ws_block_head head = ws_block_head_new(WS_BLOCK_STRINGS, sequence);
	uint32_t size;

	e->streams.len = 0;
	for (uint32_t i = 0; i < n; i++)
		put_length(&e->streams, lengths[i]);
	size = (uint32_t)e->streams.len;
	ws_block_begin(&e->out);
	ws_bytes_add(&e->out, &size, sizeof(size));
	ws_stream_put(&e->packer, &e->out, e->streams.p, size);
	ws_stream_put(&e->packer, &e->out, text, bytes);
	head.table = generation;
	head.rows = n;
	head.first = first;
	head.raw = bytes;
	ws_block_end(&e->out, &head);
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

static void put_name(struct ws_bytes *b, const char *s)
{
	uint16_t n = (uint16_t)strlen(s);

	ws_bytes_add(b, &n, 2);
	ws_bytes_add(b, s, n);
}

void ws_encode_schema(struct ws_encoder *e, uint64_t sequence)
{
	struct ws_block_head head = ws_block_head_new(WS_BLOCK_SCHEMA, sequence);

	ws_block_begin(&e->out);
	for (uint16_t t = 0; t < WS_TABLE_COUNT; t++) {
		uint16_t columns = (uint16_t)ws_tables[t].column_count;

		ws_bytes_add(&e->out, &t, 2);
		ws_bytes_add(&e->out, &columns, 2);
		put_name(&e->out, ws_tables[t].name);
		for (uint32_t c = 0; c < columns; c++) {
			put_name(&e->out, ws_tables[t].columns[c].name);
			put_name(&e->out, ws_types[ws_tables[t].columns[c].type].name);
		}
	}
	head.rows = WS_TABLE_COUNT;
	ws_block_end(&e->out, &head);
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
			const struct ws_column_desc *d = &ws_tables[t].columns[c];

			XXH3_64bits_update(s, d->name, strlen(d->name) + 1);
			XXH3_64bits_update(s, ws_types[d->type].name,
					   strlen(ws_types[d->type].name) + 1);
			XXH3_64bits_update(s, &d->offset, sizeof(d->offset));
		}
	}
	h = XXH3_64bits_digest(s);
	XXH3_freeState(s);
	return h;
}
