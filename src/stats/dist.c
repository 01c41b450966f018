/*
 * dist.c - see dist.h.
 *
 * The values of the parts form three classes, each wholly below the next once a table of counts has
 * taken the small ones: counted, 32-bit, large. The two middle values are found by rank: by walking
 * the counts, or by a histogram of the high halves followed by one of the low halves, which reads
 * the array twice and writes nothing; a sort of 18 M values would take longer than decoding them.
 * Squares are summed around the rounded mean, so that nothing cancels.
 */
#include "stats/dist.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/choose.h"

/* From here on a table of counts takes no more memory than the array. */
enum { UPGRADE_AT = WS_DIST_COUNTS };

static const uint32_t *values(const struct ws_dist *dist)
{
	return dist->cap ? dist->v : dist->here;
}

/* Turn the array into a table of counts if most of it would fit. */
static void try_upgrade(struct ws_dist *dist)
{
	uint32_t small = 0, left = 0;

	for (uint32_t i = 0; i < dist->n; i++)
		small += dist->v[i] < WS_DIST_COUNTS;
	if (small < dist->n / 2)
		return;
	dist->counts = ws_calloc(WS_DIST_COUNTS, sizeof(*dist->counts));
	for (uint32_t i = 0; i < dist->n; i++) {
		if (dist->v[i] < WS_DIST_COUNTS)
			dist->counts[dist->v[i]]++;
		else
			dist->v[left++] = dist->v[i];
	}
	dist->n = left;
	dist->cap = left ? left : 1;
	dist->v = ws_realloc(dist->v, dist->cap * sizeof(*dist->v));
}

static void grow(struct ws_dist *dist)
{
	uint32_t cap = dist->cap ? dist->cap : WS_DIST_INLINE;
	uint32_t *values;

	cap = cap > UINT32_MAX / 2 ? UINT32_MAX : cap * 2;
	values = ws_realloc(dist->cap ? dist->v : NULL, cap * sizeof(*values));
	if (!dist->cap)
		memcpy(values, dist->here, sizeof(dist->here));
	dist->v = values;
	dist->cap = cap;
}

static void add_large(struct ws_dist *dist, uint64_t value)
{
	if (!dist->large)
		dist->large = ws_calloc(1, sizeof(*dist->large));
	ws_grow(dist->large->values, dist->large->cap, dist->large->n + 1);
	dist->large->values[dist->large->n++] = value;
}

void ws_dist_add_slow(struct ws_dist *dist, uint64_t value)
{
	if (value > UINT32_MAX || dist->n == UINT32_MAX) {
		add_large(dist, value);
		return;
	}
	if (dist->n == (dist->cap ? dist->cap : WS_DIST_INLINE)) {
		if (!dist->counts && dist->n >= UPGRADE_AT)
			try_upgrade(dist);
		if (dist->counts && value < WS_DIST_COUNTS && dist->counts[value] != UINT32_MAX) {
			dist->counts[value]++;
			return;
		}
		if (dist->n == (dist->cap ? dist->cap : WS_DIST_INLINE))
			grow(dist);
	}
	if (dist->cap)
		dist->v[dist->n++] = (uint32_t)value;
	else
		dist->here[dist->n++] = (uint32_t)value;
}

void ws_dist_free(struct ws_dist *dist)
{
	free(dist->counts);
	if (dist->cap)
		free(dist->v);
	if (dist->large)
		free(dist->large->values);
	free(dist->large);
	memset(dist, 0, sizeof(*dist));
}

/* ---- the summary ---- */

struct summary {
	struct ws_dist *const *parts;
	size_t part_count;
	uint64_t
		*counts; /* of values below WS_DIST_COUNTS in all parts; NULL when no part counts */
	uint64_t counted, narrow, wide; /* values in counts, other 32-bit ones, large ones */
	uint64_t *sorted;		/* the large ones */
	long double mean;
	struct ws_std8 summary;
};

static void merge_counts(struct summary *summary)
{
	for (size_t p = 0; p < summary->part_count; p++) {
		const uint32_t *c = summary->parts[p]->counts;

		if (!c)
			continue;
		if (!summary->counts)
			summary->counts = ws_calloc(WS_DIST_COUNTS, sizeof(*summary->counts));
		for (uint32_t i = 0; i < WS_DIST_COUNTS; i++)
			summary->counts[i] += c[i];
	}
	for (size_t p = 0; summary->counts && p < summary->part_count; p++)
		for (uint32_t i = 0; i < summary->parts[p]->n; i++)
			if (values(summary->parts[p])[i] < WS_DIST_COUNTS)
				summary->counts[values(summary->parts[p])[i]]++;
}

/* Is v among the narrow values: not already counted? */
static inline int narrow(const struct summary *summary, uint32_t v)
{
	return !summary->counts || v >= WS_DIST_COUNTS;
}

static int compare_u64(const void *first, const void *second)
{
	uint64_t x = *(const uint64_t *)first, y = *(const uint64_t *)second;

	return ws_compare(x, y);
}

static void gather_large(struct summary *summary)
{
	for (size_t p = 0; p < summary->part_count; p++)
		summary->wide += summary->parts[p]->large ? summary->parts[p]->large->n : 0;
	if (!summary->wide)
		return;
	summary->sorted = ws_malloc(summary->wide * sizeof(*summary->sorted));
	for (size_t p = 0, at = 0; p < summary->part_count; p++) {
		const struct ws_dist_large *large = summary->parts[p]->large;

		if (large)
			memcpy(summary->sorted + at, large->values,
			       large->n * sizeof(*large->values));
		at += large ? large->n : 0;
	}
	qsort(summary->sorted, summary->wide, sizeof(*summary->sorted), compare_u64);
}

static void extend(struct ws_std8 *summary, uint64_t v, uint64_t times)
{
	if (v < summary->min)
		summary->min = v;
	if (v > summary->max)
		summary->max = v;
	summary->total += (unsigned __int128)v * times;
}

/* Count, total, minimum, maximum and mean. */
static void first_pass(struct summary *summary)
{
	summary->summary.min = UINT64_MAX;
	for (uint32_t i = 0; summary->counts && i < WS_DIST_COUNTS; i++) {
		if (summary->counts[i])
			extend(&summary->summary, i, summary->counts[i]);
		summary->counted += summary->counts[i];
	}
	for (size_t p = 0; p < summary->part_count; p++) {
		const uint32_t *cells = values(summary->parts[p]);

		for (uint32_t i = 0; i < summary->parts[p]->n; i++) {
			if (!narrow(summary, cells[i]))
				continue;
			extend(&summary->summary, cells[i], 1);
			summary->narrow++;
		}
	}
	for (uint64_t i = 0; i < summary->wide; i++)
		extend(&summary->summary, summary->sorted[i], 1);
	summary->summary.count = summary->counted + summary->narrow + summary->wide;
	summary->mean = ws_std8_mean(&summary->summary);
	if (!summary->summary.count)
		summary->summary.min = 0;
}

static uint64_t counted_rank(const struct summary *summary, uint64_t rank)
{
	uint32_t v = 0;

	while (rank >= summary->counts[v])
		rank -= summary->counts[v++];
	return v;
}

static int compare_u32(const void *first, const void *second)
{
	uint32_t x = *(const uint32_t *)first, y = *(const uint32_t *)second;

	return ws_compare(x, y);
}

/* Sorted copy of few narrow values. */
static void few_ranks(const struct summary *summary, uint64_t rank, int two, uint64_t *out)
{
	uint32_t stack[64], *cells = summary->narrow <= WS_COUNT(stack)
					     ? stack
					     : ws_malloc(summary->narrow * sizeof(*cells));
	size_t n = 0;

	for (size_t p = 0; p < summary->part_count; p++)
		for (uint32_t i = 0; i < summary->parts[p]->n; i++)
			if (narrow(summary, values(summary->parts[p])[i]))
				cells[n++] = values(summary->parts[p])[i];
	if (n > 1)
		qsort(cells, n, sizeof(*cells), compare_u32);
	out[0] = cells[rank];
	if (two)
		out[1] = cells[rank + 1];
	if (cells != stack)
		free(cells);
}

/* Histogram of one half of those narrow values whose other half is `high`, or of the high halves of
 * all. */
static void histogram(const struct summary *summary, uint64_t *h, int64_t high)
{
	memset(h, 0, sizeof(*h) << 16);
	for (size_t p = 0; p < summary->part_count; p++) {
		const uint32_t *cells = values(summary->parts[p]);

		for (uint32_t i = 0; i < summary->parts[p]->n; i++) {
			if (!narrow(summary, cells[i]))
				continue;
			if (high < 0)
				h[cells[i] >> 16]++;
			else if (cells[i] >> 16 == (uint32_t)high)
				h[cells[i] & 0xffff]++;
		}
	}
}

static uint32_t bucket_of(const uint64_t *h, uint64_t *rank)
{
	uint32_t b = 0;

	while (*rank >= h[b])
		*rank -= h[b++];
	return b;
}

/* The narrow values of `rank` and, if `two`, of rank + 1. */
static void narrow_ranks(const struct summary *summary, uint64_t rank, int two, uint64_t *out)
{
	uint64_t *high, *low, r;
	int64_t in_low = -1;

	if (summary->narrow <= 4096) {
		few_ranks(summary, rank, two, out);
		return;
	}
	high = ws_malloc(sizeof(*high) << 16);
	low = ws_malloc(sizeof(*low) << 16);
	histogram(summary, high, -1);
	for (int i = 0; i <= two; i++) {
		uint32_t b;

		r = rank + (uint64_t)i;
		b = bucket_of(high, &r);
		if (in_low != b)
			histogram(summary, low, in_low = b);
		out[i] = (uint64_t)b << 16 | bucket_of(low, &r);
	}
	free(high);
	free(low);
}

/* Value of one rank among all; pairs inside the narrow class are looked up together. */
static void median(struct summary *summary)
{
	uint64_t lo = (summary->summary.count - 1) / 2, hi = summary->summary.count / 2,
		 *values = summary->summary.middle, below = summary->counted,
		 inner = summary->counted + summary->narrow;

	if (lo >= below && hi < inner) {
		narrow_ranks(summary, lo - below, hi != lo, values);
		if (hi == lo)
			values[1] = values[0];
	} else {
		for (int i = 0; i < 2; i++) {
			uint64_t rank = i ? hi : lo;

			if (rank < below)
				values[i] = counted_rank(summary, rank);
			else if (rank < inner)
				narrow_ranks(summary, rank - below, 0, &values[i]);
			else
				values[i] = summary->sorted[rank - inner];
		}
	}
}

static void stddev(struct summary *summary)
{
	/* m stands for the mean in whole nanoseconds; 0 when large values have pushed it out of
	 * reach of the narrow ones */
	int64_t m = summary->mean < 1e10L ? (int64_t)summary->mean : 0;
	long double off = summary->mean - m, sum = 0;

	if (summary->summary.count < 2)
		return;
	for (uint32_t i = 0; summary->counts && i < WS_DIST_COUNTS; i++)
		if (summary->counts[i])
			sum += ((long double)i - summary->mean) * ((long double)i - summary->mean) *
			       summary->counts[i];
	for (size_t p = 0; p < summary->part_count; p++) {
		const uint32_t *cells = values(summary->parts[p]);
		unsigned __int128 squares = 0;
		__int128 linear = 0;
		uint64_t n = 0;

		for (uint32_t i = 0; i < summary->parts[p]->n; i++) {
			__int128 d = (__int128)cells[i] - m;

			if (!narrow(summary, cells[i]))
				continue;
			squares += (unsigned __int128)(d * d);
			linear += d;
			n++;
		}
		/* the sum of (d - off)^2 */
		sum += (long double)squares - 2 * off * (long double)linear +
		       (long double)n * off * off;
	}
	for (uint64_t i = 0; i < summary->wide; i++)
		sum += ((long double)summary->sorted[i] - summary->mean) *
		       ((long double)summary->sorted[i] - summary->mean);
	summary->summary.stddev = sum > 0 ? (double)sqrtl(sum / (summary->summary.count - 1)) : 0;
}

static bool single(struct ws_dist *const *parts, size_t part_count, struct ws_std8 *summary)
{
	const struct ws_dist *dist = parts[0];

	if (part_count != 1 || dist->counts || dist->large || dist->n != 1)
		return false;
	*summary = ws_std8_single(values(dist)[0]);
	return true;
}

struct ws_std8 ws_dist_summary(struct ws_dist *const *parts, size_t part_count)
{
	struct summary summary = {.parts = parts, .part_count = part_count};

	if (part_count && single(parts, part_count, &summary.summary))
		return summary.summary;
	merge_counts(&summary);
	gather_large(&summary);
	first_pass(&summary);
	if (summary.summary.count) {
		median(&summary);
		stddev(&summary);
	}
	free(summary.counts);
	free(summary.sorted);
	return summary.summary;
}
