/*
 * pm_image.h - images of counter data, which CUPTI decodes samples into: its own, which hold the
 * value of each unit of the chip, or those of pm_sums.h.
 */
#ifndef WS_METRICS_PM_IMAGE_H
#define WS_METRICS_PM_IMAGE_H

#include "metrics/pm_plan.h"
#include "metrics/pm_sums.h"

struct ws_pm_image {
	uint8_t *bytes;
	size_t size;
	bool sums;
	uint8_t *clean; /* its initial contents */
	size_t sample_bytes, capacity;
	unsigned resets; /* how often resetting only parts of it has been found to be enough */
	bool resets_whole;
};

/* Make CUPTI's image for samples of this period (ns). `object`: CUPTI's, of the sampling. Returns
 * CUPTI's error. */
int ws_pm_image_make(struct ws_pm_image *image, const struct pm_functions *cupti, void *object,
		     const struct ws_pm_plan *plan, uint64_t period);
/* Make an image of sums for as many samples. False when that is impossible. */
bool ws_pm_image_make_sums(struct ws_pm_image *image, const struct ws_pm_sums *sums,
			   size_t capacity);
/* Empty an image that has `samples` samples. */
void ws_pm_image_reset(struct ws_pm_image *image, size_t samples);
void ws_pm_image_free(struct ws_pm_image *image);

#endif
