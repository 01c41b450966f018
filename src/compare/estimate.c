/* estimate.c - see estimate.h. */
#include "compare/estimate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "compare/statistics.h"

enum { LEAST_UNITS = 4, RESAMPLES = 300, SEGMENTS = 8 };
#define WINSORISED 0.2 /* parts that are drawn in at either end */

struct part {
	double time, count, length;
};

/* Two runs part by part, where both have the item. */
struct pairs {
	double difference[WS_UNITS], weight[WS_UNITS];
	struct part base[WS_UNITS], fresh[WS_UNITS];
	size_t count;
};

/* Parts `first` to `end` of a series as one. */
static struct part join_parts(const struct ws_series *series, size_t first, size_t end)
{
	struct part part = {0};

	for (size_t i = first; i < end; i++) {
		part.time += series->time[i];
		part.count += series->count[i];
		part.length += series->length[i];
	}
	return part;
}

static double measure_part(const struct part *part, enum ws_measure measure)
{
	double above = part->time, below = part->length;

	if (measure == WS_MEASURE_COUNT)
		above = part->count;
	else if (measure == WS_MEASURE_MEAN)
		below = part->count;
	if (below <= 0)
		return 0;
	return above / below;
}

double ws_measure_series(const struct ws_series *series, enum ws_measure measure)
{
	struct part all = join_parts(series, 0, WS_UNITS);

	return measure_part(&all, measure);
}

/* The weight of a part: its share of the whole. */
static double weigh_part(const struct part *part, enum ws_measure measure)
{
	if (measure == WS_MEASURE_COUNT)
		return part->count;
	return part->time;
}

static void pair_parts(const struct ws_series *base, const struct ws_series *fresh, size_t width,
		       enum ws_measure measure, struct pairs *pairs)
{
	struct part whole_base = join_parts(base, 0, WS_UNITS),
		    whole_fresh = join_parts(fresh, 0, WS_UNITS);

	pairs->count = 0;
	for (size_t i = 0; i + width <= WS_UNITS; i += width) {
		struct part left = join_parts(base, i, i + width),
			    right = join_parts(fresh, i, i + width);
		double from = measure_part(&left, measure), to = measure_part(&right, measure);

		if (from <= 0 || to <= 0)
			continue;
		pairs->base[pairs->count] = left;
		pairs->fresh[pairs->count] = right;
		pairs->difference[pairs->count] = log(to / from);
		pairs->weight[pairs->count++] =
			weigh_part(&left, measure) / weigh_part(&whole_base, measure) +
			weigh_part(&right, measure) / weigh_part(&whole_fresh, measure);
	}
}

/* Pair parts that are as short as possible but mostly have the item. */
static void make_pairs(const struct ws_series *base, const struct ws_series *fresh,
		       enum ws_measure measure, struct pairs *pairs)
{
	for (size_t width = 1;; width *= 2) {
		pair_parts(base, fresh, width, measure, pairs);
		if (pairs->count * 4 >= WS_UNITS / width * 3 || WS_UNITS / width < 2 * LEAST_UNITS)
			return;
	}
}

static int compare_numbers(const void *first, const void *second)
{
	return ws_compare(*(const double *)first, *(const double *)second);
}

/* Winsorise: draw the outermost differences in. */
static void winsorise(struct pairs *pairs)
{
	size_t cut = (size_t)(WINSORISED * (double)pairs->count);
	double sorted[WS_UNITS], low, high;

	if (!cut)
		return;
	memcpy(sorted, pairs->difference, pairs->count * sizeof(*sorted));
	qsort(sorted, pairs->count, sizeof(*sorted), compare_numbers);
	low = sorted[cut];
	high = sorted[pairs->count - 1 - cut];
	for (size_t i = 0; i < pairs->count; i++)
		pairs->difference[i] = ws_min(ws_max(pairs->difference[i], low), high);
}

static double compute_weighted_mean(const struct pairs *pairs)
{
	double sum = 0, weight = 0;

	for (size_t i = 0; i < pairs->count; i++) {
		sum += pairs->weight[i] * pairs->difference[i];
		weight += pairs->weight[i];
	}
	return sum / weight;
}

/* ---- evidence from the parts ---- */

/* The correlation of neighbours, 0 to 0.9. */
static double correlate_neighbours(const struct pairs *pairs)
{
	double mean = ws_compute_mean(pairs->difference, pairs->count), all = 0, lagged = 0;

	for (size_t i = 0; i < pairs->count; i++) {
		double one = pairs->difference[i] - mean;

		all += one * one;
		if (i)
			lagged += one * (pairs->difference[i - 1] - mean);
	}
	if (all <= 0)
		return 0;
	return ws_min(ws_max(lagged / all, 0.0), 0.9);
}

static size_t choose_block_length(const struct pairs *pairs)
{
	double correlation = correlate_neighbours(pairs), n = (double)pairs->count;
	double length = pow(2 * correlation / (1 - correlation * correlation), 2.0 / 3) * cbrt(n);

	return (size_t)ws_min(ws_max(ceil(length), 2.0), ws_max(floor(n / 4), 1.0));
}

static void add_part(struct part *to, const struct part *part)
{
	to->time += part->time;
	to->count += part->count;
	to->length += part->length;
}

/* What one resample gives: blocks of neighbours, the last followed by the first. */
struct resample {
	double typical, total;
};

static struct resample draw_resample(const struct pairs *pairs, enum ws_measure measure,
				     size_t block, uint64_t *state)
{
	struct part base = {0}, fresh = {0};
	double sum = 0, weight = 0;

	for (size_t taken = 0; taken < pairs->count;) {
		size_t at;

		*state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		at = (size_t)((*state >> 33) % pairs->count);
		for (size_t i = 0; i < block && taken < pairs->count; i++, taken++) {
			sum += pairs->weight[at] * pairs->difference[at];
			weight += pairs->weight[at];
			add_part(&base, &pairs->base[at]);
			add_part(&fresh, &pairs->fresh[at]);
			at = (at + 1) % pairs->count;
		}
	}
	return (struct resample){sum / weight,
				 log(measure_part(&fresh, measure) / measure_part(&base, measure))};
}

/* The variances of the typical change and of that of the totals; *df is set to their degrees of
 * freedom. */
static struct resample bootstrap_variances(const struct pairs *pairs, enum ws_measure measure,
					   double *df)
{
	size_t block = choose_block_length(pairs);
	double typical[RESAMPLES], total[RESAMPLES];
	double blocks = (double)pairs->count / (double)block, enlarge;
	uint64_t state = pairs->count;

	for (size_t i = 0; i < RESAMPLES; i++) {
		struct resample resample = draw_resample(pairs, measure, block, &state);

		typical[i] = resample.typical;
		total[i] = resample.total;
	}
	*df = ws_max(blocks - 1, 1.0);
	/* Resamples vary around the mean of the sample, which has used up one block. The values
	 * that were drawn in are corrected for (Tukey and McLaughlin). */
	enlarge = blocks / *df;
	return (struct resample){ws_compute_variance(typical, RESAMPLES) * enlarge /
					 ((1 - 2 * WINSORISED) * (1 - 2 * WINSORISED)),
				 ws_compute_variance(total, RESAMPLES) * enlarge};
}

/* How much more eighths of the run differ than the differences of neighbours imply. */
static double compute_slow_variance(const struct pairs *pairs, double *df)
{
	size_t segments = ws_min((size_t)SEGMENTS, pairs->count / 2);
	double means[SEGMENTS], quick = 0;

	for (size_t i = 0; i < segments; i++) {
		size_t first = i * pairs->count / segments, end = (i + 1) * pairs->count / segments;

		means[i] = ws_compute_mean(pairs->difference + first, end - first);
	}
	for (size_t i = 1; i < pairs->count; i++) {
		double step = pairs->difference[i] - pairs->difference[i - 1];

		quick += step * step / 2;
	}
	quick /= (double)(pairs->count - 1);
	*df = ws_max((double)segments - 1, 1.0);
	return ws_max(ws_compute_variance(means, segments) -
			      quick * (double)segments / (double)pairs->count,
		      0.0);
}

/* Effective degrees of freedom of a sum of variances of which `fixed` is known. */
static double combine_freedom(const double variances[2], const double df[2], double fixed)
{
	double sum = variances[0] + variances[1] + fixed;
	double below = variances[0] * variances[0] / df[0] + variances[1] * variances[1] / df[1];

	if (below <= 0)
		return 1e9;
	return ws_max(sum * sum / below, 1.0);
}

/* The variances of the parts and of the eighths, with their degrees of freedom, and the floors'. */
struct variances {
	double values[2], df[2], fixed;
};

static struct ws_ratio make_ratio(double value, const struct variances *variances)
{
	return (struct ws_ratio){
		value, sqrt(variances->values[0] + variances->values[1] + variances->fixed),
		combine_freedom(variances->values, variances->df, variances->fixed)};
}

static void estimate_pair(const struct ws_series *base, const struct ws_series *fresh,
			  enum ws_measure measure, const struct ws_floor *floor,
			  struct ws_estimate *estimate)
{
	struct variances variances = {.fixed = floor->base * floor->base +
					       floor->fresh * floor->fresh};
	double from = ws_measure_series(base, measure), to = ws_measure_series(fresh, measure);
	struct resample resampled;
	struct pairs pairs;

	memset(estimate, 0, sizeof(*estimate));
	if (from <= 0 || to <= 0)
		return;
	estimate->total = estimate->typical = (struct ws_ratio){log(to / from), INFINITY, 1};
	make_pairs(base, fresh, measure, &pairs);
	if (pairs.count < LEAST_UNITS)
		return;
	winsorise(&pairs);
	resampled = bootstrap_variances(&pairs, measure, &variances.df[0]);
	variances.values[0] = resampled.typical;
	variances.values[1] = compute_slow_variance(&pairs, &variances.df[1]);
	estimate->typical = make_ratio(compute_weighted_mean(&pairs), &variances);
	variances.values[0] = resampled.total;
	estimate->total = make_ratio(log(to / from), &variances);
	estimate->known = true;
}

/* ---- several runs ---- */

struct side {
	double mean, squares; /* of the runs' measures relative to their mean */
	size_t count;
};

static struct side sum_side(const struct ws_runs *runs, enum ws_measure measure)
{
	struct side side = {.count = runs->count};

	for (size_t i = 0; i < runs->count; i++)
		side.mean += ws_measure_series(runs->series[i], measure) / (double)runs->count;
	for (size_t i = 0; i < runs->count && side.mean > 0; i++) {
		double off = ws_measure_series(runs->series[i], measure) / side.mean - 1;

		side.squares += off * off;
	}
	return side;
}

void ws_estimate_change(const struct ws_runs *base, const struct ws_runs *fresh,
			enum ws_measure measure, const struct ws_floor *floor,
			struct ws_estimate *estimate)
{
	struct side from = sum_side(base, measure), to = sum_side(fresh, measure);
	double df = (double)(from.count + to.count) - 2, prior, variance;

	estimate_pair(base->series[0], fresh->series[0], measure, floor, estimate);
	if (df <= 0 || from.mean <= 0 || to.mean <= 0)
		return;
	prior = (floor->base * floor->base + floor->fresh * floor->fresh) / 2;
	if (estimate->known)
		prior = estimate->typical.sigma * estimate->typical.sigma / 2;
	variance = (from.squares + to.squares) / df;
	/* Runs that agree by chance are not trusted; runs that differ are. */
	if (variance < prior) {
		variance = (WS_PRIOR_RUNS * prior + df * variance) / (WS_PRIOR_RUNS + df);
		df += WS_PRIOR_RUNS;
	}
	estimate->typical =
		(struct ws_ratio){log(to.mean / from.mean),
				  sqrt(variance * (1 / (double)from.count + 1 / (double)to.count)),
				  df};
	estimate->total = estimate->typical;
	estimate->known = true;
}
