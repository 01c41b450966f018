/* standin_clocks.c - NVML for --clock-control: three GPUs whose clocks are a line in the file that
 * STANDIN_CLOCKS names. STANDIN_DENIED makes it refuse. */
#include <stdio.h>
#include <stdlib.h>

#include "metrics/nvml_abi.h"

enum { GPUS = 3, FREQUENCY_OF_TDP = -255 };

static char gpus[GPUS];

#define EXPORT __attribute__((visibility("default")))

static void note(const char *what, nvml_device device)
{
	FILE *file = fopen(getenv("STANDIN_CLOCKS"), "ae");

	if (!file)
		abort();
	fprintf(file, "%s %d\n", what, (int)((char *)device - gpus));
	fclose(file);
}

EXPORT int nvmlInit_v2(void);
EXPORT int nvmlInit_v2(void)
{
	return 0;
}

EXPORT int nvmlDeviceGetCount_v2(unsigned *count);
EXPORT int nvmlDeviceGetCount_v2(unsigned *count)
{
	*count = GPUS;
	return 0;
}

EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, nvml_device *device);
EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, nvml_device *device)
{
	*device = (nvml_device)(void *)(gpus + index);
	return 0;
}

EXPORT int nvmlDeviceGetUUID(nvml_device device, char *text, unsigned size);
EXPORT int nvmlDeviceGetUUID(nvml_device device, char *text, unsigned size)
{
	snprintf(text, size, "GPU-%d0000", (int)((char *)device - gpus));
	return 0;
}

EXPORT int nvmlDeviceSetGpuLockedClocks(nvml_device device, unsigned least, unsigned most);
EXPORT int nvmlDeviceSetGpuLockedClocks(nvml_device device, unsigned least, unsigned most)
{
	if (getenv("STANDIN_DENIED"))
		return NVML_ERROR_NO_PERMISSION;
	if ((int)least != FREQUENCY_OF_TDP || most != least)
		return 2;
	note("lock", device);
	return 0;
}

EXPORT int nvmlDeviceResetGpuLockedClocks(nvml_device device);
EXPORT int nvmlDeviceResetGpuLockedClocks(nvml_device device)
{
	note("unlock", device);
	return 0;
}
