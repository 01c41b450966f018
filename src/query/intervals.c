/*
 * intervals.c - see intervals.h.
 *
 * Two sets are combined by a sweep over the ends of both: at each, whether one is inside of A and
 * of B changes, and with it whether the result covers what follows.
 */
#include "query/intervals.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

void ws_spans_add(struct ws_spans *s, uint64_t start, uint64_t end)
{
	if (end <= start)
		return;
	ws_grow(s->v, s->cap, s->n + 1);
	s->v[s->n++] = (struct ws_span){start, end};
}

static int by_start(const void *a, const void *b)
{
	const struct ws_span *x = a, *y = b;

	return x->start != y->start ? (x->start < y->start ? -1 : 1)
	       : x->end < y->end    ? -1
				    : x->end > y->end;
}

void ws_spans_merge(struct ws_spans *s)
{
	size_t n = 0;
	bool sorted = true;

	for (size_t i = 1; i < s->n && sorted; i++)
		sorted = s->v[i - 1].start <= s->v[i].start;
	if (!sorted)
		qsort(s->v, s->n, sizeof(*s->v), by_start);
	for (size_t i = 0; i < s->n; i++) {
		if (n && s->v[i].start <= s->v[n - 1].end)
			s->v[n - 1].end =
				s->v[i].end > s->v[n - 1].end ? s->v[i].end : s->v[n - 1].end;
		else
			s->v[n++] = s->v[i];
	}
	s->n = n;
}

/* The next end of an interval from `at`, which counts starts and ends; UINT64_MAX past the last. */
static uint64_t edge(const struct ws_spans *s, size_t at)
{
	if (at >= s->n * 2)
		return UINT64_MAX;
	return at & 1 ? s->v[at / 2].end : s->v[at / 2].start;
}

/* `covered` says by (in A) | (in B) << 1 whether the result covers. */
static void combine(const struct ws_spans *a, const struct ws_spans *b, const bool covered[4],
		    struct ws_spans *out)
{
	size_t i = 0, k = 0;
	uint64_t since = 0;
	bool on = false;

	while (i < a->n * 2 || k < b->n * 2) {
		uint64_t x = edge(a, i), y = edge(b, k), now = x < y ? x : y;

		i += x == now && i < a->n * 2;
		k += y == now && k < b->n * 2;
		if (covered[(i & 1) | (k & 1) << 1] == on)
			continue;
		if (on)
			ws_spans_add(out, since, now);
		since = now;
		on = !on;
	}
}

void ws_spans_union(const struct ws_spans *a, const struct ws_spans *b, struct ws_spans *out)
{
	combine(a, b, (const bool[]){false, true, true, true}, out);
}

void ws_spans_subtract(const struct ws_spans *a, const struct ws_spans *b, struct ws_spans *out)
{
	combine(a, b, (const bool[]){false, true, false, false}, out);
}

void ws_spans_free(struct ws_spans *s)
{
	free(s->v);
	memset(s, 0, sizeof(*s));
}
