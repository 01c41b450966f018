/*
 * cupti_source_abi.h - what the kernel hook uses of CUPTI to attribute a kernel's time and accesses
 * to instructions: PC sampling, SASS metrics, checksums of cubins. As cupti_profiler_abi.h.
 */
#ifndef WS_RING_CUPTI_SOURCE_ABI_H
#define WS_RING_CUPTI_SOURCE_ABI_H

#include "ring/cupti_profiler_abi.h"

/* ---- PC sampling ---- */

enum { CUPTI_SAMPLING_CONTINUOUS = 1, CUPTI_SAMPLING_SERIALIZED = 2 };
enum cupti_sampling_attribute {
	CUPTI_SAMPLING_PERIOD = 1,
	CUPTI_SAMPLING_REASONS = 2,
	CUPTI_SAMPLING_SCRATCH_BYTES = 3,
	CUPTI_SAMPLING_BUFFER_BYTES = 4,
	CUPTI_SAMPLING_MODE = 5,
	CUPTI_SAMPLING_START_STOP = 6,
	CUPTI_SAMPLING_FORMAT = 7,
	CUPTI_SAMPLING_DATA = 8,
	CUPTI_SAMPLING_SLEEP = 9
};
enum { CUPTI_SAMPLING_PARSED = 1 };
enum { CUPTI_STALL_NAME = 128 }; /* bytes of a name of a reason */

struct cupti_stall_count { /* CUpti_PCSamplingStallReason */
	uint32_t reason, samples;
} __attribute__((packed, aligned(8)));
struct cupti_sampled_pc { /* CUpti_PCSamplingPCData */
	size_t size;
	uint64_t crc, pc;
	uint32_t function, pad;
	char *name;
	size_t count;
	struct cupti_stall_count *reasons;
	uint32_t correlation;
} __attribute__((packed, aligned(8)));
struct cupti_sampling_data { /* CUpti_PCSamplingData */
	size_t size, room;
	uint64_t samples, dropped;
	size_t count, remaining;
	uint64_t range;
	struct cupti_sampled_pc *pcs;
	uint64_t of_others;
	uint8_t full;
} __attribute__((packed, aligned(8)));
struct cupti_sampling_setting { /* CUpti_PCSamplingConfigurationInfo */
	int32_t attribute, status;
	union {
		uint64_t data[3];
		uint32_t number;
		size_t bytes;
		void *pointer;
		struct {
			size_t count;
			uint32_t *reasons;
		} reasons;
	} value;
};
struct cupti_sampling_config { /* CUpti_PCSamplingConfigurationInfoParams */
	CUPTI_HEAD
	void *context;
	size_t count;
	struct cupti_sampling_setting *settings;
};
struct cupti_sampling_get { /* CUpti_PCSamplingGetDataParams */
	CUPTI_HEAD
	void *context;
	struct cupti_sampling_data *data;
};
struct cupti_sampling_call { /* CUpti_PCSamplingEnableParams, Disable, Start, Stop */
	CUPTI_HEAD
	void *context;
};
struct cupti_sampling_reason_count { /* CUpti_PCSamplingGetNumStallReasonsParams */
	CUPTI_HEAD
	void *context;
	size_t *count;
};
struct cupti_sampling_reasons { /* CUpti_PCSamplingGetStallReasonsParams */
	CUPTI_HEAD
	void *context;
	size_t count;
	uint32_t *reasons;
	char **names; /* each of CUPTI_STALL_NAME bytes */
};
struct cupti_cubin_crc { /* CUpti_GetCubinCrcParams */
	size_t size, bytes;
	const void *cubin;
	uint64_t crc;
};

/* ---- SASS metrics ---- */

enum { CUPTI_SASS_OF_GPU = 0 };

struct cupti_sass_metric { /* CUpti_SassMetrics_MetricDetails */
	uint64_t id;
	const char *name, *description;
};
struct cupti_sass_count { /* CUpti_SassMetrics_GetNumOfMetrics_Params */
	CUPTI_HEAD
	const char *chip;
	size_t count;
};
struct cupti_sass_list { /* CUpti_SassMetrics_GetMetrics_Params */
	CUPTI_HEAD
	const char *chip;
	size_t count;
	struct cupti_sass_metric *metrics;
};
struct cupti_sass_setting { /* CUpti_SassMetrics_Config */
	uint64_t id;
	uint8_t granularity;
};
struct cupti_sass_config { /* CUpti_SassMetricsSetConfig_Params */
	CUPTI_HEAD
	size_t count;
	struct cupti_sass_setting *settings;
	uint32_t device;
};
struct cupti_sass_enable { /* CUpti_SassMetricsEnable_Params */
	CUPTI_HEAD
	void *context;
	uint8_t lazy; /* functions are patched when they are launched */
};
struct cupti_sass_disable { /* CUpti_SassMetricsDisable_Params */
	CUPTI_HEAD
	void *context;
	size_t dropped;
};
struct cupti_sass_properties { /* CUpti_SassMetricsGetDataProperties_Params */
	CUPTI_HEAD
	void *context;
	size_t records, instances;
};
struct cupti_sass_value { /* CUpti_SassMetrics_InstanceValue */
	uint64_t id, value;
};
struct cupti_sass_data { /* CUpti_SassMetrics_Data */
	CUPTI_HEAD
	uint32_t crc, function;
	const char *name;
	uint32_t pc;
	struct cupti_sass_value *values;
};
struct cupti_sass_flush { /* CUpti_SassMetricsFlushData_Params */
	CUPTI_HEAD
	void *context;
	size_t records, instances;
	struct cupti_sass_data *data;
};

/* As CUPTI_PROFILER_FUNCTIONS. */
#define CUPTI_SAMPLING_FUNCTIONS(X)                                                        \
	X(enable, PCSamplingEnable, cupti_sampling_call, context)                          \
	X(disable, PCSamplingDisable, cupti_sampling_call, context)                        \
	X(start, PCSamplingStart, cupti_sampling_call, context)                            \
	X(stop, PCSamplingStop, cupti_sampling_call, context)                              \
	X(configure, PCSamplingSetConfigurationAttribute, cupti_sampling_config, settings) \
	X(get_data, PCSamplingGetData, cupti_sampling_get, data)                           \
	X(count_reasons, PCSamplingGetNumStallReasons, cupti_sampling_reason_count, count) \
	X(get_reasons, PCSamplingGetStallReasons, cupti_sampling_reasons, names)

#define CUPTI_SASS_FUNCTIONS(X)                                                           \
	X(count_metrics, SassMetricsGetNumOfMetrics, cupti_sass_count, count)             \
	X(list_metrics, SassMetricsGetMetrics, cupti_sass_list, metrics)                  \
	X(configure, SassMetricsSetConfig, cupti_sass_config, device)                     \
	X(enable, SassMetricsEnable, cupti_sass_enable, lazy)                             \
	X(disable, SassMetricsDisable, cupti_sass_disable, dropped)                       \
	X(get_properties, SassMetricsGetDataProperties, cupti_sass_properties, instances) \
	X(flush, SassMetricsFlushData, cupti_sass_flush, instances)

#endif
