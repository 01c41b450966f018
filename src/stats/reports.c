/* reports.c - the list of reports, in the order in which --help-reports shows them and the defaults
 * are made. */
#include <string.h>

#include "stats/stats.h"

#define REPORTS(R)                  \
	R(nvtx_sum)                 \
	R(nvtx_pushpop_sum)         \
	R(nvtx_pushpop_trace)       \
	R(nvtx_startend_sum)        \
	R(osrt_sum)                 \
	R(cuda_api_sum)             \
	R(cuda_gpu_kern_sum)        \
	R(cuda_gpu_mem_time_sum)    \
	R(cuda_gpu_mem_size_sum)    \
	R(openmp_sum)               \
	R(opengl_khr_range_sum)     \
	R(opengl_khr_gpu_range_sum) \
	R(vulkan_marker_sum)        \
	R(vulkan_gpu_marker_sum)    \
	R(um_sum)                   \
	R(um_total_sum)             \
	R(um_cpu_page_faults_sum)   \
	R(openacc_sum)              \
	R(cuda_api_gpu_sum)         \
	R(cuda_api_trace)           \
	R(cuda_gpu_sum)             \
	R(cuda_gpu_kern_gb_sum)     \
	R(cuda_gpu_trace)           \
	R(cuda_kern_exec_sum)       \
	R(cuda_kern_exec_trace)     \
	R(nvtx_gpu_proj_sum)        \
	R(nvtx_gpu_proj_trace)      \
	R(nvtx_kern_sum)            \
	R(gpu_time_breakdown)       \
	R(gpu_idle_causes)          \
	R(gpu_comm_overlap)         \
	R(collective_sum)           \
	R(step_phases)              \
	R(cpu_sample_sum)           \
	R(sched_sum)                \
	R(cpu_util)                 \
	R(thread_wait_sum)          \
	R(gil_sum)                  \
	R(cpu_gap_sum)              \
	R(mpi_event_sum)            \
	R(mpi_msg_size_sum)         \
	R(mpi_event_trace)          \
	R(network_congestion)       \
	R(nvvideo_api_sum)          \
	R(syscall_sum)              \
	R(vulkan_api_sum)           \
	R(vulkan_api_trace)

#define DECLARE(name) extern const struct ws_stat ws_stat_##name;
REPORTS(DECLARE)

#define LIST(name) &ws_stat_##name,
const struct ws_stat *const ws_stats_list[] = {REPORTS(LIST) NULL};

/* What the reference tool called its reports until 2022, and calls them now: scripts still have
 * both. */
static const struct {
	const char *old, *name;
} renamed[] = {
	{"apigpusum", "cuda_api_gpu_sum"},
	{"cudaapisum", "cuda_api_sum"},
	{"cudaapitrace", "cuda_api_trace"},
	{"gpukerngbsum", "cuda_gpu_kern_gb_sum"},
	{"gpukernsum", "cuda_gpu_kern_sum"},
	{"gpumemsizesum", "cuda_gpu_mem_size_sum"},
	{"gpumemtimesum", "cuda_gpu_mem_time_sum"},
	{"gpusum", "cuda_gpu_sum"},
	{"gputrace", "cuda_gpu_trace"},
	{"kernexecsum", "cuda_kern_exec_sum"},
	{"kernexectrace", "cuda_kern_exec_trace"},
	{"khrdebuggpusum", "opengl_khr_gpu_range_sum"},
	{"khrdebugsum", "opengl_khr_range_sum"},
	{"nvtxgpuproj", "nvtx_gpu_proj_trace"},
	{"nvtxkernsum", "nvtx_kern_sum"},
	{"nvtxppsum", "nvtx_pushpop_sum"},
	{"nvtxpptrace", "nvtx_pushpop_trace"},
	{"nvtxsesum", "nvtx_startend_sum"},
	{"nvtxsssum", "nvtx_startend_sum"},
	{"nvtxsum", "nvtx_sum"},
	{"openaccsum", "openacc_sum"},
	{"openmpevtsum", "openmp_sum"},
	{"osrtsum", "osrt_sum"},
	{"umcpupagefaults", "um_cpu_page_faults_sum"},
	{"unifiedmemory", "um_sum"},
	{"unifiedmemorytotals", "um_total_sum"},
	{"vulkangpumarkersum", "vulkan_gpu_marker_sum"},
	{"vulkanmarkerssum", "vulkan_marker_sum"},
};

/* Reports that lists of reports name out of habit, though what they are about exists on Windows
 * alone. */
static const char *const of_windows[] = {
	"dx11_pix_sum",	    "dx12_gpu_marker_sum", "dx12_pix_sum", "wddm_queue_sum",   "dx11pixsum",
	"dx12gpumarkersum", "dx12pixsum",	   "pixsum",	   "wddmqueuesdetails"};

const struct ws_stat *ws_stat_find(const char *name)
{
	for (size_t i = 0; i < WS_COUNT(renamed); i++)
		if (!strcmp(renamed[i].old, name))
			name = renamed[i].name;
	for (size_t i = 0; ws_stats_list[i]; i++)
		if (!strcmp(ws_stats_list[i]->name, name))
			return ws_stats_list[i];
	return NULL;
}

const char *ws_stat_elsewhere(const char *name)
{
	for (size_t i = 0; i < WS_COUNT(of_windows); i++)
		if (!strcmp(of_windows[i], name))
			return "what it shows exists on Windows alone";
	return NULL;
}
