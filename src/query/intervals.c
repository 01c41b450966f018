/*
 * intervals.c - see intervals.h.
 *
 * Two sets are combined by a sweep over the ends of both: at each end, the sweep enters or leaves A
 * or B, which decides whether the result covers the time that follows.
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
	ws_grow(spans->spans, spans->cap, spans->count + 1);
	spans->spans[spans->count++] = (struct ws_span){start, end};
}

static int compare_starts(const void *first, const void *second)
{
	const struct ws_span *left = first, *right = second;

	if (left->start != right->start)
		return ws_compare(left->start, right->start);
	return ws_compare(left->end, right->end);
}

void ws_spans_merge(struct ws_spans *spans)
{
	size_t kept = 0;
	bool sorted = true;

	for (size_t i = 1; i < spans->count && sorted; i++)
		sorted = spans->spans[i - 1].start <= spans->spans[i].start;
	if (!sorted)
		qsort(spans->spans, spans->count, sizeof(*spans->spans), compare_starts);
	for (size_t i = 0; i < spans->count; i++) {
		if (kept && spans->spans[i].start <= spans->spans[kept - 1].end)
			spans->spans[kept - 1].end =
				ws_max(spans->spans[i].end, spans->spans[kept - 1].end);
		else
			spans->spans[kept++] = spans->spans[i];
	}
	spans->count = kept;
}

/* The next boundary: `at` counts starts and ends of intervals; UINT64_MAX past the last. */
static uint64_t next_boundary(const struct ws_spans *spans, size_t at)
{
	if (at >= spans->count * 2)
		return UINT64_MAX;
	if (at & 1)
		return spans->spans[at / 2].end;
	return spans->spans[at / 2].start;
}

/* `covered` says what the result covers: its bit (in A) | (in B) << 1 is set where it does. */
static void combine_sets(const struct ws_spans *left, const struct ws_spans *right,
			 const bool covered[4], struct ws_spans *out)
{
	size_t left_at = 0, right_at = 0;
	uint64_t since = 0;
	bool inside = false;

	while (left_at < left->count * 2 || right_at < right->count * 2) {
		uint64_t left_edge = next_boundary(left, left_at),
			 right_edge = next_boundary(right, right_at),
			 now = ws_min(left_edge, right_edge);

		left_at += left_edge == now && left_at < left->count * 2;
		right_at += right_edge == now && right_at < right->count * 2;
		if (covered[(left_at & 1) | (right_at & 1) << 1] == inside)
			continue;
		if (inside)
			ws_spans_add(out, since, now);
		since = now;
		inside = !inside;
	}
}

void ws_spans_union(const struct ws_spans *left, const struct ws_spans *right, struct ws_spans *out)
{
	combine_sets(left, right, (const bool[]){false, true, true, true}, out);
}

void ws_spans_subtract(const struct ws_spans *left, const struct ws_spans *right,
		       struct ws_spans *out)
{
	combine_sets(left, right, (const bool[]){false, true, false, false}, out);
}

void ws_spans_free(struct ws_spans *spans)
{
	free(spans->spans);
	memset(spans, 0, sizeof(*spans));
}
