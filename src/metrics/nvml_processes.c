/* nvml_processes.c - see nvml_processes.h. */
#include "metrics/nvml_processes.h"

#include <stdbool.h>
#include <stdlib.h>

enum { MOST_PROCESSES = 128, MOST_RECORDED = 64 };

struct recorded {
	int pid;
	uint32_t metric;
};

struct ws_nvml_processes {
	const struct nvml *nvml;
	nvml_device device;
	unsigned number;
	char *uuid;
	uint32_t count_metric, others_metric;
	struct recorded recorded[MOST_RECORDED];
	size_t recorded_count;
};

struct list {
	struct nvml_process processes[2 * MOST_PROCESSES];
	unsigned count;
};

static uint32_t add_metric(struct ws_metrics *metrics, const struct ws_nvml_processes *processes,
			   const char *what, const char *unit, int pid)
{
	char *name = ws_format("%s, GPU %u", what, processes->number);
	uint32_t metric =
		ws_metric_add(metrics, &(struct ws_metric){.group = WS_METRIC_GPU,
							   .name = name,
							   .unit = unit,
							   .identity = processes->uuid,
							   .device = (int)processes->number,
							   .cpu = -1,
							   .pid = pid});

	free(name);
	return metric;
}

struct ws_nvml_processes *ws_nvml_processes_new(struct ws_metrics *metrics, const struct nvml *nvml,
						nvml_device device, unsigned number,
						const char *uuid)
{
	struct ws_nvml_processes *processes;

	if (!nvml->get_compute_processes)
		return NULL;
	processes = ws_calloc(1, sizeof(*processes));
	processes->nvml = nvml;
	processes->device = device;
	processes->number = number;
	processes->uuid = ws_strdup(uuid);
	processes->count_metric = add_metric(metrics, processes, "Processes", "", 0);
	processes->others_metric =
		add_metric(metrics, processes, "Memory of other processes", "B", 0);
	return processes;
}

void ws_nvml_processes_free(struct ws_nvml_processes *processes)
{
	if (!processes)
		return;
	free(processes->uuid);
	free(processes);
}

static bool is_listed(const struct list *list, unsigned pid)
{
	for (unsigned i = 0; i < list->count; i++)
		if (list->processes[i].pid == pid)
			return true;
	return false;
}

/* A process that both computes and draws is in both of NVML's lists. */
static bool list_all(const struct ws_nvml_processes *processes, struct list *list)
{
	const struct nvml *nvml = processes->nvml;
	struct nvml_process drawing[MOST_PROCESSES];
	unsigned n = MOST_PROCESSES;

	list->count = MOST_PROCESSES;
	if (nvml->get_compute_processes(processes->device, &list->count, list->processes) !=
	    NVML_SUCCESS)
		return false;
	if (!nvml->get_graphics_processes ||
	    nvml->get_graphics_processes(processes->device, &n, drawing) != NVML_SUCCESS)
		return true;
	for (unsigned i = 0; i < n; i++)
		if (!is_listed(list, drawing[i].pid))
			list->processes[list->count++] = drawing[i];
	return true;
}

static void put_recorded(struct ws_metrics *metrics, struct ws_nvml_processes *processes, int pid,
			 double bytes)
{
	struct recorded *recorded = processes->recorded;
	size_t i = 0;

	while (i < processes->recorded_count && recorded[i].pid != pid)
		i++;
	if (i == MOST_RECORDED)
		return;
	if (i == processes->recorded_count)
		recorded[processes->recorded_count++] = (struct recorded){
			pid, add_metric(metrics, processes, "GPU memory", "B", pid)};
	ws_metric_put(metrics, recorded[i].metric, bytes);
}

static bool is_among(const int *pids, size_t n, unsigned pid)
{
	for (size_t i = 0; i < n; i++)
		if (pids[i] == (int)pid)
			return true;
	return false;
}

void ws_nvml_processes_read(struct ws_metrics *metrics, struct ws_nvml_processes *processes)
{
	double others = 0;
	struct list list;
	size_t n;
	int *pids;

	if (!processes || !list_all(processes, &list))
		return;
	pids = ws_metric_get_processes(metrics, &n);
	for (unsigned i = 0; i < list.count; i++) {
		const struct nvml_process *process = &list.processes[i];
		double bytes = (double)process->memory;

		if (process->memory == NVML_MEMORY_UNKNOWN)
			bytes = 0;
		if (is_among(pids, n, process->pid))
			put_recorded(metrics, processes, (int)process->pid, bytes);
		else
			others += bytes;
	}
	free(pids);
	ws_metric_put(metrics, processes->count_metric, list.count);
	ws_metric_put(metrics, processes->others_metric, others);
}
