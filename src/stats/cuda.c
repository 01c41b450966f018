/* cuda.c - names of CUDA operations; see cuda.h. */
#include "stats/cuda.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const ws_cuda_args[] = {"base", "mangled", "nvtx-name", NULL};
const char *const ws_cuda_name_args[] = {"base", "mangled", NULL};

int ws_cuda_name_column(const struct ws_stats *s)
{
	return ws_stats_arg(s, "base")	    ? ws_cuda_kernel_name
	       : ws_stats_arg(s, "mangled") ? ws_cuda_kernel_mangled
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
	const struct ws_report *r;
	struct device {
		uint64_t process, id;
		uint32_t name;
	} * v;
	size_t n, cap;
};

static int by_process(const void *a, const void *b)
{
	const struct device *x = a, *y = b;

	if (x->process != y->process)
		return x->process < y->process ? -1 : 1;
	return x->id < y->id ? -1 : x->id > y->id;
}

struct ws_cuda_devices *ws_cuda_devices_open(const struct ws_report *r)
{
	struct ws_cursor *c = ws_cursor_open(r, WS_TABLE_cuda_device, 0, UINT64_MAX);
	struct ws_cuda_devices *d = ws_calloc(1, sizeof(*d));
	const uint64_t *v;

	d->r = r;
	while (ws_cursor_next(c, &v)) {
		ws_grow(d->v, d->cap, d->n + 1);
		d->v[d->n++] = (struct device){v[ws_cuda_device_process], v[ws_cuda_device_id],
					       (uint32_t)v[ws_cuda_device_name]};
	}
	ws_cursor_close(c);
	if (d->n)
		qsort(d->v, d->n, sizeof(*d->v), by_process);
	return d;
}

void ws_cuda_device_label(const struct ws_cuda_devices *d, uint64_t process, uint64_t id, char *buf,
			  size_t size)
{
	struct device key = {process, id, 0},
		      *found = d->n ? bsearch(&key, d->v, d->n, sizeof(key), by_process) : NULL;
	const char *name = found ? ws_report_string(d->r, found->name, NULL) : "";

	snprintf(buf, size, "%.90s (%" PRIu64 ")", *name ? name : "GPU", id);
}

void ws_cuda_devices_close(struct ws_cuda_devices *d)
{
	free(d->v);
	free(d);
}
