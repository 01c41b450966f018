/*
 * distribution.h - a distribution of durations: exact total, minimum, maximum, median and standard
 * deviation of any number of values.
 *
 * A median needs all values, so they are kept, as compactly as possible: two fit into the struct
 * itself, which is enough for most names where names never repeat; more go into an array of 32-bit
 * values. When an array has grown to the size of a table of counts and most of its values are below
 * 65,536, it becomes such a table: each further short range then costs one increment and no more
 * memory. Values of 4.3 s and more go into an array of their own.
 */
#ifndef WS_STATS_DISTRIBUTION_H
#define WS_STATS_DISTRIBUTION_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

enum { WS_DIST_COUNTS = 1 << 16, WS_DIST_INLINE = 2 };

struct ws_dist_large { /* values that need 64 bits */
	uint64_t *values;
	size_t count, capacity;
};

struct ws_dist {
	uint32_t *counts; /* of each value below WS_DIST_COUNTS, or NULL */
	union {
		uint32_t here[WS_DIST_INLINE];
		uint32_t *v;
	};
	uint32_t array_count,
		array_capacity; /* how many values are in `here` (when cap is 0) or in the array */
	struct ws_dist_large *large;
};

/* ws_dist_add for a value that is not in the table of counts. */
void ws_dist_add_slow(struct ws_dist *dist, uint64_t value);
void ws_dist_free(struct ws_dist *dist);

/* Add one value. `dist` starts zeroed. */
static inline void ws_dist_add(struct ws_dist *dist, uint64_t value)
{
	if (ws_likely(dist->counts && value < WS_DIST_COUNTS && dist->counts[value] != UINT32_MAX))
		dist->counts[value]++;
	else
		ws_dist_add_slow(dist, value);
}

struct ws_summary { /* compact, since there may be one for each of millions of names */
	unsigned __int128 total;
	uint64_t count, min, max;
	uint64_t middle[2]; /* the two middle values; the same twice for an odd count */
	double stddev;	    /* of a sample (n-1); 0 for one value */
};

/* The statistics of one value: where names never repeat, most have only one. */
static inline struct ws_summary ws_summarise_single_value(uint64_t value)
{
	return (struct ws_summary){value, 1, value, value, {value, value}, 0};
}

static inline long double ws_compute_summary_mean(const struct ws_summary *summary)
{
	if (!summary->count)
		return 0;
	return (long double)summary->total / summary->count;
}

static inline long double ws_compute_summary_median(const struct ws_summary *summary)
{
	return ((long double)summary->middle[0] + (long double)summary->middle[1]) / 2;
}

/* Statistics over several distributions taken together (one per worker), which are not changed. */
struct ws_summary ws_summarise_dists(struct ws_dist *const *parts, size_t part_count);

#endif
