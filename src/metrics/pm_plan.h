/*
 * pm_plan.h - computes metrics from counters, which is several times cheaper than having CUPTI
 * evaluate them: CUPTI takes a share or a rate from the counters of each unit of the chip, while
 * sums over all units and a division by the cycles of one of them give the same.
 */
#ifndef WS_METRICS_PM_PLAN_H
#define WS_METRICS_PM_PLAN_H

#include <stdbool.h>

#include "metrics/pm_sets.h"

struct ws_pm_plan;
struct ws_pm_evaluator;

/* One sample of an image of counter data. */
struct ws_pm_place {
	void *host;
	const uint8_t *image;
	size_t bytes, index;
	uint64_t interval; /* ns that the sample lasted */
	bool sums;	   /* the image holds sums over units (pm_sums.h) */
};

/* Plan the evaluation of the metrics of `fit`, and change its configuration to count what the plan
 * needs. Both must outlive the plan. */
struct ws_pm_plan *ws_pm_plan_new(const struct pm_functions *cupti, const char *chip,
				  const uint8_t *availability, struct ws_pm_fit *fit);
void ws_pm_plan_free(struct ws_pm_plan *plan);
/* The counters that are configured; owned by the plan. */
const char **ws_pm_plan_counters(const struct ws_pm_plan *plan, size_t *count);
/* How many counters are evaluated for each sample. */
size_t ws_pm_plan_count_evaluated(const struct ws_pm_plan *plan);
/* How many metrics are computed from counters. */
size_t ws_pm_plan_count_computed(const struct ws_pm_plan *plan);

/* To be called for one sample of each image, before others are evaluated: read what changes rarely,
 * and compare computed values with CUPTI's own. From then on, metrics that differ are evaluated by
 * CUPTI. Returns CUPTI's error. */
int ws_pm_plan_check(struct ws_pm_plan *plan, const struct ws_pm_place *place);
/* Prepare the evaluation of images of sums: all that is evaluated must be sums and means of
 * counters, and how many units of the chip have each counter must be known. `place`: a sample in
 * CUPTI's own image. */
void ws_pm_plan_prepare_sums(struct ws_pm_plan *plan, const struct ws_pm_place *place);
/* Whether that has succeeded, and no metric has been found to differ since. */
bool ws_pm_plan_uses_sums(const struct ws_pm_plan *plan);
/* Find out what an image of sums holds, by a sample that follows samples in CUPTI's own image.
 * False if that is not clear; then images of sums are not used until they are prepared again. */
bool ws_pm_plan_learn_sums(struct ws_pm_plan *plan, const struct ws_pm_place *place);
/* How many units of the chip the counters of this kind ("nvlrx") count in; 0: not known. */
unsigned ws_pm_plan_count_units(const struct ws_pm_plan *plan, const char *kind);
/* Use an evaluator for images of sums, as long as it agrees with CUPTI. It must outlive the plan.
 */
void ws_pm_plan_set_evaluator(struct ws_pm_plan *plan, struct ws_pm_evaluator *evaluator);
/* Whether an image of sums had a value of a metric that has never been compared. Asking forgets
 * it. */
bool ws_pm_plan_needs_comparison(struct ws_pm_plan *plan);
/* Evaluate the metrics of a sample; NAN where a value is unknown. Returns CUPTI's error. */
int ws_pm_plan_evaluate(struct ws_pm_plan *plan, const struct ws_pm_place *place, double *values);

#endif
