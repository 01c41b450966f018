/* nvtx.h - ranges through the project's own annotation header where it is, else through NVIDIA's.
 */
#ifndef GPU_NVTX_H
#define GPU_NVTX_H
#include <nvtx3/nvToolsExt.h>
#define nvtx_push(name) nvtxRangePushA(name)
#define nvtx_pop() nvtxRangePop()
#endif
