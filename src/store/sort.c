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
#include "base/choose.h"

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

void ws_sorter_free(struct ws_sorter *sorter)
{
	free(sorter->keys);
	free(sorter->spare);
	free(sorter->order);
	*sorter = (struct ws_sorter){0};
}

static bool before(const struct columns *columns, uint32_t a, uint32_t b)
{
	if (columns->track && columns->track[a] != columns->track[b])
		return columns->track[a] < columns->track[b];
	if (columns->start && columns->start[a] != columns->start[b])
		return columns->start[a] < columns->start[b];
	return columns->end && columns->start && columns->end[a] > columns->end[b];
}

static bool in_order(const struct columns *columns, uint32_t n)
{
	for (uint32_t i = 1; i < n; i++)
		if (before(columns, i, i - 1))
			return false;
	return true;
}

static int by_columns(const void *first, const void *second, void *ctx)
{
	uint32_t x = ((const struct ws_sort_key *)first)->row,
		 y = ((const struct ws_sort_key *)second)->row;

	if (before(ctx, x, y))
		return -1;
	if (before(ctx, y, x))
		return 1;
	return x < y ? -1 : 1;
}

static void bounds(const uint64_t *values, uint32_t n, uint64_t *low, uint64_t *range)
{
	uint64_t lo = UINT64_MAX, hi = 0;

	for (uint32_t i = 0; values && i < n; i++) {
		lo = ws_min(values[i], lo);
		hi = ws_max(values[i], hi);
	}
	*low = values && n ? lo : 0;
	*range = values && n ? hi - lo : 0;
}

static uint32_t bits(uint64_t v)
{
	return v ? 64 - (uint32_t)__builtin_clzll(v) : 0;
}

/* Track and start in one number; false when they do not fit. *width gets its bits. */
static bool make_keys(struct ws_sort_key *sort_key, const struct columns *columns, uint32_t n,
		      uint32_t *width)
{
	uint64_t track_low, track_range, start_low, start_range;
	uint32_t shift;

	bounds(columns->track, n, &track_low, &track_range);
	bounds(columns->start, n, &start_low, &start_range);
	shift = bits(start_range);
	*width = shift + bits(track_range);
	for (uint32_t i = 0; i < n; i++)
		sort_key[i].row = i;
	if (*width > 64)
		return false;
	for (uint32_t i = 0; i < n; i++) {
		uint64_t track = columns->track ? columns->track[i] - track_low : 0;

		sort_key[i].key = (columns->start ? columns->start[i] - start_low : 0) |
				  (shift < 64 ? track << shift : 0);
	}
	return true;
}

/* Gives up when it has moved more than its budget, which grows with what is done: rows far out of
 * place end it early. */
static bool insertion(struct ws_sort_key *sort_key, uint32_t n)
{
	uint64_t moves = 0;

	for (uint32_t i = 1; i < n; i++) {
		struct ws_sort_key sort_key_x = sort_key[i];
		uint32_t j = i, least = i > FARTHEST ? i - FARTHEST : 0;

		while (j > least && sort_key[j - 1].key > sort_key_x.key) {
			sort_key[j] = sort_key[j - 1];
			j--;
		}
		sort_key[j] = sort_key_x;
		moves += i - j;
		if ((j && sort_key[j - 1].key > sort_key_x.key) ||
		    moves > FREE_MOVES + (uint64_t)i * MOVES_PER_ROW)
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

static void radix(struct ws_sorter *sorter, uint32_t n, uint32_t width)
{
	for (uint32_t shift = 0; shift < width; shift += DIGIT_BITS)
		if (radix_pass(sorter->keys, sorter->spare, n, shift)) {
			struct ws_sort_key *sort_key = sorter->keys;

			sorter->keys = sorter->spare;
			sorter->spare = sort_key;
		}
}

static void order_ties(struct ws_sort_key *sort_key, uint32_t n, const struct columns *columns)
{
	if (n > TIES_BY_INSERTION) {
		qsort_r(sort_key, n, sizeof(*sort_key), by_columns, (void *)columns);
		return;
	}
	for (uint32_t i = 1; i < n; i++) {
		struct ws_sort_key sort_key_x = sort_key[i];
		uint32_t j = i;

		for (; j > 0 && columns->end[sort_key[j - 1].row] < columns->end[sort_key_x.row];
		     j--)
			sort_key[j] = sort_key[j - 1];
		sort_key[j] = sort_key_x;
	}
}

static void settle_ties(struct ws_sort_key *sort_key, uint32_t n, const struct columns *columns)
{
	for (uint32_t i = 0, e; i < n; i = e) {
		for (e = i + 1; e < n && sort_key[e].key == sort_key[i].key;)
			e++;
		if (e - i > 1)
			order_ties(sort_key + i, e - i, columns);
	}
}

static void make_room(struct ws_sorter *sorter, uint32_t n)
{
	if (n <= sorter->cap)
		return;
	ws_sorter_free(sorter);
	sorter->keys = ws_malloc((size_t)n * sizeof(*sorter->keys));
	sorter->spare = ws_malloc((size_t)n * sizeof(*sorter->spare));
	sorter->order = ws_malloc((size_t)n * sizeof(*sorter->order));
	sorter->cap = n;
}

const uint32_t *ws_sort_rows(struct ws_sorter *sorter, const uint64_t *track, const uint64_t *start,
			     const uint64_t *end, uint32_t n)
{
	struct columns columns = {track, start, end};
	uint32_t width;

	if (in_order(&columns, n))
		return NULL;
	make_room(sorter, n);
	if (make_keys(sorter->keys, &columns, n, &width)) {
		if (!insertion(sorter->keys, n))
			radix(sorter, n, width);
		if (start && end)
			settle_ties(sorter->keys, n, &columns);
	} else {
		qsort_r(sorter->keys, n, sizeof(*sorter->keys), by_columns, &columns);
	}
	for (uint32_t i = 0; i < n; i++)
		sorter->order[i] = sorter->keys[i].row;
	return sorter->order;
}
