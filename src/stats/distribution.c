/*
 * distribution.c - see distribution.h.
 *
 * The values of the parts form three classes: counted, other 32-bit values (called narrow), and
 * large ones (called wide). Once there is a table of counts it takes all small values, so that each
 * class is wholly below the next. The two middle values are found by rank: by adding up the counts,
 * or by a histogram of the high halves followed by one of the low halves. That reads the array
 * twice and writes nothing; sorting 18 million values would take longer than decoding them. Squares
 * are summed around the rounded mean, to avoid cancellation.
 */
#include "stats/distribution.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/choose.h"

/* At this size a table of counts takes no more memory than the array. */
enum { UPGRADE_AT = WS_DIST_COUNTS };

static const uint32_t *get_array(const struct ws_dist *dist)
{
	if (dist->array_capacity)
		return dist->v;
	return dist->here;
}

/* How many values the distribution has space for before it grows. */
static inline uint32_t get_capacity(const struct ws_dist *dist)
{
	return dist->array_capacity ? dist->array_capacity : WS_DIST_INLINE;
}

/* Turn the array into a table of counts if most of its values fit in there. */
static void turn_into_counts(struct ws_dist *dist)
{
	uint32_t small = 0, left = 0;

	for (uint32_t i = 0; i < dist->array_count; i++)
		small += dist->v[i] < WS_DIST_COUNTS;
	if (small < dist->array_count / 2)
		return;
	dist->counts = ws_calloc(WS_DIST_COUNTS, sizeof(*dist->counts));
	for (uint32_t i = 0; i < dist->array_count; i++) {
		if (dist->v[i] < WS_DIST_COUNTS)
			dist->counts[dist->v[i]]++;
		else
			dist->v[left++] = dist->v[i];
	}
	dist->array_count = left;
	dist->array_capacity = ws_max(left, 1u);
	dist->v = ws_realloc(dist->v, dist->array_capacity * sizeof(*dist->v));
}

static void grow_array(struct ws_dist *dist)
{
	uint32_t capacity = get_capacity(dist);
	uint32_t *values = NULL;

	if (capacity > UINT32_MAX / 2)
		capacity = UINT32_MAX;
	else
		capacity *= 2;
	if (dist->array_capacity)
		values = dist->v;
	values = ws_realloc(values, capacity * sizeof(*values));
	if (!dist->array_capacity)
		memcpy(values, dist->here, sizeof(dist->here));
	dist->v = values;
	dist->array_capacity = capacity;
}

static void add_large_value(struct ws_dist *dist, uint64_t value)
{
	if (!dist->large)
		dist->large = ws_calloc(1, sizeof(*dist->large));
	ws_grow(dist->large->values, dist->large->capacity, dist->large->count + 1);
	dist->large->values[dist->large->count++] = value;
}

void ws_dist_add_slow(struct ws_dist *dist, uint64_t value)
{
	if (value > UINT32_MAX || dist->array_count == UINT32_MAX) {
		add_large_value(dist, value);
		return;
	}
	if (dist->array_count == get_capacity(dist)) {
		if (!dist->counts && dist->array_count >= UPGRADE_AT)
			turn_into_counts(dist);
		if (dist->counts && value < WS_DIST_COUNTS && dist->counts[value] != UINT32_MAX) {
			dist->counts[value]++;
			return;
		}
		if (dist->array_count == get_capacity(dist))
			grow_array(dist);
	}
	if (dist->array_capacity)
		dist->v[dist->array_count++] = (uint32_t)value;
	else
		dist->here[dist->array_count++] = (uint32_t)value;
}

void ws_dist_free(struct ws_dist *dist)
{
	free(dist->counts);
	if (dist->array_capacity)
		free(dist->v);
	if (dist->large)
		free(dist->large->values);
	free(dist->large);
	memset(dist, 0, sizeof(*dist));
}

/* ---- the summary ---- */

struct summary_builder {
	struct ws_dist *const *parts;
	size_t part_count;
	uint64_t *counts; /* by value below WS_DIST_COUNTS; NULL when no part has counts */
	uint64_t counted, narrow, wide; /* the number of values of each class */
	uint64_t *sorted;		/* the wide values */
	long double mean;
	struct ws_summary result;
};

static void merge_counts(struct summary_builder *builder)
{
	for (size_t part = 0; part < builder->part_count; part++) {
		const uint32_t *counts = builder->parts[part]->counts;

		if (!counts)
			continue;
		if (!builder->counts)
			builder->counts = ws_calloc(WS_DIST_COUNTS, sizeof(*builder->counts));
		for (uint32_t i = 0; i < WS_DIST_COUNTS; i++)
			builder->counts[i] += counts[i];
	}
	for (size_t part = 0; builder->counts && part < builder->part_count; part++)
		for (uint32_t i = 0; i < builder->parts[part]->array_count; i++)
			if (get_array(builder->parts[part])[i] < WS_DIST_COUNTS)
				builder->counts[get_array(builder->parts[part])[i]]++;
}

/* Whether a value of an array counts as narrow: it is not in the counts already. */
static inline int is_narrow(const struct summary_builder *builder, uint32_t value)
{
	return !builder->counts || value >= WS_DIST_COUNTS;
}

static int compare_u64(const void *first, const void *second)
{
	uint64_t left = *(const uint64_t *)first, right = *(const uint64_t *)second;

	return ws_compare(left, right);
}

static void gather_wide_values(struct summary_builder *builder)
{
	for (size_t part = 0; part < builder->part_count; part++)
		if (builder->parts[part]->large)
			builder->wide += builder->parts[part]->large->count;
	if (!builder->wide)
		return;
	builder->sorted = ws_malloc(builder->wide * sizeof(*builder->sorted));
	for (size_t part = 0, at = 0; part < builder->part_count; part++) {
		const struct ws_dist_large *large = builder->parts[part]->large;

		if (!large)
			continue;
		memcpy(builder->sorted + at, large->values, large->count * sizeof(*large->values));
		at += large->count;
	}
	qsort(builder->sorted, builder->wide, sizeof(*builder->sorted), compare_u64);
}

static void extend_summary(struct ws_summary *summary, uint64_t value, uint64_t times)
{
	if (value < summary->min)
		summary->min = value;
	if (value > summary->max)
		summary->max = value;
	summary->total += (unsigned __int128)value * times;
}

/* Compute count, total, minimum, maximum and mean. */
static void compute_totals(struct summary_builder *builder)
{
	builder->result.min = UINT64_MAX;
	for (uint32_t i = 0; builder->counts && i < WS_DIST_COUNTS; i++) {
		if (builder->counts[i])
			extend_summary(&builder->result, i, builder->counts[i]);
		builder->counted += builder->counts[i];
	}
	for (size_t part = 0; part < builder->part_count; part++) {
		const uint32_t *values = get_array(builder->parts[part]);

		for (uint32_t i = 0; i < builder->parts[part]->array_count; i++) {
			if (!is_narrow(builder, values[i]))
				continue;
			extend_summary(&builder->result, values[i], 1);
			builder->narrow++;
		}
	}
	for (uint64_t i = 0; i < builder->wide; i++)
		extend_summary(&builder->result, builder->sorted[i], 1);
	builder->result.count = builder->counted + builder->narrow + builder->wide;
	builder->mean = ws_compute_summary_mean(&builder->result);
	if (!builder->result.count)
		builder->result.min = 0;
}

static uint64_t find_counted_rank(const struct summary_builder *builder, uint64_t rank)
{
	uint32_t value = 0;

	while (rank >= builder->counts[value])
		rank -= builder->counts[value++];
	return value;
}

static int compare_u32(const void *first, const void *second)
{
	uint32_t left = *(const uint32_t *)first, right = *(const uint32_t *)second;

	return ws_compare(left, right);
}

/* The narrow values of `rank` and, if `two`, of rank + 1, by sorting a copy, since there are
 * few. */
static void find_few_ranks(const struct summary_builder *builder, uint64_t rank, int two,
			   uint64_t *out)
{
	uint32_t few[64], *values = few;
	size_t count = 0;

	if (builder->narrow > WS_COUNT(few))
		values = ws_malloc(builder->narrow * sizeof(*values));

	for (size_t part = 0; part < builder->part_count; part++)
		for (uint32_t i = 0; i < builder->parts[part]->array_count; i++)
			if (is_narrow(builder, get_array(builder->parts[part])[i]))
				values[count++] = get_array(builder->parts[part])[i];
	if (count > 1)
		qsort(values, count, sizeof(*values), compare_u32);
	out[0] = values[rank];
	if (two)
		out[1] = values[rank + 1];
	if (values != few)
		free(values);
}

/* Count the low halves of the narrow values with this high half; if it is negative, the high halves
 * of all narrow values. */
static void count_halves(const struct summary_builder *builder, uint64_t *histogram,
			 int64_t high_half)
{
	memset(histogram, 0, sizeof(*histogram) << 16);
	for (size_t part = 0; part < builder->part_count; part++) {
		const uint32_t *values = get_array(builder->parts[part]);

		for (uint32_t i = 0; i < builder->parts[part]->array_count; i++) {
			if (!is_narrow(builder, values[i]))
				continue;
			if (high_half < 0)
				histogram[values[i] >> 16]++;
			else if (values[i] >> 16 == (uint32_t)high_half)
				histogram[values[i] & 0xffff]++;
		}
	}
}

/* The value at a rank of a histogram; *rank becomes the rank among equal values. */
static uint32_t find_bucket(const uint64_t *histogram, uint64_t *rank)
{
	uint32_t bucket = 0;

	while (*rank >= histogram[bucket])
		*rank -= histogram[bucket++];
	return bucket;
}

/* The narrow values of `rank` and, if `two`, of rank + 1. */
static void find_narrow_ranks(const struct summary_builder *builder, uint64_t rank, int two,
			      uint64_t *out)
{
	uint64_t *high, *low, remaining;
	int64_t in_low = -1;

	if (builder->narrow <= 4096) {
		find_few_ranks(builder, rank, two, out);
		return;
	}
	high = ws_malloc(sizeof(*high) << 16);
	low = ws_malloc(sizeof(*low) << 16);
	count_halves(builder, high, -1);
	for (int i = 0; i <= two; i++) {
		uint32_t bucket;

		remaining = rank + (uint64_t)i;
		bucket = find_bucket(high, &remaining);
		if (in_low != bucket)
			count_halves(builder, low, in_low = bucket);
		out[i] = (uint64_t)bucket << 16 | find_bucket(low, &remaining);
	}
	free(high);
	free(low);
}

/* Find the two middle values. If both are narrow, they are looked up together. */
static void find_median(struct summary_builder *builder)
{
	const uint64_t ranks[] = {(builder->result.count - 1) / 2, builder->result.count / 2};
	uint64_t *middle = builder->result.middle, first_narrow = builder->counted,
		 first_wide = builder->counted + builder->narrow;

	if (ranks[0] >= first_narrow && ranks[1] < first_wide) {
		find_narrow_ranks(builder, ranks[0] - first_narrow, ranks[1] != ranks[0], middle);
		if (ranks[1] == ranks[0])
			middle[1] = middle[0];
		return;
	}
	for (int i = 0; i < 2; i++) {
		if (ranks[i] < first_narrow)
			middle[i] = find_counted_rank(builder, ranks[i]);
		else if (ranks[i] < first_wide)
			find_narrow_ranks(builder, ranks[i] - first_narrow, 0, &middle[i]);
		else
			middle[i] = builder->sorted[ranks[i] - first_wide];
	}
}

static void compute_stddev(struct summary_builder *builder)
{
	/* The mean in whole nanoseconds; 0 when wide values have moved it far from the narrow
	 * ones. */
	int64_t centre = 0;
	long double offset, sum = 0;

	if (builder->result.count < 2)
		return;
	if (builder->mean < 1e10L)
		centre = (int64_t)builder->mean;
	offset = builder->mean - centre;
	for (uint32_t i = 0; builder->counts && i < WS_DIST_COUNTS; i++)
		if (builder->counts[i])
			sum += ((long double)i - builder->mean) * ((long double)i - builder->mean) *
			       builder->counts[i];
	for (size_t part = 0; part < builder->part_count; part++) {
		const uint32_t *values = get_array(builder->parts[part]);
		unsigned __int128 squares = 0;
		__int128 linear = 0;
		uint64_t narrow_count = 0;

		for (uint32_t i = 0; i < builder->parts[part]->array_count; i++) {
			__int128 difference = (__int128)values[i] - centre;

			if (!is_narrow(builder, values[i]))
				continue;
			squares += (unsigned __int128)(difference * difference);
			linear += difference;
			narrow_count++;
		}
		/* the sum of (difference - offset)^2 */
		sum += (long double)squares - 2 * offset * (long double)linear +
		       (long double)narrow_count * offset * offset;
	}
	for (uint64_t i = 0; i < builder->wide; i++)
		sum += ((long double)builder->sorted[i] - builder->mean) *
		       ((long double)builder->sorted[i] - builder->mean);
	if (sum > 0)
		builder->result.stddev = (double)sqrtl(sum / (builder->result.count - 1));
}

/* The statistics of one value, by far the most frequent case; false when there are others. */
static bool summarise_single(struct ws_dist *const *parts, size_t part_count,
			     struct ws_summary *summary)
{
	const struct ws_dist *dist = parts[0];

	if (part_count != 1 || dist->counts || dist->large || dist->array_count != 1)
		return false;
	*summary = ws_summarise_single_value(get_array(dist)[0]);
	return true;
}

struct ws_summary ws_summarise_dists(struct ws_dist *const *parts, size_t part_count)
{
	struct summary_builder builder = {.parts = parts, .part_count = part_count};

	if (part_count && summarise_single(parts, part_count, &builder.result))
		return builder.result;
	merge_counts(&builder);
	gather_wide_values(&builder);
	compute_totals(&builder);
	if (builder.result.count) {
		find_median(&builder);
		compute_stddev(&builder);
	}
	free(builder.counts);
	free(builder.sorted);
	return builder.result;
}
