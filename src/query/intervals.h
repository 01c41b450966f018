/*
 * intervals.h - time covered by intervals: lengths of unions while they come in order, and sets of
 * disjoint intervals.
 *
 * An interval is from its start up to its end, the end not included; one that is empty or ends
 * before it starts covers nothing. A covers |A u B| - |B| that B does not; both cover
 * |A| + |B| - |A u B|. So where intervals come in order of start, the lengths of a few unions
 * suffice, and no interval need be kept (ws_cover). Sets are for callers who need to know where.
 */
#ifndef WS_QUERY_INTERVALS_H
#define WS_QUERY_INTERVALS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The length of a union of intervals that come in order of start. Zero it before use. */
struct ws_cover {
	uint64_t until, length;
};

/* Add one more interval, which starts no earlier than those before. */
static inline void ws_cover_add(struct ws_cover *cover, uint64_t start, uint64_t end)
{
	if (start < cover->until)
		start = cover->until;
	if (end <= start)
		return;
	cover->length += end - start;
	cover->until = end;
}

struct ws_span {
	uint64_t start, end;
};

/* A list of intervals; zero it before use. A set is a list that is disjoint, not touching and in
 * order; ws_spans_merge turns any list into one. */
struct ws_spans {
	struct ws_span *spans;
	size_t count, cap;
};

void ws_spans_add(struct ws_spans *spans, uint64_t start, uint64_t end);
void ws_spans_merge(struct ws_spans *spans);
/* These take sets; `out` is another, empty one. */
void ws_spans_union(const struct ws_spans *left, const struct ws_spans *right,
		    struct ws_spans *out);
void ws_spans_subtract(const struct ws_spans *left, const struct ws_spans *right,
		       struct ws_spans *out);
void ws_spans_free(struct ws_spans *spans);

#endif
