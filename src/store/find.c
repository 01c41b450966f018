/*
 * find.c - which blocks a file has: from its index, or without one by walking from block to block.
 *
 * The walk trusts a block header whose checksum is right, and steps over the body. Where there is
 * no header, it searches for the next block magic (blocks begin at multiples of 8) and reports how
 * many bytes it had to leave out. The numbering shows what is missing: each block says how many
 * rows of its table came before it.
 */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/choose.h"
#include "base/mem.h"
#include "store/file.h"
#include "store/report.h"

enum { FIRST_SEARCH_BYTES = 1 << 12, SEARCH_BYTES = 1 << 20 };

static bool head_is_sane(const struct ws_block_head *head)
{
	if (head->body_bytes > WS_MAX_BODY)
		return false;
	switch (head->type) {
	case WS_BLOCK_ROWS:
		return head->rows >= 1 && head->rows <= WS_MAX_BLOCK_ROWS &&
		       head->columns <= WS_MAX_FILE_COLUMNS && head->table < WS_MAX_FILE_TABLES;
	case WS_BLOCK_STRINGS:
		return head->rows >= 1 && head->rows <= WS_MAX_BLOCK_STRINGS &&
		       head->raw <= WS_MAX_TEXT && head->first >= 1 &&
		       head->first + head->rows <= (UINT64_C(1) << 32);
	default:
		return true;
	}
}

static uint64_t block_bytes(const struct ws_block_head *head)
{
	return sizeof(struct ws_block_header) + WS_ALIGN_UP(head->body_bytes, WS_BLOCK_ALIGN);
}

/* Whether there is an intact header at `at` and its body ends within the file; *block gets it. */
static bool read_header_at(const struct ws_report *report, uint64_t at, struct ws_block *block)
{
	struct ws_block_header header;

	if (report->size < sizeof(header) || at > report->size - sizeof(header) ||
	    ws_pread_all(report->fd, &header, sizeof(header), at))
		return false;
	if (memcmp(header.magic, WS_BLOCK_MAGIC, 8) ||
	    header.check != XXH3_64bits(&header.head, sizeof(header.head)) ||
	    !head_is_sane(&header.head))
		return false;
	*block = (struct ws_block){.offset = at, .head = header.head};
	return header.head.body_bytes <= report->size - at - sizeof(header);
}

static void append_block(struct ws_block_list *block_list, const struct ws_block *block)
{
	ws_grow(block_list->blocks, block_list->cap, block_list->count + 1);
	block_list->blocks[block_list->count++] = *block;
}

/* ---- by index ---- */

static bool add_index_entry(struct ws_report *report, const struct ws_index_entry *entry,
			    uint64_t *last_end, uint64_t limit)
{
	struct ws_block block = {.offset = entry->offset, .head = entry->head};

	if (!head_is_sane(&entry->head) || entry->offset % WS_BLOCK_ALIGN ||
	    entry->offset < *last_end || entry->offset > limit ||
	    block_bytes(&entry->head) > limit - entry->offset)
		return false;
	*last_end = entry->offset + block_bytes(&entry->head);
	append_block(&report->all, &block);
	return true;
}

static bool add_index(struct ws_report *report, const uint8_t *body, const struct ws_block *index)
{
	uint64_t last_end = sizeof(struct ws_file_header);
	struct ws_index_entry entry;

	if (index->head.body_bytes != (uint64_t)index->head.rows * sizeof(entry))
		return false;
	for (uint32_t i = 0; i < index->head.rows; i++) {
		memcpy(&entry, body + (size_t)i * sizeof(entry), sizeof(entry));
		if (!add_index_entry(report, &entry, &last_end, index->offset)) {
			report->all.count = 0;
			return false;
		}
	}
	return true;
}

static bool find_by_index(struct ws_report *report)
{
	struct ws_trailer trailer;
	struct ws_workspace *workspace;
	struct ws_block index;
	const uint8_t *body;
	bool ok;

	if (report->size < sizeof(trailer) + sizeof(struct ws_file_header) ||
	    ws_pread_all(report->fd, &trailer, sizeof(trailer), report->size - sizeof(trailer)))
		return false;
	if (memcmp(trailer.magic, WS_TRAILER_MAGIC, 8) ||
	    trailer.check != XXH3_64bits(&trailer, offsetof(struct ws_trailer, check)) ||
	    trailer.file_bytes != report->size ||
	    !read_header_at(report, trailer.index_offset, &index) ||
	    index.head.type != WS_BLOCK_INDEX)
		return false;
	workspace = ws_take_workspace(report);
	body = ws_read_block_body(report, &index, workspace, NULL);
	ok = body && add_index(report, body, &index);
	ws_give_back_workspace(report, workspace);
	return ok;
}

/* ---- by walking ---- */

/* The next offset from `from` on with an intact header, or the size of the file. */
static uint64_t find_next_header(const struct ws_report *report, uint64_t from)
{
	uint8_t *buffer = ws_malloc(SEARCH_BYTES);
	uint64_t magic, word, found = report->size;
	size_t step = FIRST_SEARCH_BYTES; /* small at first: a file may be full of small gaps */
	struct ws_block block;

	memcpy(&magic, WS_BLOCK_MAGIC, 8);
	for (uint64_t at = WS_ALIGN_UP(from, WS_BLOCK_ALIGN);
	     at < report->size && found == report->size;) {
		size_t size = ws_min(report->size - at, (uint64_t)step);

		if (ws_pread_all(report->fd, buffer, size, at))
			break;
		for (size_t i = 0; i + 8 <= size; i += 8) {
			memcpy(&word, buffer + i, 8);
			if (word == magic && read_header_at(report, at + i, &block)) {
				found = at + i;
				break;
			}
		}
		at += size;
		step = ws_min(step * 4, (size_t)SEARCH_BYTES);
	}
	free(buffer);
	return found;
}

uint64_t ws_report_walk_blocks(struct ws_report *report, uint64_t from, uint64_t end)
{
	struct ws_block block;

	while (from < end && read_header_at(report, from, &block) &&
	       from + block_bytes(&block.head) <= end) {
		append_block(&report->all, &block);
		from += block_bytes(&block.head);
	}
	return from;
}

static void find_by_walking(struct ws_report *report)
{
	uint64_t at = sizeof(struct ws_file_header);
	struct ws_block block;

	while (at < report->size) {
		if (read_header_at(report, at, &block)) {
			append_block(&report->all, &block);
			at += block_bytes(&block.head);
			continue;
		}
		uint64_t next = find_next_header(report, at + WS_BLOCK_ALIGN);

		if (next >= report->size) {
			report->rest = report->size - at;
			return;
		}
		ws_report_add_damage(report,
				     "%llu bytes from offset %llu on are damaged and were left out",
				     (unsigned long long)(next - at), (unsigned long long)at);
		at = next;
	}
}

void ws_report_find_all_blocks(struct ws_report *report)
{
	report->indexed = find_by_index(report);
	if (!report->indexed)
		find_by_walking(report);
}
