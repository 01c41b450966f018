/* statistics.c - see statistics.h. */
#include "compare/statistics.h"

#include <math.h>
#include <stdlib.h>

#include "base/choose.h"
#include "base/mem.h"

double ws_compute_mean(const double *values, size_t n)
{
	double sum = 0;

	if (!n)
		return 0;
	for (size_t i = 0; i < n; i++)
		sum += values[i];
	return sum / (double)n;
}

double ws_compute_variance(const double *values, size_t n)
{
	double mean = ws_compute_mean(values, n), sum = 0;

	if (n < 2)
		return 0;
	for (size_t i = 0; i < n; i++)
		sum += (values[i] - mean) * (values[i] - mean);
	return sum / (double)(n - 1);
}

static int compare_numbers(const void *first, const void *second)
{
	return ws_compare(*(const double *)first, *(const double *)second);
}

double ws_compute_median(double *values, size_t n)
{
	if (!n)
		return 0;
	qsort(values, n, sizeof(*values), compare_numbers);
	return (values[n / 2] + values[(n - 1) / 2]) / 2;
}

/* ---- Student's t ---- */

/* No factor of a continued fraction may be 0. */
static double keep_from_zero(double value)
{
	const double tiny = 1e-300;

	if (fabs(value) < tiny)
		return tiny;
	return value;
}

/* The continued fraction of the incomplete beta function (Abramowitz and Stegun 26.5.8), evaluated
 * by Lentz's method as modified by Thompson and Barnett (J. Comput. Phys. 64, 1986). */
static double compute_beta_fraction(double a, double b, double x)
{
	double c = 1, d = 1 / keep_from_zero(1 - (a + b) * x / (a + 1)), value = d;

	for (int m = 1; m <= 300; m++) {
		double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
		double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)), factor;

		d = 1 / keep_from_zero(1 + even * d);
		c = keep_from_zero(1 + even / c);
		value *= d * c;
		d = 1 / keep_from_zero(1 + odd * d);
		c = keep_from_zero(1 + odd / c);
		factor = d * c;
		value *= factor;
		if (fabs(factor - 1) < 1e-14)
			break;
	}
	return value;
}

/* Of a positive number. lgamma() writes the sign into a variable that all threads share. */
static double compute_log_gamma(double x)
{
	int sign;

	return lgamma_r(x, &sign);
}

/* The regularised incomplete beta function I_x(a, b). */
static double compute_incomplete_beta(double a, double b, double x)
{
	double front;

	if (x <= 0)
		return 0;
	if (x >= 1)
		return 1;
	front = exp(compute_log_gamma(a + b) - compute_log_gamma(a) - compute_log_gamma(b) +
		    a * log(x) + b * log1p(-x));
	if (x < (a + 1) / (a + b + 2))
		return front * compute_beta_fraction(a, b, x) / a;
	return 1 - front * compute_beta_fraction(b, a, 1 - x) / b;
}

double ws_student_probability(double t, double df)
{
	if (df >= 1e6)
		return erfc(fabs(t) / sqrt(2));
	/* Abramowitz and Stegun 26.7.1 */
	return compute_incomplete_beta(df / 2, 0.5, df / (df + t * t));
}

double ws_student_quantile(double p, double df)
{
	double low = 0, high = 1;

	while (high < 1e9 && ws_student_probability(high, df) > p)
		high *= 2;
	for (int i = 0; i < 100; i++) {
		double middle = (low + high) / 2;

		if (ws_student_probability(middle, df) > p)
			low = middle;
		else
			high = middle;
	}
	return (low + high) / 2;
}

/* ---- many comparisons ---- */

size_t ws_control_discoveries(const double *probabilities, size_t n, double q, bool *discovered)
{
	double *sorted = ws_malloc(n * sizeof(*sorted) + 1), limit = -1;
	size_t count = 0;

	for (size_t i = 0; i < n; i++)
		sorted[i] = probabilities[i];
	if (n)
		qsort(sorted, n, sizeof(*sorted), compare_numbers);
	for (size_t i = 0; i < n; i++)
		if (sorted[i] <= q * (double)(i + 1) / (double)n)
			limit = sorted[i];
	for (size_t i = 0; i < n; i++) {
		discovered[i] = probabilities[i] <= limit;
		count += discovered[i];
	}
	free(sorted);
	return count;
}
