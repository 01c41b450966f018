/*
 * nvml_processes.h - who uses the memory of NVIDIA's GPUs; private to metrics/.
 */
#ifndef WS_METRICS_NVML_PROCESSES_H
#define WS_METRICS_NVML_PROCESSES_H

#include "metrics/nvml_abi.h"
#include "metrics/source.h"

struct ws_nvml_processes;

/* One GPU; `number` is NVML's. NULL if NVML does not list processes. */
struct ws_nvml_processes *ws_nvml_processes_new(struct ws_metrics *metrics, const struct nvml *nvml,
						nvml_device device, unsigned number,
						const char *uuid);
void ws_nvml_processes_free(struct ws_nvml_processes *processes);
/* Add the memory of each recorded process, the number of all processes on the GPU, and the memory
 * of those that are not recorded. */
void ws_nvml_processes_read(struct ws_metrics *metrics, struct ws_nvml_processes *processes);

#endif
