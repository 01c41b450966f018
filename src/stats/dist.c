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

/* From here on a table of counts takes no more memory than the array. */
enum { UPGRADE_AT = WS_DIST_COUNTS };

static const uint32_t *values(const struct ws_dist *d)
{
	return d->cap ? d->v : d->here;
}

/* Turn the array into a table of counts if most of it would fit. */
static void try_upgrade(struct ws_dist *d)
{
	uint32_t small = 0, left = 0;

	for (uint32_t i = 0; i < d->n; i++)
		small += d->v[i] < WS_DIST_COUNTS;
	if (small < d->n / 2)
		return;
	d->counts = ws_calloc(WS_DIST_COUNTS, sizeof(*d->counts));
	for (uint32_t i = 0; i < d->n; i++) {
		if (d->v[i] < WS_DIST_COUNTS)
			d->counts[d->v[i]]++;
		else
			d->v[left++] = d->v[i];
	}
	d->n = left;
	d->cap = left ? left : 1;
	d->v = ws_realloc(d->v, d->cap * sizeof(*d->v));
}

static void grow(struct ws_dist *d)
{
	uint32_t cap = d->cap ? d->cap : WS_DIST_INLINE;
	uint32_t *v;

	cap = cap > UINT32_MAX / 2 ? UINT32_MAX : cap * 2;
	v = ws_realloc(d->cap ? d->v : NULL, cap * sizeof(*v));
	if (!d->cap)
		memcpy(v, d->here, sizeof(d->here));
	d->v = v;
	d->cap = cap;
}

static void add_large(struct ws_dist *d, uint64_t value)
{
	if (!d->large)
		d->large = ws_calloc(1, sizeof(*d->large));
	ws_grow(d->large->v, d->large->cap, d->large->n + 1);
	d->large->v[d->large->n++] = value;
}

void ws_dist_add_slow(struct ws_dist *d, uint64_t value)
{
	if (value > UINT32_MAX || d->n == UINT32_MAX) {
		add_large(d, value);
		return;
	}
	if (d->n == (d->cap ? d->cap : WS_DIST_INLINE)) {
		if (!d->counts && d->n >= UPGRADE_AT)
			try_upgrade(d);
		if (d->counts && value < WS_DIST_COUNTS && d->counts[value] != UINT32_MAX) {
			d->counts[value]++;
			return;
		}
		if (d->n == (d->cap ? d->cap : WS_DIST_INLINE))
			grow(d);
	}
	if (d->cap)
		d->v[d->n++] = (uint32_t)value;
	else
		d->here[d->n++] = (uint32_t)value;
}

void ws_dist_free(struct ws_dist *d)
{
	free(d->counts);
	if (d->cap)
		free(d->v);
	if (d->large)
		free(d->large->v);
	free(d->large);
	memset(d, 0, sizeof(*d));
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
	struct ws_std8 r;
};

static void merge_counts(struct summary *s)
{
	for (size_t p = 0; p < s->part_count; p++) {
		const uint32_t *c = s->parts[p]->counts;

		if (!c)
			continue;
		if (!s->counts)
			s->counts = ws_calloc(WS_DIST_COUNTS, sizeof(*s->counts));
		for (uint32_t i = 0; i < WS_DIST_COUNTS; i++)
			s->counts[i] += c[i];
	}
	for (size_t p = 0; s->counts && p < s->part_count; p++)
		for (uint32_t i = 0; i < s->parts[p]->n; i++)
			if (values(s->parts[p])[i] < WS_DIST_COUNTS)
				s->counts[values(s->parts[p])[i]]++;
}

/* Is v among the narrow values: not already counted? */
static inline int narrow(const struct summary *s, uint32_t v)
{
	return !s->counts || v >= WS_DIST_COUNTS;
}

static int compare_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void gather_large(struct summary *s)
{
	for (size_t p = 0; p < s->part_count; p++)
		s->wide += s->parts[p]->large ? s->parts[p]->large->n : 0;
	if (!s->wide)
		return;
	s->sorted = ws_malloc(s->wide * sizeof(*s->sorted));
	for (size_t p = 0, at = 0; p < s->part_count; p++) {
		const struct ws_dist_large *l = s->parts[p]->large;

		if (l)
			memcpy(s->sorted + at, l->v, l->n * sizeof(*l->v));
		at += l ? l->n : 0;
	}
	qsort(s->sorted, s->wide, sizeof(*s->sorted), compare_u64);
}

static void extend(struct ws_std8 *r, uint64_t v, uint64_t times)
{
	if (v < r->min)
		r->min = v;
	if (v > r->max)
		r->max = v;
	r->total += (unsigned __int128)v * times;
}

/* Count, total, minimum, maximum and mean. */
static void first_pass(struct summary *s)
{
	s->r.min = UINT64_MAX;
	for (uint32_t i = 0; s->counts && i < WS_DIST_COUNTS; i++) {
		if (s->counts[i])
			extend(&s->r, i, s->counts[i]);
		s->counted += s->counts[i];
	}
	for (size_t p = 0; p < s->part_count; p++) {
		const uint32_t *v = values(s->parts[p]);

		for (uint32_t i = 0; i < s->parts[p]->n; i++) {
			if (!narrow(s, v[i]))
				continue;
			extend(&s->r, v[i], 1);
			s->narrow++;
		}
	}
	for (uint64_t i = 0; i < s->wide; i++)
		extend(&s->r, s->sorted[i], 1);
	s->r.count = s->counted + s->narrow + s->wide;
	s->mean = ws_std8_mean(&s->r);
	if (!s->r.count)
		s->r.min = 0;
}

static uint64_t counted_rank(const struct summary *s, uint64_t rank)
{
	uint32_t v = 0;

	while (rank >= s->counts[v])
		rank -= s->counts[v++];
	return v;
}

static int compare_u32(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

/* Sorted copy of few narrow values. */
static void few_ranks(const struct summary *s, uint64_t rank, int two, uint64_t *out)
{
	uint32_t stack[64],
		*v = s->narrow <= WS_COUNT(stack) ? stack : ws_malloc(s->narrow * sizeof(*v));
	size_t n = 0;

	for (size_t p = 0; p < s->part_count; p++)
		for (uint32_t i = 0; i < s->parts[p]->n; i++)
			if (narrow(s, values(s->parts[p])[i]))
				v[n++] = values(s->parts[p])[i];
	if (n > 1)
		qsort(v, n, sizeof(*v), compare_u32);
	out[0] = v[rank];
	if (two)
		out[1] = v[rank + 1];
	if (v != stack)
		free(v);
}

/* Histogram of one half of those narrow values whose other half is `high`, or of the high halves of
 * all. */
static void histogram(const struct summary *s, uint64_t *h, int64_t high)
{
	memset(h, 0, sizeof(*h) << 16);
	for (size_t p = 0; p < s->part_count; p++) {
		const uint32_t *v = values(s->parts[p]);

		for (uint32_t i = 0; i < s->parts[p]->n; i++) {
			if (!narrow(s, v[i]))
				continue;
			if (high < 0)
				h[v[i] >> 16]++;
			else if (v[i] >> 16 == (uint32_t)high)
				h[v[i] & 0xffff]++;
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
static void narrow_ranks(const struct summary *s, uint64_t rank, int two, uint64_t *out)
{
	uint64_t *high, *low, r;
	int64_t in_low = -1;

	if (s->narrow <= 4096) {
		few_ranks(s, rank, two, out);
		return;
	}
	high = ws_malloc(sizeof(*high) << 16);
	low = ws_malloc(sizeof(*low) << 16);
	histogram(s, high, -1);
	for (int i = 0; i <= two; i++) {
		uint32_t b;

		r = rank + (uint64_t)i;
		b = bucket_of(high, &r);
		if (in_low != b)
			histogram(s, low, in_low = b);
		out[i] = (uint64_t)b << 16 | bucket_of(low, &r);
	}
	free(high);
	free(low);
}

/* Value of one rank among all; pairs inside the narrow class are looked up together. */
static void median(struct summary *s)
{
	uint64_t lo = (s->r.count - 1) / 2, hi = s->r.count / 2, *v = s->r.middle,
		 below = s->counted, inner = s->counted + s->narrow;

	if (lo >= below && hi < inner) {
		narrow_ranks(s, lo - below, hi != lo, v);
		if (hi == lo)
			v[1] = v[0];
	} else {
		for (int i = 0; i < 2; i++) {
			uint64_t rank = i ? hi : lo;

			if (rank < below)
				v[i] = counted_rank(s, rank);
			else if (rank < inner)
				narrow_ranks(s, rank - below, 0, &v[i]);
			else
				v[i] = s->sorted[rank - inner];
		}
	}
}

static void stddev(struct summary *s)
{
	/* m stands for the mean in whole nanoseconds; 0 when large values have pushed it out of
	 * reach of the narrow ones */
	int64_t m = s->mean < 1e10L ? (int64_t)s->mean : 0;
	long double off = s->mean - m, sum = 0;

	if (s->r.count < 2)
		return;
	for (uint32_t i = 0; s->counts && i < WS_DIST_COUNTS; i++)
		if (s->counts[i])
			sum += ((long double)i - s->mean) * ((long double)i - s->mean) *
			       s->counts[i];
	for (size_t p = 0; p < s->part_count; p++) {
		const uint32_t *v = values(s->parts[p]);
		unsigned __int128 squares = 0;
		__int128 linear = 0;
		uint64_t n = 0;

		for (uint32_t i = 0; i < s->parts[p]->n; i++) {
			__int128 d = (__int128)v[i] - m;

			if (!narrow(s, v[i]))
				continue;
			squares += (unsigned __int128)(d * d);
			linear += d;
			n++;
		}
		/* the sum of (d - off)^2 */
		sum += (long double)squares - 2 * off * (long double)linear +
		       (long double)n * off * off;
	}
	for (uint64_t i = 0; i < s->wide; i++)
		sum += ((long double)s->sorted[i] - s->mean) *
		       ((long double)s->sorted[i] - s->mean);
	s->r.stddev = sum > 0 ? (double)sqrtl(sum / (s->r.count - 1)) : 0;
}

static bool single(struct ws_dist *const *parts, size_t part_count, struct ws_std8 *r)
{
	const struct ws_dist *d = parts[0];

	if (part_count != 1 || d->counts || d->large || d->n != 1)
		return false;
	*r = ws_std8_single(values(d)[0]);
	return true;
}

struct ws_std8 ws_dist_summary(struct ws_dist *const *parts, size_t part_count)
{
	struct summary s = {.parts = parts, .part_count = part_count};

	if (part_count && single(parts, part_count, &s.r))
		return s.r;
	merge_counts(&s);
	gather_large(&s);
	first_pass(&s);
	if (s.r.count) {
		median(&s);
		stddev(&s);
	}
	free(s.counts);
	free(s.sorted);
	return s.r;
}
