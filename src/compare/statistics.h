/*
 * statistics.h - the few textbook figures that a comparison needs. Each says where its formula is
 * from. All are deterministic.
 */
#ifndef WS_COMPARE_STATISTICS_H
#define WS_COMPARE_STATISTICS_H

#include <stdbool.h>
#include <stddef.h>

double ws_compute_mean(const double *values, size_t n); /* 0 of none */
/* The unbiased variance (n - 1); 0 of fewer than two. */
double ws_compute_variance(const double *values, size_t n);
/* The middle value, or the mean of the two in the middle. Puts `values` in order. 0 of none. */
double ws_compute_median(double *values, size_t n);
/* The two-sided probability that Student's t with `df` degrees of freedom is as far from 0 as `t`.
 * For df of a million and more the normal distribution's. */
double ws_student_probability(double t, double df);
/* The t for which ws_student_probability is `p`, 0 < p < 1. */
double ws_student_quantile(double p, double df);
/*
 * Which of `n` probabilities may be called discoveries so that at most a share `q` of these is
 * false and so that, where there is nothing to discover, there are none with probability 1 - q: the
 * step-up procedure of Benjamini and Hochberg (J. R. Stat. Soc. B 57, 1995). Returns how many.
 */
size_t ws_control_discoveries(const double *probabilities, size_t n, double q, bool *discovered);

#endif
