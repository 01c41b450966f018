/*
 * lattice.c - see lattice.h.
 *
 * A running time with 32 fractional bits follows the clock: a difference of q steps moves it by q
 * times the step, and its whole part is the prediction. Where the prediction is wrong, the time is
 * moved by as little as makes it right, which teaches it the phase of the clock, and later its
 * drift; from then on corrections are rare. Writer and reader run the same arithmetic.
 *
 * The step is found by trying: first with small differences, for which a coarse grid of steps is
 * fine enough, then ever finer around the best with ever longer differences.
 */
#include "store/lattice.h"

#include <string.h>

#include "base/compiler.h"
#include "base/choose.h"
#include "schema/schema.h"

typedef unsigned __int128 u128;

enum { SAMPLE = 384, TRIED = 96, FINEST_LAG = 64, LONGEST_COUNTED = 3000 };
#define SMALLEST 3.0
#define LARGEST 64.0
#define GOOD 0.5

/* ---- finding the step ---- */

/* How well differences are multiples of g: 1 perfectly, around 0 when they have nothing to do with
 * it. */
static double score(const double *d, uint32_t n, double g)
{
	double inverse = 1 / g, sum = 0;

	for (uint32_t i = 0; i < n; i++) {
		double x = d[i] * inverse, off = x - (double)(int64_t)(x + 0.5);

		sum += off < 0 ? -off : off;
	}
	return 1 - 4 * sum / n;
}

/* Times of consecutive events from the middle of the rows: starts and ends in turn. */
static uint32_t sample(const uint64_t *start, const uint64_t *end, uint32_t n, uint64_t *t)
{
	uint32_t rows = n < SAMPLE / 2 ? n : SAMPLE / 2, from = (n - rows) / 2, k = 0;

	for (uint32_t i = from; i < from + rows; i++) {
		t[k++] = start[i];
		if (end && end[i] != WS_NO_TIME)
			t[k++] = end[i];
	}
	return k;
}

/* Differences over `lag` events, none larger than `most`; returns how many. */
static uint32_t differences(const uint64_t *t, uint32_t n, uint32_t lag, double most, double *d)
{
	uint32_t k = 0;

	for (uint32_t i = lag; i < n && k < TRIED; i++) {
		uint64_t x = t[i] - t[i - lag];

		if (x > 1 && (double)x <= most && x < UINT64_C(1) << 40)
			d[k++] = (double)x;
	}
	return k;
}

static double largest(const double *d, uint32_t n)
{
	double most = 1;

	for (uint32_t i = 0; i < n; i++)
		most = ws_max(d[i], most);
	return most;
}

/*
 * The best step between low and high. Larger ones come first, so that of a step and its fractions
 * the step itself wins. The tries come the closer the smaller they are: below a step that makes
 * sense there would be no end of them.
 */
static double best_between(const double *d, uint32_t n, double low, double high, double *how_good)
{
	double best = 0, most = largest(d, n);

	low = low > SMALLEST / 2 ? low : SMALLEST / 2;
	*how_good = -1;
	for (double g = high; g >= low; g -= 0.1 * g * g / most) {
		double s = score(d, n, g);

		if (s > *how_good + 0.02) {
			*how_good = s;
			best = g;
		}
	}
	return best;
}

/* A limit on differences under which a quarter of them lie: the smaller, the coarser a grid will
 * do. */
static double small_limit(const uint64_t *t, uint32_t n)
{
	for (double limit = 200; limit < 100000; limit *= 1.5) {
		uint32_t k = 0;

		for (uint32_t i = 1; i < n; i++) {
			uint64_t x = t[i] - t[i - 1];

			k += x > 30 && (double)x <= limit;
		}
		if (k >= n / 4)
			return limit;
	}
	return 100000;
}

static uint64_t search_step(const uint64_t *t, uint32_t n)
{
	double d[TRIED], how_good, limit = small_limit(t, n), g, before;
	uint32_t k = differences(t, n, 1, limit, d);

	if (k < 24)
		return 0;
	g = best_between(d, k, SMALLEST, LARGEST, &how_good);
	if (how_good < GOOD)
		return 0;
	before = largest(d, k);
	for (uint32_t lag = 1; lag <= FINEST_LAG; lag *= 2) {
		double margin = 0.15 * g * g / before;

		k = differences(t, n, lag, before * 4, d);
		if (k < 12)
			continue;
		g = best_between(d, k, g - margin, g + margin, &how_good);
		if (how_good < GOOD)
			return 0;
		before = largest(d, k);
	}
	return (uint64_t)(g * 4294967296.0);
}

uint64_t ws_lattice_find(const uint64_t *start, const uint64_t *end, uint32_t n, uint64_t guess,
			 bool search)
{
	uint64_t t[SAMPLE];
	double d[TRIED];
	uint32_t k, m = sample(start, end, n, t);

	if (guess) {
		k = differences(t, m, 1, 1e6, d);
		if (k >= 12 && score(d, k, (double)guess / 4294967296.0) >= GOOD)
			return guess;
	}
	return search ? search_step(t, m) : 0;
}

/* ---- steps and times ---- */

static u128 whole(uint64_t t)
{
	return (u128)t << 32;
}

/* Where the running time is after an event at `t` that was `rest` off. */
static inline u128 follow(u128 x, uint64_t t, int64_t rest)
{
	if (ws_likely(!rest))
		return x;
	return rest > 0 ? whole(t) : whole(t) | UINT32_MAX;
}

static inline u128 moved(u128 x, uint64_t steps, uint64_t scale)
{
	return x + (u128)((__int128)(int64_t)steps * (int64_t)scale);
}

static uint64_t nearest(uint64_t difference, double inverse)
{
	double x = (double)(int64_t)difference * inverse;

	return (uint64_t)(int64_t)(x + (x < 0 ? -0.5 : 0.5));
}

/* What a split learns on its way. */
struct tally {
	uint64_t ns, steps;
	uint32_t corrections;
	bool fits;
};

/* `difference`: to the time before, of `steps` steps; x is there. Moves x to t. */
static inline void split_one(u128 *x, uint64_t t, uint64_t difference, uint64_t steps,
			     uint64_t scale, uint8_t *rest, struct tally *tally)
{
	u128 to = moved(*x, steps, scale);
	int64_t r = (int64_t)(t - (uint64_t)(to >> 32));

	*rest = (uint8_t)((uint64_t)r << 1 ^ (uint64_t)(r >> 63));
	*x = follow(to, t, r);
	tally->fits &= r >= -100 && r <= 100;
	tally->corrections += r != 0;
	if (steps < LONGEST_COUNTED) { /* so long that the count is in no doubt */
		tally->ns += difference;
		tally->steps += steps;
	}
}

bool ws_lattice_split(struct ws_lattice *lattice, const uint64_t *start, const uint64_t *end)
{
	double inverse = 4294967296.0 / (double)lattice->scale;
	u128 x = whole(start[0]) | UINT32_C(1) << 31;
	uint64_t last = start[0];
	struct tally tally = {.fits = true};

	for (uint32_t i = 0; i < lattice->n; i++) {
		uint64_t difference = start[i] - last, steps = nearest(difference, inverse);
		u128 at_end;

		lattice->start_steps[i] = steps;
		split_one(&x, start[i], difference, steps, lattice->scale, &lattice->start_rest[i],
			  &tally);
		last = start[i];
		if (!end)
			continue;
		lattice->span_steps[i] = 0;
		lattice->span_rest[i] = 0;
		if (end[i] == WS_NO_TIME)
			continue;
		difference = end[i] - start[i];
		steps = nearest(difference, inverse);
		lattice->span_steps[i] = steps + 1;
		tally.fits &= steps != UINT64_MAX;
		at_end = x;
		split_one(&at_end, end[i], difference, steps, lattice->scale,
			  &lattice->span_rest[i], &tally);
		if (lattice->gaps) {
			x = at_end;
			last = end[i];
		}
	}
	lattice->corrections = tally.corrections;
	lattice->better = tally.steps > lattice->n
				  ? (uint64_t)((u128)tally.ns * ((u128)1 << 32) / tally.steps)
				  : lattice->scale;
	return tally.fits;
}

static inline uint64_t join_one(u128 *x, uint64_t steps, uint64_t scale, uint8_t rest)
{
	u128 y = moved(*x, steps, scale);
	int64_t r = (int64_t)((uint64_t)rest >> 1 ^ (0 - (uint64_t)(rest & 1)));
	uint64_t t = (uint64_t)(y >> 32) + (uint64_t)r;

	*x = follow(y, t, r);
	return t;
}

void ws_lattice_join(const struct ws_lattice *lattice, uint64_t first, uint64_t *start,
		     uint64_t *end)
{
	u128 x = whole(first) | UINT32_C(1) << 31;

	for (uint32_t i = 0; i < lattice->n; i++) {
		u128 y;
		uint64_t spans;

		start[i] = join_one(&x, i ? lattice->start_steps[i] : 0, lattice->scale,
				    lattice->start_rest[i]);
		if (!end)
			continue;
		spans = lattice->span_steps[i];
		y = x;
		end[i] = spans ? join_one(&y, spans - 1, lattice->scale, lattice->span_rest[i])
			       : WS_NO_TIME;
		if (lattice->gaps && spans)
			x = y;
	}
}
