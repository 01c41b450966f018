/* gpu.h - GPU work from any table: which columns to read, and what an operation is called. */
#ifndef WS_QUERY_GPU_H
#define WS_QUERY_GPU_H

#include "query/query.h"

/* The tables that a summary or trace reads. */
enum ws_cuda_source {
	WS_CUDA_API,
	WS_CUDA_KERNEL,
	WS_CUDA_MEMCPY,
	WS_CUDA_MEMSET,
	WS_CUDA_GRAPH, /* launches of whole graphs, where their nodes were not recorded */
	WS_CUDA_SOURCES,
};

/* Columns that every source has, and those that name an operation; -1 where a source lacks one. */
struct ws_cuda_columns {
	enum ws_table table;
	const char *category;
	int start, end, process, correlation, name, bytes, device;
};
extern const struct ws_cuda_columns ws_cuda_columns[WS_CUDA_SOURCES];

/*
 * The function without the version at its end: cudaLaunchKernel_v7000 is usually called
 * cudaLaunchKernel. Lives as long as the report; *len is set to its length, and the text is not
 * terminated there.
 */
const char *ws_get_cuda_function_name(const struct ws_report *report, uint32_t id, size_t *len);
/* "[CUDA memcpy Host-to-Device]", "[CUDA memset]", "[CUDA graph 3]": `value` is the copy's kind or
 * the graph's number. */
const char *ws_format_cuda_op_name(enum ws_cuda_source source, uint64_t value, char *buf,
				   size_t size);

/* The names of kinds of copies, memory and waits. */
const char *ws_name_copy_kind(uint64_t kind);	/* "Memcpy HtoD" */
const char *ws_name_memory_kind(uint64_t kind); /* "Device" */
const char *ws_name_sync_type(uint64_t type);	/* "Stream Sync" */

#endif
