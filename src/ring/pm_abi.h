/*
 * pm_abi.h - the part of CUPTI that samples performance monitors, by its documented interface
 * (NVIDIA's "CUPTI", PM Sampling API and Profiler Host API, since CUDA 12.6). The library is loaded
 * at run time where there is one; no header of it is needed to build. tests/metrics/test_pm_abi.c
 * compares this with the toolkit's headers where those are installed.
 *
 * Every call takes one struct, whose first member says how much of it the caller knows.
 */
#ifndef WS_RING_PM_ABI_H
#define WS_RING_PM_ABI_H

#include <stddef.h>
#include <stdint.h>

enum {
	PM_SUCCESS = 0,
	PM_ERROR_INVALID_DEVICE = 2,
	PM_ERROR_INVALID_OPERATION = 7,
	PM_ERROR_OUT_OF_MEMORY = 8,
	PM_ERROR_INVALID_METRIC_NAME = 17,
	PM_ERROR_HARDWARE_BUSY = 26,
	PM_ERROR_NOT_SUPPORTED = 27,
	PM_ERROR_VIRTUALIZED = 33,
	PM_ERROR_INSUFFICIENT_PRIVILEGES = 35,
	PM_ERROR_VIRTUALIZED_PRIVILEGES = 40,
	PM_ERROR_CONFIDENTIAL = 41,
	PM_ERROR_MIG = 43,
	PM_ERROR_WSL = 45,
};

enum { PM_TYPE_SAMPLING = 1 };			     /* of a host object */
enum { PM_TRIGGER_SYSCLK = 0, PM_TRIGGER_TIME = 1 }; /* an interval counts these */
enum { PM_KEEP_OLDEST = 0, PM_KEEP_LATEST = 1 };     /* when the hardware's buffer is full */
enum { PM_STOP_OTHER = 0, PM_STOP_IMAGE_FULL = 1, PM_STOP_NO_RECORDS = 2 }; /* kinds of decoding */

struct pm_initialize {
	size_t size;
	void *priv;
};

struct pm_chip_name {
	size_t size;
	void *priv;
	size_t device;
	const char *name; /* out */
};

struct pm_availability {
	size_t size;
	void *priv;
	size_t device;
	size_t bytes; /* in and out */
	uint8_t *image;
};

struct pm_host_initialize {
	size_t size;
	void *priv;
	int type;
	const char *chip;
	const uint8_t *availability;
	void *host; /* out */
};

struct pm_host_deinitialize {
	size_t size;
	void *priv;
	void *host;
};

struct pm_host_add_metrics {
	size_t size;
	void *priv;
	void *host;
	const char **names;
	size_t count;
};

struct pm_host_config_size {
	size_t size;
	void *priv;
	void *host;
	size_t bytes; /* out */
};

struct pm_host_config {
	size_t size;
	void *priv;
	void *host;
	size_t bytes;
	uint8_t *image;
};

struct pm_host_passes {
	size_t size;
	void *priv;
	size_t bytes;
	uint8_t *image;
	size_t passes; /* out */
};

struct pm_host_evaluate {
	size_t size;
	void *priv;
	void *host;
	const uint8_t *image;
	size_t bytes;
	size_t range;
	const char **names;
	size_t count;
	double *values;
};

struct pm_enable {
	size_t size;
	void *priv;
	size_t device;
	void *object; /* out */
};

/* For PmSamplingDisable, Start and Stop. */
struct pm_object {
	size_t size;
	void *priv;
	void *object;
};

struct pm_set_config {
	size_t size;
	void *priv;
	void *object;
	size_t config_bytes;
	const uint8_t *config;
	size_t buffer_bytes;
	uint64_t interval; /* ns or cycles of the system clock */
	int trigger;
	int append;
};

struct pm_image_size {
	size_t size;
	void *priv;
	void *object;
	const char **names;
	size_t count;
	uint32_t samples;
	size_t bytes; /* out */
};

struct pm_image_initialize {
	size_t size;
	void *priv;
	void *object;
	size_t bytes;
	uint8_t *image;
};

struct pm_decode {
	size_t size;
	void *priv;
	void *object;
	uint8_t *image;
	size_t bytes;
	int reason;	  /* out */
	uint8_t overflow; /* out */
};

struct pm_image_info {
	size_t size;
	void *priv;
	const uint8_t *image;
	size_t bytes;
	size_t total, populated, completed; /* out */
};

struct pm_sample_info {
	size_t size;
	void *priv;
	void *object;
	const uint8_t *image;
	size_t bytes;
	size_t index;
	uint64_t start, end; /* out: ns */
};

/* Of libnvperf_host, which CUPTI uses: how many bytes the hardware writes for a sample. */
struct pm_estimate {
	size_t size;
	void *priv;
	const uint8_t *config;
	size_t config_bytes;
	size_t sample_bytes; /* out */
};

/* Of the same library, documented with NVIDIA's "Nsight Perf SDK": images of counter data that hold
 * the sum of each counter over all units of the chip. */
struct pm_raw_names {
	size_t size;
	void *priv;
	const uint8_t *config;
	size_t config_bytes;
	size_t pass;
	const char **names; /* NULL: only count them */
	size_t count;	    /* in and out */
};

struct pm_builder {
	size_t size;
	void *priv;
	void *builder; /* out, but in when it is destroyed */
	const char *chip;
};

struct pm_builder_end {
	size_t size;
	void *priv;
	void *builder;
};

struct pm_raw_request {
	void *priv;
	const char *name;
	uint32_t domain;
	uint8_t each; /* keep the values of each unit apart */
};

struct pm_builder_add {
	size_t size;
	void *priv;
	void *builder;
	size_t request_size;
	size_t count;
	const struct pm_raw_request *requests;
};

struct pm_prefix {
	size_t size;
	void *priv;
	void *builder;
	size_t allocated;
	uint8_t *bytes; /* NULL: only count them */
	size_t count;	/* out */
};

struct pm_device_names {
	size_t size;
	void *priv;
	size_t device;
	const char *name, *chip; /* out */
};

struct pm_sums_options {
	size_t size;
	const uint8_t *prefix;
	size_t prefix_bytes;
	uint32_t samples, append;
};

struct pm_sums_size {
	size_t size;
	void *priv;
	size_t device;
	const struct pm_sums_options *options;
	size_t bytes; /* out */
};

struct pm_sums_initialize {
	size_t size;
	void *priv;
	size_t device;
	const struct pm_sums_options *options;
	uint8_t *image;
	size_t bytes;
};

/* Evaluation by libnvperf_host, as nvperf_host.h and the Nsight Perf SDK have it. */
struct pm_scratch {
	size_t size;
	void *priv;
	const char *chip;
	size_t bytes; /* out */
};

struct pm_evaluator {
	size_t size;
	void *priv;
	uint8_t *scratch;
	size_t scratch_bytes;
	const char *chip;
	const uint8_t *image;
	size_t image_bytes;
	void *evaluator; /* out */
};

struct pm_evaluator_end {
	size_t size;
	void *priv;
	void *evaluator;
};

struct pm_attributes {
	size_t size;
	void *priv;
	void *evaluator;
	const uint8_t *image;
	size_t bytes;
};

struct pm_request {
	size_t metric;
	uint8_t type, rollup;
	uint16_t submetric;
};

struct pm_convert {
	size_t size;
	void *priv;
	void *evaluator;
	const char *name;
	struct pm_request *request;
	size_t request_size;
};

struct pm_evaluate {
	size_t size;
	void *priv;
	void *evaluator;
	const struct pm_request *requests;
	size_t count, request_size, stride;
	const uint8_t *image;
	size_t bytes, range;
	uint8_t isolated;
	double *values;
};

/* The size that CUPTI expects of a struct: up to the end of its last member. */
#define PM_SIZE(type, last) (offsetof(struct type, last) + sizeof(((struct type *)0)->last))

/* PM_FUNCTION(member, name, argument) */
#define PM_FUNCTIONS                                                                             \
	PM_FUNCTION(initialize, "cuptiProfilerInitialize", struct pm_initialize *)               \
	PM_FUNCTION(get_chip_name, "cuptiDeviceGetChipName", struct pm_chip_name *)              \
	PM_FUNCTION(get_availability, "cuptiPmSamplingGetCounterAvailability",                   \
		    struct pm_availability *)                                                    \
	PM_FUNCTION(host_initialize, "cuptiProfilerHostInitialize", struct pm_host_initialize *) \
	PM_FUNCTION(host_deinitialize, "cuptiProfilerHostDeinitialize",                          \
		    struct pm_host_deinitialize *)                                               \
	PM_FUNCTION(host_add_metrics, "cuptiProfilerHostConfigAddMetrics",                       \
		    struct pm_host_add_metrics *)                                                \
	PM_FUNCTION(host_config_size, "cuptiProfilerHostGetConfigImageSize",                     \
		    struct pm_host_config_size *)                                                \
	PM_FUNCTION(host_config, "cuptiProfilerHostGetConfigImage", struct pm_host_config *)     \
	PM_FUNCTION(host_passes, "cuptiProfilerHostGetNumOfPasses", struct pm_host_passes *)     \
	PM_FUNCTION(host_evaluate, "cuptiProfilerHostEvaluateToGpuValues",                       \
		    struct pm_host_evaluate *)                                                   \
	PM_FUNCTION(enable, "cuptiPmSamplingEnable", struct pm_enable *)                         \
	PM_FUNCTION(disable, "cuptiPmSamplingDisable", struct pm_object *)                       \
	PM_FUNCTION(set_config, "cuptiPmSamplingSetConfig", struct pm_set_config *)              \
	PM_FUNCTION(image_size, "cuptiPmSamplingGetCounterDataSize", struct pm_image_size *)     \
	PM_FUNCTION(image_initialize, "cuptiPmSamplingCounterDataImageInitialize",               \
		    struct pm_image_initialize *)                                                \
	PM_FUNCTION(start, "cuptiPmSamplingStart", struct pm_object *)                           \
	PM_FUNCTION(stop, "cuptiPmSamplingStop", struct pm_object *)                             \
	PM_FUNCTION(decode, "cuptiPmSamplingDecodeData", struct pm_decode *)                     \
	PM_FUNCTION(image_info, "cuptiPmSamplingGetCounterDataInfo", struct pm_image_info *)     \
	PM_FUNCTION(sample_info, "cuptiPmSamplingCounterDataGetSampleInfo", struct pm_sample_info *)

struct pm_functions {
#define PM_FUNCTION(member, name, argument) int (*member)(argument);
	PM_FUNCTIONS
#undef PM_FUNCTION
};

#define PM_SUMS_FUNCTIONS                                                                     \
	PM_FUNCTION(get_raw_names, "NVPW_Config_GetRawCounters", struct pm_raw_names *)       \
	PM_FUNCTION(new_builder, "NVPW_CounterDataBuilder_Create", struct pm_builder *)       \
	PM_FUNCTION(free_builder, "NVPW_CounterDataBuilder_Destroy", struct pm_builder_end *) \
	PM_FUNCTION(add_counters, "NVPW_CounterDataBuilder_AddRawCounters",                   \
		    struct pm_builder_add *)                                                  \
	PM_FUNCTION(get_prefix, "NVPW_CounterDataBuilder_GetCounterDataPrefix",               \
		    struct pm_prefix *)                                                       \
	PM_FUNCTION(get_names, "NVPW_Device_GetNames", struct pm_device_names *)              \
	PM_FUNCTION(measure, "NVPW_GPU_PeriodicSampler_CounterDataImage_CalculateSize",       \
		    struct pm_sums_size *)                                                    \
	PM_FUNCTION(initialize, "NVPW_GPU_PeriodicSampler_CounterDataImage_Initialize",       \
		    struct pm_sums_initialize *)

struct pm_sums_functions {
#define PM_FUNCTION(member, name, argument) int (*member)(argument);
	PM_SUMS_FUNCTIONS
#undef PM_FUNCTION
};

#define PM_EVALUATOR_FUNCTIONS                                                                  \
	PM_FUNCTION(measure_scratch, "NVPW_Device_MetricsEvaluator_CalculateScratchBufferSize", \
		    struct pm_scratch *)                                                        \
	PM_FUNCTION(begin, "NVPW_Device_MetricsEvaluator_Initialize", struct pm_evaluator *)    \
	PM_FUNCTION(end, "NVPW_MetricsEvaluator_Destroy", struct pm_evaluator_end *)            \
	PM_FUNCTION(set_attributes, "NVPW_MetricsEvaluator_SetDeviceAttributes",                \
		    struct pm_attributes *)                                                     \
	PM_FUNCTION(convert, "NVPW_MetricsEvaluator_ConvertMetricNameToMetricEvalRequest",      \
		    struct pm_convert *)                                                        \
	PM_FUNCTION(evaluate, "NVPW_MetricsEvaluator_EvaluateToGpuValues", struct pm_evaluate *)

struct pm_evaluator_functions {
#define PM_FUNCTION(member, name, argument) int (*member)(argument);
	PM_EVALUATOR_FUNCTIONS
#undef PM_FUNCTION
};

/* Functions of the driver, according to the documentation of the CUDA driver API. */
#define PM_DRIVER_FUNCTIONS                                                 \
	PM_DRIVER_FUNCTION(init, "cuInit", (unsigned))                      \
	PM_DRIVER_FUNCTION(get_version, "cuDriverGetVersion", (int *))      \
	PM_DRIVER_FUNCTION(count_devices, "cuDeviceGetCount", (int *))      \
	PM_DRIVER_FUNCTION(get_device, "cuDeviceGet", (int *, int))         \
	PM_DRIVER_FUNCTION(get_name, "cuDeviceGetName", (char *, int, int)) \
	PM_DRIVER_FUNCTION(get_uuid, "cuDeviceGetUuid", (unsigned char *, int))

struct pm_driver {
#define PM_DRIVER_FUNCTION(member, name, arguments) int(*member) arguments;
	PM_DRIVER_FUNCTIONS
#undef PM_DRIVER_FUNCTION
};

#endif
