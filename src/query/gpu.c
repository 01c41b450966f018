/* gpu.c - see gpu.h. */
#include "query/gpu.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/choose.h"

#define SHARED(t)                                                            \
	.table = WS_TABLE_##t, .start = ws_##t##_start, .end = ws_##t##_end, \
	.correlation = ws_##t##_correlation
#define ON_GPU(t) SHARED(t), .process = ws_##t##_process, .device = ws_##t##_device

const struct ws_cuda_columns ws_cuda_columns[WS_CUDA_SOURCES] = {
	[WS_CUDA_API] = {SHARED(cuda_api), .category = "CUDA_API", .process = -1, .device = -1,
			 .name = ws_cuda_api_name, .bytes = -1},
	[WS_CUDA_KERNEL] = {ON_GPU(cuda_kernel), .category = "CUDA_KERNEL",
			    .name = ws_cuda_kernel_demangled, .bytes = -1},
	[WS_CUDA_MEMCPY] = {ON_GPU(cuda_memcpy), .category = "MEMORY_OPER",
			    .name = ws_cuda_memcpy_kind, .bytes = ws_cuda_memcpy_bytes},
	[WS_CUDA_MEMSET] = {ON_GPU(cuda_memset), .category = "MEMORY_OPER", .name = -1,
			    .bytes = ws_cuda_memset_bytes},
	[WS_CUDA_GRAPH] = {ON_GPU(cuda_graph_trace), .category = "CUDA_GRAPH",
			   .name = ws_cuda_graph_trace_graph, .bytes = -1},
};

/* Removes only versions of four digits, as the reference tool does, so that people find the names
 * they know. */
const char *ws_get_cuda_function_name(const struct ws_report *report, uint32_t id, size_t *len)
{
	const char *text = ws_report_string(report, id, len), *version = text + *len - 6;

	if (*len > 6 && version[0] == '_' && version[1] == 'v' &&
	    isdigit((unsigned char)version[2]) && isdigit((unsigned char)version[3]) &&
	    isdigit((unsigned char)version[4]) && isdigit((unsigned char)version[5]))
		*len -= 6;
	return text;
}

const char *ws_format_cuda_op_name(enum ws_cuda_source source, uint64_t value, char *buf,
				   size_t size)
{
	static const char *const kinds[] = {
		"Unknown",
		"Host-to-Device",
		"Device-to-Host",
		"Host-to-Array",
		"Array-to-Host",
		"Array-to-Array",
		"Array-to-Device",
		"Device-to-Array",
		"Device-to-Device",
		"Host-to-Host",
		"Peer-to-Peer",
		"Unified Host-to-Device",
		"Unified Device-to-Host",
		"Unified Device-to-Device",
	};

	switch (source) {
	case WS_CUDA_MEMCPY:
		if (value >= WS_COUNT(kinds))
			value = 0;
		snprintf(buf, size, "[CUDA memcpy %s]", kinds[value]);
		break;
	case WS_CUDA_MEMSET:
		snprintf(buf, size, "[CUDA memset]");
		break;
	default:
		snprintf(buf, size, "[CUDA graph %" PRIu64 "]", value);
	}
	return buf;
}

const char *ws_name_copy_kind(uint64_t kind)
{
	static const char *const names[] = {"Memcpy",
					    "Memcpy HtoD",
					    "Memcpy DtoH",
					    "Memcpy HtoA",
					    "Memcpy AtoH",
					    "Memcpy AtoA",
					    "Memcpy AtoD",
					    "Memcpy DtoA",
					    "Memcpy DtoD",
					    "Memcpy HtoH",
					    "Memcpy PtoP",
					    "Unified memory HtoD",
					    "Unified memory DtoH",
					    "Unified memory DtoD"};

	if (kind >= WS_COUNT(names))
		return names[0];
	return names[kind];
}

const char *ws_name_memory_kind(uint64_t kind)
{
	static const char *const names[] = {"Pageable",	      "Pinned",	 "Device",
					    "Array",	      "Managed", "Device Static",
					    "Managed Static", "Unknown"};

	return names[ws_min(kind, (uint64_t)WS_COUNT(names) - 1)];
}

const char *ws_name_sync_type(uint64_t type)
{
	static const char *const names[] = {"Synchronization", "Event Sync", "Stream Wait Event",
					    "Stream Sync", "Context Sync"};

	if (type >= WS_COUNT(names))
		return names[0];
	return names[type];
}
