/*
 * cursor.c - rows of a table one by one in order of start.
 *
 * Blocks are opened when their earliest time comes up, and merged by a heap. An open block's
 * columns are kept in the width that their values need, constant ones as one value; and what is
 * kept is bounded: beyond that the block whose next row is furthest away is put aside (its position
 * stays) and decoded again when its turn comes. So one parent range that is written a thousand
 * blocks after its start costs a second decoding of a block, not a thousand blocks in memory.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "query/cursor.h"
#include "query/window.h"

size_t ws_cursor_most_bytes = (size_t)256 << 20;
enum { FEWEST_BLOCKS = 4 };

struct open_block {
	size_t block;
	uint64_t head; /* start of its next row */
	uint32_t next, rows;
	void *col[WS_MAX_COLUMNS]; /* in order of start; NULL: constant */
	uint64_t constant[WS_MAX_COLUMNS];
	uint8_t width[WS_MAX_COLUMNS];
	size_t bytes;
	bool loaded;
};

struct ws_cursor {
	const struct ws_report *report;
	enum ws_table table;
	struct ws_window window;
	uint32_t columns;
	size_t *todo; /* blocks by their earliest time */
	size_t todo_count, todo_next;
	struct open_block **heap;
	size_t open, open_cap;
	size_t bytes, loaded;
	uint64_t *buffer[WS_MAX_COLUMNS]; /* a decoded block */
	uint32_t buffer_rows;
	uint32_t *order;
	uint64_t row[WS_MAX_COLUMNS];
};

/* ---- one block ---- */

static void unload(struct ws_cursor *cursor, struct open_block *block)
{
	for (uint32_t k = 0; k < cursor->columns; k++) {
		free(block->col[k]);
		block->col[k] = NULL;
	}
	if (block->loaded) {
		cursor->bytes -= block->bytes;
		cursor->loaded--;
	}
	block->bytes = 0;
	block->loaded = false;
}

static void make_room(struct ws_cursor *cursor, uint32_t rows)
{
	if (rows <= cursor->buffer_rows)
		return;
	for (uint32_t k = 0; k < cursor->columns; k++)
		cursor->buffer[k] = ws_realloc(cursor->buffer[k], (size_t)rows * 8);
	cursor->order = ws_realloc(cursor->order, (size_t)rows * 2 * sizeof(*cursor->order));
	cursor->buffer_rows = rows;
}

/* Row numbers of the buffer by start, equal ones as they stand: merging its ascending runs (one a
 * track) pairwise. */
static void order_by_start(struct ws_cursor *cursor, uint32_t n)
{
	const uint64_t *start =
		cursor->window.start >= 0 ? cursor->buffer[cursor->window.start] : NULL;
	uint32_t *from = cursor->order, *to = cursor->order + cursor->buffer_rows;
	bool more = start != NULL;

	for (uint32_t i = 0; i < n; i++)
		from[i] = i;
	while (more) {
		uint32_t at = 0, merged = 0;

		for (uint32_t i = 0; i < n; merged++) {
			uint32_t mid = i + 1, end, a, b;

			while (mid < n && start[from[mid - 1]] <= start[from[mid]])
				mid++;
			for (end = mid < n ? mid + 1 : n;
			     end < n && start[from[end - 1]] <= start[from[end]];)
				end++;
			for (a = i, b = mid; a < mid || b < end;)
				to[at++] = b == end || (a < mid && start[from[a]] <= start[from[b]])
						   ? from[a++]
						   : from[b++];
			i = end;
		}
		more = merged > 1;
		uint32_t *t = from;

		from = to;
		to = t;
	}
	if (from != cursor->order)
		memcpy(cursor->order, from, (size_t)n * sizeof(*from));
}

static uint8_t width_of(uint64_t bits)
{
	return bits >> 32 ? 8 : bits >> 16 ? 4 : bits >> 8 ? 2 : 1;
}

static void keep_column(struct ws_cursor *cursor, struct open_block *block, uint32_t k, uint32_t n)
{
	const uint64_t *values = cursor->buffer[k];
	uint64_t diff = 0, bits = 0;

	for (uint32_t i = 0; i < n; i++) {
		diff |= values[i] ^ values[0];
		bits |= values[i];
	}
	block->constant[k] = values[0];
	if (!diff)
		return;
	block->width[k] = width_of(bits);
	block->col[k] = ws_malloc((size_t)n * block->width[k]);
	block->bytes += (size_t)n * block->width[k];
	for (uint32_t i = 0; i < n; i++) {
		uint64_t x = values[cursor->order[i]];

		memcpy((char *)block->col[k] + (size_t)i * block->width[k], &x, block->width[k]);
	}
}

static uint64_t value(const struct open_block *block, uint32_t k, uint32_t i)
{
	switch (block->col[k] ? block->width[k] : 0) {
	case 0:
		return block->constant[k];
	case 1:
		return ((const uint8_t *)block->col[k])[i];
	case 2:
		return ((const uint16_t *)block->col[k])[i];
	case 4:
		return ((const uint32_t *)block->col[k])[i];
	default:
		return ((const uint64_t *)block->col[k])[i];
	}
}

/* Decode, filter, order. A damaged block has no rows. */
static void load(struct ws_cursor *cursor, struct open_block *block)
{
	struct ws_block_info info = ws_report_block(cursor->report, cursor->table, block->block);

	make_room(cursor, info.rows);
	if (ws_report_decode(cursor->report, cursor->table, block->block, UINT64_MAX,
			     cursor->buffer, NULL))
		block->rows = 0;
	else
		block->rows = (uint32_t)ws_window_filter(&cursor->window, &info, cursor->buffer);
	order_by_start(cursor, block->rows);
	for (uint32_t k = 0; block->rows && k < cursor->columns; k++)
		keep_column(cursor, block, k, block->rows);
	block->loaded = true;
	cursor->bytes += block->bytes;
	cursor->loaded++;
}

/* ---- the heap ---- */

static bool less(const struct open_block *left, const struct open_block *right)
{
	return left->head != right->head ? left->head < right->head : left->block < right->block;
}

static void sift_down(struct ws_cursor *cursor, size_t i)
{
	struct open_block *block = cursor->heap[i];

	for (size_t k; (k = 2 * i + 1) < cursor->open; i = k) {
		if (k + 1 < cursor->open && less(cursor->heap[k + 1], cursor->heap[k]))
			k++;
		if (!less(cursor->heap[k], block))
			break;
		cursor->heap[i] = cursor->heap[k];
	}
	cursor->heap[i] = block;
}

static void push(struct ws_cursor *cursor, struct open_block *block)
{
	size_t i = cursor->open++;

	ws_grow(cursor->heap, cursor->open_cap, cursor->open);
	for (; i && less(block, cursor->heap[(i - 1) / 2]); i = (i - 1) / 2)
		cursor->heap[i] = cursor->heap[(i - 1) / 2];
	cursor->heap[i] = block;
}

static void set_head(const struct ws_cursor *cursor, struct open_block *block)
{
	block->head = cursor->window.start >= 0
			      ? value(block, (uint32_t)cursor->window.start, block->next)
			      : 0;
}

/* Put aside what is needed last until the rest fits. */
static void bound_memory(struct ws_cursor *cursor, const struct open_block *wanted)
{
	while (cursor->bytes > ws_cursor_most_bytes && cursor->loaded > FEWEST_BLOCKS) {
		struct open_block *last = NULL;

		for (size_t i = 0; i < cursor->open; i++)
			if (cursor->heap[i]->loaded && cursor->heap[i] != wanted &&
			    (!last || less(last, cursor->heap[i])))
				last = cursor->heap[i];
		if (!last)
			return;
		unload(cursor, last);
	}
}

static void close_block(struct ws_cursor *cursor, struct open_block *block)
{
	unload(cursor, block);
	free(block);
}

static void pop_block(struct ws_cursor *cursor)
{
	close_block(cursor, cursor->heap[0]);
	cursor->heap[0] = cursor->heap[--cursor->open];
	if (cursor->open)
		sift_down(cursor, 0);
}

static void open_next(struct ws_cursor *cursor)
{
	struct open_block *block = ws_calloc(1, sizeof(*block));

	block->block = cursor->todo[cursor->todo_next++];
	load(cursor, block);
	if (!block->rows) {
		close_block(cursor, block);
		return;
	}
	set_head(cursor, block);
	push(cursor, block);
	bound_memory(cursor, block);
}

/* ---- the interface ---- */

static int by_time(const void *first, const void *second, void *ctx)
{
	const struct ws_cursor *cursor = ctx;
	size_t x = *(const size_t *)first, y = *(const size_t *)second;
	uint64_t s = ws_report_block(cursor->report, cursor->table, x).time_min,
		 t = ws_report_block(cursor->report, cursor->table, y).time_min;

	return s != t ? (s < t ? -1 : 1) : x < y ? -1 : 1;
}

struct ws_cursor *ws_cursor_open(const struct ws_report *report, enum ws_table table,
				 uint64_t time_min, uint64_t time_max)
{
	struct ws_cursor *cursor = ws_calloc(1, sizeof(*cursor));
	size_t blocks = ws_report_blocks(report, table);

	cursor->report = report;
	cursor->table = table;
	cursor->columns = ws_tables[table].column_count;
	cursor->window = ws_window_new(table, UINT64_MAX, time_min, time_max);
	cursor->todo = ws_calloc(blocks + 1, sizeof(*cursor->todo));
	for (size_t i = 0; i < blocks; i++) {
		struct ws_block_info info = ws_report_block(report, table, i);

		if (ws_window_touches(&cursor->window, info.time_min, info.time_max))
			cursor->todo[cursor->todo_count++] = i;
	}
	if (cursor->window.start >= 0 && cursor->todo_count)
		qsort_r(cursor->todo, cursor->todo_count, sizeof(*cursor->todo), by_time, cursor);
	return cursor;
}

static bool next_block_is_due(const struct ws_cursor *cursor)
{
	if (cursor->todo_next == cursor->todo_count)
		return false;
	/* Without a start, blocks follow one another. */
	return !cursor->open ||
	       (cursor->window.start >= 0 &&
		ws_report_block(cursor->report, cursor->table, cursor->todo[cursor->todo_next])
				.time_min <= cursor->heap[0]->head);
}

/* The block that has the next row, loaded; NULL at the end. */
static struct open_block *first_block(struct ws_cursor *cursor)
{
	for (;;) {
		struct open_block *block;

		while (next_block_is_due(cursor))
			open_next(cursor);
		if (!cursor->open)
			return NULL;
		block = cursor->heap[0];
		if (!block->loaded) {
			load(cursor, block);
			bound_memory(cursor, block);
		}
		if (block->next < block->rows)
			return block;
		pop_block(cursor); /* it could be read before, and now it cannot */
	}
}

bool ws_cursor_next(struct ws_cursor *cursor, const uint64_t **values)
{
	struct open_block *block = first_block(cursor);

	if (!block)
		return false;
	for (uint32_t k = 0; k < cursor->columns; k++)
		cursor->row[k] = value(block, k, block->next);
	*values = cursor->row;
	if (++block->next == block->rows) {
		pop_block(cursor);
	} else {
		set_head(cursor, block);
		sift_down(cursor, 0);
	}
	return true;
}

void ws_cursor_close(struct ws_cursor *cursor)
{
	if (!cursor)
		return;
	for (size_t i = 0; i < cursor->open; i++)
		close_block(cursor, cursor->heap[i]);
	for (uint32_t k = 0; k < cursor->columns; k++)
		free(cursor->buffer[k]);
	free(cursor->order);
	free(cursor->todo);
	free(cursor->heap);
	free(cursor);
}
