/* cuda.c - names of CUDA operations; see cuda.h. */
#include "stats/cuda.h"
#include "base/choose.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const ws_cuda_args[] = {"base", "mangled", "nvtx-name", NULL};
const char *const ws_cuda_name_args[] = {"base", "mangled", NULL};

int ws_cuda_name_column(const struct ws_stats *stats)
{
	return ws_stats_arg(stats, "base")	? ws_cuda_kernel_name
	       : ws_stats_arg(stats, "mangled") ? ws_cuda_kernel_mangled
						: ws_cuda_kernel_demangled;
}

char *ws_cuda_xyz(uint64_t x, uint64_t y, uint64_t z)
{
	return ws_format("%4" PRIu64 " %4" PRIu64 " %4" PRIu64, x, y, z);
}

const char *ws_cuda_mem_kind(uint64_t kind)
{
	static const char *const kinds[] = {"Pageable",	      "Pinned",	 "Device",
					    "Array",	      "Managed", "Device Static",
					    "Managed Static", "Unknown"};

	return kind < WS_COUNT(kinds) ? kinds[kind] : "";
}

struct ws_cuda_devices {
	const struct ws_report *report;
	struct device {
		uint64_t process, id;
		uint32_t name;
	} * devices;
	size_t n, cap;
};

static int by_process(const void *first, const void *second)
{
	const struct device *left = first, *right = second;

	if (left->process != right->process)
		return left->process < right->process ? -1 : 1;
	return ws_compare(left->id, right->id);
}

struct ws_cuda_devices *ws_cuda_devices_open(const struct ws_report *report)
{
	struct ws_cursor *cursor = ws_cursor_open(report, WS_TABLE_cuda_device, 0, UINT64_MAX);
	struct ws_cuda_devices *devices = ws_calloc(1, sizeof(*devices));
	const uint64_t *values;

	devices->report = report;
	while (ws_cursor_next(cursor, &values)) {
		ws_grow(devices->devices, devices->cap, devices->n + 1);
		devices->devices[devices->n++] =
			(struct device){values[ws_cuda_device_process], values[ws_cuda_device_id],
					(uint32_t)values[ws_cuda_device_name]};
	}
	ws_cursor_close(cursor);
	if (devices->n)
		qsort(devices->devices, devices->n, sizeof(*devices->devices), by_process);
	return devices;
}

void ws_cuda_device_label(const struct ws_cuda_devices *devices, uint64_t process, uint64_t id,
			  char *buf, size_t size)
{
	struct device key = {process, id, 0},
		      *found = devices->n ? bsearch(&key, devices->devices, devices->n, sizeof(key),
						    by_process)
					  : NULL;
	const char *name = found ? ws_report_string(devices->report, found->name, NULL) : "";

	snprintf(buf, size, "%.90s (%" PRIu64 ")", *name ? name : "GPU", id);
}

void ws_cuda_devices_close(struct ws_cuda_devices *devices)
{
	free(devices->devices);
	free(devices);
}
