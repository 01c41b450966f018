/* test_statistics.c - the figures of a comparison, against tables and against chance. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "../random.h"
#include "base/choose.h"
#include "compare/estimate.h"
#include "compare/items.h"
#include "compare/statistics.h"

static void assert_near(double value, double expected, double within)
{
	if (fabs(value - expected) > within)
		fail_msg("%.9g is not %.9g", value, expected);
}

/* Values of printed tables of Student's distribution. */
static void test_student(void **state)
{
	static const struct {
		double p, df, t;
	} table[] = {{0.05, 1, 12.706},	 {0.05, 2, 4.3027}, {0.05, 10, 2.2281},	 {0.01, 5, 4.0321},
		     {0.001, 30, 3.646}, {0.1, 3, 2.3534},  {0.05, 1e9, 1.95996}};

	(void)state;
	for (size_t i = 0; i < WS_COUNT(table); i++) {
		assert_near(ws_student_quantile(table[i].p, table[i].df), table[i].t, 1e-3);
		assert_near(ws_student_probability(table[i].t, table[i].df), table[i].p, 1e-4);
		assert_near(ws_student_probability(-table[i].t, table[i].df), table[i].p, 1e-4);
	}
	assert_near(ws_student_probability(0, 7), 1, 1e-12);
}

static void test_moments(void **state)
{
	double values[] = {2, 4, 4, 4, 5, 5, 7, 9};

	(void)state;
	assert_near(ws_compute_mean(values, 8), 5, 1e-12);
	assert_near(ws_compute_variance(values, 8), 32.0 / 7, 1e-12);
	assert_near(ws_compute_median(values, 8), 4.5, 1e-12);
	assert_near(ws_compute_variance(values, 1), 0, 0);
}

/* The example of the paper: 15 probabilities, of which the first four are discoveries at 0.05. */
static void test_discoveries(void **state)
{
	static const double p[] = {0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344,
				   0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0};
	bool discovered[WS_COUNT(p)];

	(void)state;
	assert_int_equal(ws_control_discoveries(p, WS_COUNT(p), 0.05, discovered), 4);
	for (size_t i = 0; i < WS_COUNT(p); i++)
		assert_int_equal(discovered[i], i < 4);
	assert_int_equal(ws_control_discoveries(p, 0, 0.05, discovered), 0);
}

/* ---- estimates ---- */

struct noise {
	uint64_t state;
	double alike; /* autoregressive */
};

static double draw_uniform(struct noise *noise)
{
	return ((double)(random_star(&noise->state) >> 11) + 0.5) / 9007199254740992.0;
}

static double draw_normal(struct noise *noise)
{
	double first = draw_uniform(noise), second = draw_uniform(noise);

	return sqrt(-2 * log(first)) * cos(6.283185307179586 * second);
}

/* A run in which neighbouring parts are alike (0.7) and each part differs by 3 %. */
static void make_series(struct noise *noise, double factor, struct ws_series *series)
{
	memset(series, 0, sizeof(*series));
	for (size_t i = 0; i < WS_UNITS; i++) {
		noise->alike = 0.7 * noise->alike + 0.02 * draw_normal(noise);
		series->length[i] = 1;
		series->count[i] = 10;
		/* the program does more and more */
		series->time[i] = factor * (1 + 0.02 * (double)i) * exp(noise->alike);
	}
}

static void estimate_series(const struct ws_series *base, const struct ws_series *fresh,
			    double floor, struct ws_estimate *estimate)
{
	const struct ws_runs from = {&base, 1}, to = {&fresh, 1};
	const struct ws_floor floors = {floor, floor};

	ws_estimate_change(&from, &to, WS_MEASURE_TIME, &floors, estimate);
}

static double find_probability(const struct ws_ratio *ratio)
{
	return ws_student_probability(ratio->value / ratio->sigma, ratio->df);
}

/* Of runs that differ by chance alone, hardly more than one in twenty may look changed at 5 %,
 * although neighbouring parts are alike. */
static void test_calibration(void **state)
{
	enum { TRIES = 400 };
	struct noise noise = {.state = RANDOM_SEED};
	int typical = 0, total = 0;

	(void)state;
	for (int i = 0; i < TRIES; i++) {
		struct ws_series base, fresh;
		struct ws_estimate estimate;

		make_series(&noise, 1, &base);
		make_series(&noise, 1, &fresh);
		estimate_series(&base, &fresh, 0, &estimate);
		assert_true(estimate.known);
		typical += find_probability(&estimate.typical) < 0.05;
		total += find_probability(&estimate.total) < 0.05;
	}
	assert_in_range(typical, 1, TRIES * 7 / 100);
	assert_in_range(total, 1, TRIES * 7 / 100);
}

/* A change of 10 % is found in nearly all, and the estimate is right. */
static void test_power(void **state)
{
	enum { TRIES = 100 };
	struct noise noise = {.state = RANDOM_SEED * 3};
	int found = 0;
	double sum = 0;

	(void)state;
	for (int i = 0; i < TRIES; i++) {
		struct ws_series base, fresh;
		struct ws_estimate estimate;

		make_series(&noise, 1, &base);
		make_series(&noise, 1.1, &fresh);
		estimate_series(&base, &fresh, 0.005, &estimate);
		found += find_probability(&estimate.typical) < 0.01;
		sum += estimate.typical.value;
	}
	assert_true(found >= TRIES * 95 / 100);
	assert_near(sum / TRIES, log(1.1), 0.005);
}

/* One part that takes fifty times as long moves the total, but not the typical change. */
static void test_outlier(void **state)
{
	struct noise noise = {.state = RANDOM_SEED * 5};
	struct ws_series base, fresh;
	struct ws_estimate estimate;

	(void)state;
	make_series(&noise, 1, &base);
	make_series(&noise, 1.05, &fresh);
	fresh.time[20] *= 50;
	estimate_series(&base, &fresh, 0.001, &estimate);
	assert_true(estimate.total.value > 0.4);
	assert_near(estimate.typical.value, log(1.05), 0.02);
	assert_true(find_probability(&estimate.total) > 0.05);
}

static void test_too_little(void **state)
{
	struct noise noise = {.state = RANDOM_SEED};
	struct ws_series base, fresh;
	struct ws_estimate estimate;

	(void)state;
	make_series(&noise, 1, &base);
	make_series(&noise, 2, &fresh);
	for (size_t i = 3; i < WS_UNITS; i++)
		fresh.time[i] = fresh.count[i] = 0;
	estimate_series(&base, &fresh, 0.01, &estimate);
	assert_false(estimate.known);
}

/* Of several runs only what differs between runs counts: many parts of each do not help. */
static void test_several_runs(void **state)
{
	enum { RUNS = 5 };
	struct noise noise = {.state = RANDOM_SEED * 7};
	struct ws_series series[2 * RUNS];
	const struct ws_series *pointers[2 * RUNS];
	const struct ws_floor floors = {0.01, 0.01};
	struct ws_estimate estimate;
	int changed = 0, found = 0;

	(void)state;
	for (int i = 0; i < 200; i++) {
		double factor = 1 + 0.2 * (i % 2);

		for (size_t k = 0; k < WS_COUNT(series); k++) {
			double run = exp(0.05 * draw_normal(&noise)); /* shift of the run */

			make_series(&noise, k < RUNS ? run : run * factor, &series[k]);
			pointers[k] = &series[k];
		}
		ws_estimate_change(&(struct ws_runs){pointers, RUNS},
				   &(struct ws_runs){pointers + RUNS, RUNS}, WS_MEASURE_TIME,
				   &floors, &estimate);
		if (i % 2)
			found += find_probability(&estimate.typical) < 0.05;
		else
			changed += find_probability(&estimate.typical) < 0.05;
	}
	assert_true(changed <= 10);
	assert_true(found >= 90);
}

static void test_forms(void **state)
{
	static const char *const names[][2] = {
		{"gemm<64, 128>", "gemm<#, #>"},
		{"_ZN4core3ptr17h0123456789abcdefE", "_ZN#core#ptr#h#"},
		{"triton_poi_fused_add_3", "triton_poi_fused_add_#"},
		{"deadbeef", "deadbeef"},
		{"kernel_1a2b3c4d5e6f", "kernel_#"},
	};

	(void)state;
	for (size_t i = 0; i < WS_COUNT(names); i++) {
		struct ws_text form = {0};

		ws_put_name_form(&form, names[i][0]);
		assert_string_equal(form.text, names[i][1]);
		ws_text_free(&form);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_student),	    cmocka_unit_test(test_moments),
		cmocka_unit_test(test_discoveries), cmocka_unit_test(test_calibration),
		cmocka_unit_test(test_power),	    cmocka_unit_test(test_outlier),
		cmocka_unit_test(test_too_little),  cmocka_unit_test(test_several_runs),
		cmocka_unit_test(test_forms),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
