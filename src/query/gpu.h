/*
 * gpu.h - work on GPUs, whatever its table: which columns to read, what an operation is called, when each GPU or stream was busy.
 */
#ifndef WS_QUERY_GPU_H
#define WS_QUERY_GPU_H

#include "query/query.h"

/* What a summary or trace takes in. */
enum ws_cuda_source {
	WS_CUDA_API,
	WS_CUDA_KERNEL,
	WS_CUDA_MEMCPY,
	WS_CUDA_MEMSET,
	WS_CUDA_GRAPH, /* launches of whole graphs, where their nodes were not recorded */
	WS_CUDA_SOURCES,
};

/* Columns that every source has, and those that name an operation. -1 where it has none. */
struct ws_cuda_columns {
	enum ws_table table;
	const char *category;
	int start, end, process, correlation, name, bytes, device;
};
extern const struct ws_cuda_columns ws_cuda_columns[WS_CUDA_SOURCES];

/* The function without the version at its end: cudaLaunchKernel_v7000 is cudaLaunchKernel, as everybody calls it. */
const char *ws_cuda_function(const struct ws_report *r, uint32_t id, size_t *len);
/* "[CUDA memcpy Host-to-Device]", "[CUDA memset]", "[CUDA graph 3]": `value` is the copy's kind or the graph's number. */
const char *ws_cuda_op_name(enum ws_cuda_source source, uint64_t value, char *buf, size_t size);

struct ws_interval {
	uint64_t start, end;
};

/* Sort, merge what touches, drop what is empty. Returns how many are left. */
size_t ws_intervals_merge(struct ws_interval *v, size_t n);
/* What lies between merged intervals, within [from, to). *out is the caller's to free. Returns how many. */
size_t ws_intervals_between(const struct ws_interval *v, size_t n, uint64_t from, uint64_t to, struct ws_interval **out);

/* A GPU, or one of its streams, and when it worked: merged intervals of kernels, copies, sets and graphs. */
struct ws_gpu_lane {
	uint64_t process;		  /* for a GPU that several processes use, the first of them */
	uint32_t device, context, stream; /* context and stream only of streams */
	struct ws_interval *busy;
	size_t n, cap;
};
struct ws_gpu_lanes {
	struct ws_gpu_lane *v; /* in order of process, device, context, stream */
	size_t n;
	uint64_t damaged;
};
/*
 * All GPUs, or with `streams` all streams. The same GPU in several processes is one (by its UUID, where the report has it). Free
 * with ws_gpu_lanes_free.
 */
void ws_gpu_lanes_load(const struct ws_report *r, bool streams, struct ws_gpu_lanes *out);
void ws_gpu_lanes_free(struct ws_gpu_lanes *l);

#endif
