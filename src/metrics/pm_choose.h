/*
 * pm_choose.h - how much of a set of metrics can be read at a sampling rate.
 */
#ifndef WS_METRICS_PM_CHOOSE_H
#define WS_METRICS_PM_CHOOSE_H

#include "metrics/pm_plan.h"

/* About how many bytes the hardware writes for a sample of a configuration. */
size_t ws_pm_estimate_record(const struct pm_library *library, const struct ws_pm_fit *fit);
/* Plan the metrics of `fit` for a sample every `period` ns. Metrics that would take too long to
 * read are removed from it, the least important first. Owned by the caller. */
struct ws_pm_plan *ws_pm_choose(const struct pm_library *library, const char *chip,
				const uint8_t *availability, uint64_t period,
				struct ws_pm_fit *fit);

#endif
