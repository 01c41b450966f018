/*
 * pm_image.c - see pm_image.h.
 *
 * CUPTI averages the counters of a sample with those that an image has in its place, so all places
 * that were used are reset before the next samples. That is done by copying the parts of the
 * initial image that change.
 */
#include "metrics/pm_image.h"

#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "base/mem.h"

#define IMAGE_NS (UINT64_C(1000000000) * 2 / 5) /* how late a reading may be */
#define LEAST_IMAGE 256u			/* samples */
#define MOST_IMAGE 4096u
#define MOST_IMAGE_BYTES ((size_t)128 << 20)
#define HEAD_BYTES 8192u /* most bytes of an image before its samples... */
#define TAIL_BYTES 64u	 /* ...and most bytes per sample behind all of them */
#define TRIED_RESETS 4u

struct maker {
	const struct pm_functions *cupti;
	void *object;
	const struct ws_pm_plan *plan;
};

static int measure(const struct maker *maker, size_t samples, size_t *bytes)
{
	struct pm_image_size size = {.size = PM_SIZE(pm_image_size, bytes),
				     .object = maker->object,
				     .samples = (uint32_t)samples};
	int error;

	size.names = ws_pm_plan_counters(maker->plan, &size.count);
	error = maker->cupti->image_size(&size);
	*bytes = size.bytes;
	return error;
}

static int choose_capacity(struct ws_pm_image *image, const struct maker *maker, uint64_t period)
{
	size_t one, two, most;
	int error = measure(maker, LEAST_IMAGE, &one);

	if (!error)
		error = measure(maker, (size_t)2 * LEAST_IMAGE, &two);
	if (error)
		return error;
	image->sample_bytes = ws_max(two - ws_min(one, two), (size_t)LEAST_IMAGE) / LEAST_IMAGE;
	most = ws_max(MOST_IMAGE_BYTES / image->sample_bytes, (size_t)LEAST_IMAGE);
	image->capacity = ws_max((size_t)(IMAGE_NS / period), (size_t)LEAST_IMAGE);
	image->capacity = ws_min(image->capacity, ws_min(most, (size_t)MOST_IMAGE));
	return measure(maker, image->capacity, &image->size);
}

static void keep_clean(struct ws_pm_image *image)
{
	image->clean = ws_malloc(image->size);
	memcpy(image->clean, image->bytes, image->size);
}

int ws_pm_image_make(struct ws_pm_image *image, const struct pm_functions *cupti, void *object,
		     const struct ws_pm_plan *plan, uint64_t period)
{
	const struct maker maker = {cupti, object, plan};
	struct pm_image_initialize init = {.size = PM_SIZE(pm_image_initialize, image),
					   .object = object};
	int error;

	*image = (struct ws_pm_image){0};
	error = choose_capacity(image, &maker, period);
	if (error)
		return error;
	image->bytes = init.image = ws_calloc(1, image->size);
	init.bytes = image->size;
	error = cupti->image_initialize(&init);
	keep_clean(image);
	return error;
}

bool ws_pm_image_make_sums(struct ws_pm_image *image, const struct ws_pm_sums *sums,
			   size_t capacity)
{
	*image = (struct ws_pm_image){.capacity = capacity, .sums = true};
	image->bytes = ws_pm_sums_make_image(sums, capacity, &image->size);
	if (!image->bytes)
		return false;
	image->sample_bytes = image->size / capacity + 1;
	keep_clean(image);
	return true;
}

/* The first few times, check whether only the parts that are copied have changed. */
void ws_pm_image_reset(struct ws_pm_image *image, size_t samples)
{
	size_t head = HEAD_BYTES + samples * image->sample_bytes,
	       tail = TAIL_BYTES * image->capacity, end = image->size - tail;

	if (image->resets_whole || image->size < head + tail) {
		memcpy(image->bytes, image->clean, image->size);
		return;
	}
	memcpy(image->bytes, image->clean, head);
	memcpy(image->bytes + end, image->clean + end, tail);
	if (image->resets == TRIED_RESETS)
		return;
	image->resets++;
	image->resets_whole = memcmp(image->bytes, image->clean, image->size) != 0;
	if (image->resets_whole)
		memcpy(image->bytes, image->clean, image->size);
}

void ws_pm_image_free(struct ws_pm_image *image)
{
	free(image->bytes);
	free(image->clean);
	*image = (struct ws_pm_image){0};
}
