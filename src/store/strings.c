/*
 * strings.c - the dictionary of an open report.
 *
 * Blocks of strings are decoded when one of their ids is first asked for, by one thread, while
 * others that want the same one wait. Their texts lie one after the other in a few large pieces of
 * memory, which can be huge pages: reports whose names never repeat look at millions of them in any
 * order. Which block has an id is found from a guide of a few entries a block.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/choose.h"
#include "store/report.h"

enum { ROOM = 32 << 20, SLACK = 16 };

struct ws_text_room {
	struct ws_text_room *next;
	size_t used, size;
	char bytes[];
};

static const char lost_text[] = "(lost: damaged string block)";

/* `n` bytes until the report is closed, aligned to 16. */
static void *room(const struct ws_report *report, size_t n)
{
	struct ws_report *report_m =
		(struct ws_report *)report; /* what was read of it does not change */
	struct ws_text_room *last;
	size_t need = 0;
	char *at;

	n = WS_ALIGN_UP(n, 16);
	pthread_mutex_lock(&report_m->text_lock);
	if (!report->room || report->room->size - report->room->used < n) {
		for (size_t i = 0; i < report->strings.n && need < ROOM;
		     i++) /* a small report takes little */
			need += report->strings.blocks[i].head.raw +
				(size_t)report->strings.blocks[i].head.rows * 5 + 4 * SLACK;
		need = need < n ? n : need < ROOM ? need : ws_max(n, ROOM);
		last = (need < ROOM ? ws_malloc : ws_malloc_huge)(sizeof(*last) + need);
		*last = (struct ws_text_room){report->room, 0, need};
		report_m->room = last;
	}
	at = report_m->room->bytes + report_m->room->used;
	report_m->room->used += n;
	pthread_mutex_unlock(&report_m->text_lock);
	return at;
}

static bool get_lengths(const uint8_t *bytes, size_t size, uint32_t n, uint64_t raw, uint32_t *at)
{
	const uint8_t *end = bytes + size;
	uint64_t sum = 0;

	for (uint32_t i = 0; i < n; i++) {
		uint64_t v = 0;
		uint32_t shift = 0;

		do {
			if (bytes == end || shift > 28)
				return false;
			v |= (uint64_t)(*bytes & 0x7f) << shift;
			shift += 7;
		} while (*bytes++ & 0x80);
		at[i] = (uint32_t)(sum + i); /* one NUL after each before it */
		sum += v;
		if (sum > raw)
			return false;
	}
	at[n] = (uint32_t)(sum + n);
	return bytes == end && sum == raw;
}

/*
 * The text arrives without NULs at the end of `text`; moves each string to its place. Strings only
 * ever move down, or stay. As long as they move far, in steps of eight bytes, the last of which may
 * write beyond the string, where nothing is yet.
 */
static void spread(struct ws_text_block *block)
{
	const char *from = block->text + block->n;

	for (uint32_t i = 0; i < block->n; i++) {
		uint32_t len = block->at[i + 1] - block->at[i] - 1;
		char *to = block->text + block->at[i];
		uint64_t eight;

		if (block->n - i >= SLACK && len <= 64)
			for (uint32_t k = 0; k < len; k += 8) {
				memcpy(&eight, from + k, 8);
				memcpy(to + k, &eight, 8);
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
	uint32_t n = block->head.rows, size;
	uint8_t *lengths;
	bool ok;

	if (block->head.body_bytes < 4)
		return false;
	memcpy(&size, body, 4);
	cut.bytes += 4;
	if (size < n || size > (uint64_t)n * 5)
		return false;
	lengths = ws_malloc(size);
	text_block->at = room(report, ((size_t)n + 1) * sizeof(*text_block->at));
	ok = ws_stream_get(workspace->unpacker.z, &cut, lengths, size) &&
	     get_lengths(lengths, size, n, block->head.raw, text_block->at);
	free(lengths);
	if (!ok)
		return false;
	text_block->text = room(report, block->head.raw + n +
						SLACK); /* `spread` reads beyond the last string */
	if (!ws_stream_get(workspace->unpacker.z, &cut, (uint8_t *)text_block->text + n,
			   block->head.raw))
		return false;
	spread(text_block);
	return true;
}

static enum ws_text_state load(const struct ws_report *report, const struct ws_block *block,
			       struct ws_text_block *text_block)
{
	struct ws_workspace *workspace = ws_workspace_take(report);
	const uint8_t *body = ws_block_body(report, block, workspace, NULL);
	bool ok = body && decode_text(report, workspace, block, body, text_block);

	ws_workspace_give(report, workspace);
	return ok ? WS_TEXT_READY : WS_TEXT_DAMAGED;
}

static void load_once(struct ws_report *report, size_t i)
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
	state = load(report, &report->strings.blocks[i], block);
	pthread_mutex_lock(&report->text_lock);
	__atomic_store_n(&block->state, state, __ATOMIC_RELEASE);
	pthread_cond_broadcast(&report->text_loaded);
	pthread_mutex_unlock(&report->text_lock);
}

const struct ws_text_block *ws_report_text(const struct ws_report *report, size_t i)
{
	if (ws_unlikely(__atomic_load_n(&report->text[i].state, __ATOMIC_ACQUIRE) < WS_TEXT_READY))
		load_once((struct ws_report *)report, i);
	return &report->text[i];
}

void ws_report_prepare_strings(struct ws_report *report)
{
	size_t n = report->strings.n, entries;
	uint32_t most = ws_report_string_count(report);

	report->text = ws_calloc(n + 1, sizeof(*report->text));
	for (size_t i = 0; i < n; i++) {
		report->text[i].first = (uint32_t)report->strings.blocks[i].head.first;
		report->text[i].n = report->strings.blocks[i].head.rows;
	}
	while ((most >> report->guide_shift) > 4 * n)
		report->guide_shift++;
	entries = ((size_t)most >> report->guide_shift) + 2;
	report->guide = ws_malloc(entries * sizeof(*report->guide));
	for (size_t g = 0, i = 0; g < entries; g++) {
		while (i < n && (uint64_t)report->text[i].first + report->text[i].n <=
					(uint64_t)g << report->guide_shift)
			i++;
		report->guide[g] = (uint32_t)i;
	}
}

/* Index of the block that defines `id`, or -1. Blocks are in order of their ids. */
ptrdiff_t ws_string_block(const struct ws_report *report, uint32_t id)
{
	size_t low, high;

	if (!report->strings.n || id > ws_report_string_count(report))
		return -1;
	low = report->guide[id >> report->guide_shift];
	high = report->guide[(id >> report->guide_shift) + 1];
	high += high < report->strings.n; /* the one in which the next such ids begin */
	while (low < high) {
		size_t mid = (low + high) / 2;
		const struct ws_text_block *block = &report->text[mid];

		if (id < block->first)
			high = mid;
		else if (id - block->first >= block->n)
			low = mid + 1;
		else
			return (ptrdiff_t)mid;
	}
	return -1;
}

const char *ws_report_string(const struct ws_report *report, uint32_t id, size_t *len)
{
	ptrdiff_t i = id ? ws_string_block(report, id) : -1;
	const struct ws_text_block *block;
	size_t n = 0;
	const char *text = "";

	if (i >= 0) {
		block = ws_report_text(report, (size_t)i);
		if (ws_likely(block->state == WS_TEXT_READY)) {
			const uint32_t *at = &block->at[id - block->first];

			text = block->text + at[0];
			n = at[1] - at[0] - 1;
		} else {
			text = lost_text;
			n = sizeof(lost_text) - 1;
		}
	}
	if (len)
		*len = n;
	return text;
}

void ws_report_string_fetch(const struct ws_report *report, uint32_t id, bool text)
{
	ptrdiff_t i = id ? ws_string_block(report, id) : -1;
	const struct ws_text_block *block = i < 0 ? NULL : &report->text[i];

	const uint32_t *at;

	if (!block || __atomic_load_n(&block->state, __ATOMIC_ACQUIRE) != WS_TEXT_READY)
		return;
	at = &block->at[id - block->first];
	__builtin_prefetch(text ? (const void *)(block->text + at[0]) : at);
	if (text && (at[0] ^ (at[1] - 1)) & ~(uint32_t)63)
		__builtin_prefetch(block->text + at[0] + 64);
}

uint32_t ws_report_string_count(const struct ws_report *report)
{
	const struct ws_block_head *head =
		report->strings.n ? &report->strings.blocks[report->strings.n - 1].head : NULL;

	return head ? (uint32_t)(head->first + head->rows - 1) : 0;
}

void ws_report_free_strings(struct ws_report *report)
{
	free(report->text);
	free(report->guide);
	while (report->room) {
		struct ws_text_room *next = report->room->next;

		free(report->room);
		report->room = next;
	}
	ws_string_keys_free(report);
}
