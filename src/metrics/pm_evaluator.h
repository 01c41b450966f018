/*
 * pm_evaluator.h - evaluates counters of images by the functions of libnvperf_host that CUPTI calls
 * for it. CUPTI's own function takes names, and looking them up costs as much as evaluating them.
 */
#ifndef WS_METRICS_PM_EVALUATOR_H
#define WS_METRICS_PM_EVALUATOR_H

#include "metrics/pm_library.h"
#include "metrics/pm_plan.h"

struct ws_pm_evaluator;

/* NULL where the library has no such functions or does not know the chip. */
struct ws_pm_evaluator *ws_pm_evaluator_new(const struct pm_library *library, const char *chip);
void ws_pm_evaluator_free(struct ws_pm_evaluator *evaluator);
/* Choose what is evaluated. `place` is any sample of the GPU. False if one of the names is not
 * known. */
bool ws_pm_evaluator_choose(struct ws_pm_evaluator *evaluator, const struct ws_pm_place *place,
			    const char **names, size_t count);
/* Evaluate all that was chosen. Returns the library's error. */
int ws_pm_evaluator_evaluate(struct ws_pm_evaluator *evaluator, const struct ws_pm_place *place,
			     double *values);

#endif
