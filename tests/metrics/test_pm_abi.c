/*
 * test_pm_abi.c - compares ring/pm_abi.h with the toolkit's own headers, where those are: sizes,
 * offsets, numbers. Built only then. The comparisons are made while compiling; running it prints
 * that they held.
 */
#include <stdio.h>

/* cupti_profiler_host.h includes <string>, which C does not have: a shim stands in for it. */
#include <cupti.h>
#include <cupti_pmsampling.h>
#include <cupti_profiler_host.h>
#include <cupti_profiler_target.h>
#include <cupti_target.h>
#include <nvperf_host.h>

#include "ring/pm_abi.h"

#define SAME(a, b) _Static_assert((long long)(a) == (long long)(b), #a " is not " #b)
#define STRUCT(mine, last, theirs)                              \
	SAME(PM_SIZE(mine, last), theirs##_Params_STRUCT_SIZE); \
	SAME(sizeof(struct mine), sizeof(theirs##_Params))
#define FIELD(mine, field, theirs, its) \
	SAME(offsetof(struct mine, field), offsetof(theirs##_Params, its))

STRUCT(pm_initialize, priv, CUpti_Profiler_Initialize);
STRUCT(pm_chip_name, name, CUpti_Device_GetChipName);
STRUCT(pm_availability, image, CUpti_PmSampling_GetCounterAvailability);
STRUCT(pm_host_initialize, host, CUpti_Profiler_Host_Initialize);
STRUCT(pm_host_deinitialize, host, CUpti_Profiler_Host_Deinitialize);
STRUCT(pm_host_add_metrics, count, CUpti_Profiler_Host_ConfigAddMetrics);
STRUCT(pm_host_config_size, bytes, CUpti_Profiler_Host_GetConfigImageSize);
STRUCT(pm_host_config, image, CUpti_Profiler_Host_GetConfigImage);
STRUCT(pm_host_passes, passes, CUpti_Profiler_Host_GetNumOfPasses);
STRUCT(pm_host_evaluate, values, CUpti_Profiler_Host_EvaluateToGpuValues);
STRUCT(pm_enable, object, CUpti_PmSampling_Enable);
STRUCT(pm_object, object, CUpti_PmSampling_Disable);
STRUCT(pm_object, object, CUpti_PmSampling_Start);
STRUCT(pm_object, object, CUpti_PmSampling_Stop);
STRUCT(pm_set_config, append, CUpti_PmSampling_SetConfig);
STRUCT(pm_image_size, bytes, CUpti_PmSampling_GetCounterDataSize);
STRUCT(pm_image_initialize, image, CUpti_PmSampling_CounterDataImage_Initialize);
STRUCT(pm_decode, overflow, CUpti_PmSampling_DecodeData);
STRUCT(pm_image_info, completed, CUpti_PmSampling_GetCounterDataInfo);
STRUCT(pm_sample_info, end, CUpti_PmSampling_CounterData_GetSampleInfo);

STRUCT(pm_evaluator_end, evaluator, NVPW_MetricsEvaluator_Destroy);
STRUCT(pm_attributes, bytes, NVPW_MetricsEvaluator_SetDeviceAttributes);
STRUCT(pm_convert, request_size, NVPW_MetricsEvaluator_ConvertMetricNameToMetricEvalRequest);
STRUCT(pm_evaluate, values, NVPW_MetricsEvaluator_EvaluateToGpuValues);
SAME(PM_SIZE(pm_request, submetric), NVPW_MetricEvalRequest_STRUCT_SIZE);
SAME(sizeof(struct pm_request), sizeof(NVPW_MetricEvalRequest));

FIELD(pm_chip_name, device, CUpti_Device_GetChipName, deviceIndex);
FIELD(pm_availability, bytes, CUpti_PmSampling_GetCounterAvailability,
      counterAvailabilityImageSize);
FIELD(pm_host_initialize, type, CUpti_Profiler_Host_Initialize, profilerType);
FIELD(pm_host_initialize, chip, CUpti_Profiler_Host_Initialize, pChipName);
FIELD(pm_host_add_metrics, names, CUpti_Profiler_Host_ConfigAddMetrics, ppMetricNames);
FIELD(pm_host_config, bytes, CUpti_Profiler_Host_GetConfigImage, configImageSize);
FIELD(pm_host_passes, image, CUpti_Profiler_Host_GetNumOfPasses, pConfigImage);
FIELD(pm_host_evaluate, image, CUpti_Profiler_Host_EvaluateToGpuValues, pCounterDataImage);
FIELD(pm_host_evaluate, range, CUpti_Profiler_Host_EvaluateToGpuValues, rangeIndex);
FIELD(pm_host_evaluate, names, CUpti_Profiler_Host_EvaluateToGpuValues, ppMetricNames);
FIELD(pm_set_config, config, CUpti_PmSampling_SetConfig, pConfig);
FIELD(pm_set_config, buffer_bytes, CUpti_PmSampling_SetConfig, hardwareBufferSize);
FIELD(pm_set_config, interval, CUpti_PmSampling_SetConfig, samplingInterval);
FIELD(pm_set_config, trigger, CUpti_PmSampling_SetConfig, triggerMode);
FIELD(pm_image_size, names, CUpti_PmSampling_GetCounterDataSize, pMetricNames);
FIELD(pm_image_size, samples, CUpti_PmSampling_GetCounterDataSize, maxSamples);
FIELD(pm_image_initialize, image, CUpti_PmSampling_CounterDataImage_Initialize, pCounterData);
FIELD(pm_evaluate, requests, NVPW_MetricsEvaluator_EvaluateToGpuValues, pMetricEvalRequests);
FIELD(pm_evaluate, range, NVPW_MetricsEvaluator_EvaluateToGpuValues, rangeIndex);
FIELD(pm_decode, image, CUpti_PmSampling_DecodeData, pCounterDataImage);
FIELD(pm_decode, reason, CUpti_PmSampling_DecodeData, decodeStopReason);
FIELD(pm_image_info, populated, CUpti_PmSampling_GetCounterDataInfo, numPopulatedSamples);
FIELD(pm_sample_info, index, CUpti_PmSampling_CounterData_GetSampleInfo, sampleIndex);
FIELD(pm_sample_info, start, CUpti_PmSampling_CounterData_GetSampleInfo, startTimestamp);

SAME(PM_ERROR_INVALID_DEVICE, CUPTI_ERROR_INVALID_DEVICE);
SAME(PM_ERROR_INVALID_OPERATION, CUPTI_ERROR_INVALID_OPERATION);
SAME(PM_ERROR_OUT_OF_MEMORY, CUPTI_ERROR_OUT_OF_MEMORY);
SAME(PM_ERROR_INVALID_METRIC_NAME, CUPTI_ERROR_INVALID_METRIC_NAME);
SAME(PM_ERROR_HARDWARE_BUSY, CUPTI_ERROR_HARDWARE_BUSY);
SAME(PM_ERROR_NOT_SUPPORTED, CUPTI_ERROR_NOT_SUPPORTED);
SAME(PM_ERROR_VIRTUALIZED, CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED);
SAME(PM_ERROR_INSUFFICIENT_PRIVILEGES, CUPTI_ERROR_INSUFFICIENT_PRIVILEGES);
SAME(PM_ERROR_VIRTUALIZED_PRIVILEGES, CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES);
SAME(PM_ERROR_CONFIDENTIAL, CUPTI_ERROR_CONFIDENTIAL_COMPUTING_NOT_SUPPORTED);
SAME(PM_ERROR_MIG, CUPTI_ERROR_MIG_DEVICE_NOT_SUPPORTED);
SAME(PM_ERROR_WSL, CUPTI_ERROR_WSL_DEVICE_NOT_SUPPORTED);
SAME(PM_TYPE_SAMPLING, CUPTI_PROFILER_TYPE_PM_SAMPLING);
SAME(PM_TRIGGER_SYSCLK, CUPTI_PM_SAMPLING_TRIGGER_MODE_GPU_SYSCLK_INTERVAL);
SAME(PM_TRIGGER_TIME, CUPTI_PM_SAMPLING_TRIGGER_MODE_GPU_TIME_INTERVAL);
SAME(PM_KEEP_OLDEST, CUPTI_PM_SAMPLING_HARDWARE_BUFFER_APPEND_MODE_KEEP_OLDEST);
SAME(PM_KEEP_LATEST, CUPTI_PM_SAMPLING_HARDWARE_BUFFER_APPEND_MODE_KEEP_LATEST);
SAME(PM_STOP_IMAGE_FULL, CUPTI_PM_SAMPLING_DECODE_STOP_REASON_COUNTER_DATA_FULL);
SAME(PM_STOP_NO_RECORDS, CUPTI_PM_SAMPLING_DECODE_STOP_REASON_END_OF_RECORDS);

int main(void)
{
	puts("1..1\nok 1 - the declarations agree with the headers of the toolkit");
	return 0;
}
