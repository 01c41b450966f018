/*
 * nvml_links_abi.h - the part of NVML that says how a GPU is linked to others, by its documented
 * interface (NVIDIA's "NVML API Reference Guide"). The library is loaded at run time where there is
 * a driver.
 */
#ifndef WS_RING_NVML_LINKS_ABI_H
#define WS_RING_NVML_LINKS_ABI_H

enum { NVML_LINKS_MOST = 18 };
enum { NVML_LINK_TO_SWITCH = 2 };     /* a kind of remote device */
enum { NVML_FIELD_LINK_SPEED = 164 }; /* of one link and direction, in 10^6 bytes a second */

struct nvml_pci {
	char old_id[16];
	unsigned domain, bus, device, device_id, subsystem_id;
	char id[32];
};

struct nvml_link_field {
	unsigned id, link;
	long long timestamp, latency;
	int type, error;
	union {
		double real;
		unsigned whole;
		unsigned long long wide;
	} value;
};

/* X(member, name, arguments): each returns 0 or an error. */
#define NVML_LINK_FUNCTIONS(X)                                                               \
	X(init, "nvmlInit_v2", (void))                                                       \
	X(shut_down, "nvmlShutdown", (void))                                                 \
	X(find, "nvmlDeviceGetHandleByPciBusId_v2", (const char *bus, void **device))        \
	X(get_state, "nvmlDeviceGetNvLinkState", (void *device, unsigned link, int *active)) \
	X(get_remote, "nvmlDeviceGetNvLinkRemotePciInfo_v2",                                 \
	  (void *device, unsigned link, struct nvml_pci *pci))                               \
	X(get_kind, "nvmlDeviceGetNvLinkRemoteDeviceType",                                   \
	  (void *device, unsigned link, int *kind))                                          \
	X(get_fields, "nvmlDeviceGetFieldValues",                                            \
	  (void *device, int count, struct nvml_link_field *fields))

/* Of a library of CUDA 12.4 or later: whether the GPU has a link to the processor chip to chip. */
#define NVML_C2C_MODE "nvmlDeviceGetC2cModeInfoV"
typedef int (*nvml_c2c_fn)(void *device, unsigned *enabled);

#endif
