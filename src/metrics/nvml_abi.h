/*
 * nvml_abi.h - the part of NVML that is used, by its documented interface (NVIDIA's "NVML API
 * Reference Guide"). The library is loaded at run time where there is a driver; no header of it is
 * needed to build.
 */
#ifndef WS_METRICS_NVML_ABI_H
#define WS_METRICS_NVML_ABI_H

typedef struct nvml_device *nvml_device;
typedef struct nvml_event_set *nvml_event_set;

enum { NVML_SUCCESS = 0, NVML_ERROR_NO_PERMISSION = 4 };
enum { NVML_CLOCK_SM = 1, NVML_CLOCK_MEMORY = 2 };
enum { NVML_PCIE_SENT = 0, NVML_PCIE_RECEIVED = 1 };
enum { NVML_FIELD_NVLINK_SENT = 138, NVML_FIELD_NVLINK_RECEIVED = 139, NVML_FIELD_POWER = 186 };
enum { NVML_TYPE_UNSIGNED = 1 };    /* of a field: an unsigned int */
#define NVML_EVERY_LINK 0xffffffffu /* a field's scope */
#define NVML_EVENT_XID 8u

/* Reasons why clocks are lower than they could be; idle clocks and clocks that were set so do not
 * count as throttling. */
#define NVML_THROTTLED_BY_POWER 0x84u /* by software, by the board */
#define NVML_THROTTLED_BY_HEAT 0x60u  /* by software, by the chip */
#define NVML_THROTTLED_BY_CHIP 0x08u

struct nvml_utilisation {
	unsigned gpu, memory; /* % of the last sample period */
};

struct nvml_memory {
	unsigned long long total, free, used;
};

struct nvml_field {
	unsigned id, scope;
	long long timestamp, latency;
	int type, error;
	union {
		double real;
		unsigned long long whole;
	} value;
};

#define NVML_MEMORY_UNKNOWN (~0ull)

struct nvml_process {
	unsigned pid;
	unsigned long long memory; /* bytes on the GPU */
	unsigned gpu_instance, compute_instance;
};

struct nvml_event {
	nvml_device device;
	unsigned long long type, data;
	unsigned gpu_instance, compute_instance;
};

/* NVML_FUNCTION(member, name, arguments): each returns NVML_SUCCESS or an error. */
#define NVML_FUNCTIONS                                                                             \
	NVML_FUNCTION(init, "nvmlInit_v2", (void))                                                 \
	NVML_FUNCTION(shutdown, "nvmlShutdown", (void))                                            \
	NVML_FUNCTION(get_count, "nvmlDeviceGetCount_v2", (unsigned *))                            \
	NVML_FUNCTION(get_handle, "nvmlDeviceGetHandleByIndex_v2", (unsigned, nvml_device *))      \
	NVML_FUNCTION(get_name, "nvmlDeviceGetName", (nvml_device, char *, unsigned))              \
	NVML_FUNCTION(get_uuid, "nvmlDeviceGetUUID", (nvml_device, char *, unsigned))              \
	NVML_FUNCTION(get_power, "nvmlDeviceGetPowerUsage", (nvml_device, unsigned *))             \
	NVML_FUNCTION(get_energy, "nvmlDeviceGetTotalEnergyConsumption",                           \
		      (nvml_device, unsigned long long *))                                         \
	NVML_FUNCTION(get_temperature, "nvmlDeviceGetTemperature", (nvml_device, int, unsigned *)) \
	NVML_FUNCTION(get_clock, "nvmlDeviceGetClockInfo", (nvml_device, int, unsigned *))         \
	NVML_FUNCTION(get_utilisation, "nvmlDeviceGetUtilizationRates",                            \
		      (nvml_device, struct nvml_utilisation *))                                    \
	NVML_FUNCTION(get_memory, "nvmlDeviceGetMemoryInfo", (nvml_device, struct nvml_memory *))  \
	NVML_FUNCTION(get_pcie, "nvmlDeviceGetPcieThroughput", (nvml_device, int, unsigned *))     \
	NVML_FUNCTION(get_throttling, "nvmlDeviceGetCurrentClocksThrottleReasons",                 \
		      (nvml_device, unsigned long long *))                                         \
	NVML_FUNCTION(get_ecc, "nvmlDeviceGetTotalEccErrors",                                      \
		      (nvml_device, int, int, unsigned long long *))                               \
	NVML_FUNCTION(get_fields, "nvmlDeviceGetFieldValues",                                      \
		      (nvml_device, int, struct nvml_field *))                                     \
	NVML_FUNCTION(get_compute_processes, "nvmlDeviceGetComputeRunningProcesses_v3",            \
		      (nvml_device, unsigned *, struct nvml_process *))                            \
	NVML_FUNCTION(get_graphics_processes, "nvmlDeviceGetGraphicsRunningProcesses_v3",          \
		      (nvml_device, unsigned *, struct nvml_process *))                            \
	NVML_FUNCTION(make_events, "nvmlEventSetCreate", (nvml_event_set *))                       \
	NVML_FUNCTION(register_events, "nvmlDeviceRegisterEvents",                                 \
		      (nvml_device, unsigned long long, nvml_event_set))                           \
	NVML_FUNCTION(wait_event, "nvmlEventSetWait_v2",                                           \
		      (nvml_event_set, struct nvml_event *, unsigned))                             \
	NVML_FUNCTION(free_events, "nvmlEventSetFree", (nvml_event_set))

/* GPM, since driver 525: reads counters of Hopper and later GPUs without reserving them. */
typedef struct nvml_gpm_state *nvml_gpm_sample;

struct nvml_gpm_support {
	unsigned version, supported; /* version: in */
};

struct nvml_gpm_metric {
	unsigned id; /* in */
	int error;
	double value;
	const char *short_name, *long_name, *unit;
};

struct nvml_gpm_metrics {
	unsigned version, count; /* in */
	nvml_gpm_sample first, second;
	struct nvml_gpm_metric metrics[400]; /* at least as many as any version has */
};

#define NVML_GPM_FUNCTIONS                                                                         \
	NVML_GPM_FUNCTION(init, "nvmlInit_v2", (void))                                             \
	NVML_GPM_FUNCTION(get_by_uuid, "nvmlDeviceGetHandleByUUID", (const char *, nvml_device *)) \
	NVML_GPM_FUNCTION(get_index, "nvmlDeviceGetIndex", (nvml_device, unsigned *))              \
	NVML_GPM_FUNCTION(get_link, "nvmlDeviceGetNvLinkState", (nvml_device, unsigned, int *))    \
	NVML_GPM_FUNCTION(gpm_support, "nvmlGpmQueryDeviceSupport",                                \
			  (nvml_device, struct nvml_gpm_support *))                                \
	NVML_GPM_FUNCTION(gpm_alloc, "nvmlGpmSampleAlloc", (nvml_gpm_sample *))                    \
	NVML_GPM_FUNCTION(gpm_free, "nvmlGpmSampleFree", (nvml_gpm_sample))                        \
	NVML_GPM_FUNCTION(gpm_sample, "nvmlGpmSampleGet", (nvml_device, nvml_gpm_sample))          \
	NVML_GPM_FUNCTION(gpm_metrics, "nvmlGpmMetricsGet", (struct nvml_gpm_metrics *))

struct nvml {
#define NVML_FUNCTION(member, name, arguments) int(*member) arguments;
	NVML_FUNCTIONS
#undef NVML_FUNCTION
};

#endif
