/*
 * sort.c - see sort.h.
 *
 * Rows mostly arrive in order, or nearly: a range is written when it closes, so a parent follows
 * its children; a drain visits one thread after the other. So: look first; then insertion sort with
 * a budget of moves, which settles nesting; then, from wherever that got, a radix sort. Track and
 * start share one 64-bit key; where a block's values are so far apart that they do not fit (never
 * in a recording, but reports are also made from other people's data), a merge sort by comparison
 * does it.
 */
#include "store/sort.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum {
	MOVES_PER_ROW = 6,
	FREE_MOVES = 20000,
	FARTHEST = 4000,
	DIGIT_BITS = 11,
	TIES_BY_INSERTION = 16
};

struct columns {
	const uint64_t *track, *start, *end;
};

void ws_sorter_free(struct ws_sorter *s)
{
	free(s->keys);
	free(s->spare);
	free(s->order);
	*s = (struct ws_sorter){0};
}

static bool before(const struct columns *c, uint32_t a, uint32_t b)
{
	if (c->track && c->track[a] != c->track[b])
		return c->track[a] < c->track[b];
	if (c->start && c->start[a] != c->start[b])
		return c->start[a] < c->start[b];
	return c->end && c->start && c->end[a] > c->end[b];
}

static bool in_order(const struct columns *c, uint32_t n)
{
	for (uint32_t i = 1; i < n; i++)
		if (before(c, i, i - 1))
			return false;
	return true;
}

static int by_columns(const void *a, const void *b, void *ctx)
{
	uint32_t x = ((const struct ws_sort_key *)a)->row, y = ((const struct ws_sort_key *)b)->row;

	if (before(ctx, x, y))
		return -1;
	if (before(ctx, y, x))
		return 1;
	return x < y ? -1 : 1;
}

static void bounds(const uint64_t *v, uint32_t n, uint64_t *low, uint64_t *range)
{
	uint64_t lo = UINT64_MAX, hi = 0;

	for (uint32_t i = 0; v && i < n; i++) {
		lo = v[i] < lo ? v[i] : lo;
		hi = v[i] > hi ? v[i] : hi;
	}
	*low = v && n ? lo : 0;
	*range = v && n ? hi - lo : 0;
}

static uint32_t bits(uint64_t v)
{
	return v ? 64 - (uint32_t)__builtin_clzll(v) : 0;
}

/* Track and start in one number; false when they do not fit. *width gets its bits. */
static bool make_keys(struct ws_sort_key *k, const struct columns *c, uint32_t n, uint32_t *width)
{
	uint64_t track_low, track_range, start_low, start_range;
	uint32_t shift;

	bounds(c->track, n, &track_low, &track_range);
	bounds(c->start, n, &start_low, &start_range);
	shift = bits(start_range);
	*width = shift + bits(track_range);
	for (uint32_t i = 0; i < n; i++)
		k[i].row = i;
	if (*width > 64)
		return false;
	for (uint32_t i = 0; i < n; i++) {
		uint64_t track = c->track ? c->track[i] - track_low : 0;

		k[i].key = (c->start ? c->start[i] - start_low : 0) |
			   (shift < 64 ? track << shift : 0);
	}
	return true;
}

/* Gives up when it has moved more than its budget, which grows with what is done: rows far out of
 * place end it early. */
static bool insertion(struct ws_sort_key *k, uint32_t n)
{
	uint64_t moves = 0;

	for (uint32_t i = 1; i < n; i++) {
		struct ws_sort_key x = k[i];
		uint32_t j = i, least = i > FARTHEST ? i - FARTHEST : 0;

		while (j > least && k[j - 1].key > x.key) {
			k[j] = k[j - 1];
			j--;
		}
		k[j] = x;
		moves += i - j;
		if ((j && k[j - 1].key > x.key) || moves > FREE_MOVES + (uint64_t)i * MOVES_PER_ROW)
			return false;
	}
	return true;
}

/* One pass; returns false when all keys have the same digit and nothing moved. */
static bool radix_pass(const struct ws_sort_key *from, struct ws_sort_key *to, uint32_t n,
		       uint32_t shift)
{
	uint32_t count[1 << DIGIT_BITS] = {0}, sum = 0, mask = (1 << DIGIT_BITS) - 1;

	for (uint32_t i = 0; i < n; i++)
		count[from[i].key >> shift & mask]++;
	if (count[from[0].key >> shift & mask] == n)
		return false;
	for (uint32_t d = 0; d <= mask; d++) {
		uint32_t c = count[d];

		count[d] = sum;
		sum += c;
	}
	for (uint32_t i = 0; i < n; i++)
		to[count[from[i].key >> shift & mask]++] = from[i];
	return true;
}

static void radix(struct ws_sorter *s, uint32_t n, uint32_t width)
{
	for (uint32_t shift = 0; shift < width; shift += DIGIT_BITS)
		if (radix_pass(s->keys, s->spare, n, shift)) {
			struct ws_sort_key *t = s->keys;

			s->keys = s->spare;
			s->spare = t;
		}
}

static void order_ties(struct ws_sort_key *k, uint32_t n, const struct columns *c)
{
	if (n > TIES_BY_INSERTION) {
		qsort_r(k, n, sizeof(*k), by_columns, (void *)c);
		return;
	}
	for (uint32_t i = 1; i < n; i++) {
		struct ws_sort_key x = k[i];
		uint32_t j = i;

		for (; j > 0 && c->end[k[j - 1].row] < c->end[x.row]; j--)
			k[j] = k[j - 1];
		k[j] = x;
	}
}

static void settle_ties(struct ws_sort_key *k, uint32_t n, const struct columns *c)
{
	for (uint32_t i = 0, e; i < n; i = e) {
		for (e = i + 1; e < n && k[e].key == k[i].key;)
			e++;
		if (e - i > 1)
			order_ties(k + i, e - i, c);
	}
}

static void make_room(struct ws_sorter *s, uint32_t n)
{
	if (n <= s->cap)
		return;
	ws_sorter_free(s);
	s->keys = ws_malloc((size_t)n * sizeof(*s->keys));
	s->spare = ws_malloc((size_t)n * sizeof(*s->spare));
	s->order = ws_malloc((size_t)n * sizeof(*s->order));
	s->cap = n;
}

const uint32_t *ws_sort_rows(struct ws_sorter *s, const uint64_t *track, const uint64_t *start,
			     const uint64_t *end, uint32_t n)
{
	struct columns c = {track, start, end};
	uint32_t width;

	if (in_order(&c, n))
		return NULL;
	make_room(s, n);
	if (make_keys(s->keys, &c, n, &width)) {
		if (!insertion(s->keys, n))
			radix(s, n, width);
		if (start && end)
			settle_ties(s->keys, n, &c);
	} else {
		qsort_r(s->keys, n, sizeof(*s->keys), by_columns, &c);
	}
	for (uint32_t i = 0; i < n; i++)
		s->order[i] = s->keys[i].row;
	return s->order;
}
