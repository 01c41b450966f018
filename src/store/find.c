/*
 * find.c - which blocks a file has: from its index, or without one by walking from block to block.
 *
 * The walk trusts a block header when its checksum is right, and steps over the body. Where no
 * header stands, it looks for the next block magic (blocks stand at multiples of 8) and says how
 * many bytes it had to leave out. What those bytes held shows in the numbering: each block says how
 * many rows of its table came before it.
 */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/mem.h"
#include "store/file.h"
#include "store/report.h"

enum { FIRST_SEARCH_BYTES = 1 << 12, SEARCH_BYTES = 1 << 20 };

static bool head_is_sane(const struct ws_block_head *h)
{
	if (h->body_bytes > WS_MAX_BODY)
		return false;
	switch (h->type) {
	case WS_BLOCK_ROWS:
		return h->rows >= 1 && h->rows <= WS_MAX_BLOCK_ROWS &&
		       h->columns <= WS_MAX_FILE_COLUMNS && h->table < WS_MAX_FILE_TABLES;
	case WS_BLOCK_STRINGS:
		return h->rows >= 1 && h->rows <= WS_MAX_BLOCK_STRINGS && h->raw <= WS_MAX_TEXT &&
		       h->first >= 1 && h->first + h->rows <= (UINT64_C(1) << 32);
	default:
		return true;
	}
}

static uint64_t block_bytes(const struct ws_block_head *h)
{
	return sizeof(struct ws_block_header) + WS_ALIGN_UP(h->body_bytes, WS_BLOCK_ALIGN);
}

/* Whether an intact header stands at `at` and its body ends within the file. */
static bool header_at(const struct ws_report *r, uint64_t at, struct ws_block *b)
{
	struct ws_block_header h;

	if (r->size < sizeof(h) || at > r->size - sizeof(h) ||
	    ws_pread_all(r->fd, &h, sizeof(h), at))
		return false;
	if (memcmp(h.magic, WS_BLOCK_MAGIC, 8) || h.check != XXH3_64bits(&h.head, sizeof(h.head)) ||
	    !head_is_sane(&h.head))
		return false;
	*b = (struct ws_block){.offset = at, .head = h.head};
	return h.head.body_bytes <= r->size - at - sizeof(h);
}

static void add(struct ws_block_list *l, const struct ws_block *b)
{
	ws_grow(l->v, l->cap, l->n + 1);
	l->v[l->n++] = *b;
}

/* ---- by index ---- */

static bool take_entry(struct ws_report *r, const struct ws_index_entry *x, uint64_t *last_end,
		       uint64_t limit)
{
	struct ws_block b = {.offset = x->offset, .head = x->head};

	if (!head_is_sane(&x->head) || x->offset % WS_BLOCK_ALIGN || x->offset < *last_end ||
	    x->offset > limit || block_bytes(&x->head) > limit - x->offset)
		return false;
	*last_end = x->offset + block_bytes(&x->head);
	add(&r->all, &b);
	return true;
}

static bool take_index(struct ws_report *r, const uint8_t *body, const struct ws_block *index)
{
	uint64_t last_end = sizeof(struct ws_file_header);
	struct ws_index_entry x;

	if (index->head.body_bytes != (uint64_t)index->head.rows * sizeof(x))
		return false;
	for (uint32_t i = 0; i < index->head.rows; i++) {
		memcpy(&x, body + (size_t)i * sizeof(x), sizeof(x));
		if (!take_entry(r, &x, &last_end, index->offset)) {
			r->all.n = 0;
			return false;
		}
	}
	return true;
}

static bool by_index(struct ws_report *r)
{
	struct ws_trailer t;
	struct ws_workspace *w;
	struct ws_block index;
	const uint8_t *body;
	bool ok;

	if (r->size < sizeof(t) + sizeof(struct ws_file_header) ||
	    ws_pread_all(r->fd, &t, sizeof(t), r->size - sizeof(t)))
		return false;
	if (memcmp(t.magic, WS_TRAILER_MAGIC, 8) ||
	    t.check != XXH3_64bits(&t, offsetof(struct ws_trailer, check)) ||
	    t.file_bytes != r->size || !header_at(r, t.index_offset, &index) ||
	    index.head.type != WS_BLOCK_INDEX)
		return false;
	w = ws_workspace_take(r);
	body = ws_block_body(r, &index, w, NULL);
	ok = body && take_index(r, body, &index);
	ws_workspace_give(r, w);
	return ok;
}

/* ---- by walking ---- */

/* The next place from `from` on where an intact header stands, or the size of the file. */
static uint64_t search(const struct ws_report *r, uint64_t from)
{
	uint8_t *buffer = ws_malloc(SEARCH_BYTES);
	uint64_t magic, word, found = r->size;
	size_t step = FIRST_SEARCH_BYTES; /* small at first: a file may be full of small gaps */
	struct ws_block b;

	memcpy(&magic, WS_BLOCK_MAGIC, 8);
	for (uint64_t at = WS_ALIGN_UP(from, WS_BLOCK_ALIGN); at < r->size && found == r->size;) {
		size_t n = r->size - at < step ? r->size - at : step;

		if (ws_pread_all(r->fd, buffer, n, at))
			break;
		for (size_t i = 0; i + 8 <= n; i += 8) {
			memcpy(&word, buffer + i, 8);
			if (word == magic && header_at(r, at + i, &b)) {
				found = at + i;
				break;
			}
		}
		at += n;
		step = step * 4 < SEARCH_BYTES ? step * 4 : SEARCH_BYTES;
	}
	free(buffer);
	return found;
}

static void walk(struct ws_report *r)
{
	uint64_t at = sizeof(struct ws_file_header);
	struct ws_block b;

	while (at < r->size) {
		if (header_at(r, at, &b)) {
			add(&r->all, &b);
			at += block_bytes(&b.head);
			continue;
		}
		uint64_t next = search(r, at + WS_BLOCK_ALIGN);

		if (next >= r->size) {
			r->rest = r->size - at;
			return;
		}
		ws_report_say(r, "%llu bytes from offset %llu on are damaged and were left out",
			      (unsigned long long)(next - at), (unsigned long long)at);
		at = next;
	}
}

void ws_report_find_blocks(struct ws_report *r)
{
	r->indexed = by_index(r);
	if (!r->indexed)
		walk(r);
}
