/* cuda.c - names of CUDA operations; see cuda.h. */
#include "stats/cuda.h"
#include "base/choose.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const ws_cuda_args[] = {"base", "mangled", "nvtx-name", NULL};
const char *const ws_cuda_name_args[] = {"base", "mangled", NULL};

int ws_choose_kernel_name_column(const struct ws_stats *stats)
{
	if (ws_get_stats_arg(stats, "base"))
		return ws_cuda_kernel_name;
	if (ws_get_stats_arg(stats, "mangled"))
		return ws_cuda_kernel_mangled;
	return ws_cuda_kernel_demangled;
}

char *ws_format_cuda_size(uint64_t x, uint64_t y, uint64_t z)
{
	return ws_format("%4" PRIu64 " %4" PRIu64 " %4" PRIu64, x, y, z);
}

const char *ws_get_cuda_memory_kind(uint64_t kind)
{
	static const char *const kinds[] = {"Pageable",	      "Pinned",	 "Device",
					    "Array",	      "Managed", "Device Static",
					    "Managed Static", "Unknown"};

	if (kind >= WS_COUNT(kinds))
		return "";
	return kinds[kind];
}

struct ws_cuda_devices {
	const struct ws_report *report;
	struct cuda_device {
		uint64_t process, id;
		uint32_t name;
	} * devices;
	size_t count, capacity;
};

static int compare_devices(const void *first, const void *second)
{
	const struct cuda_device *left = first, *right = second;

	if (left->process != right->process)
		return ws_compare(left->process, right->process);
	return ws_compare(left->id, right->id);
}

struct ws_cuda_devices *ws_cuda_devices_open(const struct ws_report *report)
{
	struct ws_cursor *cursor = ws_cursor_open(report, WS_TABLE_cuda_device, 0, UINT64_MAX);
	struct ws_cuda_devices *devices = ws_calloc(1, sizeof(*devices));
	const uint64_t *values;

	devices->report = report;
	while (ws_cursor_next(cursor, &values)) {
		ws_grow(devices->devices, devices->capacity, devices->count + 1);
		devices->devices[devices->count++] =
			(struct cuda_device){values[ws_cuda_device_process],
					     values[ws_cuda_device_id],
					     (uint32_t)values[ws_cuda_device_name]};
	}
	ws_cursor_close(cursor);
	if (devices->count)
		qsort(devices->devices, devices->count, sizeof(*devices->devices), compare_devices);
	return devices;
}

void ws_format_cuda_device(const struct ws_cuda_devices *devices, uint64_t process, uint64_t id,
			   char *buffer, size_t size)
{
	struct cuda_device key = {process, id, 0}, *found = NULL;
	const char *name = "";

	if (devices->count)
		found = bsearch(&key, devices->devices, devices->count, sizeof(key),
				compare_devices);
	if (found)
		name = ws_report_string(devices->report, found->name, NULL);
	if (!*name)
		name = "GPU";
	snprintf(buffer, size, "%.90s (%" PRIu64 ")", name, id);
}

void ws_cuda_devices_close(struct ws_cuda_devices *devices)
{
	free(devices->devices);
	free(devices);
}
