/*
 * standin_pm.c - in place of the driver, of CUPTI's PM sampling and of NVML's GPM: two GPUs whose
 * counters say what a test expects. WARPSIGHT_PM_MODE has it misbehave: "denied", "busy",
 * "overflow", "broken" (samples cannot be decoded), "hang" (at the end), "crash", "mig",
 * "warps" (which stay 0), "skewed" (sums are half of what they should be), "own" (there are no
 * images of sums), "marked" (SMs are busier by images of sums), "marked memory" (memory is),
 * "quick" (and behind the first 50 samples of an image, if evaluated without names), "astray" (and
 * in all of these), "strange" (images of sums hold neither sums nor means), "full" (an image had no
 * room for all samples), "links" (the chip has NVLinks), "idle links" (which are not active),
 * "lost link" (17 of 18 are counted).
 *
 * A sample is as long as its interval; the GPU is busy in every other ten of them.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "metrics/nvml_abi.h"
#include "ring/pm_abi.h"

#define EXPORT __attribute__((visibility("default")))
enum { GPUS = 2, MOST = 64, RUN = 10, UNITS = 132 };

struct sampler {
	bool there;
	uint64_t interval, began, next; /* ns of CLOCK_REALTIME; number of the next sample */
	unsigned decoded;		/* calls */
};

/* As long as to be beyond the beginning and the end of an image soon. CUPTI mixes the counters of a
 * sample with those that an image has in its place if the image was not reset. */
struct sample {
	uint64_t number, start, end, written, space[508];
};

struct image {
	uint64_t capacity, used, sums;
	struct sample samples[];
};

struct host {
	char names[MOST][128];
	size_t count;
};

static struct sampler samplers[GPUS];

static bool is_mode(const char *mode)
{
	const char *set = getenv("WARPSIGHT_PM_MODE");

	return set && !strcmp(set, mode);
}

static uint64_t read_time(void)
{
	struct timespec time;

	clock_gettime(CLOCK_REALTIME, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* ---- the driver ---- */

EXPORT int cuInit(unsigned flags)
{
	return flags ? 1 : 0;
}

EXPORT int cuDriverGetVersion(int *version)
{
	*version = 13000;
	return 0;
}

EXPORT int cuDeviceGetCount(int *count)
{
	*count = getenv("CUDA_VISIBLE_DEVICES") ? 1 : GPUS;
	return 0;
}

EXPORT int cuDeviceGet(int *device, int ordinal)
{
	*device = ordinal;
	return 0;
}

EXPORT int cuDeviceGetName(char *name, int size, int device)
{
	snprintf(name, (size_t)size, "Stand-in %d", device);
	return 0;
}

EXPORT int cuDeviceGetUuid(unsigned char *bytes, int device)
{
	memset(bytes, 0x10 + device, 16);
	return 0;
}

/* ---- what a chip can do ---- */

EXPORT int cuptiGetVersion(uint32_t *version)
{
	*version = 130001;
	return 0;
}

EXPORT int cuptiProfilerInitialize(struct pm_initialize *params)
{
	return params->size == PM_SIZE(pm_initialize, priv) ? 0 : 1;
}

EXPORT int cuptiDeviceGetChipName(struct pm_chip_name *params)
{
	params->name = "GH100";
	return 0;
}

EXPORT int cuptiPmSamplingGetCounterAvailability(struct pm_availability *params)
{
	if (is_mode("denied"))
		return PM_ERROR_INSUFFICIENT_PRIVILEGES;
	if (is_mode("mig"))
		return PM_ERROR_MIG;
	if (!params->image)
		params->bytes = 64;
	return 0;
}

EXPORT int cuptiProfilerHostInitialize(struct pm_host_initialize *params)
{
	params->host = calloc(1, sizeof(struct host));
	return 0;
}

EXPORT int cuptiProfilerHostDeinitialize(struct pm_host_deinitialize *params)
{
	free(params->host);
	return 0;
}

/* Whether the chip has counters of NVLinks. */
static bool has_links(void)
{
	return is_mode("links") || is_mode("idle links") || is_mode("lost link");
}

EXPORT int cuptiProfilerHostConfigAddMetrics(struct pm_host_add_metrics *params)
{
	struct host *host = params->host;

	for (size_t i = 0; i < params->count; i++) {
		if ((strstr(params->names[i], "nvl") && !has_links()) ||
		    !strchr(params->names[i], '.'))
			return PM_ERROR_INVALID_METRIC_NAME;
		snprintf(host->names[host->count++], sizeof(host->names[0]), "%s",
			 params->names[i]);
	}
	return 0;
}

EXPORT int cuptiProfilerHostGetConfigImageSize(struct pm_host_config_size *params)
{
	params->bytes = sizeof(struct host);
	return 0;
}

EXPORT int cuptiProfilerHostGetConfigImage(struct pm_host_config *params)
{
	memcpy(params->image, params->host, sizeof(struct host));
	return 0;
}

/* Writing over PCIe takes a pass of its own. */
EXPORT int cuptiProfilerHostGetNumOfPasses(struct pm_host_passes *params)
{
	const struct host *host = (const struct host *)params->image;

	params->passes = 1;
	for (size_t i = 0; i < host->count; i++)
		params->passes += strstr(host->names[i], "pcie__write") != NULL;
	return 0;
}

static bool counts_unit(const struct host *host, const char *unit)
{
	for (size_t i = 0; i < host->count; i++)
		if (strstr(host->names[i], unit))
			return true;
	return false;
}

/* SMs write many records for a sample, memory some. */
EXPORT int NVPW_PeriodicSampler_Config_GetGpuEstimatedSampleSize(struct pm_estimate *params)
{
	const struct host *host = (const struct host *)params->config;

	params->sample_bytes = 32 * host->count;
	if (counts_unit(host, "sm__") || counts_unit(host, "tpc__"))
		params->sample_bytes += 4640;
	if (counts_unit(host, "dram__"))
		params->sample_bytes += 1000;
	return 0;
}

/* ---- sampling ---- */

EXPORT int cuptiPmSamplingEnable(struct pm_enable *params)
{
	if (is_mode("busy"))
		return PM_ERROR_HARDWARE_BUSY;
	params->object = &samplers[params->device];
	return 0;
}

EXPORT int cuptiPmSamplingDisable(struct pm_object *params)
{
	(void)params;
	return 0;
}

EXPORT int cuptiPmSamplingSetConfig(struct pm_set_config *params)
{
	struct sampler *sampler = params->object;

	if (params->trigger != PM_TRIGGER_TIME)
		return PM_ERROR_NOT_SUPPORTED;
	sampler->interval = params->interval;
	return 0;
}

EXPORT int cuptiPmSamplingGetCounterDataSize(struct pm_image_size *params)
{
	params->bytes = sizeof(struct image) + params->samples * sizeof(struct sample);
	return 0;
}

EXPORT int cuptiPmSamplingCounterDataImageInitialize(struct pm_image_initialize *params)
{
	struct image *image = (struct image *)params->image;

	memset(image, 0, params->bytes);
	image->capacity = (params->bytes - sizeof(*image)) / sizeof(struct sample);
	return 0;
}

/* ---- images of sums ---- */

EXPORT int NVPW_Config_GetRawCounters(struct pm_raw_names *params)
{
	const struct host *host = (const struct host *)params->config;

	for (size_t i = 0; params->names && i < host->count; i++)
		params->names[i] = host->names[i];
	params->count = host->count;
	return 0;
}

EXPORT int NVPW_CounterDataBuilder_Create(struct pm_builder *params)
{
	params->builder = samplers;
	return 0;
}

EXPORT int NVPW_CounterDataBuilder_Destroy(struct pm_builder_end *params)
{
	return params->builder == samplers ? 0 : 1;
}

EXPORT int NVPW_CounterDataBuilder_AddRawCounters(struct pm_builder_add *params)
{
	for (size_t i = 0; i < params->count; i++)
		if (!params->requests[i].name || params->requests[i].each)
			return 1;
	return 0;
}

EXPORT int NVPW_CounterDataBuilder_GetCounterDataPrefix(struct pm_prefix *params)
{
	params->count = 8;
	if (params->bytes)
		memcpy(params->bytes, "a prefix", params->count);
	return 0;
}

EXPORT int NVPW_Device_GetNames(struct pm_device_names *params)
{
	params->chip = "GH100";
	return params->device < GPUS ? 0 : 1;
}

EXPORT int NVPW_GPU_PeriodicSampler_CounterDataImage_CalculateSize(struct pm_sums_size *params)
{
	const struct pm_sums_options *options = params->options;

	if (is_mode("own") || memcmp(options->prefix, "a prefix", options->prefix_bytes))
		return 1;
	params->bytes = sizeof(struct image) + options->samples * sizeof(struct sample);
	return 0;
}

EXPORT int NVPW_GPU_PeriodicSampler_CounterDataImage_Initialize(struct pm_sums_initialize *params)
{
	struct image *image = (struct image *)params->image;

	image->capacity = params->options->samples;
	image->sums = true;
	return 0;
}

/* ---- samples ---- */

EXPORT int cuptiPmSamplingStart(struct pm_object *params)
{
	struct sampler *sampler = params->object;

	sampler->began = read_time();
	sampler->next = sampler->decoded = 0;
	return 0;
}

EXPORT int cuptiPmSamplingStop(struct pm_object *params)
{
	(void)params;
	while (is_mode("hang"))
		sleep(1);
	return 0;
}

/* The first sample begins long before sampling does. */
static void add_sample(struct sampler *sampler, struct image *image)
{
	struct sample *sample = &image->samples[image->used++];

	sample->number = sampler->next;
	sample->written++;
	sample->start = sampler->began + sampler->next * sampler->interval;
	sample->end = sample->start + sampler->interval;
	if (!sampler->next++)
		sample->start -= 500000000u;
}

EXPORT int cuptiPmSamplingDecodeData(struct pm_decode *params)
{
	struct sampler *sampler = params->object;
	struct image *image = (struct image *)params->image;
	uint64_t now = read_time();

	sampler->decoded++;
	if (is_mode("broken") && sampler->decoded > 3)
		return 999;
	if (is_mode("crash") && sampler->decoded > 3)
		abort();
	params->overflow = is_mode("overflow") && sampler->decoded == 4;
	if (params->overflow)
		return PM_ERROR_OUT_OF_MEMORY;
	while (image->used < image->capacity &&
	       sampler->began + (sampler->next + 1) * sampler->interval <= now)
		add_sample(sampler, image);
	/* Only then samples are dropped. */
	params->reason =
		is_mode("full") && sampler->decoded == 4 ? PM_STOP_IMAGE_FULL : PM_STOP_NO_RECORDS;
	return 0;
}

EXPORT int cuptiPmSamplingGetCounterDataInfo(struct pm_image_info *params)
{
	const struct image *image = (const struct image *)params->image;

	params->total = image->capacity;
	params->populated = params->completed = image->used;
	return 0;
}

EXPORT int cuptiPmSamplingCounterDataGetSampleInfo(struct pm_sample_info *params)
{
	const struct image *image = (const struct image *)params->image;

	params->start = image->samples[params->index].start;
	params->end = image->samples[params->index].end;
	return 0;
}

/* Shares in percent. SMs: busy in every other run of samples. Tensor cores: half of that. DRAM: a
 * number that no rounding keeps. All else: nothing. */
static double get_share(const char *name, uint64_t number)
{
	if (number / RUN % 2)
		return 0;
	if (strstr(name, "sm__cycles_active"))
		return 80;
	if (strstr(name, "tensor"))
		return 40;
	if (strstr(name, "tpc__warps_active"))
		return is_mode("warps") ? 0 : 25;
	if (strstr(name, "nvlrx") && is_mode("lost link"))
		return 50;
	return strstr(name, "dram__bytes_read") ? 33.333333333 : 0;
}

static double count_units(const char *name)
{
	return strstr(name, "nvl") && is_mode("lost link") ? 17 : UNITS;
}

/* All clocks run at 1.755 GHz, and each of UNITS units may count one a cycle. */
static double evaluate(const char *name, const struct sample *sample)
{
	const double ghz = 1.755, time = (double)(sample->end - sample->start);

	if (strstr(name, ".peak_sustained") && !strstr(name, "pct_of_peak"))
		return strstr(name, ".sum") ? count_units(name) : 1;
	if (!sample->number || sample->written > 1)
		return 1e18; /* of the first sample, or mixed with an earlier one in its place */
	if (strstr(name, "time_duration"))
		return time;
	if (strstr(name, "cycles_elapsed") && strstr(name, "per_second"))
		return ghz * 1e9;
	if (strstr(name, "cycles_elapsed"))
		return ghz * time * (strstr(name, ".sum") ? count_units(name) : 1);
	if (strstr(name, ".sum") && !strstr(name, "pct"))
		return get_share(name, sample->number) / 100 * ghz * count_units(name) *
		       (strstr(name, "per_second") ? 1e9 : time) / (is_mode("skewed") ? 2 : 1);
	return get_share(name, sample->number);
}

/* Only sums can be evaluated. */
static double evaluate_sums(const char *name, const struct sample *sample)
{
	double value = evaluate(name, sample);

	if (!strstr(name, ".sum") || strstr(name, "pct") || is_mode("strange"))
		return 3 * value;
	if (is_mode("marked") && strstr(name, "sm__cycles_active"))
		return value * 81 / 80;
	if (is_mode("marked memory") && strstr(name, "dram__bytes_read"))
		return value * 81 / 80;
	return value;
}

EXPORT int cuptiProfilerHostEvaluateToGpuValues(struct pm_host_evaluate *params)
{
	const struct image *image = (const struct image *)params->image;

	for (size_t i = 0; i < params->count; i++) {
		const struct sample *sample = &image->samples[params->range];

		params->values[i] = image->sums ? evaluate_sums(params->names[i], sample)
						: evaluate(params->names[i], sample);
	}
	return 0;
}

/* ---- evaluation without names ---- */

static char converted[MOST][128];
static size_t converted_count;

EXPORT int NVPW_Device_MetricsEvaluator_CalculateScratchBufferSize(struct pm_scratch *params)
{
	params->bytes = 16;
	return params->chip ? 0 : 1;
}

EXPORT int NVPW_Device_MetricsEvaluator_Initialize(struct pm_evaluator *params)
{
	params->evaluator = params->scratch;
	return params->scratch_bytes == 16 ? 0 : 1;
}

EXPORT int NVPW_MetricsEvaluator_Destroy(struct pm_evaluator_end *params)
{
	return params->evaluator ? 0 : 1;
}

EXPORT int NVPW_MetricsEvaluator_SetDeviceAttributes(struct pm_attributes *params)
{
	return params->image ? 0 : 1;
}

EXPORT int NVPW_MetricsEvaluator_ConvertMetricNameToMetricEvalRequest(struct pm_convert *params)
{
	size_t i = 0;

	while (i < converted_count && strcmp(converted[i], params->name))
		i++;
	if (i == MOST)
		return 1;
	if (i == converted_count)
		snprintf(converted[converted_count++], sizeof(converted[0]), "%s", params->name);
	params->request->metric = i;
	return 0;
}

EXPORT int NVPW_MetricsEvaluator_EvaluateToGpuValues(struct pm_evaluate *params)
{
	const struct image *image = (const struct image *)params->image;
	bool wrong = is_mode("astray") || (is_mode("quick") && params->range >= 50);

	for (size_t i = 0; i < params->count; i++) {
		const char *name = converted[params->requests[i].metric];

		params->values[i] = evaluate_sums(name, &image->samples[params->range]);
		if (wrong && strstr(name, "sm__cycles_active"))
			params->values[i] *= 81.0 / 80;
	}
	return 0;
}

/* ---- NVML ---- */

EXPORT int nvmlInit_v2(void)
{
	return NVML_SUCCESS;
}

/* Numbers are the other way round than CUDA's. */
EXPORT int nvmlDeviceGetHandleByUUID(const char *uuid, nvml_device *device)
{
	*device = (nvml_device)(uintptr_t)(strncmp(uuid, "GPU-10", 6) ? 1 : 2);
	return NVML_SUCCESS;
}

EXPORT int nvmlDeviceGetIndex(nvml_device device, unsigned *index)
{
	*index = (unsigned)(uintptr_t)device - 1;
	return NVML_SUCCESS;
}

EXPORT int nvmlDeviceGetNvLinkState(nvml_device device, unsigned link, int *active)
{
	(void)device;
	*active = (link == 3 && is_mode("links")) || is_mode("lost link");
	return has_links() && (link < 4 || (*active && link < 18)) ? NVML_SUCCESS : 3;
}

EXPORT int nvmlGpmQueryDeviceSupport(nvml_device device, struct nvml_gpm_support *support)
{
	(void)device;
	support->supported = 1;
	return NVML_SUCCESS;
}

EXPORT int nvmlGpmSampleAlloc(nvml_gpm_sample *sample)
{
	*sample = malloc(8);
	return NVML_SUCCESS;
}

EXPORT int nvmlGpmSampleFree(nvml_gpm_sample sample)
{
	free(sample);
	return NVML_SUCCESS;
}

EXPORT int nvmlGpmSampleGet(nvml_device device, nvml_gpm_sample sample)
{
	(void)device;
	(void)sample;
	return NVML_SUCCESS;
}

EXPORT int nvmlGpmMetricsGet(struct nvml_gpm_metrics *metrics)
{
	for (unsigned i = 0; i < metrics->count; i++) {
		metrics->metrics[i].error = metrics->metrics[i].id == 12; /* FP32 */
		metrics->metrics[i].value = metrics->metrics[i].id;
	}
	return NVML_SUCCESS;
}
