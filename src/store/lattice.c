/*
 * lattice.c - see lattice.h.
 *
 * A running time with 32 fractional bits follows the clock: a difference of q steps moves it by q
 * times the step, and its whole part is the prediction. Where the prediction is wrong, the time is
 * moved by the least amount that makes it right. This adapts it to the phase of the clock, and
 * later to its drift; from then on corrections are rare. Writer and reader run the same arithmetic.
 *
 * The step is found by trying: first with small differences, for which a coarse grid of steps is
 * fine enough, then ever more finely around the best with ever longer differences.
 */
#include "store/lattice.h"

#include <math.h>
#include <string.h>

#include "base/compiler.h"
#include "base/choose.h"
#include "schema/schema.h"

typedef unsigned __int128 u128;

enum { SAMPLE = 384, TRIED = 96, TRIED_FIRST = 16, FINEST_LAG = 64, LONGEST_COUNTED = 3000 };
#define SMALLEST 3.0
#define LARGEST 64.0
#define GOOD 0.5
#define HOPELESS 0.15 /* of the first few differences */
/* Steps (ns) of a clock are not looked for where few events follow one another within this time:
 * the search takes longer in proportion, and there is little to gain. */
#define LARGEST_DIFFERENCE 20000.0

/* ---- finding the step ---- */

/* How well differences are multiples of `step` (ns): 1 perfectly, around 0 when they have nothing
 * to do with it. */
static double score_step(const double *differences, uint32_t count, double step)
{
	double inverse = 1 / step, sum = 0;

	for (uint32_t i = 0; i < count; i++) {
		double quotient = differences[i] * inverse,
		       off = quotient - (double)(int64_t)(quotient + 0.5);

		sum += fabs(off);
	}
	return 1 - 4 * sum / count;
}

/* Times of consecutive events from the middle of the rows: starts and ends in turn. */
static uint32_t sample_times(const uint64_t *start, const uint64_t *end, uint32_t rows,
			     uint64_t *times)
{
	uint32_t sampled = ws_min(rows, (uint32_t)SAMPLE / 2), from = (rows - sampled) / 2,
		 count = 0;

	for (uint32_t i = from; i < from + sampled; i++) {
		times[count++] = start[i];
		if (end && end[i] != WS_NO_TIME)
			times[count++] = end[i];
	}
	return count;
}

/* Differences over `lag` events, none larger than `most` (ns); returns how many. */
static uint32_t find_differences(const uint64_t *times, uint32_t count, uint32_t lag, double most,
				 double *differences)
{
	uint32_t found = 0;

	for (uint32_t i = lag; i < count && found < TRIED; i++) {
		uint64_t difference = times[i] - times[i - lag];

		if (difference > 1 && (double)difference <= most && difference < UINT64_C(1) << 40)
			differences[found++] = (double)difference;
	}
	return found;
}

static double find_largest(const double *differences, uint32_t count)
{
	double most = 1;

	for (uint32_t i = 0; i < count; i++)
		most = ws_max(differences[i], most);
	return most;
}

/*
 * The best step between low and high (ns). Larger steps are tried first, so that a step wins over
 * its fractions. Smaller steps are tried closer together: without a lower limit there would be
 * endlessly many.
 */
static double find_best_step(const double *differences, uint32_t count, double low, double high,
			     double *how_good)
{
	double best = 0, most = find_largest(differences, count);

	low = ws_max(low, SMALLEST / 2);
	*how_good = -1;
	for (double step = high; step >= low; step -= 0.1 * step * step / most) {
		double step_score;

		if (score_step(differences, ws_min(count, (uint32_t)TRIED_FIRST), step) < HOPELESS)
			continue;
		step_score = score_step(differences, count, step);
		if (step_score > *how_good + 0.02) {
			*how_good = step_score;
			best = step;
		}
	}
	return best;
}

/* A limit (ns) under which a quarter of the differences lie: the smaller they are, the coarser a
 * grid will do. */
static double find_small_limit(const uint64_t *times, uint32_t count)
{
	for (double limit = 200; limit < LARGEST_DIFFERENCE; limit *= 1.5) {
		uint32_t small = 0;

		for (uint32_t i = 1; i < count; i++) {
			uint64_t difference = times[i] - times[i - 1];

			small += difference > 30 && (double)difference <= limit;
		}
		if (small >= count / 4)
			return limit;
	}
	return LARGEST_DIFFERENCE;
}

static uint64_t search_step(const uint64_t *times, uint32_t count)
{
	double differences[TRIED], how_good, limit = find_small_limit(times, count), step, longest;
	uint32_t found = find_differences(times, count, 1, limit, differences);

	if (found < 24)
		return 0;
	step = find_best_step(differences, found, SMALLEST, LARGEST, &how_good);
	if (how_good < GOOD)
		return 0;
	longest = find_largest(differences, found);
	for (uint32_t lag = 1; lag <= FINEST_LAG; lag *= 2) {
		double margin = 0.15 * step * step / longest;

		found = find_differences(times, count, lag, longest * 4, differences);
		if (found < 12)
			continue;
		step = find_best_step(differences, found, step - margin, step + margin, &how_good);
		if (how_good < GOOD)
			return 0;
		longest = find_largest(differences, found);
	}
	return (uint64_t)(step * 4294967296.0);
}

uint64_t ws_find_clock_step(const uint64_t *start, const uint64_t *end, uint32_t rows,
			    uint64_t guess, bool search)
{
	uint64_t times[SAMPLE];
	double differences[TRIED];
	uint32_t found, sampled = sample_times(start, end, rows, times);

	if (guess) {
		found = find_differences(times, sampled, 1, 1e6, differences);
		if (found >= 12 &&
		    score_step(differences, found, (double)guess / 4294967296.0) >= GOOD)
			return guess;
	}
	if (!search)
		return 0;
	return search_step(times, sampled);
}

/* ---- steps and times ---- */

static u128 to_fixed(uint64_t time)
{
	return (u128)time << 32;
}

/* The running time after an event at `time` whose prediction was wrong by `rest`. */
static inline u128 correct_time(u128 predicted, uint64_t time, int64_t rest)
{
	if (ws_likely(!rest))
		return predicted;
	if (rest > 0)
		return to_fixed(time);
	return to_fixed(time) | UINT32_MAX;
}

static inline u128 add_steps(u128 from, uint64_t steps, uint64_t scale)
{
	return from + (u128)((__int128)(int64_t)steps * (int64_t)scale);
}

static uint64_t nearest_steps(uint64_t difference, double inverse)
{
	double steps = (double)(int64_t)difference * inverse;

	return (uint64_t)(int64_t)(steps + copysign(0.5, steps));
}

/* The lattice's scale, and the state that a split builds up. */
struct split_tally {
	uint64_t scale;
	uint64_t ns, steps;
	uint32_t corrections;
	bool fits;
};

/* Moves the running time `at` over `steps` steps to `time`. `difference`: ns since the time before.
 */
static inline void split_time(u128 *at, uint64_t time, uint64_t difference, uint64_t steps,
			      uint8_t *rest, struct split_tally *tally)
{
	u128 predicted = add_steps(*at, steps, tally->scale);
	int64_t correction = (int64_t)(time - (uint64_t)(predicted >> 32));

	*rest = (uint8_t)((uint64_t)correction << 1 ^ (uint64_t)(correction >> 63));
	*at = correct_time(predicted, time, correction);
	tally->fits &= correction >= -100 && correction <= 100;
	tally->corrections += correction != 0;
	if (steps < LONGEST_COUNTED) { /* so long that the count is certain */
		tally->ns += difference;
		tally->steps += steps;
	}
}

bool ws_split_times(struct ws_lattice *lattice, const uint64_t *start, const uint64_t *end)
{
	double inverse = 4294967296.0 / (double)lattice->scale;
	u128 at = to_fixed(start[0]) | UINT32_C(1) << 31;
	uint64_t last = start[0];
	struct split_tally tally = {.scale = lattice->scale, .fits = true};

	for (uint32_t i = 0; i < lattice->rows; i++) {
		uint64_t difference = start[i] - last, steps = nearest_steps(difference, inverse);
		u128 at_end;

		lattice->start_steps[i] = steps;
		split_time(&at, start[i], difference, steps, &lattice->start_rest[i], &tally);
		last = start[i];
		if (!end)
			continue;
		lattice->span_steps[i] = 0;
		lattice->span_rest[i] = 0;
		if (end[i] == WS_NO_TIME)
			continue;
		difference = end[i] - start[i];
		steps = nearest_steps(difference, inverse);
		lattice->span_steps[i] = steps + 1;
		tally.fits &= steps != UINT64_MAX;
		at_end = at;
		split_time(&at_end, end[i], difference, steps, &lattice->span_rest[i], &tally);
		if (lattice->gaps) {
			at = at_end;
			last = end[i];
		}
	}
	lattice->corrections = tally.corrections;
	lattice->better = lattice->scale;
	if (tally.steps > lattice->rows)
		lattice->better = (uint64_t)((u128)tally.ns * ((u128)1 << 32) / tally.steps);
	return tally.fits;
}

static inline uint64_t join_time(u128 *at, uint64_t steps, uint64_t scale, uint8_t rest)
{
	u128 predicted = add_steps(*at, steps, scale);
	int64_t correction = (int64_t)((uint64_t)rest >> 1 ^ (0 - (uint64_t)(rest & 1)));
	uint64_t time = (uint64_t)(predicted >> 32) + (uint64_t)correction;

	*at = correct_time(predicted, time, correction);
	return time;
}

void ws_join_times(const struct ws_lattice *lattice, uint64_t first, uint64_t *start, uint64_t *end)
{
	u128 at = to_fixed(first) | UINT32_C(1) << 31;

	lattice->start_steps[0] = 0; /* not stored: `first` is the first start */
	for (uint32_t i = 0; i < lattice->rows; i++) {
		u128 at_end;
		uint64_t spans;

		start[i] = join_time(&at, lattice->start_steps[i], lattice->scale,
				     lattice->start_rest[i]);
		if (!end)
			continue;
		spans = lattice->span_steps[i];
		if (!spans) {
			end[i] = WS_NO_TIME;
			continue;
		}
		at_end = at;
		end[i] = join_time(&at_end, spans - 1, lattice->scale, lattice->span_rest[i]);
		if (lattice->gaps)
			at = at_end;
	}
}
