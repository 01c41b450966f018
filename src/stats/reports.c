/* reports.c - the list of reports, in the order in which --help-reports shows them and the default
 * reports are made. */
#include <string.h>

#include "stats/stats.h"

#define REPORTS(ITEM)                  \
	ITEM(nvtx_sum)                 \
	ITEM(nvtx_pushpop_sum)         \
	ITEM(nvtx_pushpop_trace)       \
	ITEM(nvtx_startend_sum)        \
	ITEM(osrt_sum)                 \
	ITEM(cuda_api_sum)             \
	ITEM(cuda_gpu_kern_sum)        \
	ITEM(cuda_gpu_mem_time_sum)    \
	ITEM(cuda_gpu_mem_size_sum)    \
	ITEM(openmp_sum)               \
	ITEM(opengl_khr_range_sum)     \
	ITEM(opengl_khr_gpu_range_sum) \
	ITEM(vulkan_marker_sum)        \
	ITEM(vulkan_gpu_marker_sum)    \
	ITEM(um_sum)                   \
	ITEM(um_total_sum)             \
	ITEM(um_cpu_page_faults_sum)   \
	ITEM(openacc_sum)              \
	ITEM(cuda_api_gpu_sum)         \
	ITEM(cuda_api_trace)           \
	ITEM(cuda_gpu_sum)             \
	ITEM(cuda_gpu_kern_gb_sum)     \
	ITEM(cuda_gpu_trace)           \
	ITEM(cuda_kern_exec_sum)       \
	ITEM(cuda_kern_exec_trace)     \
	ITEM(cuda_kern_launch_sum)     \
	ITEM(nvtx_gpu_proj_sum)        \
	ITEM(nvtx_gpu_proj_trace)      \
	ITEM(nvtx_kern_sum)            \
	ITEM(gpu_time_breakdown)       \
	ITEM(gpu_idle_causes)          \
	ITEM(gpu_comm_overlap)         \
	ITEM(gpu_mem_peak)             \
	ITEM(gpu_metric_util_sum)      \
	ITEM(gpu_metric_kern_sum)      \
	ITEM(gpu_metric_nvtx_sum)      \
	ITEM(gpu_metric_step_sum)      \
	ITEM(collective_sum)           \
	ITEM(nccl_sum)                 \
	ITEM(nccl_proxy_sum)           \
	ITEM(library_gpu_sum)          \
	ITEM(step_phases)              \
	ITEM(cpu_sample_sum)           \
	ITEM(sched_sum)                \
	ITEM(cpu_util)                 \
	ITEM(thread_wait_sum)          \
	ITEM(gil_sum)                  \
	ITEM(python_function_sum)      \
	ITEM(python_function_trace)    \
	ITEM(cpu_gap_sum)              \
	ITEM(mpi_event_sum)            \
	ITEM(mpi_msg_size_sum)         \
	ITEM(mpi_event_trace)          \
	ITEM(mpi_message_trace)        \
	ITEM(network_congestion)       \
	ITEM(nvvideo_api_sum)          \
	ITEM(syscall_sum)              \
	ITEM(file_sum)                 \
	ITEM(malloc_sum)               \
	ITEM(graphics_frame_sum)       \
	ITEM(opengl_api_sum)           \
	ITEM(vulkan_api_sum)           \
	ITEM(vulkan_api_trace)

#define DECLARE(name) extern const struct ws_stats_report ws_stat_##name;
REPORTS(DECLARE)

#define LIST(name) &ws_stat_##name,
const struct ws_stats_report *const ws_stats_list[] = {REPORTS(LIST) NULL};

/* Names of the reference tool's reports until 2022, and their current names: scripts use both. */
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

/* Reports that many scripts ask for although what they show exists only on Windows. */
static const char *const of_windows[] = {
	"dx11_pix_sum",	    "dx12_gpu_marker_sum", "dx12_pix_sum", "wddm_queue_sum",   "dx11pixsum",
	"dx12gpumarkersum", "dx12pixsum",	   "pixsum",	   "wddmqueuesdetails"};

const struct ws_stats_report *ws_find_stats_report(const char *name)
{
	for (size_t i = 0; i < WS_COUNT(renamed); i++)
		if (!strcmp(renamed[i].old, name))
			name = renamed[i].name;
	for (size_t i = 0; ws_stats_list[i]; i++)
		if (!strcmp(ws_stats_list[i]->name, name))
			return ws_stats_list[i];
	return NULL;
}

const char *ws_get_stats_elsewhere_reason(const char *name)
{
	for (size_t i = 0; i < WS_COUNT(of_windows); i++)
		if (!strcmp(of_windows[i], name))
			return "what it shows exists on Windows alone";
	return NULL;
}
