/*
 * cupti_profiler_abi.h - what the kernel hook uses of CUPTI's profiler: the range profiler, which
 * collects counters, and the host functions, which choose and evaluate them. Declared here so that
 * building needs no CUDA toolkit; each structure begins with its size, so that a newer library
 * knows which version of it was passed. tests/kernel/test_abi.c compares them with the toolkit's.
 */
#ifndef WS_RING_CUPTI_PROFILER_ABI_H
#define WS_RING_CUPTI_PROFILER_ABI_H

#include <stddef.h>
#include <stdint.h>

enum { CUPTI_USER_RANGE = 2, CUPTI_AUTO_RANGE = 1 };
enum { CUPTI_APPLICATION_REPLAY = 1, CUPTI_KERNEL_REPLAY = 2, CUPTI_USER_REPLAY = 3 };
enum { CUPTI_RANGE_PROFILER = 0 };

/* What the structures begin with. */
#define CUPTI_HEAD   \
	size_t size; \
	void *priv;

struct cupti_range_init { /* CUpti_Profiler_Initialize_Params */
	CUPTI_HEAD
};
struct cupti_range_availability { /* CUpti_Profiler_GetCounterAvailability_Params */
	CUPTI_HEAD
	void *context;
	size_t bytes; /* in and out */
	uint8_t *image;
};
struct cupti_range_chip { /* CUpti_Device_GetChipName_Params */
	CUPTI_HEAD
	size_t device;
	const char *chip; /* out */
};
struct cupti_range_host { /* CUpti_Profiler_Host_Initialize_Params */
	CUPTI_HEAD
	int32_t profiler;
	const char *chip;
	const uint8_t *availability;
	void *host; /* out */
};
struct cupti_range_host_end { /* CUpti_Profiler_Host_Deinitialize_Params */
	CUPTI_HEAD
	void *host;
};
struct cupti_range_properties { /* CUpti_Profiler_Host_GetMetricProperties_Params */
	CUPTI_HEAD
	void *host;
	const char *metric;
	const char *description, *unit_of_gpu, *unit; /* out */
	int32_t type;				      /* out */
};
struct cupti_range_metrics { /* CUpti_Profiler_Host_ConfigAddMetrics_Params */
	CUPTI_HEAD
	void *host;
	const char **names;
	size_t count;
};
struct cupti_range_config_size { /* CUpti_Profiler_Host_GetConfigImageSize_Params */
	CUPTI_HEAD
	void *host;
	size_t bytes; /* out */
};
struct cupti_range_config { /* CUpti_Profiler_Host_GetConfigImage_Params */
	CUPTI_HEAD
	void *host;
	size_t bytes;
	uint8_t *image;
};
struct cupti_range_passes { /* CUpti_Profiler_Host_GetNumOfPasses_Params */
	CUPTI_HEAD
	size_t bytes;
	uint8_t *image;
	size_t passes; /* out */
};
struct cupti_range_values { /* CUpti_Profiler_Host_EvaluateToGpuValues_Params */
	CUPTI_HEAD
	void *host;
	const uint8_t *image;
	size_t bytes, range;
	const char **names;
	size_t count;
	double *values; /* out */
};
struct cupti_range_enable { /* CUpti_RangeProfiler_Enable_Params */
	CUPTI_HEAD
	void *context;
	void *profiler; /* out */
};
struct cupti_range_call { /* CUpti_RangeProfiler_Disable_Params, Start_Params, PopRange_Params */
	CUPTI_HEAD
	void *profiler;
};
struct cupti_range_set_config { /* CUpti_RangeProfiler_SetConfig_Params */
	CUPTI_HEAD
	void *profiler;
	size_t config_bytes;
	const uint8_t *config;
	size_t image_bytes;
	uint8_t *image;
	int32_t range, replay;
	size_t ranges; /* in a pass at most */
	uint16_t levels, first_level;
	size_t pass;
	uint16_t target_level;
};
struct cupti_range_push { /* CUpti_RangeProfiler_PushRange_Params */
	CUPTI_HEAD
	void *profiler;
	const char *name;
};
struct cupti_range_stop { /* CUpti_RangeProfiler_Stop_Params */
	CUPTI_HEAD
	void *profiler;
	size_t pass, level; /* out */
	uint8_t all;	    /* out: every pass has been submitted */
};
struct cupti_range_decode { /* CUpti_RangeProfiler_DecodeData_Params */
	CUPTI_HEAD
	void *profiler;
	size_t dropped; /* out */
};
struct cupti_range_image_size { /* CUpti_RangeProfiler_GetCounterDataSize_Params */
	CUPTI_HEAD
	void *profiler;
	const char **names;
	size_t count, ranges;
	uint32_t nodes;
	size_t bytes; /* out */
};
struct cupti_range_image { /* CUpti_RangeProfiler_CounterDataImage_Initialize_Params */
	CUPTI_HEAD
	void *profiler;
	size_t bytes;
	uint8_t *image;
};
struct cupti_range_image_info { /* CUpti_RangeProfiler_GetCounterDataInfo_Params */
	CUPTI_HEAD
	const uint8_t *image;
	size_t bytes;
	size_t ranges; /* out */
};

/*
 * X(member, function, parameters, last field): all return a CUptiResult. A structure's size, as
 * CUPTI wants it, ends with its last field.
 */
#define CUPTI_PROFILER_FUNCTIONS(X)                                                          \
	X(initialize, ProfilerInitialize, cupti_range_init, priv)                            \
	X(get_availability, ProfilerGetCounterAvailability, cupti_range_availability, image) \
	X(get_chip, DeviceGetChipName, cupti_range_chip, chip)                               \
	X(open_host, ProfilerHostInitialize, cupti_range_host, host)                         \
	X(close_host, ProfilerHostDeinitialize, cupti_range_host_end, host)                  \
	X(get_properties, ProfilerHostGetMetricProperties, cupti_range_properties, type)     \
	X(add_metrics, ProfilerHostConfigAddMetrics, cupti_range_metrics, count)             \
	X(get_config_size, ProfilerHostGetConfigImageSize, cupti_range_config_size, bytes)   \
	X(get_config, ProfilerHostGetConfigImage, cupti_range_config, image)                 \
	X(get_passes, ProfilerHostGetNumOfPasses, cupti_range_passes, passes)                \
	X(evaluate, ProfilerHostEvaluateToGpuValues, cupti_range_values, values)             \
	X(enable, RangeProfilerEnable, cupti_range_enable, profiler)                         \
	X(disable, RangeProfilerDisable, cupti_range_call, profiler)                         \
	X(set_config, RangeProfilerSetConfig, cupti_range_set_config, target_level)          \
	X(start, RangeProfilerStart, cupti_range_call, profiler)                             \
	X(stop, RangeProfilerStop, cupti_range_stop, all)                                    \
	X(push, RangeProfilerPushRange, cupti_range_push, name)                              \
	X(pop, RangeProfilerPopRange, cupti_range_call, profiler)                            \
	X(decode, RangeProfilerDecodeData, cupti_range_decode, dropped)                      \
	X(get_image_size, RangeProfilerGetCounterDataSize, cupti_range_image_size, bytes)    \
	X(init_image, RangeProfilerCounterDataImageInitialize, cupti_range_image, image)     \
	X(get_image_info, RangeProfilerGetCounterDataInfo, cupti_range_image_info, ranges)

/* The size that a structure's first field is given. */
#define CUPTI_SIZE(type, last) (offsetof(struct type, last) + sizeof(((struct type *)0)->last))

#endif
