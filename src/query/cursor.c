/*
 * cursor.c - rows of a table one by one in order of start.
 *
 * Blocks are opened when their earliest time is due, and merged by a heap. An open block's columns
 * are kept in the width that their values need, constant ones as one value. Their memory is
 * bounded: beyond the limit, the block whose next row is furthest away is unloaded (its position is
 * kept) and decoded again when its turn comes. So a parent range that is written a thousand blocks
 * after its start costs decoding a block twice, not a thousand blocks in memory.
 */
#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "base/mem.h"
#include "query/cursor.h"
#include "query/window.h"

size_t ws_cursor_max_bytes = (size_t)256 << 20;
enum { MIN_BLOCKS = 4 };

struct open_block {
	size_t block;
	uint64_t head; /* start of its next row */
	uint32_t next, rows;
	void *col[WS_MAX_COLUMNS]; /* rows in order of start */
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
	uint32_t list[WS_MAX_COLUMNS]; /* those that are read */
	uint32_t listed;
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

static void unload_block(struct ws_cursor *cursor, struct open_block *block)
{
	for (uint32_t column = 0; column < cursor->columns; column++) {
		free(block->col[column]);
		block->col[column] = NULL;
	}
	if (block->loaded) {
		cursor->bytes -= block->bytes;
		cursor->loaded--;
	}
	block->bytes = 0;
	block->loaded = false;
}

static void reserve_buffer(struct ws_cursor *cursor, uint32_t rows)
{
	if (rows <= cursor->buffer_rows)
		return;
	for (uint32_t column = 0; column < cursor->columns; column++)
		cursor->buffer[column] = ws_realloc(cursor->buffer[column], (size_t)rows * 8);
	cursor->order = ws_realloc(cursor->order, (size_t)rows * 2 * sizeof(*cursor->order));
	cursor->buffer_rows = rows;
}

/* The end of the ascending run of `order` that begins at `at`. */
static uint32_t run_end(const uint64_t *start, const uint32_t *order, uint32_t next, uint32_t rows)
{
	for (next++; next < rows && start[order[next - 1]] <= start[order[next]];)
		next++;
	return ws_min(next, rows);
}

/* Fills `order` with the row numbers of the buffer by start, equal ones in their original order.
 * Merges its ascending runs (one for each track) pairwise. */
static void sort_by_start(struct ws_cursor *cursor, uint32_t rows)
{
	const uint64_t *start = NULL;
	uint32_t *from = cursor->order, *to = cursor->order + cursor->buffer_rows;
	bool more = cursor->window.start >= 0;

	if (more)
		start = cursor->buffer[cursor->window.start];
	for (uint32_t first = 0; first < rows; first++)
		from[first] = first;
	while (more) {
		uint32_t at = 0, merged = 0;

		for (uint32_t begin = 0; begin < rows; merged++) {
			uint32_t mid = run_end(start, from, begin, rows),
				 end = run_end(start, from, mid, rows), left = begin, right = mid;

			while (left < mid || right < end) {
				if (right == end ||
				    (left < mid && start[from[left]] <= start[from[right]]))
					to[at++] = from[left++];
				else
					to[at++] = from[right++];
			}
			begin = end;
		}
		more = merged > 1;
		uint32_t *swapped = from;

		from = to;
		to = swapped;
	}
	if (from != cursor->order)
		memcpy(cursor->order, from, (size_t)rows * sizeof(*from));
}

static uint8_t width_for(uint64_t bits)
{
	if (bits >> 32)
		return 8;
	if (bits >> 16)
		return 4;
	if (bits >> 8)
		return 2;
	return 1;
}

static void keep_column(struct ws_cursor *cursor, struct open_block *block, uint32_t column,
			uint32_t rows)
{
	const uint64_t *values = cursor->buffer[column];
	uint64_t diff = 0, bits = 0;

	for (uint32_t i = 0; i < rows; i++) {
		diff |= values[i] ^ values[0];
		bits |= values[i];
	}
	block->constant[column] = values[0];
	if (!diff)
		return;
	block->width[column] = width_for(bits);
	block->col[column] = ws_malloc((size_t)rows * block->width[column]);
	block->bytes += (size_t)rows * block->width[column];
	for (uint32_t i = 0; i < rows; i++) {
		uint64_t value = values[cursor->order[i]];

		memcpy((char *)block->col[column] + (size_t)i * block->width[column], &value,
		       block->width[column]);
	}
}

static uint64_t read_value(const struct open_block *block, uint32_t column, uint32_t row)
{
	if (!block->col[column])
		return block->constant[column];
	switch (block->width[column]) {
	case 1:
		return ((const uint8_t *)block->col[column])[row];
	case 2:
		return ((const uint16_t *)block->col[column])[row];
	case 4:
		return ((const uint32_t *)block->col[column])[row];
	default:
		return ((const uint64_t *)block->col[column])[row];
	}
}

/* Decodes, filters and orders a block. A damaged one has no rows. */
static void load_block(struct ws_cursor *cursor, struct open_block *block)
{
	struct ws_block_info info =
		ws_report_block_info(cursor->report, cursor->table, block->block);

	reserve_buffer(cursor, info.rows);
	if (ws_report_decode_block(cursor->report, cursor->table, block->block,
				   cursor->window.columns, cursor->buffer, NULL))
		block->rows = 0;
	else
		block->rows = (uint32_t)ws_window_filter(&cursor->window, &info, cursor->buffer);
	sort_by_start(cursor, block->rows);
	for (uint32_t i = 0; block->rows && i < cursor->listed; i++)
		keep_column(cursor, block, cursor->list[i], block->rows);
	block->loaded = true;
	cursor->bytes += block->bytes;
	cursor->loaded++;
}

/* ---- the heap ---- */

static bool comes_before(const struct open_block *left, const struct open_block *right)
{
	if (left->head != right->head)
		return left->head < right->head;
	return left->block < right->block;
}

static void sift_down(struct ws_cursor *cursor, size_t at)
{
	struct open_block *block = cursor->heap[at];

	for (size_t child; (child = 2 * at + 1) < cursor->open; at = child) {
		if (child + 1 < cursor->open &&
		    comes_before(cursor->heap[child + 1], cursor->heap[child]))
			child++;
		if (!comes_before(cursor->heap[child], block))
			break;
		cursor->heap[at] = cursor->heap[child];
	}
	cursor->heap[at] = block;
}

static void push_block(struct ws_cursor *cursor, struct open_block *block)
{
	size_t at = cursor->open++;

	ws_grow(cursor->heap, cursor->open_cap, cursor->open);
	for (; at && comes_before(block, cursor->heap[(at - 1) / 2]); at = (at - 1) / 2)
		cursor->heap[at] = cursor->heap[(at - 1) / 2];
	cursor->heap[at] = block;
}

static void update_head(const struct ws_cursor *cursor, struct open_block *block)
{
	block->head = 0;
	if (cursor->window.start >= 0)
		block->head = read_value(block, (uint32_t)cursor->window.start, block->next);
}

/* Unloads the blocks whose rows are needed last until the rest fits. */
static void bound_memory(struct ws_cursor *cursor, const struct open_block *wanted)
{
	while (cursor->bytes > ws_cursor_max_bytes && cursor->loaded > MIN_BLOCKS) {
		struct open_block *last = NULL;

		for (size_t i = 0; i < cursor->open; i++)
			if (cursor->heap[i]->loaded && cursor->heap[i] != wanted &&
			    (!last || comes_before(last, cursor->heap[i])))
				last = cursor->heap[i];
		if (!last)
			return;
		unload_block(cursor, last);
	}
}

static void close_block(struct ws_cursor *cursor, struct open_block *block)
{
	unload_block(cursor, block);
	free(block);
}

static void pop_block(struct ws_cursor *cursor)
{
	close_block(cursor, cursor->heap[0]);
	cursor->heap[0] = cursor->heap[--cursor->open];
	if (cursor->open)
		sift_down(cursor, 0);
}

static void open_next_block(struct ws_cursor *cursor)
{
	struct open_block *block = ws_calloc(1, sizeof(*block));

	block->block = cursor->todo[cursor->todo_next++];
	load_block(cursor, block);
	if (!block->rows) {
		close_block(cursor, block);
		return;
	}
	update_head(cursor, block);
	push_block(cursor, block);
	bound_memory(cursor, block);
}

/* ---- the interface ---- */

static int compare_times(const void *first, const void *second, void *ctx)
{
	const struct ws_cursor *cursor = ctx;
	size_t first_block = *(const size_t *)first, second_block = *(const size_t *)second;
	uint64_t first_time =
			 ws_report_block_info(cursor->report, cursor->table, first_block).time_min,
		 second_time =
			 ws_report_block_info(cursor->report, cursor->table, second_block).time_min;

	if (first_time != second_time)
		return ws_compare(first_time, second_time);
	return ws_compare(first_block, second_block);
}

struct ws_cursor *ws_cursor_open(const struct ws_report *report, enum ws_table table,
				 uint64_t time_min, uint64_t time_max)
{
	return ws_cursor_open_columns(report, table, UINT64_MAX, time_min, time_max);
}

struct ws_cursor *ws_cursor_open_columns(const struct ws_report *report, enum ws_table table,
					 uint64_t columns, uint64_t time_min, uint64_t time_max)
{
	struct ws_cursor *cursor = ws_calloc(1, sizeof(*cursor));
	size_t blocks = ws_report_count_blocks(report, table);

	cursor->report = report;
	cursor->table = table;
	cursor->columns = ws_tables[table].column_count;
	cursor->window = ws_make_window(table, columns, time_min, time_max);
	for (uint32_t column = 0; column < cursor->columns; column++)
		if (cursor->window.columns >> column & 1)
			cursor->list[cursor->listed++] = column;
	cursor->todo = ws_calloc(blocks + 1, sizeof(*cursor->todo));
	for (size_t i = 0; i < blocks; i++) {
		struct ws_block_info info = ws_report_block_info(report, table, i);

		if (ws_window_touches(&cursor->window, info.time_min, info.time_max))
			cursor->todo[cursor->todo_count++] = i;
	}
	if (cursor->window.start >= 0 && cursor->todo_count)
		qsort_r(cursor->todo, cursor->todo_count, sizeof(*cursor->todo), compare_times,
			cursor);
	return cursor;
}

static bool next_block_is_due(const struct ws_cursor *cursor)
{
	if (cursor->todo_next == cursor->todo_count)
		return false;
	/* Without a start, blocks follow one another. */
	return !cursor->open ||
	       (cursor->window.start >= 0 &&
		ws_report_block_info(cursor->report, cursor->table, cursor->todo[cursor->todo_next])
				.time_min <= cursor->heap[0]->head);
}

/* The block that has the next row, loaded; NULL at the end. */
static struct open_block *first_block(struct ws_cursor *cursor)
{
	for (;;) {
		struct open_block *block;

		while (next_block_is_due(cursor))
			open_next_block(cursor);
		if (!cursor->open)
			return NULL;
		block = cursor->heap[0];
		if (!block->loaded) {
			load_block(cursor, block);
			bound_memory(cursor, block);
		}
		if (block->next < block->rows)
			return block;
		pop_block(cursor); /* it could be read before, but no longer */
	}
}

bool ws_cursor_next(struct ws_cursor *cursor, const uint64_t **values)
{
	struct open_block *block = first_block(cursor);

	if (!block)
		return false;
	for (uint32_t i = 0; i < cursor->listed; i++)
		cursor->row[cursor->list[i]] = read_value(block, cursor->list[i], block->next);
	*values = cursor->row;
	if (++block->next == block->rows) {
		pop_block(cursor);
	} else {
		update_head(cursor, block);
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
	for (uint32_t column = 0; column < cursor->columns; column++)
		free(cursor->buffer[column]);
	free(cursor->order);
	free(cursor->todo);
	free(cursor->heap);
	free(cursor);
}
