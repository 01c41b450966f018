/* reports.c - the list of reports, in the order in which --help-reports shows them and the defaults are made. */
#include <string.h>

#include "stats/stats.h"

#define REPORTS(R)                \
	R(nvtx_sum)               \
	R(nvtx_pushpop_sum)       \
	R(nvtx_pushpop_trace)     \
	R(nvtx_startend_sum)      \
	R(osrt_sum)               \
	R(cuda_api_sum)           \
	R(cuda_gpu_kern_sum)      \
	R(cuda_gpu_mem_time_sum)  \
	R(cuda_gpu_mem_size_sum)  \
	R(openmp_sum)             \
	R(vulkan_marker_sum)      \
	R(vulkan_gpu_marker_sum)  \
	R(um_sum)                 \
	R(um_total_sum)           \
	R(um_cpu_page_faults_sum) \
	R(openacc_sum)            \
	R(cuda_api_gpu_sum)       \
	R(cuda_api_trace)         \
	R(cuda_gpu_sum)           \
	R(cuda_gpu_kern_gb_sum)   \
	R(cuda_gpu_trace)         \
	R(cuda_kern_exec_sum)     \
	R(cuda_kern_exec_trace)   \
	R(nvtx_gpu_proj_sum)      \
	R(nvtx_gpu_proj_trace)    \
	R(nvtx_kern_sum)          \
	R(gpu_time_breakdown)     \
	R(gpu_idle_causes)        \
	R(gpu_comm_overlap)       \
	R(collective_sum)         \
	R(step_phases)            \
	R(cpu_sample_sum)         \
	R(sched_sum)              \
	R(cpu_util)               \
	R(thread_wait_sum)        \
	R(gil_sum)                \
	R(cpu_gap_sum)            \
	R(mpi_event_sum)          \
	R(mpi_msg_size_sum)       \
	R(mpi_event_trace)        \
	R(nvvideo_api_sum)        \
	R(syscall_sum)            \
	R(vulkan_api_sum)         \
	R(vulkan_api_trace)

#define DECLARE(name) extern const struct ws_stat ws_stat_##name;
REPORTS(DECLARE)

#define LIST(name) &ws_stat_##name,
const struct ws_stat *const ws_stats_list[] = {REPORTS(LIST) NULL};

const struct ws_stat *ws_stat_find(const char *name)
{
	for (size_t i = 0; ws_stats_list[i]; i++)
		if (!strcmp(ws_stats_list[i]->name, name))
			return ws_stats_list[i];
	return NULL;
}
