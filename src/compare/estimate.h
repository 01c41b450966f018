/*
 * estimate.h - by how much something changed between runs, and how certain that is.
 *
 * What is measured of a thing in one run is a series: its time and count in up to WS_UNITS parts of
 * the run (steps, groups of steps, or slices of time), in order. Changes are logarithms of ratios,
 * so that twice and half as long are as far from no change.
 *
 * One run a side. Part k of one run is held against part k of the other, so that what a program
 * does differently as it goes on cancels out. The change is measured twice: as the ratio of the
 * totals, which is what adds up but may be made by one instance that took a hundred times as long,
 * and as the weighted mean of the parts' changes with the outermost fifth at each end drawn in
 * (winsorised; Tukey and McLaughlin, Sankhya A 25, 1963): the typical change. The variance of
 * either is the sum of
 *
 *  - what the parts tell, by a circular block bootstrap (Politis and Romano 1992), because
 *    neighbouring parts are not independent. The length of the blocks follows from the correlation
 *    of neighbours (Carlstein, Ann. Stat. 14, 1986)
 *  - how much eighths of the run differ beyond what neighbouring parts do (the variance component
 *    of a one-way analysis of variance): a run is taken to differ from the next one by as much
 *  - a floor for what differs from run to run and cannot be seen in one (layout of memory, clocks)
 *
 * and its degrees of freedom those of Satterthwaite (Biometrics 2, 1946).
 *
 * Several runs. Each run is one observation, and the variance is that between runs of a side,
 * and where that is smaller, moderated towards what one run a side would tell, which counts as
 * WS_PRIOR_RUNS further runs (Smyth, Stat. Appl. Genet. Mol. Biol. 3, 2004): two or three runs may
 * agree by chance.
 */
#ifndef WS_COMPARE_ESTIMATE_H
#define WS_COMPARE_ESTIMATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WS_UNITS = 64, WS_PRIOR_RUNS = 4 };

struct ws_series {
	double time[WS_UNITS];	 /* ns */
	double count[WS_UNITS];	 /* how often */
	double length[WS_UNITS]; /* what both are divided by: steps, or the share of the run */
};

enum ws_measure { WS_MEASURE_TIME, WS_MEASURE_COUNT, WS_MEASURE_MEAN };

/* A logarithm of new over base. */
struct ws_ratio {
	double value, sigma; /* its standard error */
	double df;	     /* the degrees of freedom of the standard error */
};

struct ws_estimate {
	struct ws_ratio total, typical; /* the same with several runs */
	bool known;			/* otherwise there is too little data to know the errors */
};

struct ws_runs {
	const struct ws_series *const *series; /* of one item, one for each run; none is NULL */
	size_t count;
};

/* How much runs differ in ways that a single run does not show: standard deviations of the
 * logarithm of one run's measure. */
struct ws_floor {
	double base, fresh;
};

/*
 * The change from the runs of one side to those of the other. Where it cannot be known (fewer than
 * four parts of the runs have the thing on both sides, and there is one run a side), `known` is
 * false and sigma infinite.
 */
void ws_estimate_change(const struct ws_runs *base, const struct ws_runs *fresh,
			enum ws_measure measure, const struct ws_floor *floor,
			struct ws_estimate *estimate);
/* A run's measure: time or count per unit of length, or the time of one instance. */
double ws_measure_series(const struct ws_series *series, enum ws_measure measure);

#endif
