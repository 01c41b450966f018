/* standin_nvml.c - two GPUs as NVML describes them; the second has fewer values. Energy is the
 * number in the file of WARPSIGHT_TEST_ENERGY, so that a test says when how much has been used;
 * with WARPSIGHT_TEST_DEAR reading it takes 2 ms of processor time, and reading how busy the GPU is
 * as well, unless it is "rest" or "waking": then the first GPU does nothing, as its shares say, and
 * takes the same power or more and more. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "metrics/nvml_abi.h"

enum { NOT_SUPPORTED = 3, TIMEOUT = 10, XID = 79 };

static char gpus[2];
static int told;

#define EXPORT __attribute__((visibility("default")))

static int index_of(nvml_device device)
{
	return (int)((char *)device - gpus);
}

EXPORT int nvmlInit_v2(void)
{
	return 0;
}

EXPORT int nvmlShutdown(void)
{
	return 0;
}

EXPORT int nvmlDeviceGetCount_v2(unsigned *count)
{
	*count = 2;
	return 0;
}

EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, nvml_device *device)
{
	*device = (nvml_device)(void *)(gpus + index);
	return 0;
}

EXPORT int nvmlDeviceGetUUID(nvml_device device, char *text, unsigned size)
{
	snprintf(text, size, "GPU-0000%d", index_of(device));
	return 0;
}

EXPORT unsigned power_calls, throttling_calls, energy_calls, share_calls,
	field_calls[2]; /* for tests */

static void spend_processor_time(void)
{
	clock_t until = clock() + CLOCKS_PER_SEC / 500;

	while (clock() < until)
		;
}

EXPORT int nvmlDeviceGetPowerUsage(nvml_device device, unsigned *milliwatts)
{
	power_calls++;
	*milliwatts = index_of(device) ? 70500 : 1;
	return 0;
}

EXPORT int nvmlDeviceGetTotalEnergyConsumption(nvml_device device, unsigned long long *millijoules)
{
	const char *path = getenv("WARPSIGHT_TEST_ENERGY");
	FILE *file = path && !index_of(device) ? fopen(path, "re") : NULL;
	int read = file ? fscanf(file, "%llu", millijoules) : 0;

	energy_calls++;
	if (getenv("WARPSIGHT_TEST_DEAR"))
		spend_processor_time();
	if (file)
		fclose(file);
	return read == 1 ? 0 : NOT_SUPPORTED;
}

EXPORT int nvmlDeviceGetUtilizationRates(nvml_device device, struct nvml_utilisation *shares)
{
	const char *dear = getenv("WARPSIGHT_TEST_DEAR");

	if (index_of(device))
		return NOT_SUPPORTED;
	share_calls++;
	*shares = (struct nvml_utilisation){.gpu = 60, .memory = 30};
	if (dear && (!strcmp(dear, "rest") || !strcmp(dear, "waking")))
		*shares = (struct nvml_utilisation){0};
	else if (dear)
		spend_processor_time();
	return 0;
}

/* Links carry 1 MiB between two readings, in each direction. The first GPU has its power here. */
EXPORT int nvmlDeviceGetFieldValues(nvml_device device, int count, struct nvml_field *fields)
{
	const char *dear = getenv("WARPSIGHT_TEST_DEAR");

	if (fields->id == NVML_FIELD_POWER) {
		power_calls += !index_of(device);
		fields->error = index_of(device) ? NOT_SUPPORTED : 0;
		fields->type = NVML_TYPE_UNSIGNED;
		fields->value.whole = 412250 | 7ull << 32; /* the upper half means nothing */
		if (dear && !strcmp(dear, "waking"))
			fields->value.whole = 10000ull * power_calls;
		return 0;
	}
	field_calls[index_of(device)]++;
	for (int i = 0; i < count; i++) {
		fields[i].error = 0;
		fields[i].value.whole = 1024ull * field_calls[index_of(device)];
	}
	return 0;
}

EXPORT int nvmlDeviceGetClockInfo(nvml_device device, int clock, unsigned *megahertz)
{
	*megahertz = clock == NVML_CLOCK_SM ? 1980 : 2619;
	return index_of(device) ? NOT_SUPPORTED : 0;
}

EXPORT int nvmlDeviceGetMemoryInfo(nvml_device device, struct nvml_memory *memory)
{
	*memory = (struct nvml_memory){.total = 85ull << 30, .used = 3ull << 30};
	return index_of(device) ? NOT_SUPPORTED : 0;
}

EXPORT int nvmlDeviceGetCurrentClocksThrottleReasons(nvml_device device,
						     unsigned long long *reasons)
{
	throttling_calls++;
	*reasons = index_of(device) ? 1 : 4; /* idle; power */
	return 0;
}

/* The first GPU: the process of the test, which has 1 GiB and is in both lists, another one, and
 * one whose memory is not known. */
EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(nvml_device device, unsigned *count,
						   struct nvml_process *processes)
{
	*count = index_of(device) ? 0 : 3;
	if (*count) {
		processes[0] = (struct nvml_process){.pid = 1, .memory = 5ull << 20};
		processes[1] = (struct nvml_process){(unsigned)getpid(), 1ull << 30, ~0u, ~0u};
		processes[2] = (struct nvml_process){.pid = 2, .memory = NVML_MEMORY_UNKNOWN};
	}
	return 0;
}

EXPORT int nvmlDeviceGetGraphicsRunningProcesses_v3(nvml_device device, unsigned *count,
						    struct nvml_process *processes)
{
	*count = index_of(device) ? 0 : 2;
	if (*count) {
		processes[0] = (struct nvml_process){.pid = (unsigned)getpid(), .memory = 1};
		processes[1] = (struct nvml_process){.pid = 3, .memory = 2ull << 20};
	}
	return 0;
}

EXPORT int nvmlEventSetCreate(nvml_event_set *set)
{
	*set = (nvml_event_set)(void *)&told;
	return 0;
}

EXPORT int nvmlDeviceRegisterEvents(nvml_device device, unsigned long long types,
				    nvml_event_set set)
{
	(void)device;
	(void)set;
	return types == NVML_EVENT_XID ? 0 : NOT_SUPPORTED;
}

EXPORT int nvmlEventSetWait_v2(nvml_event_set set, struct nvml_event *event, unsigned timeout)
{
	(void)set;
	if (told++ || timeout)
		return TIMEOUT;
	*event = (struct nvml_event){
		.device = (nvml_device)(void *)(gpus + 1), .type = NVML_EVENT_XID, .data = XID};
	return 0;
}

EXPORT int nvmlEventSetFree(nvml_event_set set)
{
	(void)set;
	return 0;
}
