/*
 * pm_sums.h - images of counter data that hold the sum of each counter over all units of a chip,
 * where CUPTI's own images hold the value of each unit. Decoding into them and evaluating them
 * takes a fraction of the time.
 */
#ifndef WS_METRICS_PM_SUMS_H
#define WS_METRICS_PM_SUMS_H

#include "metrics/pm_library.h"

struct ws_pm_sums;

/* Prepare images for the counters of a configuration, for the GPU with this number in CUDA. NULL
 * when the library cannot make them. */
struct ws_pm_sums *ws_pm_sums_new(const struct pm_library *library, const char *chip,
				  unsigned number, const uint8_t *config, size_t config_bytes);
void ws_pm_sums_free(struct ws_pm_sums *sums);
/* Make an empty image for so many samples; owned by the caller. NULL when that fails. */
uint8_t *ws_pm_sums_make_image(const struct ws_pm_sums *sums, size_t samples, size_t *bytes);

#endif
