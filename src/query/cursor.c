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
	const struct ws_report *r;
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

static void unload(struct ws_cursor *c, struct open_block *b)
{
	for (uint32_t k = 0; k < c->columns; k++) {
		free(b->col[k]);
		b->col[k] = NULL;
	}
	if (b->loaded) {
		c->bytes -= b->bytes;
		c->loaded--;
	}
	b->bytes = 0;
	b->loaded = false;
}

static void make_room(struct ws_cursor *c, uint32_t rows)
{
	if (rows <= c->buffer_rows)
		return;
	for (uint32_t k = 0; k < c->columns; k++)
		c->buffer[k] = ws_realloc(c->buffer[k], (size_t)rows * 8);
	c->order = ws_realloc(c->order, (size_t)rows * 2 * sizeof(*c->order));
	c->buffer_rows = rows;
}

/* Row numbers of the buffer by start, equal ones as they stand: merging its ascending runs (one a
 * track) pairwise. */
static void order_by_start(struct ws_cursor *c, uint32_t n)
{
	const uint64_t *start = c->window.start >= 0 ? c->buffer[c->window.start] : NULL;
	uint32_t *from = c->order, *to = c->order + c->buffer_rows;
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
	if (from != c->order)
		memcpy(c->order, from, (size_t)n * sizeof(*from));
}

static uint8_t width_of(uint64_t bits)
{
	return bits >> 32 ? 8 : bits >> 16 ? 4 : bits >> 8 ? 2 : 1;
}

static void keep_column(struct ws_cursor *c, struct open_block *b, uint32_t k, uint32_t n)
{
	const uint64_t *v = c->buffer[k];
	uint64_t diff = 0, bits = 0;

	for (uint32_t i = 0; i < n; i++) {
		diff |= v[i] ^ v[0];
		bits |= v[i];
	}
	b->constant[k] = v[0];
	if (!diff)
		return;
	b->width[k] = width_of(bits);
	b->col[k] = ws_malloc((size_t)n * b->width[k]);
	b->bytes += (size_t)n * b->width[k];
	for (uint32_t i = 0; i < n; i++) {
		uint64_t x = v[c->order[i]];

		memcpy((char *)b->col[k] + (size_t)i * b->width[k], &x, b->width[k]);
	}
}

static uint64_t value(const struct open_block *b, uint32_t k, uint32_t i)
{
	switch (b->col[k] ? b->width[k] : 0) {
	case 0:
		return b->constant[k];
	case 1:
		return ((const uint8_t *)b->col[k])[i];
	case 2:
		return ((const uint16_t *)b->col[k])[i];
	case 4:
		return ((const uint32_t *)b->col[k])[i];
	default:
		return ((const uint64_t *)b->col[k])[i];
	}
}

/* Decode, filter, order. A damaged block has no rows. */
static void load(struct ws_cursor *c, struct open_block *b)
{
	struct ws_block_info info = ws_report_block(c->r, c->table, b->block);

	make_room(c, info.rows);
	if (ws_report_decode(c->r, c->table, b->block, UINT64_MAX, c->buffer, NULL))
		b->rows = 0;
	else
		b->rows = (uint32_t)ws_window_filter(&c->window, &info, c->buffer);
	order_by_start(c, b->rows);
	for (uint32_t k = 0; b->rows && k < c->columns; k++)
		keep_column(c, b, k, b->rows);
	b->loaded = true;
	c->bytes += b->bytes;
	c->loaded++;
}

/* ---- the heap ---- */

static bool less(const struct open_block *a, const struct open_block *b)
{
	return a->head != b->head ? a->head < b->head : a->block < b->block;
}

static void sift_down(struct ws_cursor *c, size_t i)
{
	struct open_block *x = c->heap[i];

	for (size_t k; (k = 2 * i + 1) < c->open; i = k) {
		if (k + 1 < c->open && less(c->heap[k + 1], c->heap[k]))
			k++;
		if (!less(c->heap[k], x))
			break;
		c->heap[i] = c->heap[k];
	}
	c->heap[i] = x;
}

static void push(struct ws_cursor *c, struct open_block *b)
{
	size_t i = c->open++;

	ws_grow(c->heap, c->open_cap, c->open);
	for (; i && less(b, c->heap[(i - 1) / 2]); i = (i - 1) / 2)
		c->heap[i] = c->heap[(i - 1) / 2];
	c->heap[i] = b;
}

static void set_head(const struct ws_cursor *c, struct open_block *b)
{
	b->head = c->window.start >= 0 ? value(b, (uint32_t)c->window.start, b->next) : 0;
}

/* Put aside what is needed last until the rest fits. */
static void bound_memory(struct ws_cursor *c, const struct open_block *wanted)
{
	while (c->bytes > ws_cursor_most_bytes && c->loaded > FEWEST_BLOCKS) {
		struct open_block *last = NULL;

		for (size_t i = 0; i < c->open; i++)
			if (c->heap[i]->loaded && c->heap[i] != wanted &&
			    (!last || less(last, c->heap[i])))
				last = c->heap[i];
		if (!last)
			return;
		unload(c, last);
	}
}

static void close_block(struct ws_cursor *c, struct open_block *b)
{
	unload(c, b);
	free(b);
}

static void pop_block(struct ws_cursor *c)
{
	close_block(c, c->heap[0]);
	c->heap[0] = c->heap[--c->open];
	if (c->open)
		sift_down(c, 0);
}

static void open_next(struct ws_cursor *c)
{
	struct open_block *b = ws_calloc(1, sizeof(*b));

	b->block = c->todo[c->todo_next++];
	load(c, b);
	if (!b->rows) {
		close_block(c, b);
		return;
	}
	set_head(c, b);
	push(c, b);
	bound_memory(c, b);
}

/* ---- the interface ---- */

static int by_time(const void *a, const void *b, void *ctx)
{
	const struct ws_cursor *c = ctx;
	size_t x = *(const size_t *)a, y = *(const size_t *)b;
	uint64_t s = ws_report_block(c->r, c->table, x).time_min,
		 t = ws_report_block(c->r, c->table, y).time_min;

	return s != t ? (s < t ? -1 : 1) : x < y ? -1 : 1;
}

struct ws_cursor *ws_cursor_open(const struct ws_report *r, enum ws_table t, uint64_t time_min,
				 uint64_t time_max)
{
	struct ws_cursor *c = ws_calloc(1, sizeof(*c));
	size_t blocks = ws_report_blocks(r, t);

	c->r = r;
	c->table = t;
	c->columns = ws_tables[t].column_count;
	c->window = ws_window_new(t, UINT64_MAX, time_min, time_max);
	c->todo = ws_calloc(blocks + 1, sizeof(*c->todo));
	for (size_t i = 0; i < blocks; i++) {
		struct ws_block_info info = ws_report_block(r, t, i);

		if (ws_window_touches(&c->window, info.time_min, info.time_max))
			c->todo[c->todo_count++] = i;
	}
	if (c->window.start >= 0 && c->todo_count)
		qsort_r(c->todo, c->todo_count, sizeof(*c->todo), by_time, c);
	return c;
}

static bool next_block_is_due(const struct ws_cursor *c)
{
	if (c->todo_next == c->todo_count)
		return false;
	/* Without a start, blocks follow one another. */
	return !c->open || (c->window.start >= 0 &&
			    ws_report_block(c->r, c->table, c->todo[c->todo_next]).time_min <=
				    c->heap[0]->head);
}

/* The block that has the next row, loaded; NULL at the end. */
static struct open_block *first_block(struct ws_cursor *c)
{
	for (;;) {
		struct open_block *b;

		while (next_block_is_due(c))
			open_next(c);
		if (!c->open)
			return NULL;
		b = c->heap[0];
		if (!b->loaded) {
			load(c, b);
			bound_memory(c, b);
		}
		if (b->next < b->rows)
			return b;
		pop_block(c); /* it could be read before, and now it cannot */
	}
}

bool ws_cursor_next(struct ws_cursor *c, const uint64_t **values)
{
	struct open_block *b = first_block(c);

	if (!b)
		return false;
	for (uint32_t k = 0; k < c->columns; k++)
		c->row[k] = value(b, k, b->next);
	*values = c->row;
	if (++b->next == b->rows) {
		pop_block(c);
	} else {
		set_head(c, b);
		sift_down(c, 0);
	}
	return true;
}

void ws_cursor_close(struct ws_cursor *c)
{
	if (!c)
		return;
	for (size_t i = 0; i < c->open; i++)
		close_block(c, c->heap[i]);
	for (uint32_t k = 0; k < c->columns; k++)
		free(c->buffer[k]);
	free(c->order);
	free(c->todo);
	free(c->heap);
	free(c);
}
