/* standin_links.c - NVML of a GPU with four NVLinks, three of them active: two to one GPU, one to
 * a switch. */
#include <stdio.h>

#include "ring/nvml_links_abi.h"

#define EXPORT __attribute__((visibility("default")))
#define CALL(name, arguments)      \
	EXPORT int name arguments; \
	EXPORT int name arguments

enum { LINKS = 4, NOT_FOUND = 6 };

static int open_count, gpu;

CALL(nvmlInit_v2, (void))
{
	open_count++;
	return 0;
}
CALL(nvmlShutdown, (void))
{
	open_count--;
	return 0;
}
CALL(nvmlDeviceGetHandleByPciBusId_v2, (const char *bus, void **device))
{
	*device = &gpu;
	return open_count != 1 || bus[0] != '0' ? NOT_FOUND : 0;
}
CALL(nvmlDeviceGetNvLinkState, (void *device, unsigned link, int *active))
{
	*active = link != 2;
	return device != &gpu || link >= LINKS ? NOT_FOUND : 0;
}
CALL(nvmlDeviceGetNvLinkRemotePciInfo_v2, (void *device, unsigned link, struct nvml_pci *pci))
{
	(void)device;
	snprintf(pci->id, sizeof(pci->id), "00000000:%02X:00.0", link == 3 ? 0x90 : 0x41);
	return 0;
}
CALL(nvmlDeviceGetNvLinkRemoteDeviceType, (void *device, unsigned link, int *kind))
{
	(void)device;
	*kind = link == 3 ? NVML_LINK_TO_SWITCH : 0;
	return 0;
}
CALL(nvmlDeviceGetC2cModeInfoV, (void *device, unsigned *enabled))
{
	*enabled = 1;
	return device == &gpu ? 0 : NOT_FOUND;
}
CALL(nvmlDeviceGetFieldValues, (void *device, int count, struct nvml_link_field *fields))
{
	(void)device;
	fields->error = count != 1 || fields->id != NVML_FIELD_LINK_SPEED ? NOT_FOUND : 0;
	fields->value.whole = 26562;
	return 0;
}
