/*
 * strings.c - the dictionary of an open report.
 *
 * Blocks of strings are decoded when one of their ids is first asked for.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "store/report.h"

struct ws_text_block {
	uint32_t n;
	bool damaged;
	char *text;   /* each string followed by a NUL */
	uint64_t *at; /* n+1 */
};

static const char lost_text[] = "(lost: damaged string block)";

static bool get_lengths(const uint8_t *p, size_t size, uint32_t n, uint64_t raw, uint64_t *at)
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
		at[i] = sum + i; /* one NUL after each before it */
		sum += v;
		if (sum > raw)
			return false;
	}
	at[n] = sum + n;
	return p == end && sum == raw;
}

/* The text arrives without NULs at the end of `text`; moves each string to its place. Strings only ever move down, or stay. */
static void spread(struct ws_text_block *t)
{
	const char *from = t->text + t->n;

	for (uint32_t i = 0; i < t->n; i++) {
		uint64_t len = t->at[i + 1] - t->at[i] - 1;

		memmove(t->text + t->at[i], from, len);
		t->text[t->at[i] + len] = 0;
		from += len;
	}
}

static bool decode_text(struct ws_workspace *w, const struct ws_block *b, const uint8_t *body, struct ws_text_block *t)
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
	t->at = ws_malloc(((size_t)n + 1) * 8);
	ok = ws_stream_get(w->unpacker.z, &cut, lengths, size) && get_lengths(lengths, size, n, b->head.raw, t->at);
	free(lengths);
	if (!ok)
		return false;
	t->n = n;
	t->text = ws_malloc(b->head.raw + n);
	if (!ws_stream_get(w->unpacker.z, &cut, (uint8_t *)t->text + n, b->head.raw))
		return false;
	spread(t);
	return true;
}

static struct ws_text_block *load(const struct ws_report *r, const struct ws_block *b)
{
	struct ws_text_block *t = ws_calloc(1, sizeof(*t));
	struct ws_workspace *w = ws_workspace_take(r);
	const uint8_t *body = ws_block_body(r, b, w, NULL);

	t->damaged = !body || !decode_text(w, b, body, t);
	ws_workspace_give(r, w);
	return t;
}

static void free_text(struct ws_text_block *t)
{
	if (!t)
		return;
	free(t->text);
	free(t->at);
	free(t);
}

static const struct ws_text_block *text_block(const struct ws_report *r, size_t i)
{
	struct ws_text_block *t = __atomic_load_n(&r->text[i], __ATOMIC_ACQUIRE), *seen = NULL;

	if (t)
		return t;
	t = load(r, &r->strings.v[i]);
	if (__atomic_compare_exchange_n(&r->text[i], &seen, t, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		return t;
	free_text(t); /* another thread was faster */
	return seen;
}

/* Index of the block that defines `id`, or -1. Blocks are in order of their ids. */
ptrdiff_t ws_string_block(const struct ws_report *r, uint32_t id)
{
	size_t low = 0, high = r->strings.n;

	while (low < high) {
		size_t mid = (low + high) / 2;
		const struct ws_block_head *h = &r->strings.v[mid].head;

		if (id < h->first)
			high = mid;
		else if (id - h->first >= h->rows)
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
		uint32_t k = (uint32_t)(id - r->strings.v[i].head.first);

		t = text_block(r, (size_t)i);
		s = t->damaged ? lost_text : t->text + t->at[k];
		n = t->damaged ? sizeof(lost_text) - 1 : t->at[k + 1] - t->at[k] - 1;
	}
	if (len)
		*len = n;
	return s;
}

uint32_t ws_report_string_count(const struct ws_report *r)
{
	const struct ws_block_head *h = r->strings.n ? &r->strings.v[r->strings.n - 1].head : NULL;

	return h ? (uint32_t)(h->first + h->rows - 1) : 0;
}

void ws_report_free_strings(struct ws_report *r)
{
	for (size_t i = 0; r->text && i < r->strings.n; i++)
		free_text(r->text[i]);
	free(r->text);
	ws_string_keys_free(r);
}
