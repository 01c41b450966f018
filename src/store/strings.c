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
#include "store/report.h"

enum { ROOM = 32 << 20, SLACK = 16 };

struct ws_text_room {
	struct ws_text_room *next;
	size_t used, size;
	char bytes[];
};

static const char lost_text[] = "(lost: damaged string block)";

/* `n` bytes until the report is closed, aligned to 16. */
static void *room(const struct ws_report *r, size_t n)
{
	struct ws_report *m = (struct ws_report *)r; /* what was read of it does not change */
	struct ws_text_room *last;
	size_t need = 0;
	char *at;

	n = WS_ALIGN_UP(n, 16);
	pthread_mutex_lock(&m->text_lock);
	if (!r->room || r->room->size - r->room->used < n) {
		for (size_t i = 0; i < r->strings.n && need < ROOM;
		     i++) /* a small report takes little */
			need += r->strings.v[i].head.raw + (size_t)r->strings.v[i].head.rows * 5 +
				4 * SLACK;
		need = need < n ? n : need < ROOM ? need : n < ROOM ? ROOM : n;
		last = (need < ROOM ? ws_malloc : ws_malloc_huge)(sizeof(*last) + need);
		*last = (struct ws_text_room){r->room, 0, need};
		m->room = last;
	}
	at = m->room->bytes + m->room->used;
	m->room->used += n;
	pthread_mutex_unlock(&m->text_lock);
	return at;
}

static bool get_lengths(const uint8_t *p, size_t size, uint32_t n, uint64_t raw, uint32_t *at)
{
	const uint8_t *end = p + size;
	uint64_t sum = 0;

	for (uint32_t i = 0; i < n; i++) {
		uint64_t v = 0;
		uint32_t shift = 0;

		do {
			if (p == end || shift > 28)
				return false;
			v |= (uint64_t)(*p & 0x7f) << shift;
			shift += 7;
		} while (*p++ & 0x80);
		at[i] = (uint32_t)(sum + i); /* one NUL after each before it */
		sum += v;
		if (sum > raw)
			return false;
	}
	at[n] = (uint32_t)(sum + n);
	return p == end && sum == raw;
}

/*
 * The text arrives without NULs at the end of `text`; moves each string to its place. Strings only
 * ever move down, or stay. As long as they move far, in steps of eight bytes, the last of which may
 * write beyond the string, where nothing is yet.
 */
static void spread(struct ws_text_block *t)
{
	const char *from = t->text + t->n;

	for (uint32_t i = 0; i < t->n; i++) {
		uint32_t len = t->at[i + 1] - t->at[i] - 1;
		char *to = t->text + t->at[i];
		uint64_t eight;

		if (t->n - i >= SLACK && len <= 64)
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

static bool decode_text(const struct ws_report *r, struct ws_workspace *w, const struct ws_block *b,
			const uint8_t *body, struct ws_text_block *t)
{
	struct ws_cut cut = {body, body + b->head.body_bytes};
	uint32_t n = b->head.rows, size;
	uint8_t *lengths;
	bool ok;

	if (b->head.body_bytes < 4)
		return false;
	memcpy(&size, body, 4);
	cut.p += 4;
	if (size < n || size > (uint64_t)n * 5)
		return false;
	lengths = ws_malloc(size);
	t->at = room(r, ((size_t)n + 1) * sizeof(*t->at));
	ok = ws_stream_get(w->unpacker.z, &cut, lengths, size) &&
	     get_lengths(lengths, size, n, b->head.raw, t->at);
	free(lengths);
	if (!ok)
		return false;
	t->text = room(r, b->head.raw + n + SLACK); /* `spread` reads beyond the last string */
	if (!ws_stream_get(w->unpacker.z, &cut, (uint8_t *)t->text + n, b->head.raw))
		return false;
	spread(t);
	return true;
}

static enum ws_text_state load(const struct ws_report *r, const struct ws_block *b,
			       struct ws_text_block *t)
{
	struct ws_workspace *w = ws_workspace_take(r);
	const uint8_t *body = ws_block_body(r, b, w, NULL);
	bool ok = body && decode_text(r, w, b, body, t);

	ws_workspace_give(r, w);
	return ok ? WS_TEXT_READY : WS_TEXT_DAMAGED;
}

static void load_once(struct ws_report *r, size_t i)
{
	struct ws_text_block *t = &r->text[i];
	enum ws_text_state state;

	pthread_mutex_lock(&r->text_lock);
	while (t->state == WS_TEXT_LOADING)
		pthread_cond_wait(&r->text_loaded, &r->text_lock);
	state = t->state;
	if (state == WS_TEXT_UNREAD)
		__atomic_store_n(&t->state, WS_TEXT_LOADING, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&r->text_lock);
	if (state != WS_TEXT_UNREAD)
		return;
	state = load(r, &r->strings.v[i], t);
	pthread_mutex_lock(&r->text_lock);
	__atomic_store_n(&t->state, state, __ATOMIC_RELEASE);
	pthread_cond_broadcast(&r->text_loaded);
	pthread_mutex_unlock(&r->text_lock);
}

const struct ws_text_block *ws_report_text(const struct ws_report *r, size_t i)
{
	if (ws_unlikely(__atomic_load_n(&r->text[i].state, __ATOMIC_ACQUIRE) < WS_TEXT_READY))
		load_once((struct ws_report *)r, i);
	return &r->text[i];
}

void ws_report_prepare_strings(struct ws_report *r)
{
	size_t n = r->strings.n, entries;
	uint32_t most = ws_report_string_count(r);

	r->text = ws_calloc(n + 1, sizeof(*r->text));
	for (size_t i = 0; i < n; i++) {
		r->text[i].first = (uint32_t)r->strings.v[i].head.first;
		r->text[i].n = r->strings.v[i].head.rows;
	}
	while ((most >> r->guide_shift) > 4 * n)
		r->guide_shift++;
	entries = ((size_t)most >> r->guide_shift) + 2;
	r->guide = ws_malloc(entries * sizeof(*r->guide));
	for (size_t g = 0, i = 0; g < entries; g++) {
		while (i < n &&
		       (uint64_t)r->text[i].first + r->text[i].n <= (uint64_t)g << r->guide_shift)
			i++;
		r->guide[g] = (uint32_t)i;
	}
}

/* Index of the block that defines `id`, or -1. Blocks are in order of their ids. */
ptrdiff_t ws_string_block(const struct ws_report *r, uint32_t id)
{
	size_t low, high;

	if (!r->strings.n || id > ws_report_string_count(r))
		return -1;
	low = r->guide[id >> r->guide_shift];
	high = r->guide[(id >> r->guide_shift) + 1];
	high += high < r->strings.n; /* the one in which the next such ids begin */
	while (low < high) {
		size_t mid = (low + high) / 2;
		const struct ws_text_block *t = &r->text[mid];

		if (id < t->first)
			high = mid;
		else if (id - t->first >= t->n)
			low = mid + 1;
		else
			return (ptrdiff_t)mid;
	}
	return -1;
}

const char *ws_report_string(const struct ws_report *r, uint32_t id, size_t *len)
{
	ptrdiff_t i = id ? ws_string_block(r, id) : -1;
	const struct ws_text_block *t;
	size_t n = 0;
	const char *s = "";

	if (i >= 0) {
		t = ws_report_text(r, (size_t)i);
		if (ws_likely(t->state == WS_TEXT_READY)) {
			const uint32_t *at = &t->at[id - t->first];

			s = t->text + at[0];
			n = at[1] - at[0] - 1;
		} else {
			s = lost_text;
			n = sizeof(lost_text) - 1;
		}
	}
	if (len)
		*len = n;
	return s;
}

void ws_report_string_fetch(const struct ws_report *r, uint32_t id, bool text)
{
	ptrdiff_t i = id ? ws_string_block(r, id) : -1;
	const struct ws_text_block *t = i < 0 ? NULL : &r->text[i];

	const uint32_t *at;

	if (!t || __atomic_load_n(&t->state, __ATOMIC_ACQUIRE) != WS_TEXT_READY)
		return;
	at = &t->at[id - t->first];
	__builtin_prefetch(text ? (const void *)(t->text + at[0]) : at);
	if (text && (at[0] ^ (at[1] - 1)) & ~(uint32_t)63)
		__builtin_prefetch(t->text + at[0] + 64);
}

uint32_t ws_report_string_count(const struct ws_report *r)
{
	const struct ws_block_head *h = r->strings.n ? &r->strings.v[r->strings.n - 1].head : NULL;

	return h ? (uint32_t)(h->first + h->rows - 1) : 0;
}

void ws_report_free_strings(struct ws_report *r)
{
	free(r->text);
	free(r->guide);
	while (r->room) {
		struct ws_text_room *next = r->room->next;

		free(r->room);
		r->room = next;
	}
	ws_string_keys_free(r);
}
