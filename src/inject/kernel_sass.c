/*
 * kernel_sass.c - CUPTI's SASS metrics around one run of a kernel: its code is replaced by a copy
 * that counts, instruction by instruction, how often it ran, for how many threads, and which
 * sectors and wavefronts it took. The counts are exact; the kernel takes longer.
 */
#include <stdio.h>
#include <stdlib.h>

#include "inject/kernel_source.h"

enum { METRICS_MOST = 256, RECORDS_MOST = 1 << 20, DEVICES = 64 };

static struct {
#define X(member, function, params, last) int (*member)(struct params *);
	CUPTI_SASS_FUNCTIONS(X)
#undef X
} sass;
enum {
#define X(member, function, params, last) SIZE_##member = CUPTI_SIZE(params, last),
	CUPTI_SASS_FUNCTIONS(X)
#undef X
};

static struct cupti_sass_metric *metrics; /* those of the chip */
static size_t metric_count;
static char metrics_chip[64];

static const char *bind_sass(void)
{
	static const struct ws_kernel_binding bindings[] = {
#define X(member, function, params, last) {"cupti" #function, offsetof(__typeof__(sass), member)},
		CUPTI_SASS_FUNCTIONS(X)
#undef X
	};

	return ws_kernel_bind_functions(&sass, bindings, WS_COUNT(bindings));
}

static int list_metrics(const char *chip)
{
	struct cupti_sass_count count = {.size = SIZE_count_metrics, .chip = chip};
	struct cupti_sass_list list = {.size = SIZE_list_metrics, .chip = chip};
	int rc;

	if (metric_count && !strcmp(metrics_chip, chip))
		return 0;
	metric_count = 0;
	rc = sass.count_metrics(&count);
	if (rc)
		return rc;
	list.count = count.count;
	free(metrics);
	list.metrics = metrics = calloc(count.count + 1, sizeof(*metrics));
	rc = metrics ? sass.list_metrics(&list) : 2;
	if (rc)
		return rc;
	metric_count = count.count;
	snprintf(metrics_chip, sizeof(metrics_chip), "%s", chip);
	return metric_count ? 0 : CUPTI_ERR_NOT_SUPPORTED;
}

static const char *find_name(uint64_t id)
{
	for (size_t i = 0; i < metric_count; i++)
		if (metrics[i].id == id)
			return ws_kernel_keep_text(metrics[i].name);
	return NULL;
}

/* Once for each device: CUPTI reports a lack of memory when a device is configured again. */
static int configure(int device)
{
	static uint64_t configured;
	static struct cupti_sass_setting settings[METRICS_MOST];
	struct cupti_sass_config config = {
		.size = SIZE_configure, .settings = settings, .device = (uint32_t)device};
	int rc;

	if (device < 0 || device >= DEVICES)
		return CUPTI_ERR_INVALID_PARAMETER;
	if (configured >> device & 1)
		return 0;
	for (size_t i = 0; i < metric_count && config.count < METRICS_MOST; i++)
		settings[config.count++] =
			(struct cupti_sass_setting){metrics[i].id, CUPTI_SASS_OF_GPU};
	rc = sass.configure(&config);
	if (!rc)
		configured |= UINT64_C(1) << device;
	return rc;
}

int ws_kernel_begin_sass(const struct ws_kernel_launch *launch, uint64_t duration,
			 const char **what)
{
	struct cupti_sass_enable enable = {
		.size = SIZE_enable, .context = launch->context, .lazy = 1};
	int rc;

	(void)duration;
	*what = bind_sass();
	if (*what)
		return CUPTI_ERR_NOT_SUPPORTED;
	*what = "CUPTI has no SASS metrics for the chip";
	rc = list_metrics(ws_kernel_chip((int)launch->device));
	if (rc)
		return rc;
	*what = "CUPTI does not configure SASS metrics";
	rc = configure((int)launch->device);
	if (rc)
		return rc;
	*what = "CUPTI does not enable SASS metrics";
	return sass.enable(&enable);
}

static void add_counts(const struct cupti_sass_data *record, size_t instances)
{
	struct ws_kernel_place place = {.cubin = ws_kernel_find_crc(record->crc),
					.function = ws_kernel_keep_text(record->name ? record->name
										     : ""),
					.pc = record->pc};

	for (size_t i = 0; i < instances; i++) {
		place.metric = find_name(record->values[i].id);
		place.value = (double)record->values[i].value;
		if (place.metric && record->values[i].value)
			ws_kernel_add_place(&place);
	}
}

static int read_counts(void *context)
{
	struct cupti_sass_properties properties = {.size = SIZE_get_properties, .context = context};
	struct cupti_sass_flush flush = {.size = SIZE_flush, .context = context};
	struct cupti_sass_value *values;
	int rc = sass.get_properties(&properties);

	if (rc || !properties.records || properties.records > RECORDS_MOST ||
	    properties.instances > RECORDS_MOST / properties.records * METRICS_MOST)
		return rc;
	flush.records = properties.records;
	flush.instances = properties.instances;
	flush.data = calloc(flush.records, sizeof(*flush.data));
	values = calloc(flush.records * (flush.instances + 1), sizeof(*values));
	rc = flush.data && values ? 0 : 2;
	for (size_t i = 0; i < flush.records && !rc; i++) {
		flush.data[i].size = sizeof(*flush.data);
		flush.data[i].values = values + i * flush.instances;
	}
	if (!rc)
		rc = sass.flush(&flush);
	for (size_t i = 0; i < flush.records && !rc; i++)
		add_counts(&flush.data[i], flush.instances);
	free(flush.data);
	free(values);
	return rc;
}

int ws_kernel_end_sass(const struct ws_kernel_launch *launch, const char **what)
{
	struct cupti_sass_disable disable = {.size = SIZE_disable, .context = launch->context};
	int rc = read_counts(launch->context);

	*what = "CUPTI gives no SASS metrics";
	sass.disable(&disable);
	return rc;
}
