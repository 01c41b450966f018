/*
 * test_host_abi.c - compares gpu/host_abi.h with the toolkit's own headers, where those are. The
 * comparisons are made while compiling; running it prints that they held.
 */
#include <cupti_profiler_target.h>

#include <cupti_profiler_host.h>
#include <stdio.h>

#include "gpu/host_abi.h"

#define SAME(a, b) _Static_assert((long long)(a) == (long long)(b), #a " is not " #b)
#define SIZE(mine, theirs) \
	SAME(sizeof(struct mine), (CUpti_##theirs##_Params_STRUCT_SIZE + 7) / 8 * 8)
#define FIELD(mine, field, theirs, its) \
	SAME(offsetof(struct mine, field), offsetof(CUpti_##theirs##_Params, its))

SIZE(cupti_profiler_initialize, Profiler_Initialize);
SIZE(cupti_host_initialize, Profiler_Host_Initialize);
SIZE(cupti_host_deinitialize, Profiler_Host_Deinitialize);
SIZE(cupti_host_chips, Profiler_Host_GetSupportedChips);
SIZE(cupti_host_base_metrics, Profiler_Host_GetBaseMetrics);
SIZE(cupti_host_sub_metrics, Profiler_Host_GetSubMetrics);
SIZE(cupti_host_properties, Profiler_Host_GetMetricProperties);
SIZE(cupti_host_add_metrics, Profiler_Host_ConfigAddMetrics);
SIZE(cupti_host_image_size, Profiler_Host_GetConfigImageSize);
SIZE(cupti_host_image, Profiler_Host_GetConfigImage);
SIZE(cupti_host_passes, Profiler_Host_GetNumOfPasses);
FIELD(cupti_host_initialize, profiler, Profiler_Host_Initialize, profilerType);
FIELD(cupti_host_initialize, chip, Profiler_Host_Initialize, pChipName);
FIELD(cupti_host_initialize, host, Profiler_Host_Initialize, pHostObject);
FIELD(cupti_host_chips, count, Profiler_Host_GetSupportedChips, numChips);
FIELD(cupti_host_chips, names, Profiler_Host_GetSupportedChips, ppChipNames);
FIELD(cupti_host_base_metrics, type, Profiler_Host_GetBaseMetrics, metricType);
FIELD(cupti_host_base_metrics, names, Profiler_Host_GetBaseMetrics, ppMetricNames);
FIELD(cupti_host_base_metrics, count, Profiler_Host_GetBaseMetrics, numMetrics);
FIELD(cupti_host_sub_metrics, metric, Profiler_Host_GetSubMetrics, pMetricName);
FIELD(cupti_host_sub_metrics, count, Profiler_Host_GetSubMetrics, numOfSubmetrics);
FIELD(cupti_host_sub_metrics, names, Profiler_Host_GetSubMetrics, ppSubMetrics);
FIELD(cupti_host_properties, description, Profiler_Host_GetMetricProperties, pDescription);
FIELD(cupti_host_properties, unit, Profiler_Host_GetMetricProperties, pDimUnit);
FIELD(cupti_host_properties, type, Profiler_Host_GetMetricProperties, metricType);
FIELD(cupti_host_add_metrics, names, Profiler_Host_ConfigAddMetrics, ppMetricNames);
FIELD(cupti_host_add_metrics, count, Profiler_Host_ConfigAddMetrics, numMetrics);
FIELD(cupti_host_image_size, bytes, Profiler_Host_GetConfigImageSize, configImageSize);
FIELD(cupti_host_image, image, Profiler_Host_GetConfigImage, pConfigImage);
FIELD(cupti_host_passes, image, Profiler_Host_GetNumOfPasses, pConfigImage);
FIELD(cupti_host_passes, passes, Profiler_Host_GetNumOfPasses, numOfPasses);
SAME(CUPTI_HOST_RANGE_PROFILER, CUPTI_PROFILER_TYPE_RANGE_PROFILER);
SAME(CUPTI_HOST_PM_SAMPLING, CUPTI_PROFILER_TYPE_PM_SAMPLING);
SAME(CUPTI_HOST_COUNTER, CUPTI_METRIC_TYPE_COUNTER);
SAME(CUPTI_HOST_RATIO, CUPTI_METRIC_TYPE_RATIO);
SAME(CUPTI_HOST_THROUGHPUT, CUPTI_METRIC_TYPE_THROUGHPUT);

int main(void)
{
	printf("1..1\nok 1 - gpu/host_abi.h agrees with the toolkit\n");
	return 0;
}
