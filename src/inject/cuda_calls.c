/*
 * cuda_calls.c - which calls of the CUDA runtime and driver matter: those that are traced unless
 * the user says otherwise.
 *
 * Calls are chosen by name, as the present CUPTI spells its callback names, so that variants added
 * by later versions (..._v2, ..._ptsz, ...Ex) are included without an edit. Traced calls are those
 * that give work to the GPU, move or reserve memory, wait, make or destroy streams and events, or
 * build and load what runs. Queries and getters are left out: they are most of a program's calls
 * and the least informative.
 */
#include <string.h>

#include "inject/cuda.h"

static const char *const runtime_in[] = {
	/* work */
	"cudaLaunch", "__cudaLaunchKernel", "cudaStreamAddCallback", "cudaSignalExternal",
	"cudaWaitExternal",
	/* memory */
	"cudaMemcpy", "cudaMemset", "cudaMalloc", "cudaFree", "cudaHostAlloc", "cudaHostRegister",
	"cudaHostUnregister", "cudaMemPrefetch", "cudaMemDiscard", "cudaMemAdvise",
	"cudaMemPoolCreate", "cudaMemPoolDestroy", "cudaMemPoolTrim", "cudaMemPoolImport",
	"cudaStreamAttachMem", "cudaDeviceGraphMemTrim", "cudaImportExternal",
	"cudaDestroyExternal", "cudaIpcOpen", "cudaIpcClose", "cudaPeer", "cudaDeviceEnablePeer",
	"cudaDeviceDisablePeer", "cudaDeviceFlushGPUDirect", "cudaGLMap", "cudaGLUnmap",
	/* waits, events, streams */
	"cudaDeviceSynchronize", "cudaThreadSynchronize", "cudaStreamSynchronize",
	"cudaEventSynchronize", "cudaEventCreate", "cudaEventDestroy", "cudaEventRecord",
	"cudaStreamWaitEvent", "cudaStreamCreate", "cudaStreamDestroy", "cudaEGLStream",
	/* graphs, modules, contexts */
	"cudaStreamBegin", "cudaStreamEndCapture", "cudaStreamUpdateCapture", "cudaGraph",
	"cudaLibraryLoad", "cudaLibraryUnload", "cudaDeviceReset", "cudaThreadExit",
	"cudaInitDevice", "cudaGreenCtx", "cudaExecutionCtx", "cudaProfilerSt", NULL};

static const char *const driver_in[] = {
	/* work */
	"cuLaunch", "cuStreamAddCallback", "cuSignalExternal", "cuWaitExternal", "cuStreamWrite",
	"cuStreamBatchMemOp",
	/* memory */
	"cuMemcpy", "cuMemset", "cuMemAlloc", "cuMemFree", "cuMemHostAlloc", "cuMemHostRegister",
	"cuMemHostUnregister", "cuMemPrefetch", "cuMemDiscard", "cuMemAdvise", "cuMemPoolCreate",
	"cuMemPoolDestroy", "cuMemPoolTrim", "cuMemPoolImport", "cuMemCreate", "cuMemRelease",
	"cuMemMap", "cuMemUnmap", "cuMemAddress", "cuMemSetAccess", "cuMemImport",
	"cuMemBatchDecompress", "cuMemPeer", "cuStreamAttachMem", "cuDeviceGraphMemTrim",
	"cuArrayCreate", "cuArray3DCreate", "cuArrayDestroy", "cuMipmappedArrayCreate",
	"cuMipmappedArrayDestroy", "cuMulticast", "cuImportExternal", "cuDestroyExternal",
	"cuIpcOpen", "cuIpcClose", "cuCtxEnablePeer", "cuCtxDisablePeer", "cuFlushGPUDirect",
	"cuGLMap", "cuGLUnmap",
	/* waits, events, streams */
	"cuCtxSynchronize", "cuStreamSynchronize", "cuEventSynchronize", "cuEventCreate",
	"cuEventDestroy", "cuEventRecord", "cuStreamWait", "cuStreamCreate", "cuStreamDestroy",
	"cuCtxRecordEvent", "cuCtxWaitEvent", "cuEGLStream",
	/* graphs, modules, contexts */
	"cuStreamBegin", "cuStreamEndCapture", "cuStreamUpdateCapture", "cuGraph", "cuModuleLoad",
	"cuModuleUnload", "cuLibraryLoad", "cuLibraryUnload", "cuFuncLoad", "cuLink", "cuInit",
	"cuCtxCreate", "cuCtxDestroy", "cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxReset",
	"cuGreenCtx", "cuProfilerSt", NULL};

/* A name that contains one of these is only a query, although it begins like the names above. */
static const char *const asks[] = {"Get",      "Query",	     "IsCapturing", "Find",
				   "DebugDot", "RetainUser", "ReleaseUser", NULL};

static bool begins_with(const char *name, const char *const *list)
{
	for (; *list; list++)
		if (!strncmp(name, *list, strlen(*list)))
			return true;
	return false;
}

static bool contains_word(const char *name, const char *const *list)
{
	for (; *list; list++)
		if (strstr(name, *list))
			return true;
	return false;
}

bool ws_cuda_is_call_recorded(int driver, const char *name)
{
	return begins_with(name, driver ? driver_in : runtime_in) && !contains_word(name, asks);
}
