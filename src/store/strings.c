/*
 * strings.c - the dictionary of an open report.
 *
 * Blocks of strings are decoded when one of their ids is first asked for, by one thread, while
 * others that want the same one wait. Their texts lie one after the other in a few large pieces of
 * memory, which can be huge pages: reports whose names never repeat read millions of them in any
 * order. Which block has an id is found through a guide of a few entries a block.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/choose.h"
#include "store/report.h"

enum { TEXT_MEMORY = 32 << 20, SLACK = 16 };

struct ws_text_memory {
	struct ws_text_memory *next;
	size_t used, size;
	char bytes[];
};

static const char lost_text[] = "(lost: damaged string block)";

/* Memory for all the texts of a small report, else a large piece of it; at least `needed` bytes. */
static struct ws_text_memory *new_text_memory(const struct ws_report *report, size_t needed)
{
	struct ws_text_memory *memory;
	size_t size = 0;

	for (size_t i = 0; i < report->strings.count && size < TEXT_MEMORY; i++)
		size += report->strings.blocks[i].head.raw +
			(size_t)report->strings.blocks[i].head.rows * 5 + 4 * SLACK;
	size = ws_max(ws_min(size, (size_t)TEXT_MEMORY), needed);
	if (size < TEXT_MEMORY)
		memory = ws_malloc(sizeof(*memory) + size);
	else
		memory = ws_malloc_huge(sizeof(*memory) + size);
	*memory = (struct ws_text_memory){report->text_memory, 0, size};
	return memory;
}

/* `size` bytes that live until the report is closed, aligned to 16. */
static void *take_text_memory(const struct ws_report *report, size_t size)
{
	struct ws_report *writable =
		(struct ws_report *)report; /* caches only; data that was read does not change */
	char *at;

	size = WS_ALIGN_UP(size, 16);
	pthread_mutex_lock(&writable->text_lock);
	if (!report->text_memory || report->text_memory->size - report->text_memory->used < size)
		writable->text_memory = new_text_memory(report, size);
	at = writable->text_memory->bytes + writable->text_memory->used;
	writable->text_memory->used += size;
	pthread_mutex_unlock(&writable->text_lock);
	return at;
}

static bool read_lengths(const uint8_t *bytes, size_t size, uint32_t count, uint64_t raw,
			 uint32_t *at)
{
	const uint8_t *end = bytes + size;
	uint64_t sum = 0;

	for (uint32_t i = 0; i < count; i++) {
		uint64_t length = 0;
		uint32_t shift = 0;

		do {
			if (bytes == end || shift > 28)
				return false;
			length |= (uint64_t)(*bytes & 0x7f) << shift;
			shift += 7;
		} while (*bytes++ & 0x80);
		at[i] = (uint32_t)(sum + i); /* one NUL after each before it */
		sum += length;
		if (sum > raw)
			return false;
	}
	at[count] = (uint32_t)(sum + count);
	return bytes == end && sum == raw;
}

/*
 * The text is decoded without NULs to the end of `text`; this moves each string to its place.
 * Strings only ever move down, or stay. As long as they move far, eight bytes are moved at a time,
 * and the last move may write beyond the string, where there is nothing yet.
 */
static void spread_strings(struct ws_text_block *block)
{
	const char *from = block->text + block->count;

	for (uint32_t i = 0; i < block->count; i++) {
		uint32_t len = block->at[i + 1] - block->at[i] - 1;
		char *to = block->text + block->at[i];
		uint64_t bytes;

		if (block->count - i >= SLACK && len <= 64)
			for (uint32_t offset = 0; offset < len; offset += 8) {
				memcpy(&bytes, from + offset, 8);
				memcpy(to + offset, &bytes, 8);
			}
		else
			memmove(to, from, len);
		to[len] = 0;
		from += len;
	}
}

static bool decode_text(const struct ws_report *report, struct ws_workspace *workspace,
			const struct ws_block *block, const uint8_t *body,
			struct ws_text_block *text_block)
{
	struct ws_cut cut = {body, body + block->head.body_bytes};
	uint32_t strings = block->head.rows, size;
	uint8_t *lengths;
	bool ok;

	if (block->head.body_bytes < 4)
		return false;
	memcpy(&size, body, 4);
	cut.bytes += 4;
	if (size < strings || size > (uint64_t)strings * 5)
		return false;
	lengths = ws_malloc(size);
	text_block->at = take_text_memory(report, ((size_t)strings + 1) * sizeof(*text_block->at));
	ok = ws_stream_get(workspace->unpacker.zstd, &cut, lengths, size) &&
	     read_lengths(lengths, size, strings, block->head.raw, text_block->at);
	free(lengths);
	if (!ok)
		return false;
	text_block->text = take_text_memory(
		report, block->head.raw + strings +
				SLACK); /* spread_strings reads beyond the last string */
	if (!ws_stream_get(workspace->unpacker.zstd, &cut, (uint8_t *)text_block->text + strings,
			   block->head.raw))
		return false;
	spread_strings(text_block);
	return true;
}

static enum ws_text_state load_text(const struct ws_report *report, const struct ws_block *block,
				    struct ws_text_block *text_block)
{
	struct ws_workspace *workspace = ws_take_workspace(report);
	const uint8_t *body = ws_read_block_body(report, block, workspace, NULL);
	bool ok = body && decode_text(report, workspace, block, body, text_block);

	ws_give_back_workspace(report, workspace);
	if (!ok)
		return WS_TEXT_DAMAGED;
	return WS_TEXT_READY;
}

static void load_text_once(struct ws_report *report, size_t i)
{
	struct ws_text_block *block = &report->text[i];
	enum ws_text_state state;

	pthread_mutex_lock(&report->text_lock);
	while (block->state == WS_TEXT_LOADING)
		pthread_cond_wait(&report->text_loaded, &report->text_lock);
	state = block->state;
	if (state == WS_TEXT_UNREAD)
		__atomic_store_n(&block->state, WS_TEXT_LOADING, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&report->text_lock);
	if (state != WS_TEXT_UNREAD)
		return;
	state = load_text(report, &report->strings.blocks[i], block);
	pthread_mutex_lock(&report->text_lock);
	__atomic_store_n(&block->state, state, __ATOMIC_RELEASE);
	pthread_cond_broadcast(&report->text_loaded);
	pthread_mutex_unlock(&report->text_lock);
}

const struct ws_text_block *ws_report_texts(const struct ws_report *report, size_t i)
{
	if (ws_unlikely(__atomic_load_n(&report->text[i].state, __ATOMIC_ACQUIRE) < WS_TEXT_READY))
		load_text_once((struct ws_report *)report, i);
	return &report->text[i];
}

void ws_report_prepare_strings(struct ws_report *report)
{
	size_t blocks = report->strings.count, entries;
	uint32_t most = ws_report_string_count(report);

	report->text = ws_realloc(report->text, (blocks + 1) * sizeof(*report->text));
	for (size_t i = report->text_blocks; i < blocks; i++) {
		report->text[i] = (struct ws_text_block){0};
		report->text[i].first = (uint32_t)report->strings.blocks[i].head.first;
		report->text[i].count = report->strings.blocks[i].head.rows;
	}
	report->text_blocks = blocks;
	while ((most >> report->guide_shift) > 4 * blocks)
		report->guide_shift++;
	entries = ((size_t)most >> report->guide_shift) + 2;
	report->guide = ws_realloc(report->guide, entries * sizeof(*report->guide));
	for (size_t entry = 0, i = 0; entry < entries; entry++) {
		while (i < blocks && (uint64_t)report->text[i].first + report->text[i].count <=
					     (uint64_t)entry << report->guide_shift)
			i++;
		report->guide[entry] = (uint32_t)i;
	}
}

/* Index of the block that defines `id`, or -1. Blocks are in order of their ids. */
ptrdiff_t ws_find_string_block(const struct ws_report *report, uint32_t id)
{
	size_t low, high;

	if (!report->strings.count || id > ws_report_string_count(report))
		return -1;
	low = report->guide[id >> report->guide_shift];
	high = report->guide[(id >> report->guide_shift) + 1];
	high += high < report->strings.count; /* the one in which the ids after these begin */
	while (low < high) {
		size_t mid = (low + high) / 2;
		const struct ws_text_block *block = &report->text[mid];

		if (id < block->first)
			high = mid;
		else if (id - block->first >= block->count)
			low = mid + 1;
		else
			return (ptrdiff_t)mid;
	}
	return -1;
}

const char *ws_report_string(const struct ws_report *report, uint32_t id, size_t *len)
{
	ptrdiff_t i = -1;
	const struct ws_text_block *block;
	size_t length = 0;
	const char *text = "";

	if (id)
		i = ws_find_string_block(report, id);
	if (i >= 0) {
		block = ws_report_texts(report, (size_t)i);
		if (ws_likely(block->state == WS_TEXT_READY)) {
			const uint32_t *at = &block->at[id - block->first];

			text = block->text + at[0];
			length = at[1] - at[0] - 1;
		} else {
			text = lost_text;
			length = sizeof(lost_text) - 1;
		}
	}
	if (len)
		*len = length;
	return text;
}

void ws_report_prefetch_string(const struct ws_report *report, uint32_t id, bool text)
{
	ptrdiff_t i = -1;
	const struct ws_text_block *block;
	const uint32_t *at;

	if (id)
		i = ws_find_string_block(report, id);
	if (i < 0)
		return;
	block = &report->text[i];
	if (__atomic_load_n(&block->state, __ATOMIC_ACQUIRE) != WS_TEXT_READY)
		return;
	at = &block->at[id - block->first];
	if (!text) {
		__builtin_prefetch(at);
		return;
	}
	__builtin_prefetch(block->text + at[0]);
	if ((at[0] ^ (at[1] - 1)) & ~(uint32_t)63) /* it continues in the next cache line */
		__builtin_prefetch(block->text + at[0] + 64);
}

uint32_t ws_report_string_count(const struct ws_report *report)
{
	const struct ws_block_head *head;

	if (!report->strings.count)
		return 0;
	head = &report->strings.blocks[report->strings.count - 1].head;
	return (uint32_t)(head->first + head->rows - 1);
}

static void free_text_memory(struct ws_report *report)
{
	while (report->text_memory) {
		struct ws_text_memory *next = report->text_memory->next;

		free(report->text_memory);
		report->text_memory = next;
	}
}

void ws_report_drop_texts(struct ws_report *report, size_t most)
{
	size_t size = 0;

	for (const struct ws_text_memory *memory = report->text_memory; memory;
	     memory = memory->next)
		size += memory->size;
	if (size <= most)
		return;
	free_text_memory(report);
	for (size_t i = 0; i < report->text_blocks; i++)
		report->text[i].state = WS_TEXT_UNREAD;
}

void ws_report_free_strings(struct ws_report *report)
{
	free(report->text);
	free(report->guide);
	free_text_memory(report);
	ws_free_string_keys(report);
}
