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
#include "base/choose.h"

void ws_spans_add(struct ws_spans *spans, uint64_t start, uint64_t end)
{
	if (end <= start)
		return;
	ws_grow(spans->spans, spans->cap, spans->n + 1);
	spans->spans[spans->n++] = (struct ws_span){start, end};
}

static int by_start(const void *first, const void *second)
{
	const struct ws_span *left = first, *right = second;

	return left->start != right->start ? (left->start < right->start ? -1 : 1)
					   : ws_compare(left->end, right->end);
}

void ws_spans_merge(struct ws_spans *spans)
{
	size_t n = 0;
	bool sorted = true;

	for (size_t i = 1; i < spans->n && sorted; i++)
		sorted = spans->spans[i - 1].start <= spans->spans[i].start;
	if (!sorted)
		qsort(spans->spans, spans->n, sizeof(*spans->spans), by_start);
	for (size_t i = 0; i < spans->n; i++) {
		if (n && spans->spans[i].start <= spans->spans[n - 1].end)
			spans->spans[n - 1].end =
				ws_max(spans->spans[i].end, spans->spans[n - 1].end);
		else
			spans->spans[n++] = spans->spans[i];
	}
	spans->n = n;
}

/* The next end of an interval from `at`, which counts starts and ends; UINT64_MAX past the last. */
static uint64_t edge(const struct ws_spans *spans, size_t at)
{
	if (at >= spans->n * 2)
		return UINT64_MAX;
	return at & 1 ? spans->spans[at / 2].end : spans->spans[at / 2].start;
}

/* `covered` says by (in A) | (in B) << 1 whether the result covers. */
static void combine(const struct ws_spans *left, const struct ws_spans *right,
		    const bool covered[4], struct ws_spans *out)
{
	size_t i = 0, k = 0;
	uint64_t since = 0;
	bool on = false;

	while (i < left->n * 2 || k < right->n * 2) {
		uint64_t x = edge(left, i), y = edge(right, k), now = ws_min(x, y);

		i += x == now && i < left->n * 2;
		k += y == now && k < right->n * 2;
		if (covered[(i & 1) | (k & 1) << 1] == on)
			continue;
		if (on)
			ws_spans_add(out, since, now);
		since = now;
		on = !on;
	}
}

void ws_spans_union(const struct ws_spans *left, const struct ws_spans *right, struct ws_spans *out)
{
	combine(left, right, (const bool[]){false, true, true, true}, out);
}

void ws_spans_subtract(const struct ws_spans *left, const struct ws_spans *right,
		       struct ws_spans *out)
{
	combine(left, right, (const bool[]){false, true, false, false}, out);
}

void ws_spans_free(struct ws_spans *spans)
{
	free(spans->spans);
	memset(spans, 0, sizeof(*spans));
}
