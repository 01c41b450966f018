/*
 * sort.c - see sort.h.
 *
 * Rows mostly arrive in order, or nearly: a range is written when it closes, so a parent follows
 * its children; a drain takes one thread after the other. So the order is checked first; then comes
 * an insertion sort with a budget of moves, which settles nesting; then, from the point that it
 * reached, a radix sort. Track and start share one 64-bit key; where a block's values are so far
 * apart that they do not fit (never in a recording, but reports are also made from other people's
 * data), a merge sort by comparison takes over.
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
	free(sorter->scratch);
	free(sorter->order);
	*sorter = (struct ws_sorter){0};
}

static bool is_before(const struct columns *columns, uint32_t a, uint32_t b)
{
	if (columns->track && columns->track[a] != columns->track[b])
		return columns->track[a] < columns->track[b];
	if (columns->start && columns->start[a] != columns->start[b])
		return columns->start[a] < columns->start[b];
	return columns->end && columns->start && columns->end[a] > columns->end[b];
}

static bool is_in_order(const struct columns *columns, uint32_t rows)
{
	for (uint32_t i = 1; i < rows; i++)
		if (is_before(columns, i, i - 1))
			return false;
	return true;
}

static int compare_by_columns(const void *first, const void *second, void *ctx)
{
	uint32_t first_row = ((const struct ws_sort_key *)first)->row,
		 second_row = ((const struct ws_sort_key *)second)->row;

	if (is_before(ctx, first_row, second_row))
		return -1;
	if (is_before(ctx, second_row, first_row))
		return 1;
	return ws_compare(first_row, second_row);
}

static void find_bounds(const uint64_t *values, uint32_t rows, uint64_t *low, uint64_t *range)
{
	uint64_t smallest = UINT64_MAX, largest = 0;

	*low = 0;
	*range = 0;
	if (!values || !rows)
		return;
	for (uint32_t i = 0; i < rows; i++) {
		smallest = ws_min(values[i], smallest);
		largest = ws_max(values[i], largest);
	}
	*low = smallest;
	*range = largest - smallest;
}

static uint32_t bit_width(uint64_t number)
{
	if (!number)
		return 0;
	return 64 - (uint32_t)__builtin_clzll(number);
}

/* Puts track and start into one number; false when they do not fit. *width gets the number's bits.
 */
static bool make_keys(struct ws_sort_key *sort_key, const struct columns *columns, uint32_t rows,
		      uint32_t *width)
{
	uint64_t track_low, track_range, start_low, start_range;
	uint32_t shift;

	find_bounds(columns->track, rows, &track_low, &track_range);
	find_bounds(columns->start, rows, &start_low, &start_range);
	shift = bit_width(start_range);
	*width = shift + bit_width(track_range);
	for (uint32_t i = 0; i < rows; i++)
		sort_key[i].row = i;
	if (*width > 64)
		return false;
	for (uint32_t i = 0; i < rows; i++) {
		uint64_t key = 0;

		if (columns->track && shift < 64)
			key = (columns->track[i] - track_low) << shift;
		if (columns->start)
			key |= columns->start[i] - start_low;
		sort_key[i].key = key;
	}
	return true;
}

/* Gives up when it has moved more than its budget, which grows with the rows done, so that rows far
 * out of place end it early. */
static bool insertion_sort(struct ws_sort_key *sort_key, uint32_t rows)
{
	uint64_t moves = 0;

	for (uint32_t i = 1; i < rows; i++) {
		struct ws_sort_key moving = sort_key[i];
		uint32_t j = i, least = i - ws_min(i, (uint32_t)FARTHEST);

		while (j > least && sort_key[j - 1].key > moving.key) {
			sort_key[j] = sort_key[j - 1];
			j--;
		}
		sort_key[j] = moving;
		moves += i - j;
		if ((j && sort_key[j - 1].key > moving.key) ||
		    moves > FREE_MOVES + (uint64_t)i * MOVES_PER_ROW)
			return false;
	}
	return true;
}

/* One pass; returns false when all keys have the same digit and nothing moved. */
static bool radix_pass(const struct ws_sort_key *from, struct ws_sort_key *to, uint32_t rows,
		       uint32_t shift)
{
	uint32_t count[1 << DIGIT_BITS] = {0}, sum = 0, mask = (1 << DIGIT_BITS) - 1;

	for (uint32_t i = 0; i < rows; i++)
		count[from[i].key >> shift & mask]++;
	if (count[from[0].key >> shift & mask] == rows)
		return false;
	for (uint32_t digit = 0; digit <= mask; digit++) {
		uint32_t digit_count = count[digit];

		count[digit] = sum;
		sum += digit_count;
	}
	for (uint32_t i = 0; i < rows; i++)
		to[count[from[i].key >> shift & mask]++] = from[i];
	return true;
}

static void radix_sort(struct ws_sorter *sorter, uint32_t rows, uint32_t width)
{
	for (uint32_t shift = 0; shift < width; shift += DIGIT_BITS)
		if (radix_pass(sorter->keys, sorter->scratch, rows, shift)) {
			struct ws_sort_key *sort_key = sorter->keys;

			sorter->keys = sorter->scratch;
			sorter->scratch = sort_key;
		}
}

static void sort_ties(struct ws_sort_key *sort_key, uint32_t rows, const struct columns *columns)
{
	if (rows > TIES_BY_INSERTION) {
		qsort_r(sort_key, rows, sizeof(*sort_key), compare_by_columns, (void *)columns);
		return;
	}
	for (uint32_t i = 1; i < rows; i++) {
		struct ws_sort_key moving = sort_key[i];
		uint32_t j = i;

		for (; j > 0 && columns->end[sort_key[j - 1].row] < columns->end[moving.row]; j--)
			sort_key[j] = sort_key[j - 1];
		sort_key[j] = moving;
	}
}

static void settle_ties(struct ws_sort_key *sort_key, uint32_t rows, const struct columns *columns)
{
	for (uint32_t i = 0, end; i < rows; i = end) {
		for (end = i + 1; end < rows && sort_key[end].key == sort_key[i].key;)
			end++;
		if (end - i > 1)
			sort_ties(sort_key + i, end - i, columns);
	}
}

static void reserve_sorter(struct ws_sorter *sorter, uint32_t rows)
{
	if (rows <= sorter->cap)
		return;
	ws_sorter_free(sorter);
	sorter->keys = ws_malloc((size_t)rows * sizeof(*sorter->keys));
	sorter->scratch = ws_malloc((size_t)rows * sizeof(*sorter->scratch));
	sorter->order = ws_malloc((size_t)rows * sizeof(*sorter->order));
	sorter->cap = rows;
}

const uint32_t *ws_find_row_order(struct ws_sorter *sorter, const uint64_t *track,
				  const uint64_t *start, const uint64_t *end, uint32_t rows)
{
	struct columns columns = {track, start, end};
	uint32_t width;

	if (is_in_order(&columns, rows))
		return NULL;
	reserve_sorter(sorter, rows);
	if (make_keys(sorter->keys, &columns, rows, &width)) {
		if (!insertion_sort(sorter->keys, rows))
			radix_sort(sorter, rows, width);
		if (start && end)
			settle_ties(sorter->keys, rows, &columns);
	} else {
		qsort_r(sorter->keys, rows, sizeof(*sorter->keys), compare_by_columns, &columns);
	}
	for (uint32_t i = 0; i < rows; i++)
		sorter->order[i] = sorter->keys[i].row;
	return sorter->order;
}
