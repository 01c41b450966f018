/*
 * cuda.h - what the reports on CUDA share: names of operations and GPUs, arguments of reports, and
 * summaries over any set of tables.
 */
#ifndef WS_STATS_CUDA_H
#define WS_STATS_CUDA_H

#include "query/gpu.h"
#include "stats/stats.h"

/* :base, :mangled and :nvtx-name */
extern const char *const ws_cuda_args[], *const ws_cuda_name_args[];

/* The column of cuda_kernel with the kind of name that the arguments select. */
int ws_choose_kernel_name_column(const struct ws_stats *stats);

/* The id of a kernel's name: `asked` is from the column above; when it is 0, only the demangled
 * name exists. */
static inline uint64_t ws_choose_kernel_name(uint64_t asked, uint64_t demangled)
{
	return asked ? asked : demangled;
}

/* " 800    1    1", as the reference tool writes sizes of grids and blocks. Owned by the caller. */
char *ws_format_cuda_size(uint64_t x, uint64_t y, uint64_t z);
/* "Pageable", "Device"...; "" for an unknown kind. */
const char *ws_get_cuda_memory_kind(uint64_t kind);

/* Names of GPUs by process and number. */
struct ws_cuda_devices;
struct ws_cuda_devices *ws_cuda_devices_open(const struct ws_report *report);
/* Put "NVIDIA H200 (0)" into `buf`; "GPU (0)" for a GPU that the report does not describe. */
void ws_format_cuda_device(const struct ws_cuda_devices *devices, uint64_t process, uint64_t id,
			   char *buf, size_t size);
void ws_cuda_devices_close(struct ws_cuda_devices *devices);

enum {
	WS_CUDA_SUM_CATEGORY = 1, /* group by category too */
	WS_CUDA_SUM_GRID = 2,	  /* group kernels by grid and block too */
	WS_CUDA_SUM_BYTES = 4,	  /* sum up sizes, not times */
};

/* Print the summary of the sources whose bits are set, with the bits of `how` from above. Returns
 * 0, or -1 with a message. */
int ws_make_cuda_summary(struct ws_stats *stats, unsigned sources, unsigned how,
			 struct ws_err *err);

#define WS_CUDA_SOURCE_BIT(name) (1u << WS_CUDA_##name)

#endif
