/*
 * cuda.h - what the reports about CUDA share: the names of operations, arguments of reports, and
 * summaries over any set of tables.
 */
#ifndef WS_STATS_CUDA_H
#define WS_STATS_CUDA_H

#include "query/gpu.h"
#include "stats/stats.h"

/* :base, :mangled and :nvtx-name */
extern const char *const ws_cuda_args[], *const ws_cuda_name_args[];

/* The column of cuda_kernel with the name asked for; rows that hold 0 there have only the demangled
 * one. */
int ws_cuda_name_column(const struct ws_stats *stats);

/* " 800    1    1", as the reference tool writes sizes of grids and blocks. Owned by the caller. */
char *ws_cuda_xyz(uint64_t x, uint64_t y, uint64_t z);
/* "Pageable", "Device"...; "" for an unknown kind. */
const char *ws_cuda_mem_kind(uint64_t kind);

/* Names of GPUs by process and number. */
struct ws_cuda_devices;
struct ws_cuda_devices *ws_cuda_devices_open(const struct ws_report *report);
/* "NVIDIA H200 (0)"; "GPU (0)" for one that the report does not describe. */
void ws_cuda_device_label(const struct ws_cuda_devices *devices, uint64_t process, uint64_t id,
			  char *buf, size_t size);
void ws_cuda_devices_close(struct ws_cuda_devices *devices);

enum {
	WS_CUDA_SUM_CATEGORY = 1, /* lines are by category too */
	WS_CUDA_SUM_GRID = 2,	  /* kernels by grid and block too */
	WS_CUDA_SUM_BYTES = 4,	  /* of sizes, not of times */
};

/* Print the summary of the sources whose bits are set. */
int ws_cuda_sum(struct ws_stats *stats, unsigned sources, unsigned how, struct ws_err *err);

#define WS_SOURCE(name) (1u << WS_CUDA_##name)

#endif
