/*
 * test_abi.c - compares ring/cupti_profiler_abi.h with the toolkit's own headers, where those are.
 * The comparisons are made while compiling; running it prints that they held.
 */
#include <cupti_profiler_target.h>
#include <cupti_range_profiler.h>
#include <cupti_target.h>
#include <cupti_profiler_host.h>
#include <stdio.h>

#include "ring/cupti_profiler_abi.h"

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

int main(void)
{
	printf("1..1\nok 1 - the profiler's structures are those of the toolkit\n");
	return 0;
}
