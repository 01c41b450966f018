/*
 * test_abi.c - compares ring/cupti_profiler_abi.h with the toolkit's own headers, where those are.
 * The comparisons are made while compiling; running it prints that they held.
 */
#include <cupti_profiler_target.h>
#include <cupti_range_profiler.h>
#include <cupti_target.h>
#include <cupti_pcsampling.h>
#include <cupti_profiler_host.h>
#include <cupti_sass_metrics.h>
#include <stdio.h>

#include "ring/cupti_source_abi.h"

#define SAME(a, b) _Static_assert((long long)(a) == (long long)(b), #a " is not " #b)
#define SIZES(mine, last, theirs) SAME(CUPTI_SIZE(mine, last), theirs##_Params_STRUCT_SIZE)
#define FIELD(mine, field, theirs, its) \
	SAME(offsetof(struct mine, field), offsetof(theirs##_Params, its))

SIZES(cupti_range_init, priv, CUpti_Profiler_Initialize);
SIZES(cupti_range_availability, image, CUpti_Profiler_GetCounterAvailability);
SIZES(cupti_range_chip, chip, CUpti_Device_GetChipName);
SIZES(cupti_range_host, host, CUpti_Profiler_Host_Initialize);
SIZES(cupti_range_host_end, host, CUpti_Profiler_Host_Deinitialize);
SIZES(cupti_range_properties, type, CUpti_Profiler_Host_GetMetricProperties);
SIZES(cupti_range_metrics, count, CUpti_Profiler_Host_ConfigAddMetrics);
SIZES(cupti_range_config_size, bytes, CUpti_Profiler_Host_GetConfigImageSize);
SIZES(cupti_range_config, image, CUpti_Profiler_Host_GetConfigImage);
SIZES(cupti_range_passes, passes, CUpti_Profiler_Host_GetNumOfPasses);
SIZES(cupti_range_values, values, CUpti_Profiler_Host_EvaluateToGpuValues);
SIZES(cupti_range_enable, profiler, CUpti_RangeProfiler_Enable);
SIZES(cupti_range_call, profiler, CUpti_RangeProfiler_Disable);
SIZES(cupti_range_call, profiler, CUpti_RangeProfiler_Start);
SIZES(cupti_range_call, profiler, CUpti_RangeProfiler_PopRange);
SIZES(cupti_range_set_config, target_level, CUpti_RangeProfiler_SetConfig);
SIZES(cupti_range_push, name, CUpti_RangeProfiler_PushRange);
SIZES(cupti_range_stop, all, CUpti_RangeProfiler_Stop);
SIZES(cupti_range_decode, dropped, CUpti_RangeProfiler_DecodeData);
SIZES(cupti_range_image_size, bytes, CUpti_RangeProfiler_GetCounterDataSize);
SIZES(cupti_range_image, image, CUpti_RangeProfiler_CounterDataImage_Initialize);
SIZES(cupti_range_image_info, ranges, CUpti_RangeProfiler_GetCounterDataInfo);

FIELD(cupti_range_availability, bytes, CUpti_Profiler_GetCounterAvailability,
      counterAvailabilityImageSize);
FIELD(cupti_range_host, availability, CUpti_Profiler_Host_Initialize, pCounterAvailabilityImage);
FIELD(cupti_range_properties, unit, CUpti_Profiler_Host_GetMetricProperties, pDimUnit);
FIELD(cupti_range_values, range, CUpti_Profiler_Host_EvaluateToGpuValues, rangeIndex);
FIELD(cupti_range_values, count, CUpti_Profiler_Host_EvaluateToGpuValues, numMetrics);
FIELD(cupti_range_enable, context, CUpti_RangeProfiler_Enable, ctx);
FIELD(cupti_range_set_config, config, CUpti_RangeProfiler_SetConfig, pConfig);
FIELD(cupti_range_set_config, image, CUpti_RangeProfiler_SetConfig, pCounterDataImage);
FIELD(cupti_range_set_config, range, CUpti_RangeProfiler_SetConfig, range);
FIELD(cupti_range_set_config, replay, CUpti_RangeProfiler_SetConfig, replayMode);
FIELD(cupti_range_set_config, ranges, CUpti_RangeProfiler_SetConfig, maxRangesPerPass);
FIELD(cupti_range_set_config, levels, CUpti_RangeProfiler_SetConfig, numNestingLevels);
FIELD(cupti_range_set_config, pass, CUpti_RangeProfiler_SetConfig, passIndex);
FIELD(cupti_range_stop, level, CUpti_RangeProfiler_Stop, targetNestingLevel);
FIELD(cupti_range_image_size, ranges, CUpti_RangeProfiler_GetCounterDataSize, maxNumOfRanges);
FIELD(cupti_range_image_size, nodes, CUpti_RangeProfiler_GetCounterDataSize, maxNumRangeTreeNodes);

SAME(CUPTI_AUTO_RANGE, CUPTI_AutoRange);
SAME(CUPTI_USER_RANGE, CUPTI_UserRange);
SAME(CUPTI_APPLICATION_REPLAY, CUPTI_ApplicationReplay);
SAME(CUPTI_KERNEL_REPLAY, CUPTI_KernelReplay);
SAME(CUPTI_USER_REPLAY, CUPTI_UserReplay);
SAME(CUPTI_RANGE_PROFILER, CUPTI_PROFILER_TYPE_RANGE_PROFILER);

/* ---- attribution to instructions ---- */

#define WHOLE(mine, last, theirs) SAME(CUPTI_SIZE(mine, last), theirs##Size)
#define SAMPLING(mine, field, theirs, its) SAME(offsetof(struct mine, field), offsetof(theirs, its))

WHOLE(cupti_sampling_call, context, CUpti_PCSamplingEnableParams);
WHOLE(cupti_sampling_call, context, CUpti_PCSamplingDisableParams);
WHOLE(cupti_sampling_call, context, CUpti_PCSamplingStartParams);
WHOLE(cupti_sampling_call, context, CUpti_PCSamplingStopParams);
WHOLE(cupti_sampling_config, settings, CUpti_PCSamplingConfigurationInfoParams);
WHOLE(cupti_sampling_get, data, CUpti_PCSamplingGetDataParams);
WHOLE(cupti_sampling_reason_count, count, CUpti_PCSamplingGetNumStallReasonsParams);
WHOLE(cupti_sampling_reasons, names, CUpti_PCSamplingGetStallReasonsParams);
WHOLE(cupti_cubin_crc, crc, CUpti_GetCubinCrcParams);
SAME(sizeof(struct cupti_stall_count), sizeof(CUpti_PCSamplingStallReason));
SAME(sizeof(struct cupti_sampled_pc), sizeof(CUpti_PCSamplingPCData));
SAME(sizeof(struct cupti_sampling_data), sizeof(CUpti_PCSamplingData));
SAME(sizeof(struct cupti_sampling_setting), sizeof(CUpti_PCSamplingConfigurationInfo));
SAMPLING(cupti_sampled_pc, pc, CUpti_PCSamplingPCData, pcOffset);
SAMPLING(cupti_sampled_pc, name, CUpti_PCSamplingPCData, functionName);
SAMPLING(cupti_sampled_pc, count, CUpti_PCSamplingPCData, stallReasonCount);
SAMPLING(cupti_sampled_pc, correlation, CUpti_PCSamplingPCData, correlationId);
SAMPLING(cupti_sampling_data, samples, CUpti_PCSamplingData, totalSamples);
SAMPLING(cupti_sampling_data, count, CUpti_PCSamplingData, totalNumPcs);
SAMPLING(cupti_sampling_data, remaining, CUpti_PCSamplingData, remainingNumPcs);
SAMPLING(cupti_sampling_data, pcs, CUpti_PCSamplingData, pPcData);
SAMPLING(cupti_sampling_data, full, CUpti_PCSamplingData, hardwareBufferFull);
SAMPLING(cupti_sampling_setting, value, CUpti_PCSamplingConfigurationInfo, attributeData);
SAMPLING(cupti_sampling_setting, value.reasons.reasons, CUpti_PCSamplingConfigurationInfo,
	 attributeData.stallReasonData.pStallReasonIndex);
SAMPLING(cupti_cubin_crc, cubin, CUpti_GetCubinCrcParams, cubin);
SAME(CUPTI_SAMPLING_PERIOD, CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_SAMPLING_PERIOD);
SAME(CUPTI_SAMPLING_REASONS, CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_STALL_REASON);
SAME(CUPTI_SAMPLING_SCRATCH_BYTES, CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_SCRATCH_BUFFER_SIZE);
SAME(CUPTI_SAMPLING_BUFFER_BYTES, CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_HARDWARE_BUFFER_SIZE);
SAME(CUPTI_SAMPLING_MODE, CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_COLLECTION_MODE);
SAME(CUPTI_SAMPLING_START_STOP,
     CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_ENABLE_START_STOP_CONTROL);
SAME(CUPTI_SAMPLING_FORMAT, CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_OUTPUT_DATA_FORMAT);
SAME(CUPTI_SAMPLING_DATA, CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_SAMPLING_DATA_BUFFER);
SAME(CUPTI_SAMPLING_SLEEP,
     CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_WORKER_THREAD_PERIODIC_SLEEP_SPAN);
SAME(CUPTI_SAMPLING_CONTINUOUS, CUPTI_PC_SAMPLING_COLLECTION_MODE_CONTINUOUS);
SAME(CUPTI_SAMPLING_SERIALIZED, CUPTI_PC_SAMPLING_COLLECTION_MODE_KERNEL_SERIALIZED);
SAME(CUPTI_SAMPLING_PARSED, CUPTI_PC_SAMPLING_OUTPUT_DATA_FORMAT_PARSED);

SIZES(cupti_sass_count, count, CUpti_SassMetrics_GetNumOfMetrics);
SIZES(cupti_sass_list, metrics, CUpti_SassMetrics_GetMetrics);
SIZES(cupti_sass_config, device, CUpti_SassMetricsSetConfig);
SIZES(cupti_sass_enable, lazy, CUpti_SassMetricsEnable);
SIZES(cupti_sass_disable, dropped, CUpti_SassMetricsDisable);
SIZES(cupti_sass_properties, instances, CUpti_SassMetricsGetDataProperties);
SIZES(cupti_sass_flush, instances, CUpti_SassMetricsFlushData);
SAME(sizeof(struct cupti_sass_metric), sizeof(CUpti_SassMetrics_MetricDetails));
SAME(sizeof(struct cupti_sass_setting), sizeof(CUpti_SassMetrics_Config));
SAME(sizeof(struct cupti_sass_value), sizeof(CUpti_SassMetrics_InstanceValue));
SAME(sizeof(struct cupti_sass_data), sizeof(CUpti_SassMetrics_Data));
SAMPLING(cupti_sass_data, name, CUpti_SassMetrics_Data, functionName);
SAMPLING(cupti_sass_data, pc, CUpti_SassMetrics_Data, pcOffset);
SAMPLING(cupti_sass_data, values, CUpti_SassMetrics_Data, pInstanceValues);
FIELD(cupti_sass_flush, data, CUpti_SassMetricsFlushData, pMetricsData);
SAME(CUPTI_SASS_OF_GPU, CUPTI_SASS_METRICS_OUTPUT_GRANULARITY_GPU);

int main(void)
{
	printf("1..1\nok 1 - the profiler's structures are those of the toolkit\n");
	return 0;
}
